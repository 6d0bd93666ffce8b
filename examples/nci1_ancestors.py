"""NCI1, first published fold: test accuracy of CGMM, E-CGMM and iCGMM with perceptrons on their embeddings.

    python examples/nci1_ancestors.py --only CGMM ICGMM --json

One configuration each, learned without labels on the training graphs; heads stop on the validation graphs and are asked
once for the test graphs. A head reads one row per graph, the standardised sum of its vertices' unigrams and bigrams.
Training is short, for two cores: EM and Gibbs for some twenty steps a layer, few layers, heads for at most 200 epochs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import torch

import gspn
from gspn import baselines

MODELS: dict[str, dict[str, Any]] = {
    "CGMM": {"num_layers": 8, "num_states": 20, "context": 1, "em_steps": 20},
    "ECGMM": {"num_layers": 6, "num_states": 20, "num_edge_states": 2, "em_steps": 30},
    "ICGMM": {"num_layers": 6, "sweeps": 20, "pseudo_count": 0.01},
}
PAPER = {"CGMM": 76.2, "ECGMM": 78.5, "ICGMM": 77.6}
"""Test accuracy in the paper's table, over ten folds."""
HEAD: dict[str, Any] = {
    "hidden": 32,
    "epochs": 200,
    "weight_decay": 0.003,
    "patience": 60,
    "monitor": "score",
}
RUNS = 3
"""Heads with different seeds; the accuracy is their mean."""


def run(name: str, dataset: gspn.GraphDataset) -> dict[str, Any]:
    fold, y, start = dataset.splits[0], dataset.y, time.perf_counter()
    assert y is not None, "all graphs of NCI1 have labels"
    model = getattr(baselines, name)(dataset.schema, embedding="both", **MODELS[name]).fit(dataset[fold.train])
    learned = time.perf_counter()
    sums = [torch.cat(model.embed_graphs(dataset[part])) for part in (fold.train, fold.validation, fold.test)]
    center, spread = sums[0].mean(0), sums[0].std(0).clamp_min(1e-3)
    training, validation, test = (list(((part - center) / spread).split(1)) for part in sums)
    heads = gspn.DeepSets.fit_many(
        [{"seed": seed} for seed in range(RUNS)],
        training,
        y[fold.train],
        validation=(validation, y[fold.validation]),
        target=dataset.target,
        progress=False,
        **HEAD,
    )
    scores = [100 * head.score(test, y[fold.test]) for head in heads]
    judged = [100 * head.score(validation, y[fold.validation]) for head in heads]
    return {
        "model": name,
        "test": statistics.mean(scores),
        "validation": statistics.mean(judged),
        "paper": PAPER[name],
        "runs": scores,
        "width": training[0].shape[1],
        "states": getattr(model, "num_states_", None),
        "seconds": {"model": learned - start, "heads": time.perf_counter() - learned},
        "settings": {"model": MODELS[name], "head": HEAD},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=sorted(MODELS), default=list(MODELS), help="which models")
    parser.add_argument("--threads", type=int, help="threads of this process (default: torch's)")
    parser.add_argument("--json", action="store_true", help="print the records as JSON, one per line")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    dataset = gspn.datasets.load("NCI1")
    for name in options.only:
        record = run(name, dataset)
        if options.json:
            print(json.dumps(record), flush=True)
        else:
            print(
                f"{name:6} test {record['test']:.1f} % (paper {record['paper']:.1f} %), validation "
                f"{record['validation']:.1f} %, {sum(record['seconds'].values()):.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
