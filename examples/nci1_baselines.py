"""NCI1, first published fold: test accuracy of the baselines beside those of the paper's table.

    python examples/nci1_baselines.py                    # all of them, one after the other
    python examples/nci1_baselines.py --only GIN ECC --json

One sensible configuration each, and training shortened to what a CPU does in minutes: the paper's numbers are means
over ten folds with a search over configurations and up to 1,000 epochs. A test set of 412 graphs has a standard error
of two points. Each model trains on the fold's training graphs, keeps the epoch with the best accuracy on its validation
graphs and is asked once for its test graphs. Records are written into `--folder`; interrupted at any moment and started
again, the run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import gspn
from gspn.baselines import (
    DGCNN,
    DGI,
    ECC,
    GAE,
    GIN,
    Constant,
    DeepMultisets,
    DiffPool,
    GraphEmbedder,
    GraphNetwork,
    GraphSAGE,
    StructureAgnostic,
)

HEAD: dict[str, Any] = {"hidden": 64, "epochs": 200, "patience": 100, "monitor": "score"}

Make = Callable[[gspn.Schema, Any], Any]
"""From the vertices' schema and the target."""


def network(settings: Any, **arguments: Any) -> Make:
    defaults: dict[str, Any] = {"monitor": "score", "patience": 500}
    return lambda schema, target: GraphNetwork(schema, target, settings, **defaults | arguments)


def embedder(settings: Any, **arguments: Any) -> Make:
    return lambda schema, target: GraphEmbedder(schema, settings, **arguments)


MODELS: dict[str, tuple[float | None, Make]] = {
    "constant": (None, lambda schema, target: Constant(schema, target)),
    "structure-agnostic": (
        69.8,
        lambda schema, target: StructureAgnostic(
            schema, target, hidden=128, epochs=300, weight_decay=1e-4, monitor="score"
        ),
    ),
    "deep multisets": (None, network(DeepMultisets(hidden=64), epochs=60, lr=0.001)),
    "GIN": (80.0, network(GIN(hidden=64), epochs=80, batch_size=128, halve_every=25)),
    "GraphSAGE": (76.0, network(GraphSAGE(hidden=64, aggregation="max"), epochs=60, lr=0.001)),
    "ECC": (76.2, network(ECC(hidden=32), epochs=60, lr=0.003, halve_every=20)),
    "DiffPool": (76.9, network(DiffPool(), epochs=30, lr=0.001, clip=2.0)),
    "DGCNN": (76.4, network(DGCNN(hidden=32), epochs=50, batch_size=50, lr=0.001)),
    "GAE + DeepSets": (None, embedder(GAE(hidden=128, num_layers=3), epochs=20, batch_size=128)),
    "DGI + DeepSets": (None, embedder(DGI(hidden=128, num_layers=3), epochs=15, batch_size=128, lr=0.001)),
}
"""By name: the paper's test accuracy where its table has one, and how the model is made."""


def run(name: str, dataset: gspn.GraphDataset, folder: Path) -> dict[str, Any]:
    """The record of one model: read if it is there, else made."""
    (paper, make), y, target = MODELS[name], dataset.y, dataset.target
    assert y is not None, "all graphs of NCI1 have labels"
    assert target is not None
    model, stem = make(dataset.schema, target), name.replace(" ", "-")
    path, checkpoint = folder / f"{stem}.json", folder / f"{stem}.safetensors"
    settings = {"model": repr(model), "head": HEAD if hasattr(model, "embed") else None}
    if path.exists():
        record: dict[str, Any] = json.loads(path.read_text())
        if record["settings"] != settings:
            sys.exit(f"{path} was made with other settings; remove it or name another --folder")
        return record
    start, fold = time.perf_counter(), dataset.splits[0]
    training, validation, test = dataset[fold.train], dataset[fold.validation], dataset[fold.test]
    kept = {"checkpoint": checkpoint} if isinstance(model, GraphNetwork | GraphEmbedder) else {}
    model.fit(training, validation=validation, **kept)
    if hasattr(model, "embed"):
        head = gspn.DeepSets(target, **HEAD)
        held_out = (model.embed(validation), y[fold.validation])
        head.fit(model.embed(training), y[fold.train], validation=held_out)
        scores = {"test": head.score(model.embed(test), y[fold.test]), "validation": head.score(*held_out)}
    else:
        scores = {"test": model.score(test), "validation": model.score(validation)}
    seconds = time.perf_counter() - start
    record = {"name": name, "paper": paper, **scores, "seconds": seconds, "settings": settings}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=1))
    os.replace(partial, path)  # a record is there wholly or not at all
    checkpoint.unlink(missing_ok=True)
    return record


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(MODELS), metavar="NAME", help="these models (default: all)")
    parser.add_argument("--folder", type=Path, default=Path("nci1-baselines"), help="where records are kept")
    parser.add_argument("--threads", type=int, help="threads of this process (default: torch's)")
    parser.add_argument("--json", action="store_true", help="print the records as JSON")
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    dataset = gspn.datasets.load("NCI1")
    records = []
    for name in options.only or MODELS:
        records.append(run(name, dataset, options.folder))
        if not options.json:
            last = records[-1]
            paper = "" if last["paper"] is None else f", paper {last['paper']:.1f} % over ten folds"
            print(
                f"{name}: test {100 * last['test']:.1f} %, validation {100 * last['validation']:.1f} %, "
                f"{last['seconds']:.0f} s{paper}",
                flush=True,
            )
    if options.json:
        print(json.dumps(records))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")
