"""NCI1: how well is a vertex's label predicted from all other vertices of its molecule?

    python examples/nci1_labels.py             # the small model: 5 levels, 20 states
    python examples/nci1_labels.py large       # how low it gets with more of everything

Trains on the training graphs of one published fold with the masked objective, stops on its validation graphs, then
reports −log P(label | all other vertices) on its test graphs, in nats per vertex, beside what ignoring the edges costs
(the entropy of the labels' frequencies). The checkpoint in `--folder` continues an interrupted run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

import gspn

MODELS: dict[str, dict[str, Any]] = {
    "small": {"num_layers": 5, "num_states": 20, "epochs": 60, "lr": 0.1, "halve_every": 20, "patience": 25},
    "large": {"num_layers": 12, "num_states": 40, "epochs": 150, "lr": 0.05, "halve_every": 40, "patience": 25},
}


def marginal_nll(training: gspn.GraphDataset, test: gspn.GraphDataset) -> float:
    """−log P of the test labels under the training labels' frequencies (each label seen once more than it was)."""
    label = training.schema[0]
    assert isinstance(label, gspn.Categorical)
    counts = torch.bincount(training.entries()[:, 0].long(), minlength=len(label.categories)).double() + 1
    return float(-(counts / counts.sum()).log()[test.entries()[:, 0].long()].mean())


def leave_one_out_nll(model: gspn.GSPN, graphs: gspn.GraphDataset) -> tuple[float, float]:
    """Mean over all vertices, and its standard error over graphs."""
    log_likelihood = [one.double() for one in model.log_likelihood(graphs, leave_one_out=True)]
    mean = -torch.cat(log_likelihood).mean()
    sums = torch.stack([(-one - mean).sum() for one in log_likelihood])
    return mean.item(), float(sums.square().sum().sqrt() / sum(map(len, log_likelihood)))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", choices=sorted(MODELS), default="small")
    parser.add_argument("--fold", type=int, default=0)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="another argument of the model"
    )
    parser.add_argument("--folder", type=Path, default=Path("nci1-labels"), help="where checkpoints are kept")
    parser.add_argument("--threads", type=int, help="threads of this process (default: torch's)")
    parser.add_argument("--json", action="store_true", help="print the record as JSON")
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    changes = {name: json.loads(value) for name, value in (one.split("=", 1) for one in options.set)}
    settings = {"objective": "masked", **MODELS[options.model], **changes}
    dataset = gspn.datasets.load("NCI1")
    fold = dataset.splits[options.fold]
    training, validation, test = dataset[fold.train], dataset[fold.validation], dataset[fold.test]
    start = time.perf_counter()
    name = "-".join([options.model, str(options.fold), *sorted(options.set)])
    model = gspn.GSPN(dataset.schema, **settings)
    model.fit(training, validation=validation, checkpoint=options.folder / f"{name}.safetensors")
    seconds = time.perf_counter() - start
    test_nll, error = leave_one_out_nll(model, test)
    record = {
        "model": options.model,
        "fold": options.fold,
        "settings": settings,
        "epochs": len(model.history_),
        "seconds": seconds,
        "marginal": marginal_nll(training, test),
        "validation": leave_one_out_nll(model, validation)[0],
        "test": test_nll,
        "standard error": error,
    }
    if options.json:
        print(json.dumps(record))
    else:
        print(
            f"{options.model}, fold {options.fold}: {test_nll:.4f} ± {error:.4f} nats per vertex on the test graphs "
            f"({record['marginal']:.4f} without the graph); {record['epochs']} epochs in {seconds:.0f} s"
        )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")
