"""The suite of kernels: values and gradients are those of the reference, and what is not supported is refused.

Relative to each tensor's largest magnitude a kernel is right to 1e-10 in float64. In float32 it may be off by 1e-5, or
by twice as much as the reference itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from gspn.circuits import Evidence, Leaf, Product, Sum, Unit
from gspn.compiling import VARIABLE
from gspn.errors import GSPNError
from gspn.graphs.batch import Batch
from gspn.kernels import Climb, Kernel, Levels
from gspn.kernels.reference import REFERENCE
from gspn.kernels.registry import find_kernel
from gspn.models.gspn import GSPN
from gspn.testing.running import Suite, environment, refusal
from gspn.testing.small_graphs import SCHEMA, draw_graphs, hub

EXACT, CLOSE = 1e-10, 1e-5


@dataclass(frozen=True)
class _Case:
    graphs: list[Data] = field(repr=False)
    arguments: dict[str, Any] = field(default_factory=dict)
    hidden: float = 0.0


def _circuit() -> Unit:
    """Three states over `SCHEMA`, with a mixture inside each."""
    first, *rest = SCHEMA.names
    return Sum(*(Product(Leaf(first), Sum(*(Product(*map(Leaf, rest)) for _ in range(3)))) for _ in range(3)))


def cases(in_degree: int = 1500) -> dict[str, _Case]:
    """What kernels are tried on, by name; `in_degree` is that of a hub."""
    typed = draw_graphs(6, 4, vertices=7, edge_types=3)
    alone = draw_graphs(3, 5)
    for data in alone:
        data.edge_index = data.edge_index[:, :1]
    return {
        "plain": _Case(draw_graphs(7, 1, vertices=8)),
        "edge types": _Case(typed, {"num_edge_types": 3}),
        "types that are not told apart": _Case(typed),
        "parallel edges": _Case([_doubled(data) for data in draw_graphs(4, 2)]),
        "isolated vertices": _Case(alone),
        "nothing observed": _Case(draw_graphs(3, 3, missing=1.0)),
        "one vertex": _Case(draw_graphs(1, 3, vertices=1)),
        "hidden entries": _Case(draw_graphs(6, 6, missing=0.4), hidden=0.4),
        "everything hidden": _Case(draw_graphs(3, 7), hidden=1.0),
        "one level": _Case(draw_graphs(4, 8), {"num_layers": 1}),
        "one state": _Case(draw_graphs(4, 9), {"num_states": 1}),
        "many states and levels": _Case(draw_graphs(4, 9, vertices=8), {"num_states": 20, "num_layers": 7}),
        "shortcut": _Case(draw_graphs(4, 10), {"shortcut": "learned"}),
        "a hub": _Case([hub(in_degree)]),
        "a hub of several edge types": _Case([hub(in_degree, edge_types=2)], {"num_edge_types": 2}),
        "another circuit": _Case(draw_graphs(4, 11), {"template": _circuit()}),
    }


class KernelSuite(Suite):
    """Subclass it under a name that begins with Test, and set `kernel` to a name.

    `refuses` names those of `cases()` that the kernel does not support: there it must say why, and everywhere else it
    must work. `in_degree` is that of a hub: a slow kernel may have a smaller one.
    """

    kernel: str
    in_degree: int = 1500
    refuses: frozenset[str] | set[str] = frozenset()

    def test_values_and_gradients(self) -> None:
        for name, case in cases(self.in_degree).items():
            if name in self.refuses:
                continue
            model, batch = _prepare(case)
            ours, theirs = _outcome(self._kernel, model, batch), _outcome(REFERENCE, model, batch)
            for key, expected in theirs.items():
                _check(f"{name}: {key}", ours[key], expected, EXACT * _size(expected))

    def test_single_precision(self) -> None:
        for name, case in cases(self.in_degree).items():
            if name in self.refuses:
                continue
            model, batch = _prepare(case)
            truth = _outcome(REFERENCE, model, batch)
            model.float()
            ours, theirs = _outcome(self._kernel, model, batch), _outcome(REFERENCE, model, batch)
            for key, expected in truth.items():
                assert ours[key].dtype == torch.float32, f"{name}: {key} is in {ours[key].dtype}"
                allowed = max(2 * _distance(theirs[key], expected), CLOSE * _size(expected))
                _check(f"{name}: {key}", ours[key], expected, allowed)

    def test_repeats_itself(self) -> None:
        model, batch = _prepare(cases(1)["plain"])
        one, other = (_outcome(self._kernel, model, batch) for _ in range(2))
        assert all(torch.equal(value, other[key]) for key, value in one.items()), "the same climb, other bits"

    def test_what_is_not_supported_is_refused(self) -> None:
        """With a reason that ends a sentence, which is what is said when the kernel is asked for by name."""
        assert set(self.refuses) <= set(cases(1)), f"there are no such cases: {set(self.refuses) - set(cases(1))}"
        for name, case in cases(self.in_degree).items():
            model, batch = _prepare(case)
            reason = self._kernel.obstacle(_climb(model, batch))
            if name not in self.refuses:
                assert reason is None, f"{name} is refused: {reason}"
                continue
            assert isinstance(reason, str), f"{name} is not refused"
            assert reason.strip(), f"{name} is refused without a reason"
            with environment(VARIABLE, self.kernel), refusal(name, GSPNError, naming=reason):
                model(batch)

    def test_chosen_by_name(self) -> None:
        model, batch = _prepare(cases(1)["plain"])
        with environment(VARIABLE, self.kernel):
            found = model(batch).log_likelihood
        with environment(VARIABLE, "reference"):
            torch.testing.assert_close(found, model(batch).log_likelihood, rtol=1e-9, atol=1e-9)

    @property
    def _kernel(self) -> Kernel:
        return find_kernel(self.kernel)


def _prepare(case: _Case) -> tuple[GSPN, Batch]:
    model = GSPN(SCHEMA, **{"num_layers": 3, "num_states": 3} | case.arguments).double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    batch = model.collate(case.graphs)
    if case.hidden:
        draw = torch.rand(batch.x.shape, generator=torch.Generator().manual_seed(0))
        batch = batch.hiding(draw < case.hidden)
    return model, batch


def _climb(model: GSPN, batch: Batch) -> Climb:
    hierarchy = model.hierarchy
    return hierarchy.climb(Evidence(batch.visible, batch.hidden), batch, hierarchy.prior(), hierarchy.transitions())


def _outcome(kernel: Kernel, model: GSPN, batch: Batch) -> dict[str, Tensor]:
    """All that a climb gives, for every vertex, and the gradients of losses that depend on each of these things."""
    found: dict[str, Tensor] = {}
    names = ("posteriors", "root_prior", "log_value")
    parameters = dict(model.named_parameters())
    for name in names:
        levels: Levels = kernel.climb(_climb(model, batch))
        value = levels.at_vertices(getattr(levels, name))
        if name == "log_value":  # 0 where nothing is observed, up to rounding, which is nobody's fault
            value = value.masked_fill(torch.isnan(batch.visible).all(1), 0.0)
        found[name] = value.detach()
        weight = torch.rand(value.shape, generator=torch.Generator().manual_seed(7)).to(value)
        loss = (weight * value).sum() + (weight * value.square()).sum() / 2
        gradients: tuple[Tensor | None, ...] = (None,) * len(parameters)
        if loss.requires_grad:
            gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        for key, gradient in zip(parameters, gradients, strict=True):
            found[f"{name} by {key}"] = torch.zeros_like(parameters[key]) if gradient is None else gradient
        if levels.graph_sums is not None:
            graph = torch.repeat_interleave(batch.vertex_ptr.diff())
            sums = torch.zeros_like(levels.graph_sums, dtype=torch.float64)
            sums.index_add_(0, graph, levels.at_vertices(levels.posteriors).detach().double())
            _check("graph_sums", levels.graph_sums.detach(), sums, CLOSE * _size(sums))
    return found


def _check(what: str, ours: Tensor, expected: Tensor, allowed: float) -> None:
    assert ours.shape == expected.shape, f"{what}: shape {list(ours.shape)} instead of {list(expected.shape)}"
    assert bool(torch.isfinite(ours).all()), f"{what} is not finite"
    assert _distance(ours, expected) <= allowed, (
        f"{what} is off by {_distance(ours, expected):g}, more than {allowed:g}"
    )


def _distance(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).abs().max()) if one.numel() else 0.0


def _size(value: Tensor) -> float:
    return max(float(value.abs().max()), 1e-30) if value.numel() else 0.0


def _doubled(data: Data) -> Data:
    data = data.clone()
    data.edge_index = torch.cat([data.edge_index, data.edge_index[:, ::2]], dim=1)
    return data
