"""The fit loop: what is recorded, when it stops, which weights stay, and that every step is the step it should be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
import torch
from comparison import same
from small_graphs import EVERY_KIND, draw_graphs
from torch import Tensor

from gspn import GSPN, GraphDataset, pack
from gspn.graphs import Batch
from gspn.graphs.masks import hide_entries
from gspn.hierarchy.objectives import OBJECTIVES, objective_for
from gspn.models import fitting as model_module
from gspn.random_streams import keyed_generator
from gspn.training import Processes, loop, mean_loss

GRAPHS = draw_graphs(12, seed=0)
HELD_OUT = draw_graphs(6, seed=1)


def make(**arguments: Any) -> GSPN:
    return GSPN(EVERY_KIND, **{"num_layers": 2, "num_states": 3, "epochs": 4, "batch_size": 5, "seed": 1} | arguments)


def weights(model: GSPN) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def loss_on(model: GSPN, graphs: list[Any], **settings: Any) -> float:
    """The mean loss of the present weights with the masks that never change."""
    name, rate, seed = (settings.get(key, getattr(model, key)) for key in ("objective", "mask_rate", "seed"))
    return mean_loss(objective_for(model.hierarchy, name, rate, seed), pack(graphs, model.schema), Processes())


def script_validation(monkeypatch: pytest.MonkeyPatch, values: list[float]) -> None:
    """Let the epochs' validation losses be the given ones."""
    remaining = iter(values)
    monkeypatch.setattr(model_module, "mean_loss", lambda *_: next(remaining))


@pytest.fixture
def gradients(monkeypatch: pytest.MonkeyPatch) -> list[list[Tensor]]:
    """The gradients with which Adam makes its steps, step after step."""
    steps: list[list[Tensor]] = []
    step = torch.optim.Adam.step

    def watched(self: torch.optim.Adam) -> None:
        steps.append([p.grad.clone() for group in self.param_groups for p in group["params"]])
        step(self)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    return steps


# What is recorded.


def test_history_has_one_record_an_epoch() -> None:
    model = make().fit(GRAPHS, validation=HELD_OUT)
    assert [list(record) for record in model.history_] == [["epoch", "train", "validation", "seconds"]] * 4
    assert [record["epoch"] for record in model.history_] == [0, 1, 2, 3]
    for record in model.history_:
        assert type(record["train"]) is type(record["validation"]) is type(record["seconds"]) is float
        assert record["seconds"] > 0


def test_history_without_validation() -> None:
    model = make().fit(GRAPHS)
    assert [list(record) for record in model.history_] == [["epoch", "train", "seconds"]] * 4
    assert model.leave_one_out_nll_ is None


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_loss_decreases(objective: str) -> None:
    """By 0.05 nats a term: far above the rounding of float32, and a part of what is there to learn."""
    arguments = {"objective": objective, "mask_rate": 0.5}
    start = make(epochs=0, **arguments).fit(GRAPHS)
    trained = make(epochs=20, **arguments).fit(GRAPHS)
    assert loss_on(trained, GRAPHS) < loss_on(start, GRAPHS) - 0.05


# When it stops, and with which weights.


def test_stops_after_patience_epochs_without_improvement(monkeypatch: pytest.MonkeyPatch) -> None:
    script_validation(monkeypatch, [5.0, 4.0, 6.0, 4.0])  # an equal loss is no improvement
    model = make(epochs=10, patience=2).fit(GRAPHS, validation=HELD_OUT)
    assert [record["validation"] for record in model.history_] == [5.0, 4.0, 6.0, 4.0]
    monkeypatch.undo()
    assert same(model, make(epochs=2).fit(GRAPHS)), "the weights of the best epoch, the second"


def test_patience_starts_again_with_every_improvement(monkeypatch: pytest.MonkeyPatch) -> None:
    script_validation(monkeypatch, [5.0, 6.0, 4.0, 6.0, 3.0, 4.0, 4.0])
    model = make(epochs=20, patience=2).fit(GRAPHS, validation=HELD_OUT)
    assert len(model.history_) == 7
    monkeypatch.undo()
    assert same(model, make(epochs=5).fit(GRAPHS))


