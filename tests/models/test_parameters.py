"""Parameters by name in the users' units: out and back in, and refused as a whole if anything is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from nested import Change, alter, drop, put
from small_graphs import EVERY_KIND, draw_graphs
from torch import Tensor
from torch_geometric.data import Data

from gspn import GSPN, Continuous, Schema
from gspn.circuits import random_circuit
from gspn.errors import InputError, NotFittedError

GRAPHS = draw_graphs(8, seed=0, edge_types=2)

VARIANTS: dict[str, dict[str, Any]] = {
    "naive Bayes": {},
    "circuit": {"template": random_circuit(EVERY_KIND, 3, depth=2, repetitions=2, seed=3)},
    "mean shortcut": {"shortcut": "mean"},
    "learned shortcut": {"shortcut": "learned"},
    "edge types": {"num_edge_types": 2},
    "one level": {"num_layers": 1},
}


def make(**arguments: Any) -> GSPN:
    return GSPN(EVERY_KIND, **{"num_layers": 3, "num_states": 3, "epochs": 2, "seed": 1} | arguments)


def flat(parameters: Any, name: str = "") -> dict[str, Tensor]:
    """All tensors of the nested form, by their path."""
    if isinstance(parameters, Tensor):
        return {name: parameters}
    return {path: t for key, value in parameters.items() for path, t in flat(value, f"{name}/{key}").items()}


def assert_close(found: Any, expected: Any, tolerance: float) -> None:
    """Relative to each tensor's largest magnitude."""
    ours, theirs = flat(found), flat(expected)
    assert set(ours) == set(theirs)
    for name, value in ours.items():
        size = theirs[name].abs().max().item() if theirs[name].numel() else 0.0
        torch.testing.assert_close(value, theirs[name], rtol=0, atol=tolerance * size, msg=f"{name} differs")


# Out and in.


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_parameters_come_back(variant: str, dtype: torch.dtype, tolerance: float) -> None:
    """Into a fitted model with other weights and units, and into one that was never fitted."""
    model = make(**VARIANTS[variant]).to(dtype).fit(GRAPHS)
    parameters = model.get_parameters()
    assert all(value.dtype == torch.float64 for value in flat(parameters).values())
    fitted = make(**VARIANTS[variant], seed=2).to(dtype).fit(draw_graphs(5, seed=9, edge_types=2, center=300.0))
    for other in (fitted, make(**VARIANTS[variant], seed=2).to(dtype)):
        assert other.set_parameters(parameters) is other
        assert_close(other.get_parameters(), parameters, tolerance)
        for ours, theirs in zip(other.log_likelihood(GRAPHS), model.log_likelihood(GRAPHS), strict=True):
            # Log-likelihoods are sums of up to some tens of terms that depend on the parameters.
            torch.testing.assert_close(ours, theirs, rtol=0, atol=300 * tolerance)


@pytest.mark.parametrize("variant", VARIANTS)
def test_shapes_are_the_documented_ones(variant: str) -> None:
    model = make(**VARIANTS[variant])
    levels, states = model.num_layers, model.num_states
    sums, types = model.hierarchy.template.num_sum_units, model.num_edge_types
    leaves = dict(zip(EVERY_KIND.names, model.hierarchy.template.leaf_counts, strict=True))
    parameters = model.get_parameters()
    shapes = {name: tuple(value.shape) for name, value in flat(parameters).items()}
    expected: dict[str, tuple[int, ...]] = {
        "/prior": (sums, states),
        "/transitions": (levels - 1, types, sums, states, states),
        "/leaves/charge/mean": (levels, leaves["charge"]),
        "/leaves/charge/std": (levels, leaves["charge"]),
        "/leaves/element/probs": (levels, leaves["element"], 3),
        "/leaves/aromatic/probs": (levels, leaves["aromatic"]),
        "/leaves/hydrogens/rate": (levels, leaves["hydrogens"]),
        "/leaves/degree/mean": (levels, leaves["degree"]),
        "/leaves/degree/dispersion": (levels, leaves["degree"]),
        "/units/charge": (2,),
    }
    if model.shortcut:
        expected["/shortcut"] = (levels - 1,)
    assert shapes == expected


def test_exported_numbers_are_copies() -> None:
    model = make().double().fit(GRAPHS)
    before = copy.deepcopy(model.state_dict())
    for value in flat(model.get_parameters()).values():
        value.fill_(0.5)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_arrays_and_lists_are_as_good_as_tensors() -> None:
    model = make().double().fit(GRAPHS)
    parameters = model.get_parameters()

    def convert(value: Any, how: Callable[[Tensor], Any]) -> Any:
        return how(value) if isinstance(value, Tensor) else {k: convert(v, how) for k, v in value.items()}

    for how in (Tensor.numpy, Tensor.tolist):
        other = make(seed=2).double().set_parameters(convert(parameters, how))
        assert_close(other.get_parameters(), parameters, 1e-12)


