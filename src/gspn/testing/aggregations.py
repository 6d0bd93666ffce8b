"""The suite of aggregations: priors are distributions, no order matters, and a literal function agrees.

The literal function is the proof: plain Python over one vertex's messages, handed to the oracle, which builds every
vertex's tree node by node.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gspn.circuits import Evidence
from gspn.errors import GSPNError
from gspn.graphs.batch import Batch
from gspn.graphs.stored import store_graph
from gspn.kernels import Received
from gspn.kernels.contract import Expectations
from gspn.models.gspn import GSPN
from gspn.models.saving import load
from gspn.testing import oracle
from gspn.testing.running import Suite, environment, refusal
from gspn.testing.small_graphs import SCHEMA, draw_graphs, permuted
from gspn.testing.translation import oracle_graph, oracle_model

LEVELS, STATES = 3, 3


@dataclass(frozen=True)
class AggregationCase:
    """An aggregation with the plain function that it must agree with.

    Parameters
    ----------
    name:
        The name under which it is registered.
    mix:
        Given the aggregation (whose parameters it may read), the literal function that the oracle takes.
    weigh:
        The same for the weights of messages in a context; None: all alike.
    edge_types:
        Whether it tells edge types apart.
    arguments:
        More arguments of the model.
    """

    name: str
    mix: Callable[[nn.Module], oracle.Mix] = field(repr=False)
    weigh: Callable[[nn.Module], oracle.Weigh] | None = field(default=None, repr=False)
    edge_types: bool = True
    arguments: dict[str, Any] = field(default_factory=dict)

    def model(self, **arguments: Any) -> GSPN:
        """A model in float64 with random parameters, which counts as fitted."""
        settings: dict[str, Any] = {
            "num_layers": LEVELS,
            "num_states": STATES,
            "num_edge_types": 2,
            "aggregation": self.name,
        }
        model = GSPN(SCHEMA, **settings | self.arguments | arguments).double()
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
        return model.set_parameters(model.get_parameters())

    def theirs(self, model: GSPN) -> oracle.Model:
        module = model.hierarchy.aggregation
        weigh = None if self.weigh is None else self.weigh(module)
        return oracle_model(model, mix=self.mix(module), weigh=weigh)


class AggregationSuite(Suite):
    """Subclass it under a name that begins with Test, and set `case`."""

    case: AggregationCase

    def test_priors_are_distributions(self) -> None:
        for seed in range(4):
            for prior in (self._received(self._graphs(seed)).prior, self._received(self._graphs(seed)).prior):
                assert bool((prior >= 0).all()), "a prior is negative"
                sums = prior.sum(-1)
                assert bool(((sums - 1).abs() < 1e-9).all()), f"priors sum to {sums.min()} … {sums.max()}"

    def test_log_priors_are_logarithms(self) -> None:
        received = self._received(self._graphs(0))
        if received.log_prior is not None:
            torch.testing.assert_close(received.log_prior.exp(), received.prior, rtol=1e-9, atol=1e-12)

    def test_agrees_with_the_literal_function(self) -> None:
        """On whole trees: likelihoods and posteriors of all levels, with a vertex left out, with entries masked."""
        model = self.case.model()
        theirs = self.case.theirs(model)
        for data in self._graphs(5):
            graph, n = oracle_graph(data), data.num_nodes
            expected = [oracle.log_likelihood(theirs, graph, v) for v in range(n)]
            np.testing.assert_allclose(model.log_likelihood(data).numpy(), expected, rtol=1e-9, atol=1e-9)
            posteriors = np.stack([oracle.posteriors(theirs, graph, v) for v in range(n)])
            np.testing.assert_allclose(model.posteriors(data).numpy(), posteriors, rtol=0, atol=1e-9)

    def test_agrees_where_a_vertex_is_left_out(self) -> None:
        """Private copies of vertices and parts of graphs answer as the whole graph would."""
        model = self.case.model()
        theirs = self.case.theirs(model)
        for data in self._graphs(6):
            graph, n = oracle_graph(data), data.num_nodes
            expected = [oracle.leave_one_out(theirs, graph, v) for v in range(n)]
            found = model.log_likelihood(data, leave_one_out=True)
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-9)
            one = model.log_likelihood(data, leave_one_out=True, vertices=[n - 1])
            np.testing.assert_allclose(one.numpy(), expected[-1:], rtol=1e-9, atol=1e-9)

    def test_the_order_of_edges_means_nothing(self) -> None:
        model = self.case.model()
        for data in self._graphs(1):
            order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(0))
            shuffled = data.clone()
            shuffled.edge_index, shuffled.edge_type = data.edge_index[:, order], data.edge_type[order]
            torch.testing.assert_close(model.posteriors(shuffled), model.posteriors(data), rtol=1e-10, atol=1e-10)

    def test_the_order_of_vertices_means_nothing(self) -> None:
        model = self.case.model()
        for data in self._graphs(2):
            order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
            found = model.posteriors(permuted(data, order))
            torch.testing.assert_close(found, model.posteriors(data)[order], rtol=1e-10, atol=1e-10)

    def test_other_graphs_of_a_batch_mean_nothing(self) -> None:
        graphs = self._graphs(3)
        model = self.case.model()
        together = model(model.collate(graphs)).posteriors
        alone = torch.cat([model(model.collate([data])).posteriors for data in graphs])
        torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-10)

    def test_edge_types(self) -> None:
        """A type that is exchanged changes the receiver's prior if types are told apart, and nothing else."""
        data = Data(x=torch.zeros(3, 4), edge_index=torch.tensor([[0, 1], [2, 2]]), edge_type=torch.tensor([0, 1]))
        other = data.clone()
        other.edge_type = torch.tensor([1, 1])
        one, another = self._received([data]).prior, self._received([other]).prior
        torch.testing.assert_close(one[:2], another[:2], rtol=0, atol=0)
        changed = not torch.allclose(one[2], another[2], rtol=1e-6, atol=1e-9)
        assert changed == self.case.edge_types, "the prior " + ("changes" if changed else "ignores edge types")

    def test_only_neighbours_are_heard(self) -> None:
        data = Data(x=torch.zeros(4, 4), edge_index=torch.tensor([[0, 3], [1, 2]]), edge_type=torch.tensor([0, 1]))
        one, another = self._received([data]).prior, self._received([data], lambda h: _turned(h, 3)).prior
        torch.testing.assert_close(one[:2], another[:2], rtol=0, atol=0)
        assert not torch.allclose(one[2], another[2], rtol=1e-6, atol=1e-9), "a message has no effect"

    def test_gradients_are_derivatives(self) -> None:
        model, graphs = self.case.model(), self._graphs(4)[:2]
        batch = model.collate(graphs)
        transitions, posterior = model.hierarchy.transitions().detach(), self._posterior(batch)
        prior = model.hierarchy.prior().detach()

        def evaluate(posterior: Tensor, transitions: Tensor) -> Tensor:
            climb = model.hierarchy.climb(Evidence(batch.visible), batch, prior, transitions)
            return climb.aggregate(1, posterior, None).prior

        inputs = posterior.requires_grad_(), transitions.requires_grad_()
        assert torch.autograd.gradcheck(evaluate, inputs)
        own = list(model.hierarchy.aggregation.parameters())
        weight = torch.randn(posterior.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        if own:
            found = torch.autograd.grad((evaluate(*inputs) * weight).sum(), own, allow_unused=True)
            assert all(g is None or bool(torch.isfinite(g).all()) for g in found), "a gradient is not finite"

    def test_expectations_become_a_context(self) -> None:
        """Where they are sent: a weighted mean for those who receive, and nothing for those who do not."""
        model, graphs = self.case.model(), self._graphs(4)
        batch = model.collate(graphs)
        told = torch.randn(batch.num_vertices, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        climb = self._climb(model, batch)
        received = climb.aggregate(1, self._posterior(batch), Expectations(told))
        assert received.context is not None, "expectations are sent, but there is no context"
        assert torch.equal(received.context.present, batch.in_degree > 0), "present is False where nothing is received"
        constant = climb.aggregate(1, self._posterior(batch), Expectations(torch.ones_like(told))).context
        assert constant is not None
        expected = (batch.in_degree > 0).double()[:, None].expand_as(told)
        torch.testing.assert_close(constant.mean, expected, rtol=0, atol=1e-9, msg="weights do not sum to 1")
        weigh = None if self.case.weigh is None else self.case.weigh(model.hierarchy.aggregation)
        for v in received.context.present.nonzero().squeeze(1).tolist():
            own = torch.arange(int(batch.row_ptr[v]), int(batch.row_ptr[v + 1]))
            senders = batch.source[own].long()
            types = [0] * len(own) if batch.edge_type is None else batch.edge_type[own].tolist()
            posterior, degrees = self._posterior(batch), batch.out_degree
            messages = [
                oracle.Message(posterior[u].numpy(), t, int(degrees[u]), len(own))
                for u, t in zip(senders.tolist(), types, strict=True)
            ]
            weights = [1 / len(own)] * len(own) if weigh is None else weigh(messages)
            mean = (torch.tensor(weights, dtype=torch.float64)[:, None] * told[senders]).sum(0)
            torch.testing.assert_close(received.context.mean[v], mean, rtol=1e-9, atol=1e-9)

    def test_what_does_not_know_it_refuses_it_by_name(self) -> None:
        """The compiled kernel when it is asked for, and stored graphs."""
        if self.case.name == "mean":
            return
        model = self.case.model(num_edge_types=1)
        data = self._graphs(0)[0]
        with environment("GSPN_KERNEL", "fast"), refusal("the fast kernel", GSPNError, naming=self.case.name):
            model(model.collate([data]))
        with tempfile.TemporaryDirectory() as folder:
            stored = store_graph(Path(folder) / "graph", data.x, data.edge_index, SCHEMA, progress=False)
            with refusal("a stored graph", GSPNError, naming=self.case.name):
                model.evaluate_stored(stored, Path(folder) / "results", progress=False)

    def test_fits_and_comes_back_from_files(self) -> None:
        """A seed fixes a fit, also the second one of the same model; parameters are saved."""
        graphs = self._graphs(8)
        model = GSPN(SCHEMA, 2, 2, num_edge_types=2, aggregation=self.case.name, epochs=3, seed=3)
        model.fit(graphs, progress=False)
        first = model.log_likelihood(graphs[-1])
        assert bool(torch.isfinite(first).all())
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            assert torch.equal(load(folder).log_likelihood(graphs[-1]), first), "a loaded model says something else"
        other = GSPN(SCHEMA, 2, 2, num_edge_types=2, aggregation=self.case.name, seed=4)
        other.set_parameters(model.get_parameters())
        torch.testing.assert_close(other.log_likelihood(graphs[-1]), first, rtol=1e-4, atol=1e-4)
        again = model.fit(graphs, progress=False).log_likelihood(graphs[-1])
        assert torch.equal(again, first), "a second fit does not start afresh"

    # What the checks are made of.

    def _graphs(self, seed: int) -> list[Data]:
        return [data for data in draw_graphs(5, seed, edge_types=2) if data.num_edges]

    def _received(self, graphs: list[Data], change: Callable[[Tensor], Tensor] = lambda h: h) -> Received:
        model = self.case.model()
        batch = model.collate(graphs)
        received: Received = self._climb(model, batch).aggregate(2, change(self._posterior(batch)), None)
        return received

    def _climb(self, model: GSPN, batch: Batch) -> Any:
        hierarchy = model.hierarchy
        return hierarchy.climb(Evidence(batch.visible), batch, hierarchy.prior(), hierarchy.transitions())

    def _posterior(self, batch: Batch) -> Tensor:
        noise = torch.randn(batch.num_vertices, 1, STATES, generator=torch.Generator().manual_seed(2))
        return torch.softmax(noise.double(), dim=-1)


def _turned(posterior: Tensor, vertex: int) -> Tensor:
    """One vertex says something else."""
    changed = posterior.clone()
    changed[vertex] = posterior[vertex].roll(1, -1)
    return changed