def test_without_early_stop_the_best_weights_are_kept_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    script_validation(monkeypatch, [3.0, 2.0, 5.0, 4.0])
    model = make(patience=50).fit(GRAPHS, validation=HELD_OUT)
    assert len(model.history_) == 4
    monkeypatch.undo()
    assert same(model, make(epochs=2).fit(GRAPHS))


@pytest.mark.parametrize(
    ("losses", "said"),
    [([1.0, 2.0, 3.0, 2.0, 2.0], True), ([1.0, 2.0, 3.0, 0.5, 2.0], False), ([1.0, 2.0, 3.0, 2.0], False)],
    ids=["in vain", "improved", "too early to tell"],
)
def test_training_that_never_improves_on_its_first_epoch_says_so(
    losses: list[float], said: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    script_validation(monkeypatch, losses)
    make(epochs=len(losses), lr=0.25).fit(GRAPHS, validation=HELD_OUT)
    assert ("best after the first of 5 epochs" in caplog.text) == said
    assert ("a smaller lr than 0.25" in caplog.text) == said


def test_kept_weights_have_the_least_validation_loss() -> None:
    model = make(objective="masked", epochs=60, patience=5, lr=0.05).fit(GRAPHS, validation=HELD_OUT)
    losses = [record["validation"] for record in model.history_]
    best = losses.index(min(losses))
    assert 0 < best == len(losses) - 6 < 50, "this run overfits, so it stops early, and not with its last weights"
    assert loss_on(model, HELD_OUT) == losses[best]


def test_patience_is_unused_without_validation() -> None:
    assert len(make(epochs=6, patience=1, lr=2.0).fit(GRAPHS).history_) == 6


@pytest.mark.parametrize("arguments", [{}, {"weight_decay": 0.3}, {"clip": 0.05}], ids=str)
def test_fit_is_adam_and_the_last_weights_stay(arguments: dict[str, Any]) -> None:
    """Against the same thing written in six lines; float64, so that four steps agree to far more than 1e-9."""
    batch_of_all = {"epochs": 4, "batch_size": 100, "lr": 0.05}
    fitted = make(**batch_of_all, **arguments).double().fit(GRAPHS)
    by_hand = make(epochs=0).double().fit(GRAPHS)
    batch = by_hand.collate(GRAPHS)
    adam = torch.optim.Adam(by_hand.parameters(), lr=0.05, weight_decay=arguments.get("weight_decay", 0.0))
    for _ in range(4):
        adam.zero_grad()
        (-by_hand(batch).log_likelihood.mean()).backward()
        torch.nn.utils.clip_grad_norm_(by_hand.parameters(), arguments.get("clip", torch.inf))
        adam.step()
    expected = weights(by_hand)
    for name, value in weights(fitted).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-9)
    if arguments:
        plain = make(**batch_of_all).double().fit(GRAPHS)
        gaps = [(a - b).abs().max() for a, b in zip(fitted.parameters(), plain.parameters(), strict=True)]
        assert max(gaps) > 1e-3, f"{arguments} has no effect"