def test_set_parameters_make_an_unfitted_model_usable() -> None:
    """Also without units: those only say in what the weights are kept."""
    model = make().double().fit(GRAPHS)
    parameters = model.get_parameters()
    del parameters["units"]
    other = make(seed=2).double()
    with pytest.raises(NotFittedError):
        other.log_likelihood(GRAPHS[0])
    other.set_parameters(parameters)
    torch.testing.assert_close(other.log_likelihood(GRAPHS[0]), model.log_likelihood(GRAPHS[0]), rtol=0, atol=1e-10)
    assert_close(other.get_parameters()["leaves"], parameters["leaves"], 1e-12)


def test_a_fitted_model_keeps_its_units_where_none_are_given() -> None:
    model = make().double().fit(GRAPHS)
    parameters = model.get_parameters()
    units = parameters.pop("units")
    parameters["leaves"]["charge"]["mean"] += 5.0
    model.set_parameters(parameters)
    assert torch.equal(model.get_parameters()["units"]["charge"], units["charge"])
    assert_close(model.get_parameters()["leaves"], parameters["leaves"], 1e-12)


@pytest.mark.parametrize("shortcut", ["mean", "learned"])
def test_the_row_that_a_shortcut_determines_may_be_left_out(shortcut: str) -> None:
    model = make(shortcut=shortcut).double().fit(GRAPHS)
    parameters = model.get_parameters()
    without_root = copy.deepcopy(parameters)
    without_root["leaves"] = {a: {k: v[:-1] for k, v in by.items()} for a, by in parameters["leaves"].items()}
    other = make(shortcut=shortcut, seed=2).double().set_parameters(without_root)
    assert_close(other.get_parameters(), parameters, 1e-12)
    if shortcut == "mean":
        del without_root["shortcut"]
        assert_close(make(shortcut="mean").double().set_parameters(without_root).get_parameters(), parameters, 1e-12)


def test_weights_against_the_mean_shortcut_are_refused() -> None:
    """They cannot be set, so they must not seem to be."""
    parameters = make(shortcut="mean").double().fit(GRAPHS).get_parameters()
    parameters["shortcut"] = torch.tensor([0.9, 0.1])
    parameters["leaves"] = {a: {k: v[:-1] for k, v in by.items()} for a, by in parameters["leaves"].items()}
    with pytest.raises(InputError, match="shortcut"):
        make(shortcut="mean").double().set_parameters(parameters)


def test_parameters_of_a_float64_model_fit_a_float32_model() -> None:
    """Large numbers that nearly cancel in the root: rounding is measured in the units of the data."""
    schema = Schema([Continuous("mass")])
    double = GSPN(schema, num_layers=3, num_states=1, shortcut="mean").double()
    leaves = {"mass": {"mean": [[1e6 + 0.3], [-1e6]], "std": [[1e6], [1e6]]}}
    units = {"mass": [0.0, 1e6]}
    transitions = torch.ones(2, 1, 1, 1, 1)
    double.set_parameters({"prior": [[1.0]], "transitions": transitions, "leaves": leaves, "units": units})
    exported = double.get_parameters()
    single = GSPN(schema, num_layers=3, num_states=1, shortcut="mean").set_parameters(exported)
    assert_close(single.get_parameters()["leaves"], exported["leaves"], 1e-5)


# Users' units.


def shifted(center: float, spread: float) -> list[Data]:
    """The graphs with charges of the given mean and deviation."""
    charges = torch.cat([graph.x[:, 0] for graph in GRAPHS])
    mean, deviation = charges.nanmean(), (charges - charges.nanmean()).square().nanmean().sqrt()
    graphs = [graph.clone() for graph in GRAPHS]
    for graph in graphs:
        graph.x[:, 0] = center + spread * (graph.x[:, 0] - mean) / deviation
    return graphs


def test_parameters_are_in_the_users_units() -> None:
    model = make(epochs=10).fit(shifted(1e4, 50.0))
    charge = model.get_parameters()["leaves"]["charge"]
    assert charge["mean"].shape == charge["std"].shape == (3, 3)
    # The two kinds of vertices lie about one deviation to either side; no state has any reason to leave the data.
    assert ((charge["mean"] - 1e4).abs() < 4 * 50).all()
    assert (charge["std"] >= 1e-3 * 50 * (1 - 1e-6)).all()
    assert (charge["std"] < 4 * 50).all()
    torch.testing.assert_close(
        model.get_parameters()["units"]["charge"], torch.tensor([1e4, 50.0], dtype=torch.float64), rtol=1e-9, atol=0
    )


