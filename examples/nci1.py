"""NCI1 on its ten published folds: test accuracy of GSPN with few lines of the public interface.

    python examples/nci1.py unsupervised     # GSPN without labels, then DeepSets heads on its embeddings
    python examples/nci1.py circuit          # SupervisedGSPN with the paper's circuit over the class
    python examples/nci1.py linear           # the same with a linear head, for comparison

One fixed configuration each (`MODELS` below); it was chosen on validation graphs. Every fold trains on its own training
graphs, stops on its own validation graphs and is then asked once for its test graphs. Fold after fold is written into
`--folder`; interrupted at any moment and started again, the run goes on where it was. Two folds can be trained at the
same time by two processes with different `--folds`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

import gspn

MODELS: dict[str, dict[str, Any]] = {
    "unsupervised": {"num_layers": 20, "num_states": 20, "shortcut": "mean", "epochs": 40, "lr": 0.1},
    "circuit": {
        "num_layers": 10,
        "num_states": 20,
        "num_graph_states": 128,
        "lr": 0.03,
        "epochs": 100,
        "monitor": "score",
    },
    "linear": {
        "num_layers": 10,
        "num_states": 20,
        "num_graph_states": 128,
        "lr": 0.03,
        "epochs": 100,
        "monitor": "score",
    },
}
HEAD: dict[str, Any] = {
    "hidden": 32,
    "pooling": "sum",
    "epochs": 300,
    "weight_decay": 0.001,
    "patience": 100,
    "monitor": "score",
}
RUNS = 3
"""Heads trained on the embeddings of a fold, with different seeds; the fold's accuracy is their mean."""


def unsupervised(fold: gspn.graphs.splits.Fold, dataset: gspn.GraphDataset, checkpoint: Path) -> dict[str, Any]:
    """Embeddings from all training graphs without their labels, then heads that read them."""
    training, validation, test = dataset[fold.train], dataset[fold.validation], dataset[fold.test]
    model = gspn.GSPN(dataset.schema, **MODELS["unsupervised"])
    model.fit(training, validation=validation, checkpoint=checkpoint)
    heads = gspn.DeepSets.fit_many(
        [{"seed": seed} for seed in range(RUNS)],
        model.embed(training),
        dataset.y[fold.train],
        validation=(model.embed(validation), dataset.y[fold.validation]),
        target=dataset.target,
        **HEAD,
    )
    held_out, unseen = model.embed(validation), model.embed(test)
    scores = [head.score(unseen, dataset.y[fold.test]) for head in heads]
    judged = [head.score(held_out, dataset.y[fold.validation]) for head in heads]
    return {"test": statistics.mean(scores), "validation": statistics.mean(judged), "runs": scores}


def supervised(
    head: str, fold: gspn.graphs.splits.Fold, dataset: gspn.GraphDataset, checkpoint: Path
) -> dict[str, Any]:
    model = gspn.SupervisedGSPN(dataset.schema, dataset.target, head=head, **MODELS[head])
    validation = dataset[fold.validation]
    model.fit(dataset[fold.train], validation=validation, checkpoint=checkpoint)
    return {"test": model.score(dataset[fold.test]), "validation": model.score(validation)}


def run(name: str, number: int, dataset: gspn.GraphDataset, folder: Path) -> dict[str, Any]:
    """The record of one fold: read if it is there, else made."""
    path, checkpoint = folder / f"{name}-{number}.json", folder / f"{name}-{number}.safetensors"
    settings = json.loads(json.dumps({"model": MODELS[name], "head": HEAD if name == "unsupervised" else None}))
    if path.exists():
        record: dict[str, Any] = json.loads(path.read_text())
        if record["settings"] != settings:
            sys.exit(f"{path} was made with other settings; remove it or name another --folder")
        return record
    start, fold = time.perf_counter(), dataset.splits[number]
    if name == "unsupervised":
        found = unsupervised(fold, dataset, checkpoint)
    else:
        found = supervised(name, fold, dataset, checkpoint)
    record = {"fold": number, **found, "seconds": time.perf_counter() - start, "settings": settings}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=1))
    os.replace(partial, path)  # a record is there wholly or not at all
    checkpoint.unlink()
    return record


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--folder", type=Path, default=Path("nci1-folds"), help="where records are kept")
    parser.add_argument("--folds", type=int, nargs="*", default=list(range(10)), help="which folds (default: all ten)")
    parser.add_argument("--threads", type=int, help="threads of this process (default: torch's)")
    parser.add_argument("--json", action="store_true", help="print the records as JSON")
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    dataset = gspn.datasets.load("NCI1")
    records = []
    for number in options.folds:
        records.append(run(options.model, number, dataset, options.folder))
        if not options.json:
            last = records[-1]
            print(
                f"{options.model}, fold {number}: test {100 * last['test']:.2f} %, validation "
                f"{100 * last['validation']:.2f} %, {last['seconds']:.0f} s",
                flush=True,
            )
    tests = [100 * record["test"] for record in records]
    spread = statistics.stdev(tests) if len(tests) > 1 else 0.0
    if options.json:
        print(json.dumps({"model": options.model, "mean": statistics.mean(tests), "std": spread, "folds": records}))
    else:
        print(f"{options.model}: {statistics.mean(tests):.2f} ± {spread:.2f} % over {len(tests)} folds")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")