# What a step is.


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_are_averaged_by_terms_not_by_graphs(objective: str, gradients: list[list[Tensor]]) -> None:
    """A step over a small and a large graph: the gradient of (loss_A + loss_B) / (n_A + n_B)."""
    pair = draw_graphs(1, seed=3, sizes=(4, 4)) + draw_graphs(1, seed=4, sizes=(30, 30))
    arguments: dict[str, Any] = {"objective": objective, "mask_rate": 0.6}
    model = make(epochs=1, **arguments).double().fit(pair)
    start = make(epochs=0, **arguments).double().fit(pair)
    loss_of = objective_for(start.hierarchy, objective, 0.6, start.seed)
    dataset = pack(pair, EVERY_KIND)
    sums, counts = torch.zeros(2, dtype=torch.float64), [0, 0]
    for graph in (0, 1):
        for part, terms in loss_of(dataset.batch(torch.tensor([graph])), 0):
            sums[graph] += part
            counts[graph] += terms
    assert 0 < counts[0] < counts[1] / 2
    expected = torch.autograd.grad(sums.sum() / sum(counts), list(start.parameters()), retain_graph=True)
    by_graphs = torch.autograd.grad((sums[0] / counts[0] + sums[1] / counts[1]) / 2, list(start.parameters()))
    assert len(gradients) == 1
    for found, wanted in zip(gradients[0], expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    gaps = [(a - b).abs().max().item() for a, b in zip(gradients[0], by_graphs, strict=True)]
    assert max(gaps) > 1e-3, "the two means are different things here"
    assert model.history_[0]["train"] == pytest.approx(sums.sum().item() / sum(counts), rel=1e-12)


def test_clip_bounds_the_norm_of_the_gradient(gradients: list[list[Tensor]]) -> None:
    def norms() -> list[float]:
        found = [torch.cat([g.flatten() for g in step]).norm().item() for step in gradients]
        gradients.clear()
        return found

    make(epochs=1).fit(GRAPHS)
    free = norms()
    make(epochs=1, clip=0.1).fit(GRAPHS)
    clipped = norms()
    assert min(free) > 0.2
    assert max(clipped) <= 0.1 * (1 + 1e-5)
    assert len(clipped) == len(free) == 3


def test_every_epoch_visits_every_graph_once_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    visits: list[list[int]] = []
    cut = GraphDataset.batch

    def watched(self: GraphDataset, graph_ids: Tensor) -> Batch:
        visits.append(graph_ids.tolist())
        return cut(self, graph_ids)

    monkeypatch.setattr(GraphDataset, "batch", watched)
    make(epochs=3).fit(GRAPHS)
    assert [len(batch) for batch in visits[:9]] == [5, 5, 2] * 3  # scoring comes after these
    epochs = [list(chain(*visits[3 * e : 3 * e + 3])) for e in range(3)]
    assert all(sorted(epoch) == list(range(12)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_batch_with_nothing_to_predict_makes_no_step(gradients: list[list[Tensor]]) -> None:
    """Adam's momentum and the weight decay would move the weights even without a gradient."""
    model = make(objective="masked", mask_rate=0.02, batch_size=1, epochs=3, weight_decay=0.1).fit(GRAPHS)
    dataset = pack(GRAPHS, EVERY_KIND)
    batches = [(epoch, dataset.batch(torch.tensor([graph]))) for epoch in range(3) for graph in range(12)]
    hidden = [int(hide_entries(batch, 0.02, model.seed, epoch).sum()) for epoch, batch in batches]
    assert 0 < len(gradients) == sum(n > 0 for n in hidden) < len(batches)
    for epoch, record in enumerate(model.history_):
        assert (record["train"] > 0) == (sum(hidden[12 * epoch : 12 * epoch + 12]) > 0)


@pytest.mark.parametrize("objective", ["masked", "leave_one_out"])
def test_nothing_to_predict_at_all_leaves_the_start(objective: str) -> None:
    arguments: dict[str, Any] = {"objective": objective, "mask_rate": 1e-9, "weight_decay": 0.1}
    model = make(**arguments).fit(GRAPHS, validation=HELD_OUT)
    assert same(model, make(epochs=0, **arguments).fit(GRAPHS))
    assert [(record["train"], record["validation"]) for record in model.history_] == [(0.0, 0.0)] * 4


def test_masks_change_with_the_epoch_but_not_in_validation() -> None:
    """With a learning rate of nearly nothing a loss changes only if what is hidden does."""
    model = make(objective="masked", mask_rate=0.5, lr=1e-12, patience=50).double().fit(GRAPHS, validation=HELD_OUT)
    train, validation = zip(*((record["train"], record["validation"]) for record in model.history_), strict=True)
    assert max(validation) - min(validation) < 1e-9
    assert min(abs(a - b) for i, a in enumerate(train) for b in train[:i]) > 1e-4


# Seeds.


@pytest.mark.parametrize("epochs", [0, 2])
def test_other_seed_other_weights(epochs: int) -> None:
    one, other = make(epochs=epochs).fit(GRAPHS), make(epochs=epochs, seed=2).fit(GRAPHS)
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert not torch.equal(mine, theirs) or torch.equal(mine, torch.zeros_like(mine))


def test_no_stream_of_random_numbers_serves_two_purposes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the order of the graphs in an epoch would depend on the starting point drawn from the same numbers."""
    used: list[int] = []

    def watched(*keys: int) -> torch.Generator:
        generator = keyed_generator(*keys)
        used.append(generator.initial_seed())
        return generator

    for module in (loop, model_module):
        monkeypatch.setattr(module, "keyed_generator", watched)
    make(n_init=3, epochs=3).fit(GRAPHS, validation=HELD_OUT)
    assert len(used) == len(set(used)) == 6, "three starting points and three orders"


# Starting afresh, starting warm, starting points.


def test_fit_starts_afresh() -> None:
    twice = make().fit(HELD_OUT, epochs=7, lr=0.3)
    assert twice.fit(GRAPHS) is twice
    assert same(twice, make().fit(GRAPHS))
    assert len(twice.history_) == 4


def test_warm_start_goes_on_from_the_present_weights() -> None:
    model = make().double().fit(GRAPHS)
    before = weights(model)
    expected = -torch.cat(model.log_likelihood(HELD_OUT)).mean()
    model.fit(HELD_OUT, warm_start=True, epochs=0)
    assert all(torch.equal(value, before[name]) for name, value in weights(model).items())
    model.fit(HELD_OUT, warm_start=True, epochs=3, batch_size=100)
    assert model.history_[0]["train"] == pytest.approx(expected.item(), rel=1e-12)
    assert model.history_[-1]["train"] < model.history_[0]["train"]
    assert len(model.history_) == 3
    units = [name for name in before if name.endswith("_extra_state")]
    assert units
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in units), "the units stay the first data's"


def test_no_epochs_give_a_fitted_model_at_its_starting_point() -> None:
    model = make(epochs=0).fit(GRAPHS, validation=HELD_OUT)
    assert model.history_ == []
    assert torch.isfinite(model.log_likelihood(GRAPHS[0])).all()
    assert model.leave_one_out_nll_ is not None
    by_hand = make()
    entries = pack(GRAPHS, EVERY_KIND).entries()
    by_hand.hierarchy.set_units(entries)
    by_hand.hierarchy.initialise(entries, keyed_generator(by_hand.seed, model_module._START, 0))
    by_hand._fitted.fill_(True)
    assert same(model, by_hand)


SEED_OF_STARTS = 4
"""With this seed the first of the starting points is the best for none of the objectives."""


def starting_points(number: int, objective: str) -> Iterator[GSPN]:
    entries = pack(GRAPHS, EVERY_KIND).entries()
    for k in range(number):
        model = make(objective=objective, seed=SEED_OF_STARTS)
        model.hierarchy.set_units(entries)
        model.hierarchy.initialise(entries, keyed_generator(model.seed, model_module._START, k))
        model._fitted.fill_(True)
        yield model


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_n_init_trains_the_best_of_the_starting_points(objective: str) -> None:
    losses = {loss_on(model, GRAPHS): model for model in starting_points(6, objective)}
    assert len(losses) == 6
    best = losses[min(losses)]
    assert not same(best, next(starting_points(1, objective))), "not simply the first"
    assert same(make(epochs=0, n_init=6, objective=objective, seed=SEED_OF_STARTS).fit(GRAPHS), best)
    trained = make(n_init=6, objective=objective, seed=SEED_OF_STARTS).fit(GRAPHS)
    assert len(trained.history_) == 4
    assert not same(trained, best)


# Overrides.


def test_overrides_hold_for_one_call_only() -> None:
    model: Any = make()
    before = model.get_params(deep=False)
    model.fit(GRAPHS, epochs=2, lr=0.01, batch_size=3, objective="masked", mask_rate=0.4, seed=9, n_init=2, clip=1.0)
    assert len(model.history_) == 2
    assert model.get_params(deep=False) == before
    explicit = make(epochs=2, lr=0.01, batch_size=3, objective="masked", mask_rate=0.4, seed=9, n_init=2, clip=1.0)
    assert same(model, explicit.fit(GRAPHS))
    assert same(model.fit(GRAPHS), make().fit(GRAPHS))
