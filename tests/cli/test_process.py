"""The command as a process of its own: quick help, Ctrl-C, pipes, no terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from small_commands import draw_people

GSPN = (sys.executable, "-m", "gspn.cli.main")
HEAVY = ("torch", "torch_geometric", "numpy", "pandas", "sklearn", "scipy", "numba", "rdkit", "matplotlib", "jinja2")


def start(*arguments: object, **others: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*GSPN, *map(str, arguments)], capture_output=True, text=True, timeout=300, **others)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from gspn.cli.main import app; "
        "print([name for name in sys.modules if name.split('.')[0] == 'rich']); "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "assert CliRunner().invoke(app, ['impute', '--help']).exit_code == 0; "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["[]", "[]"]


def test_help_is_quick() -> None:
    """Half a second on a quiet machine; here the processor's time is measured, since others may work as well."""
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, capture_output=True); "
    code += "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime)"
    seconds = [
        float(subprocess.check_output([sys.executable, "-c", code, *GSPN, "--help"], timeout=60)) for _ in range(3)
    ]
    assert min(seconds) < 0.5


def test_help_tells_commands_and_exit_codes() -> None:
    done = start("--help")
    for word in ("demo", "fit", "impute", "embed", "score", "what-if", "predict", "datasets", "experiment", "bench",
                 "serve", "Exit codes", "130", "--install-completion"):  # fmt: skip
        assert word in done.stdout
    assert start("--version").stdout.strip()


def test_without_a_terminal(files: Path, people_model: Path) -> None:
    plain = os.environ | {"TERM": "dumb", "PYTHONIOENCODING": "ascii"}
    done = start("score", files / "nodes.csv", "-m", people_model, env=plain, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "the most unusual first" in done.stdout
    assert "fit" not in done.stderr  # no bar


def test_json_is_all_that_stdout_gets(files: Path, tmp_path: Path) -> None:
    done = start("fit", files / "nodes.csv", files / "edges.csv", "-o", tmp_path / "m", "--epochs", "3", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "GSPN"
    assert "40 vertices" in done.stderr


def test_a_reader_that_goes_away(files: Path, people_model: Path) -> None:
    command = " ".join([*GSPN, "score", str(files / "nodes.csv"), "-m", str(people_model), "--json"])
    done = subprocess.run(["bash", "-c", f"{command} | head -c 1"], capture_output=True, text=True, timeout=300)
    assert "Traceback" not in done.stderr


def _listen() -> None:
    """Shells let their background jobs ignore Ctrl-C, and what a job starts inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_interrupted_training_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    draw_people(200)[0].to_csv(tmp_path / "nodes.csv", index=False)
    command = [*GSPN, "impute", str(tmp_path / "nodes.csv"), "-o", str(out / "done.csv")]
    command += ["--effort", "thorough", "--save-model", str(out / "m")]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=_listen
    ) as process:
        try:
            assert process.stderr is not None
            said = ""
            while "remote" not in said:  # the last row of the schema; training comes next
                line = process.stderr.readline()
                assert line, said
                said += line
            time.sleep(1.0)
            process.send_signal(signal.SIGINT)
            output, rest = process.communicate(timeout=120)
        finally:
            process.kill()  # or one that does not listen would be waited for, for ever
    assert process.returncode == 130, rest
    assert rest.strip().splitlines()[-1] == "interrupted"
    assert "Traceback" not in rest
    assert output == ""
    assert list(out.iterdir()) == []
