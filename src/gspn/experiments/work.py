"""One piece of work: make what its runs ask for and write the records. It runs anywhere and needs nobody."""

from __future__ import annotations

import math
import os
import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from gspn.errors import CheckpointError, GSPNError, InputError, MissingExtraError
from gspn.experiments.circumstances import machine, versions
from gspn.experiments.drawing import draw
from gspn.experiments.filling import fill, impute
from gspn.experiments.labelling import label
from gspn.experiments.predicting import predict
from gspn.experiments.records import Record, Records
from gspn.experiments.runs import Piece, Run
from gspn.experiments.timing import measure_time

_ANSWERS: Mapping[str, Callable[[Sequence[Run], Path], list[Record]]] = {
    "predict": predict,
    "fill": fill,
    "time": measure_time,
    "draw": draw,
    "impute": impute,
    "label": label,
}


def perform(piece: Piece, folder: str | os.PathLike[str], commit: str | None = None) -> list[Record] | None:
    """The records of a piece's runs, made if they are not there; None while another process is making them.

    Runs that have failed in this folder before are made again: who asks for them wants a second try, or did not know.
    """
    records = Records(folder)
    with records.claim(piece.key) as place:
        if place is None:
            return None
        missing = [run for run in piece.runs if not _is_made(run, records)]
        try:
            about: Record = {"commit": commit, "versions": versions(), "machine": machine()}
            about |= {"threads": torch.get_num_threads()}
            for run, found in zip(missing, _found(missing, place) if missing else (), strict=True):
                finished = datetime.now(UTC).isoformat(timespec="seconds")
                records.put({"key": run.key, "run": run.identity(), **about, **found, "finished": finished})
        except Exception:
            # Where files cannot be locked another process may have made the same and cleared our place away.
            if not all(_is_made(run, records) for run in missing):
                raise
        records.clear(piece.key)
        return [record for run in piece.runs if (record := records.get(run.key)) is not None]


def _is_made(run: Run, records: Records) -> bool:
    record = records.get(run.key)
    return record is not None and "error" not in record


def attempt(piece: Piece, folder: Path, commit: str | None) -> tuple[list[Record] | None, str | None]:
    """The records of a piece, or what went wrong: errors that we foresaw in a line, others with where they happened."""
    try:
        return perform(piece, folder, commit), None
    except GSPNError as error:
        return None, str(error)
    except Exception:
        return None, traceback.format_exc()


def memory_of(piece: Piece) -> int:
    """Bytes that a piece may need, reckoned generously: the libraries, the graphs, posteriors and embeddings."""
    run = piece.runs[0]
    dataset = run.source.load()
    vertices, edges = int(dataset.num_vertices_per_graph().sum()), int(dataset.num_edges_per_graph().sum())
    width = run.settings.get("num_layers", 5) * run.settings.get("num_states", 20)
    return 2**30 + 32 * (vertices + edges) + (12 * vertices * width if run.head is not None else 0)


def _found(runs: Sequence[Run], place: Path) -> list[Record]:
    """What the runs found. Training that fails in a way we know (it diverged, say) is a finding too."""
    try:
        found = _answer(runs, place)
    except (InputError, MissingExtraError):
        raise  # the grid, the data or the machine is wrong, which no other configuration mends
    except GSPNError as error:
        found = [{"error": str(error), "scores": {}, "curves": {}, "seconds": {}} for _ in runs]
    return [_sound(record) for record in found]


def _answer(runs: Sequence[Run], place: Path) -> list[Record]:
    answer = _ANSWERS[runs[0].question]
    try:
        return answer(runs, place)
    except CheckpointError:  # left by other code or on another machine: training begins anew
        shutil.rmtree(place)
        place.mkdir()
        return answer(runs, place)


def _sound(record: Record) -> Record:
    """A score that is non-finite says that training failed."""
    scores = [score for part in record["scores"].values() for score in part.values()]
    if all(map(math.isfinite, scores)):
        return record
    return {**record, "scores": {}, "error": "a score is non-finite"}
