"""What templates compute, three times over: naive Bayes, compiled circuits, and the definitions written out.

The reference here evaluates a circuit unit by unit and takes r_j = ∂ log R / ∂ log S_j by automatic differentiation, as
the design defines it; the library has a downward pass of its own. Both work in float64 on a few dozen units with
log-values of size 10, so they differ by roundings of about 1e-15 each; 1e-12 is far from luck.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_circuits import CIRCUITS, EXACT, PAIR, SCHEMA, C, compiled, draw, inner_sums, over_circuits
from torch import Tensor

from gspn.attributes import Binary, Schema
from gspn.circuits import Leaf, Product, Sum, Unit, naive_bayes, random_circuit
from gspn.circuits.structure import walk
from gspn.circuits.templates import CompiledCircuit, NaiveBayes, Template, compile_template


def by_definition(
    template: Template, schema: Schema, log_densities: list[Tensor], log_prior: Tensor
) -> tuple[Tensor, Tensor]:
    """log R and the posteriors, unit by unit: h_j = r_j π_j B_j / S_j + (1 − r_j) π_j, r_j = ∂ log R / ∂ log S_j."""
    rows = len(log_prior)
    order = list(walk(template.structure))
    number = {id(unit): j for j, unit in enumerate(unit for unit in order if isinstance(unit, Sum))}
    column = {
        id(unit): i
        for name in schema.names
        for i, unit in enumerate(u for u in order if isinstance(u, Leaf) and u.attributes == (name,))
    }
    nudges = torch.zeros(rows, template.num_sum_units, dtype=log_prior.dtype, requires_grad=True)
    done: dict[int, Tensor] = {}
    branches: dict[int, Tensor] = {}

    def value(unit: Unit) -> Tensor:
        if id(unit) in done:
            return done[id(unit)]
        if isinstance(unit, Leaf):
            result = log_densities[schema.index(unit.attributes[0])][:, column[id(unit)]]
        elif isinstance(unit, Sum):
            j = number[id(unit)]
            branches[j] = torch.stack([value(child) for child in unit.children], dim=1) + log_prior[:, j]
            result = torch.logsumexp(branches[j], dim=1) + nudges[:, j]
        else:
            result = torch.stack([value(child) for child in unit.children]).sum(0)
        done[id(unit)] = result
        return result

    root = value(template.structure)
    (reached,) = torch.autograd.grad(root.sum(), nudges, create_graph=True)
    shares = torch.stack([torch.softmax(branches[j], dim=1) for j in range(template.num_sum_units)], dim=1)
    r = reached.unsqueeze(-1)
    return root, r * shares + (1 - r) * log_prior.exp()


# Naive Bayes, in both forms.


@pytest.mark.parametrize("schema", [SCHEMA, PAIR, Schema([Binary("b")])], ids=len)
@pytest.mark.parametrize("num_states", [1, 2, 7])
def test_a_compiled_naive_bayes_is_naive_bayes(schema: Schema, num_states: int) -> None:
    """Values, posteriors and the gradients of both with respect to everything that goes in."""
    plain, circuit = NaiveBayes(schema, num_states), CompiledCircuit(naive_bayes(schema, num_states), schema)
    assert plain.leaf_counts == circuit.leaf_counts
    assert plain.num_sum_units == circuit.num_sum_units == 1
    results: list[list[Tensor]] = []
    for template in (plain, circuit):
        log_densities, log_prior = draw(template, 6)
        inputs: list[Tensor] = [value.requires_grad_() for value in (*log_densities, log_prior)]
        joined = template.join(inputs[:-1])
        log_value, posterior = template.log_value(joined, inputs[-1]), template.posterior(joined, inputs[-1])
        weights = torch.randn(posterior.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        of_value = torch.autograd.grad(log_value.sum(), inputs, retain_graph=True)
        of_posterior = torch.autograd.grad((weights * posterior).sum(), inputs)
        results.append([log_value, posterior, *of_value, *of_posterior])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=EXACT, atol=EXACT)


def test_naive_bayes_is_a_mixture_of_products() -> None:
    """Never a product of mixtures: two attributes that each fit another state fit none together."""
    template = NaiveBayes(PAIR, 2)
    far = -50.0
    log_densities = [torch.tensor([[0.0, far]]), torch.tensor([[far, 0.0]])]
    log_prior = torch.tensor([[[0.25, 0.75]]]).log()
    joined = template.join(log_densities)
    torch.testing.assert_close(template.log_value(joined, log_prior), torch.tensor([far]))
    torch.testing.assert_close(template.posterior(joined, log_prior), torch.tensor([[[0.25, 0.75]]]))


def test_nothing_given_is_naive_bayes() -> None:
    assert isinstance(compile_template(None, PAIR, 2), NaiveBayes)
    root = naive_bayes(PAIR, 2)
    template = compile_template(root, PAIR, 2)
    assert isinstance(template, CompiledCircuit)
    assert template.structure is root


# Compiled circuits against the definition.


@over_circuits
def test_values_and_posteriors_are_those_of_the_definition(name: str) -> None:
    template = compiled(name)
    log_densities, log_prior = draw(template, 20)
    log_value, posterior = by_definition(template, CIRCUITS[name][0], log_densities, log_prior)
    joined = template.join(log_densities)
    torch.testing.assert_close(template.log_value(joined, log_prior), log_value, rtol=EXACT, atol=EXACT)
    torch.testing.assert_close(template.posterior(joined, log_prior), posterior, rtol=EXACT, atol=EXACT)


@over_circuits
def test_gradients_are_those_of_the_definition(name: str) -> None:
    template = compiled(name)
    log_densities, log_prior = draw(template, 5)
    inputs: list[Tensor] = [value.requires_grad_() for value in (*log_densities, log_prior)]
    joined = template.join(inputs[:-1])
    log_value, posterior = by_definition(template, CIRCUITS[name][0], inputs[:-1], inputs[-1])
    weights = torch.randn(posterior.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for ours, theirs in (
        (template.log_value(joined, inputs[-1]).sum(), log_value.sum()),
        ((weights * template.posterior(joined, inputs[-1])).sum(), (weights * posterior).sum()),
    ):
        found = torch.autograd.grad(ours, inputs, retain_graph=True)
        expected = torch.autograd.grad(theirs, inputs, retain_graph=True)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=EXACT, atol=EXACT)


@settings(max_examples=40)
@given(st.data())
def test_random_circuits_against_the_definition(data: st.DataObject) -> None:
    num_states = data.draw(st.integers(1, 4))
    schema = Schema([Binary(f"x{i}") for i in range(data.draw(st.integers(1, 7)))])
    root = random_circuit(
        schema,
        num_states,
        depth=data.draw(st.integers(0, 3)),
        repetitions=data.draw(st.integers(1, num_states)),
        seed=data.draw(st.integers(0, 999)),
    )
    template = CompiledCircuit(root, schema)
    log_densities, log_prior = draw(template, 4, scale=data.draw(st.sampled_from([0.1, 3.0, 100.0])))
    log_value, posterior = by_definition(template, schema, log_densities, log_prior)
    joined = template.join(log_densities)
    # Log-values reach 1000 here, and a posterior inherits their absolute rounding.
    torch.testing.assert_close(template.log_value(joined, log_prior), log_value, rtol=EXACT, atol=EXACT)
    torch.testing.assert_close(template.posterior(joined, log_prior), posterior, rtol=0, atol=1e-11)


def test_sums_and_leaves_are_numbered_as_written() -> None:
    """The order in which priors, posteriors and leaf parameters are stored and exchanged."""
    root = inner_sums()
    template = CompiledCircuit(root, SCHEMA)
    written = list(walk(root))
    assert [id(unit) for unit in template.sums] == [id(unit) for unit in written if isinstance(unit, Sum)]
    assert template.sums[0] is root
    for name, leaves in zip(SCHEMA.names, template.leaves_of, strict=True):
        own = [unit for unit in written if isinstance(unit, Leaf) and unit.attributes[0] == name]
        assert [id(leaf) for leaf in leaves] == [id(leaf) for leaf in own]
    assert template.leaf_counts == tuple(len(leaves) for leaves in template.leaves_of)
    assert template.leaf_counts[0] == 1 + C  # the shared leaf counts once


# Posteriors are distributions, always.


@over_circuits
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e6])
def test_posteriors_are_distributions(name: str, dtype: torch.dtype, scale: float) -> None:
    """Non-negative and of sum 1 however extreme the densities; sharp priors included."""
    template = compiled(name)
    log_densities, log_prior = draw(template, 200, scale=scale, dtype=dtype)
    log_prior = torch.log_softmax(log_prior * torch.logspace(0, 1.5, 200, dtype=dtype)[:, None, None], dim=-1)
    joined = template.join(log_densities)
    posterior = template.posterior(joined, log_prior)
    assert posterior.shape == (200, template.num_sum_units, C)
    assert posterior.dtype == dtype
    assert (posterior >= 0).all()
    # A handful of roundings.
    np.testing.assert_allclose(posterior.sum(-1).double().numpy(), 1, rtol=0, atol=10 * torch.finfo(dtype).eps)
    assert torch.isfinite(template.log_value(joined, log_prior)).all()


@over_circuits
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("extreme", [-1e6, 1e6, -1e30])
def test_extreme_densities_give_finite_gradients(name: str, dtype: torch.dtype, extreme: float) -> None:
    """All densities alike and extreme: the priors decide, and nothing becomes infinite or NaN on the way back."""
    template = compiled(name)
    log_densities, log_prior = draw(template, 4, scale=0.0, dtype=dtype)
    joined = (template.join(log_densities) + extreme).requires_grad_()
    log_prior.requires_grad_()
    posterior = template.posterior(joined, log_prior)
    weights = torch.randn(posterior.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    (template.log_value(joined, log_prior).sum() + (weights * posterior).sum()).backward()
    assert joined.grad is not None
    assert log_prior.grad is not None
    assert torch.isfinite(joined.grad).all()
    assert torch.isfinite(log_prior.grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_unit_that_is_not_reached_keeps_its_prior(dtype: torch.dtype) -> None:
    """State 0 is impossible, so the sum inside it hears nothing of the evidence; the one inside state 1 hears all."""
    schema = Schema([Binary("a"), Binary("b")])
    inside = [Sum(Leaf("b"), Leaf("b")) for _ in range(2)]
    template = CompiledCircuit(Sum(*(Product(Leaf("a"), unit) for unit in inside)), schema)
    log_a = torch.tensor([[-1e6, 0.0]], dtype=dtype)
    log_b = torch.tensor([[0.9, 0.1, 0.9, 0.1]], dtype=dtype).log()
    log_prior = torch.tensor([[[0.5, 0.5], [0.3, 0.7], [0.3, 0.7]]], dtype=dtype).log()
    root, unreached, reached = template.posterior(template.join([log_a, log_b]), log_prior)[0]
    assert torch.equal(root, torch.tensor([0.0, 1.0], dtype=dtype))
    assert torch.equal(unreached, log_prior[0, 1].exp())
    torch.testing.assert_close(reached, torch.tensor([0.27, 0.07], dtype=dtype) / 0.34)


@over_circuits
def test_no_rows(name: str) -> None:
    template = compiled(name)
    log_densities, log_prior = draw(template, 0)
    joined = template.join(log_densities)
    assert template.log_value(joined, log_prior).shape == (0,)
    assert template.posterior(joined, log_prior).shape == (0, template.num_sum_units, C)
    plain = NaiveBayes(SCHEMA, C)
    log_densities, log_prior = draw(plain, 0)
    assert plain.posterior(plain.join(log_densities), log_prior).shape == (0, 1, C)