def test_one_state_starts_at_mean_and_deviation_of_the_data() -> None:
    model = make(num_layers=1, num_states=1, epochs=0).double().fit(shifted(1e4, 50.0))
    charge = model.get_parameters()["leaves"]["charge"]
    assert charge["mean"].item() == pytest.approx(1e4, rel=1e-12)
    assert charge["std"].item() == pytest.approx(50.0, rel=1e-9)


def test_a_density_can_be_read_off_the_exported_parameters() -> None:
    model = make(num_layers=1, num_states=1, epochs=1).double().fit(shifted(1e4, 50.0))
    charge = model.get_parameters()["leaves"]["charge"]
    value = 10_123.0
    graph = Data(x=torch.tensor([[value] + [torch.nan] * 4], dtype=torch.float64))
    normal = torch.distributions.Normal(charge["mean"].squeeze(), charge["std"].squeeze())
    assert model.log_likelihood(graph).item() == pytest.approx(normal.log_prob(torch.tensor(value)).item(), rel=1e-12)


# Refused.


def with_first(number: float) -> Callable[[Tensor], Tensor]:
    """The same tensor with another number at the first position."""
    return lambda value: value.flatten().index_fill(0, torch.tensor([0]), number).reshape(value.shape)


def at_the_root(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda value: torch.cat([value[:-1], factor * value[-1:]])


LEAVES = "leaves"
PROBS = (LEAVES, "element", "probs")

REFUSED: dict[str, tuple[Change, str]] = {
    "unknown name": (put("weights", value=torch.ones(1)), "must be named .*prior.*got .*weights"),
    "missing name": (drop("prior"), "must be named"),
    "missing shortcut": (drop("shortcut"), "must be named .*shortcut"),
    "missing attribute": (drop(LEAVES, "element"), "'leaves' must have the attributes .*element"),
    "unknown attribute": (put(LEAVES, "mass", value={}), "'leaves' must have the attributes .*got .*mass"),
    "missing leaf parameter": (drop(LEAVES, "charge", "std"), r"leaves of 'charge' need \['mean', 'std'\]"),
    "unknown leaf parameter": (put(LEAVES, "charge", "scale", value=torch.ones(3, 3)), "leaves of 'charge' need"),
    "no leaf parameters": (put(LEAVES, "charge", value={}), "leaves of 'charge' need"),
    "leaves that are no mapping": (put(LEAVES, "charge", value=[1.0]), "charge"),
    "shape of prior": (alter("prior", by=Tensor.flatten), r"'prior' has shape \[3\] instead of \[1, 3\]"),
    "shape of transitions": (alter("transitions", by=lambda t: t[:1]), "'transitions' has shape"),
    "shape of shortcut": (put("shortcut", value=torch.ones(1)), r"'shortcut' has shape \[1\] instead of \[2\]"),
    "shape of leaves": (alter(LEAVES, "charge", "mean", by=lambda t: t[:, :2]), "'charge': 'mean' has shape"),
    "too few levels": (alter(*PROBS, by=lambda t: t[:1]), "'element': 'probs' has shape"),
    "too many levels": (alter(*PROBS, by=lambda t: torch.cat([t, t])), "'element': 'probs' has shape"),
    "prior not normalised": (alter("prior", by=lambda t: t * 1.1), "'prior' must be non-negative and sum to 1"),
    "prior negative": (put("prior", value=torch.tensor([[1.5, -0.5, 0.0]])), "'prior' must be non-negative"),
    "prior NaN": (alter("prior", by=lambda t: t * torch.nan), "'prior' must be non-negative and sum to 1"),
    "transitions transposed": (alter("transitions", by=lambda t: t.mT.contiguous()), "'transitions' must be"),
    "shortcut not normalised": (put("shortcut", value=torch.tensor([0.9, 0.9])), "'shortcut' must be non-negative"),
    "probabilities not normalised": (alter(*PROBS, by=lambda t: t * 0.9), "'element': 'probs' must be non-negative"),
    "probabilities negative": (alter(*PROBS, by=lambda t: 2 / 3 - t), "'element': 'probs' must be non-negative"),
    "probability above 1": (alter(LEAVES, "aromatic", "probs", by=lambda t: t + 1), "'aromatic': 'probs' must be bet"),
    "rate negative": (alter(LEAVES, "hydrogens", "rate", by=torch.neg), "'hydrogens': 'rate' must be non-negative"),
    "mean of counts negative": (alter(LEAVES, "degree", "mean", by=torch.neg), "'degree': 'mean' must be non-negative"),
    "no dispersion": (alter(LEAVES, "degree", "dispersion", by=with_first(0.0)), "'degree': 'dispersion' must be"),
    "mean infinite": (alter(LEAVES, "charge", "mean", by=with_first(torch.inf)), "'charge': 'mean' must be finite"),
    "std NaN": (alter(LEAVES, "charge", "std", by=with_first(torch.nan)), "'charge': 'std' must be finite"),
    "std below the floor": (alter(LEAVES, "charge", "std", by=with_first(1e-4)), "'charge': 'std'"),
    "std zero": (alter(LEAVES, "charge", "std", by=with_first(0.0)), "'charge': 'std' must be "),
    "std negative": (alter(LEAVES, "charge", "std", by=torch.neg), "'charge': 'std' must be "),
    "root against the shortcut": (alter(LEAVES, "hydrogens", "rate", by=at_the_root(2.0)), "'rate' of the root"),
    "root's mean against it": (alter(LEAVES, "charge", "mean", by=at_the_root(1.1)), "'charge': 'mean' of the root"),
    "spread of 0": (put("units", "charge", value=torch.tensor([0.0, 0.0])), "units of 'charge' must be a finite"),
    "spread NaN": (put("units", "charge", value=torch.tensor([0.0, torch.nan])), "units of 'charge' must be a finite"),
    "centre infinite": (put("units", "charge", value=[torch.inf, 1.0]), "units of 'charge' must be a finite"),
    "three units": (put("units", "charge", value=torch.ones(3)), "units of 'charge'"),
    "one unit": (put("units", "charge", value=1.0), "units of 'charge'"),
    "units of what has none": (put("units", "element", value=torch.ones(2)), "element"),
    "units that are no mapping": (put("units", value=torch.ones(2)), "units"),
    "text as numbers": (put(LEAVES, "degree", "mean", value="many"), "'degree': 'mean'|degree"),
    "text as probabilities": (put("transitions", value="uniform"), "transitions"),
    "ragged lists": (put(LEAVES, "degree", "mean", value=[[1.0, 2.0, 3.0], [1.0]]), "degree"),
    "one number for all": (put(LEAVES, "degree", "mean", value=1.0), "degree"),
    "nothing": (put(LEAVES, "degree", "mean", value=None), "degree"),
}


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    """Parameters without fault; all differ from those of the models to which they are given."""
    return make(shortcut="learned", seed=7).fit(draw_graphs(8, seed=5)).get_parameters()


@pytest.fixture(scope="module")
def fitted() -> GSPN:
    return make(shortcut="learned").fit(GRAPHS)


@pytest.mark.parametrize("already_fitted", [True, False], ids=["fitted", "unfitted"])
@pytest.mark.parametrize("what", REFUSED)
def test_wrong_parameters_are_refused_as_a_whole(
    what: str, already_fitted: bool, given: dict[str, Any], fitted: GSPN
) -> None:
    """Whatever was set before the fault was found would show."""
    change, message = REFUSED[what]
    parameters = copy.deepcopy(given)
    change(parameters)
    model = copy.deepcopy(fitted) if already_fitted else make(shortcut="learned")
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(InputError, match=message):
        model.set_parameters(parameters)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("already_fitted", [True, False], ids=["fitted", "unfitted"])
def test_parameters_without_fault_are_taken(already_fitted: bool, given: dict[str, Any], fitted: GSPN) -> None:
    """So that each refusal above has one reason only."""
    model = copy.deepcopy(fitted) if already_fitted else make(shortcut="learned")
    before = copy.deepcopy(model.state_dict())
    model.set_parameters(copy.deepcopy(given))
    unchanged = [name for name, value in model.state_dict().items() if torch.equal(value, before[name])]
    assert unchanged == (["_fitted"] if already_fitted else [])


def test_what_is_no_mapping_is_refused() -> None:
    for parameters in (None, 3, [("prior", 1)], np.ones(3)):
        with pytest.raises(InputError):
            make().set_parameters(parameters)  # type: ignore[arg-type]


def test_root_against_the_shortcut_is_noticed_in_small_units() -> None:
    """Lengths in metres between atoms: everything is near 1e-10, so an absolute tolerance would see nothing."""
    schema = Schema([Continuous("length")])
    model = GSPN(schema, num_layers=3, num_states=1, shortcut="mean").double()
    length = {"mean": [[1e-10], [3e-10], [9e-10]], "std": [[1e-10], [1e-10], [1e-10 / 2**0.5]]}
    parameters = {"prior": [[1.0]], "transitions": torch.ones(2, 1, 1, 1, 1), "leaves": {"length": length}}
    with pytest.raises(InputError, match="'length': 'mean' of the root is combined from the other levels"):
        model.set_parameters(parameters)
    length["mean"][-1] = [2e-10]
    model.set_parameters(parameters)
