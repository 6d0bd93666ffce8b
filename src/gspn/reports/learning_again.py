"""How good predictions of targets are on what a model has not learned from: it learns once more, without these.

Who is compared with whom, and by which scores, is in `targets`; what else predicts, in `baselines`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from gspn import policy
from gspn.graph_level.predicting import GraphPredictor
from gspn.graphs import GraphDataset
from gspn.reports.baselines import for_graphs, for_vertices
from gspn.reports.targets import OURS, HeldOut, Split, judge, labels_of


def judge_predictor(
    predictor: GraphPredictor, dataset: GraphDataset, training: GraphDataset, parts: Split, seed: int
) -> HeldOut:
    """Fit a predictor whose features have seen the training graphs alone, and score it on those held out."""
    assert dataset.target is not None
    held = dataset[parts.held]
    predictor.fit(training, progress=False)
    baselines, explained = for_graphs(training, held, seed)
    return judge(
        labels_of(held),
        dataset.target,
        [predictor.predictive(held)],
        baselines,
        {OURS: "a model without labels, and heads on its features", **explained},
        learned_from=len(parts.known),
        what="graphs",
        seed=seed,
    )


def judge_again(model: Any, dataset: GraphDataset, parts: Split, progress: bool) -> HeldOut:
    """Score a model whose target is within the circuit: another one with its settings learns without what is held out.

    The model stays as it is.
    """
    assert dataset.target is not None
    truth, of_vertices = labels_of(dataset), dataset.target_level == "vertex"
    if of_vertices:
        visible = torch.from_numpy(np.where(np.isin(np.arange(len(truth)), parts.held)[:, None], np.nan, truth))
        several = dataset.y is not None and dataset.y.ndim > 1
        training = dataset.with_targets(visible if several else visible[:, 0], "vertex")
        again: Any = policy.fit(clone(model), training, progress=progress)
        said = _of_held(again.predictive(training), training, parts)
        baselines, explained = for_vertices(dataset, parts.known, parts.held, model.seed)
    else:
        training, held = dataset[parts.others(len(dataset))], dataset[parts.held]
        again = policy.fit(clone(model), training, progress=progress)
        said = [again.predictive(held)]
        baselines, explained = for_graphs(training, held, model.seed)
    return judge(
        truth[parts.held],
        dataset.target,
        said,
        baselines,
        {OURS: "the model that was asked for", **explained},
        learned_from=len(parts.known),
        what="vertices" if of_vertices else "graphs",
        seed=model.seed,
    )


def _of_held(answers: Any, dataset: GraphDataset, parts: Split) -> list[Any]:
    """Of what is said graph by graph, what concerns held-out vertices, in their order."""
    graph, vertex = dataset.vertex_keys()
    per_graph = answers if isinstance(answers, list) else [answers]
    if isinstance(answers, dict):
        per_graph = [
            dict(zip(answers, each, strict=True)) for each in zip(*map(_listed, answers.values()), strict=True)
        ]
    found = []
    for number, said in enumerate(per_graph):
        own = vertex[parts.held[graph[parts.held] == number]]
        if len(own):
            found.append({name: one[own] for name, one in said.items()} if isinstance(said, dict) else said[own])
    return found


def _listed(answers: Any) -> list[Any]:
    return answers if isinstance(answers, list) else [answers]
