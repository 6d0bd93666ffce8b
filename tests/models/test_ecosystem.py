"""A model is an estimator of scikit-learn and a module of torch, and behaves like one."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import sklearn.exceptions
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted
from small_graphs import EVERY_KIND, draw_graphs
from small_models import TEMPLATES, random_model, template
from torch import nn
from torch_geometric.data import Data

import gspn
from gspn import GSPN, Continuous, Schema
from gspn.circuits import random_circuit
from gspn.hierarchy import Evaluation

ARGUMENTS: dict[str, Any] = {
    "schema": EVERY_KIND,
    "num_layers": 2,
    "num_states": 3,
    "template": random_circuit(EVERY_KIND, 3),
    "shortcut": "mean",
    "num_edge_types": 2,
    "objective": "masked",
    "mask_rate": 0.3,
    "epochs": 2,
    "batch_size": 4,
    "lr": 0.05,
    "weight_decay": 0.001,
    "clip": 1.0,
    "patience": 3,
    "n_init": 2,
    "seed": 7,
    "aggregation": "mean",
    "leaves": {"degree": "poisson"},
    "covariance": "full",
    "context": None,
    "context_variance": 0.5,
    "slopes": "free",
    "guard": 0.001,
    "prior": 0.5,
    "start": "clusters",
    "halve_every": 20,
    "atoms": {"charge": [0.0]},
    "gaps": "informative",
}
"""Every constructor argument, none at its default but those that exclude others."""


def small_model(**arguments: Any) -> GSPN:
    return GSPN(EVERY_KIND, **{"num_layers": 2, "num_states": 2, "epochs": 2} | arguments)


def mean_log_likelihood(model: GSPN, graphs: Any, y: object = None) -> float:
    return float(torch.cat(model.log_likelihood(graphs)).mean())


def pool(embeddings: list[torch.Tensor]) -> Any:
    return torch.stack([embedding.mean(0) for embedding in embeddings]).numpy()


@pytest.fixture(scope="module")
def graphs() -> list[Data]:
    return draw_graphs(24, seed=0)


# ---- scikit-learn


def test_arguments_are_stored_untouched() -> None:
    model: Any = GSPN(**ARGUMENTS)
    assert set(model.get_params()) == set(ARGUMENTS)
    for name, value in ARGUMENTS.items():
        assert getattr(model, name) is value
        assert model.get_params()[name] is value


def test_clone(graphs: list[Data]) -> None:
    typed = draw_graphs(6, seed=1, edge_types=2)
    model = GSPN(**ARGUMENTS).fit(typed, progress=False)
    twin = clone(model)
    assert twin is not model
    for name, value in ARGUMENTS.items():
        if name != "template":
            assert getattr(twin, name) == value
    with pytest.raises(gspn.GSPNError, match="not fitted"):
        twin.log_likelihood(typed)
    # The same settings and seed make the same model.
    twin.fit(typed, progress=False)
    for name, value in model.state_dict().items():
        assert torch.equal(value, twin.state_dict()[name]), name


def test_set_params_builds_anew(graphs: list[Data]) -> None:
    model = small_model().double().fit(graphs, progress=False)
    assert model.set_params(num_states=5, lr=0.01) is model
    assert (model.num_states, model.lr) == (5, 0.01)
    assert model.hierarchy.raw_prior.shape == (1, 5)
    assert model.hierarchy.raw_prior.dtype == torch.float64
    with pytest.raises(gspn.GSPNError, match="not fitted"):
        model.log_likelihood(graphs)
    assert not hasattr(model, "history_")
    assert not hasattr(model, "leave_one_out_nll_")
    # As if constructed like that.
    model.fit(graphs, progress=False)
    other = small_model(num_states=5, lr=0.01).double().fit(graphs, progress=False)
    assert mean_log_likelihood(model, graphs) == mean_log_likelihood(other, graphs)


def test_set_params_without_any_keeps_the_model(graphs: list[Data]) -> None:
    model = small_model().fit(graphs, progress=False)
    before = mean_log_likelihood(model, graphs)
    assert mean_log_likelihood(model.set_params(), graphs) == before


def test_repr_names_what_differs_from_the_defaults() -> None:
    text = repr(GSPN(EVERY_KIND, num_states=7, objective="masked"))
    assert text.startswith("GSPN(")
    assert "num_states=7" in text
    assert "objective='masked'" in text
    assert "'charge'" in text
    assert "patience" not in text


def test_check_is_fitted(graphs: list[Data]) -> None:
    model = small_model()
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(model)
    check_is_fitted(model.fit(graphs, progress=False))
    given = small_model().set_parameters(model.get_parameters())
    check_is_fitted(given)


def test_fit_returns_self_and_fit_transform_is_fit_then_transform(graphs: list[Data]) -> None:
    model = small_model()
    assert model.fit(graphs, progress=False) is model
    other: Any = small_model()  # the method comes from scikit-learn, which has no types
    together = other.fit_transform(graphs, progress=False)
    assert all(torch.equal(a, b) for a, b in zip(together, model.transform(graphs), strict=True))


def test_pipeline_from_graphs_to_classes(graphs: list[Data]) -> None:
    y = np.array([int(torch.nanmean(data.x[:, 0]) > 0) for data in graphs])
    assert 0 < y.mean() < 1
    pipeline = make_pipeline(
        small_model(num_states=4, epochs=10), FunctionTransformer(pool), LogisticRegression(C=100.0)
    )
    pipeline.fit(graphs[:16], y[:16])
    assert pipeline.score(graphs[16:], y[16:]) >= 0.85  # the class shows in every attribute of every vertex
    pipeline.set_params(gspn__num_states=2)
    with pytest.raises(gspn.GSPNError, match="not fitted"):
        pipeline.predict(graphs)
    assert pipeline.fit(graphs, y).predict(graphs).shape == (24,)


def test_pipeline_that_ends_with_the_model(graphs: list[Data]) -> None:
    pipeline = Pipeline([("model", small_model())]).fit(graphs)
    assert len(pipeline.transform(graphs)) == 24


def well_separated(count: int, seed: int) -> list[Data]:
    """Three groups ten deviations apart: one state cannot describe them."""
    rng = np.random.default_rng(seed)
    xs = [10.0 * rng.integers(3, size=(8, 1)) + rng.normal(size=(8, 1)) for _ in range(count)]
    return [Data(x=torch.from_numpy(x)) for x in xs]


@pytest.mark.parametrize("packed", [False, True], ids=["list", "GraphDataset"])
def test_grid_search(packed: bool) -> None:
    schema = Schema([Continuous("mass")])
    given: Any = well_separated(12, 2)
    if packed:
        given = gspn.pack(given, schema)
    search = GridSearchCV(
        GSPN(schema, num_layers=1, epochs=3),
        {"num_states": [1, 3], "lr": [0.1, 0.01]},
        scoring=mean_log_likelihood,
        cv=3,
        error_score="raise",
    )
    search.fit(given)
    assert search.best_params_["num_states"] == 3
    assert search.cv_results_["mean_test_score"].shape == (4,)
    assert search.best_score_ > -2.8  # log 3 + the entropy of a normal distribution, 2.52, and some room
    assert len(search.best_estimator_.log_likelihood(given)) == 12


def test_cross_validation(graphs: list[Data]) -> None:
    scores = cross_val_score(small_model(), graphs, scoring=mean_log_likelihood, cv=2, error_score="raise")
    assert np.isfinite(scores).all()
    first = small_model().fit(graphs[12:], progress=False)
    assert scores[0] == pytest.approx(mean_log_likelihood(first, graphs[:12]), rel=1e-12)


# ---- torch


def test_deepcopy_is_independent(graphs: list[Data]) -> None:
    model = small_model().fit(graphs, progress=False)
    twin = copy.deepcopy(model)
    before = mean_log_likelihood(model, graphs)
    assert mean_log_likelihood(twin, graphs) == before
    assert twin.history_ == model.history_
    twin.fit([data.clone() for data in graphs[:4]], progress=False, epochs=1)
    assert mean_log_likelihood(twin, graphs) != before
    assert mean_log_likelihood(model, graphs) == before
    assert len(model.history_) == 2


@pytest.mark.parametrize("name", TEMPLATES)
def test_state_dict_carries_everything(name: str, graphs: list[Data]) -> None:
    circuit = template(name, EVERY_KIND, 2, seed=3)
    model = small_model(template=circuit, shortcut="learned").fit(graphs, progress=False)
    twin = small_model(template=circuit, shortcut="learned", seed=99)
    twin.load_state_dict(model.state_dict())
    for one, other in zip(twin.log_likelihood(graphs), model.log_likelihood(graphs), strict=True):
        assert torch.equal(one, other)
    unfitted = small_model(template=circuit, shortcut="learned")
    twin.load_state_dict(unfitted.state_dict())
    with pytest.raises(gspn.GSPNError, match="not fitted"):
        twin.log_likelihood(graphs)


def test_a_model_is_a_module_among_others(graphs: list[Data]) -> None:
    """Gradients flow through collate and forward into whatever stands behind."""

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = small_model()
            self.head = nn.Linear(2 * 1 * 2, 2)

        def forward(self, batch: gspn.graphs.Batch) -> torch.Tensor:
            pooled: torch.Tensor = self.head(self.model(batch).posteriors.flatten(1))
            return pooled

    classifier = Classifier()
    classifier(classifier.model.collate(graphs)).square().sum().backward()
    names = {name for name, p in classifier.named_parameters() if p.grad is not None and p.grad.any()}
    assert {"head.weight", "model.hierarchy.raw_prior", "model.hierarchy.raw_transitions"} <= names
    assert any(".leaves." in name for name in names)


def test_global_generators_are_neither_used_nor_moved(graphs: list[Data]) -> None:
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002 (the old global generator is what is tested)
        before, before_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
        model = small_model(objective="masked", n_init=2)
        model.fit(graphs, validation=graphs[:3], progress=False)
        results.append(torch.cat(model.log_likelihood(graphs, leave_one_out=True)))
        assert torch.equal(torch.get_rng_state(), before)
        assert (np.random.get_state()[1] == before_numpy).all()  # type: ignore[index]  # noqa: NPY002
    assert torch.equal(*results)


def test_a_notebook_can_show_a_model(graphs: list[Data]) -> None:
    model: Any = small_model().fit(graphs, progress=False)
    assert "GSPN" in model._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("name", TEMPLATES)
def test_shapes_on_the_meta_device(name: str) -> None:
    model = random_model(EVERY_KIND, template=template(name, EVERY_KIND, 3), shortcut="mean", num_edge_types=2)
    graphs = draw_graphs(3, seed=4, edge_types=2)
    here = model(model.collate(graphs))
    batch = model.collate(graphs).to("meta")
    there: Evaluation = model.to("meta")(batch)
    for field in ("log_likelihood", "log_visible", "posteriors", "root_log_prior", "graph_sums"):
        assert getattr(there, field).device.type == "meta"
        assert getattr(there, field).shape == getattr(here, field).shape
        assert getattr(there, field).dtype == getattr(here, field).dtype


def test_collate_puts_the_batch_where_the_model_is(graphs: list[Data]) -> None:
    model = small_model().to("meta")
    batch = model.collate(graphs)
    assert batch.x.device.type == batch.source.device.type == batch.in_degree.device.type == "meta"
    assert model(batch).log_likelihood.device.type == "meta"


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_questions_are_computed_where_the_parameters_are(graphs: list[Data], leave_one_out: bool) -> None:
    """The meta device stands for any device other than the one on which graphs are packed."""
    model = small_model().fit(graphs, progress=False)
    model.hierarchy.to("meta")
    for result in model.log_likelihood(graphs, leave_one_out=leave_one_out):
        assert result.device.type == "meta"
    assert model.posteriors(graphs[0]).device.type == "meta"


@pytest.mark.parametrize("name", ["naive Bayes", "hand-made"])
def test_the_forward_pass_compiles(name: str) -> None:
    """In one graph, without falling back to Python; values and gradients as without, up to reordered sums."""
    model = random_model(EVERY_KIND, 5, template=template(name, EVERY_KIND, 3))
    graphs = draw_graphs(3, seed=5)
    batch = model.collate(graphs)
    compiled = torch.compile(model.hierarchy, backend="aot_eager", fullgraph=True)
    gradients = []
    for forward in (compiled, model.hierarchy):  # the compiled one on a batch that nobody has used yet
        model.zero_grad()
        evaluation = forward(batch)
        evaluation.log_likelihood.sum().backward()
        gradients.append(
            [evaluation.log_likelihood.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]
        )
    assert len(gradients[0]) == len(gradients[1]) > 3
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
