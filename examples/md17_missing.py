"""MD17 with the paper's missing values: how likely are the values that no model has seen?

    python examples/md17_missing.py                      # all seven molecules
    python examples/md17_missing.py --molecules ethanol  # one of them

Every frame is a graph; positions and forces are six continuous attributes, of which the paper's mask (our reading of
it: 1.30 of six a vertex on average) makes some missing, in training, validation and test frames alike. Four models
are trained on what is left, with the same states, floor and budget: a Gaussian, a mixture (one level, no edges) and
GSPN with the pseudo and with the masked objective. The mixture is trained with the masked objective as well, to tell
what the objective gives from what the edges give. The test frames' missing values are then scored: −log density in
nats per missing entry and per vertex with a gap (users' units: Å and kcal/mol/Å).

The trajectories are long and the models small, so only `--frames` frames are used, spread evenly over a trajectory and
the same for all models. Molecule after molecule is written into `--folder`; started again, the run goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

import gspn
from gspn.graphs.missing import gamma_mask, with_missing
from gspn.graphs.splits import holdout

MOLECULES = ("benzene", "ethanol", "malonaldehyde", "naphthalene", "salicylic_acid", "toluene", "uracil")
BUDGET: dict[str, Any] = {"num_states": 20, "epochs": 120, "batch_size": 32, "lr": 0.01, "patience": 20}
MODELS: dict[str, dict[str, Any]] = {
    # One state, as it is initialised: the observed values' mean and deviation.
    "Gaussian": {"num_layers": 1, "num_states": 1, "epochs": 0},
    "mixture": {"num_layers": 1},
    "mixture, masked": {"num_layers": 1, "objective": "masked"},
    "GSPN, pseudo": {"num_layers": 3},
    "GSPN, masked": {"num_layers": 3, "objective": "masked"},
}


def evaluate(model: gspn.GSPN, observed: gspn.GraphDataset, truth: gspn.GraphDataset) -> dict[str, float]:
    log_prob = torch.cat(model.log_prob_missing(observed, truth)).double()
    gaps = torch.isnan(observed.entries()).sum(1)
    total = -log_prob.sum().item()
    # Vertices of a frame move together, so frames are what varies independently.
    excess = -log_prob - gaps * total / int(gaps.sum())
    frames = torch.stack([part.sum() for part in excess.split(truth.num_vertices_per_graph().tolist())])
    return {
        "per entry": total / int(gaps.sum()),
        "per vertex": total / int((gaps > 0).sum()),
        "standard error per entry": float(frames.square().sum().sqrt()) / int(gaps.sum()),
    }


def run(molecule: str, frames: int, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The record of one molecule: read if it is there, else made."""
    path = folder / f"{molecule}.json"
    settings = {"frames": frames, **settings}
    record: dict[str, Any] = {"molecule": molecule, "settings": settings, "models": {}}
    if path.exists():
        record = json.loads(path.read_text())
        if record["settings"] != json.loads(json.dumps(settings)):
            sys.exit(f"{path} was made with other settings; remove it or name another --folder")
    truth = gspn.datasets.load(molecule, attributes="continuous")
    truth = truth[torch.linspace(0, len(truth) - 1, min(frames, len(truth))).round().long()]
    observed = with_missing(truth, gamma_mask(truth, seed=0))
    fold = holdout(len(truth), test=0.2, validation=0.1, seed=0)
    for name, own in settings["models"].items():
        if name in record["models"]:
            continue
        start, checkpoint = time.perf_counter(), folder / f"{molecule}-{name}.safetensors"
        model = gspn.GSPN(truth.schema, **{**settings["budget"], **own})
        model.fit(observed[fold.train], validation=observed[fold.validation], checkpoint=checkpoint, progress=False)
        found = evaluate(model, observed[fold.test], truth[fold.test])
        seconds = time.perf_counter() - start
        record["models"][name] = found | {"epochs": len(model.history_), "seconds": seconds}
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(record, indent=1))
        os.replace(partial, path)  # a record is there wholly or not at all
        checkpoint.unlink(missing_ok=True)
        print(f"{molecule}, {name}: {found['per entry']:.3f}, {seconds:.0f} s", file=sys.stderr, flush=True)
    return record


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecules", nargs="*", choices=MOLECULES, default=list(MOLECULES))
    parser.add_argument("--frames", type=int, default=2_000)
    parser.add_argument("--budget", type=json.loads, default={}, help="changes for all models, as JSON")
    parser.add_argument("--folder", type=Path, default=Path("md17-missing"), help="where records are kept")
    parser.add_argument("--threads", type=int, help="threads of this process (default: torch's)")
    parser.add_argument("--json", action="store_true", help="print the records as JSON")
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    settings = {"budget": {**BUDGET, **options.budget}, "models": MODELS}
    records = [run(molecule, options.frames, settings, options.folder) for molecule in options.molecules]
    if options.json:
        print(json.dumps(records))
        return 0
    for measure in ("per entry", "per vertex"):
        print(f"{'NLL ' + measure:<18}" + "".join(f"{name:>17}" for name in MODELS))
        for record in records:
            found = (f"{record['models'][name][measure]:17.3f}" for name in MODELS)
            print(f"{record['molecule']:<18}" + "".join(found))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")
