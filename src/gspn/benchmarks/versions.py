"""Two versions of this library in one run: `python -m gspn.benchmarks versions --old CHECKOUT`.

A training step and a forward pass on real batches, with the model and the batches of `step`, and an epoch of `fit`. The
new version is the one that runs this, the old one another checkout. Each is held by a process of its own
(`one_version`); the two are timed in short turns, never at once, and which comes first alternates. A round gives one
ratio of medians. What is reported is the geometric mean of the ratios over all rounds and its paired 95 % interval: the
machine's drift disturbs both sides of a ratio alike, and what disturbs one of them widens the interval.

Numba does not notice changes in files that a compiled function uses, so machine code is kept by the digest of all
sources (below GSPN_CACHE, or the user's cache folder): what is timed is what stands in the files. The first run with
changed sources compiles for about a minute.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from tqdm import tqdm

import gspn
from gspn import datasets
from gspn.benchmarks.measure import paired_ratio
from gspn.benchmarks.step import BATCH, BATCHES, NAMES, THREADS, USUAL
from gspn.datasets.raw_files import Folders
from gspn.errors import GSPNError, InputError

MEASURES = {"step": BATCHES, "forward": BATCHES, "epoch": 1}
"""What is timed, and by what a lap is divided to give the time of one."""
ROUNDS = 20
SECONDS = 0.5
"""How long a measure of a version takes in each round, at least; of many laps the median counts."""
TURNS = 5
"""Into how many turns that time is divided, if there are as many laps."""

_PROGRAM = Path(__file__).with_name("one_version.py")


def run(old: Path, rounds: int = ROUNDS, data: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """One row per dataset and measure: milliseconds of both versions, and new over old with its 95 % interval.

    Without `data`, all datasets of `step` that are here or can be had.
    """
    if rounds < 2:
        raise InputError(f"an interval needs at least 2 rounds, got {rounds}")
    sources = {"old": source_of(old), "new": Path(gspn.__file__).resolve().parents[1]}
    root = _data_root()
    names = _loadable(NAMES, root) if data is None else data
    with ExitStack() as stack:
        # Both import at the same time; from then on only one works while the other waits for its next line.
        versions = {which: stack.enter_context(Version(source, root)) for which, source in sources.items()}
        for version in versions.values():
            version.check_source()
        for name in names:
            for version in versions.values():
                version.prepare(name)
        cases = [Case(name, measure, **versions) for name in names for measure in MEASURES]
        for number in tqdm(range(rounds), desc="versions", unit="round", disable=None):
            for case in cases:
                case.measure_both(old_first=number % 2 == 0)
    return [case.row() for case in cases]


def source_of(checkout: Path) -> Path:
    """The folder of a checkout that `gspn` is imported from."""
    source = checkout.expanduser().resolve() / "src"
    if not (source / "gspn" / "__init__.py").is_file():
        raise InputError(f"{checkout} is no checkout of this library: there is no src/gspn in it")
    return source


class Version:
    """The process that holds one version; used in a `with`, which ends it."""

    def __init__(self, source: Path, root: Path | None) -> None:
        self.source = source
        before = os.environ.get("PYTHONPATH")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(source), *([before] if before else [])]),
            "NUMBA_CACHE_DIR": str(Folders.choose(None, None).cache / "machine-code" / _digest(source)),
            **({} if root is None else {"GSPN_DATA_ROOT": str(root)}),
        }
        # Without -P the folder of the program would be searched before the sources.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_PROGRAM), str(THREADS)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Version:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate()  # closes its input, at which it ends

    def check_source(self) -> None:
        """Is it this version that was imported? An installed package might come first."""
        found = Path(self._answer()).resolve()
        if found != self.source / "gspn" / "__init__.py":
            raise GSPNError(f"{found} was imported instead of the version in {self.source}")

    def prepare(self, name: str) -> None:
        self._ask(do="prepare", name=name, sizes=asdict(USUAL), batch_size=BATCH, batches=BATCHES)

    def seconds(self, name: str, measure: str, laps: int) -> list[float]:
        """Of each lap."""
        found: list[float] = self._ask(do="time", name=name, measure=measure, laps=laps)
        return found

    def _ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # that it has ended is seen where its answer is missing
            print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise GSPNError(f"the process of the version in {self.source} has ended; above it says why")
        return json.loads(line)


class Case:
    """A measure on a dataset, and what was found in every round: the median seconds of both versions."""

    def __init__(self, name: str, measure: str, old: Version, new: Version) -> None:
        self.name, self.measure = name, measure
        self._versions = {"old": old, "new": new}
        self._found: dict[str, list[float]] = {"old": [], "new": []}
        # The first lap compiles what is not yet compiled.
        least = min(version.seconds(name, measure, laps=2)[1] for version in self._versions.values())
        laps = math.ceil(SECONDS / least)
        self._turns = min(TURNS, laps)
        self._laps = math.ceil(laps / self._turns)

    def measure_both(self, old_first: bool) -> None:
        """One round; in each turn the other version comes first."""
        seconds: dict[str, list[float]] = {"old": [], "new": []}
        for turn in range(self._turns):
            for which in ("old", "new") if old_first == (turn % 2 == 0) else ("new", "old"):
                seconds[which] += self._versions[which].seconds(self.name, self.measure, self._laps)
        for which, found in seconds.items():
            self._found[which].append(statistics.median(found))

    def row(self) -> dict[str, Any]:
        ratio, low, high = paired_ratio(self._found["old"], self._found["new"])
        milliseconds = {
            which: 1e3 * statistics.median(found) / MEASURES[self.measure] for which, found in self._found.items()
        }
        return {
            "dataset": self.name,
            "measure": self.measure,
            "old ms": milliseconds["old"],
            "new ms": milliseconds["new"],
            "new / old": ratio,
            "95 % from": low,
            "95 % to": high,
            "rounds": len(self._found["old"]),
            "threads": THREADS,
        }


def _loadable(names: Sequence[str], root: Path | None) -> list[str]:
    """Those that are here or can be had; of the others it is said why they are left out."""
    found = []
    for name in names:
        try:
            datasets.load(name, root=root)
        except InputError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
        else:
            found.append(name)
    if not found:
        raise InputError("none of the datasets is here; set GSPN_DATA_ROOT to the folder that holds them")
    return found


def _data_root() -> Path | None:
    """What GSPN_DATA_ROOT names, else the folder where the tests look for real data, if it exists."""
    if named := os.environ.get("GSPN_DATA_ROOT"):
        return Path(named)
    beside = Path(gspn.__file__).resolve().parents[3] / "shared" / "data"
    return beside if beside.is_dir() else None


def _digest(source: Path) -> str:
    """Of all Python files below a folder of sources."""
    digest = hashlib.sha256()
    for file in sorted((source / "gspn").rglob("*.py")):
        digest.update(f"{file.relative_to(source)}\n{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:24]
