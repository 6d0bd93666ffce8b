"""Small circuits of many shapes, and log-densities to put into them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.circuits import Leaf, Product, Sum, Unit, check_circuit, naive_bayes, random_circuit
from gspn.circuits.structure import walk
from gspn.circuits.templates import CompiledCircuit, Template

EXACT = 1e-12
C = 3
SCHEMA = Schema(
    [
        Continuous("charge"),
        Categorical("element", ["C", "N", "O", "Cl"]),
        Binary("aromatic"),
        Count("hydrogens"),
        Count("degree", distribution="negative_binomial"),
    ]
)
PAIR = Schema([Continuous("a"), Binary("b")])


def mixture(*names: str) -> Sum:
    return Sum(*(Product(*map(Leaf, names)) if len(names) > 1 else Leaf(names[0]) for _ in range(C)))


def inner_sums() -> Sum:
    """Sums below sums, one of them shared by two products, and a leaf used twice."""
    shared = mixture("aromatic", "hydrogens", "degree")
    charge = Leaf("charge")
    return Sum(
        Product(charge, Product(mixture("element"), shared)),
        Product(charge, mixture("element"), shared),
        Product(mixture("charge", "element"), mixture("aromatic"), mixture("hydrogens", "degree")),
    )


def product_of_sums() -> Product:
    return Product(mixture("charge"), mixture("element", "aromatic"), mixture("hydrogens"), mixture("degree"))


CIRCUITS: dict[str, tuple[Schema, Callable[[], Unit]]] = {
    "naive Bayes": (SCHEMA, lambda: naive_bayes(SCHEMA, C)),
    "inner sums": (SCHEMA, inner_sums),
    "product of sums": (SCHEMA, product_of_sums),
    "product above a sum alone": (PAIR, lambda: Product(mixture("a", "b"))),
    "sum over leaves": (Schema([Count("n")]), lambda: mixture("n")),
    "sum over sums and a leaf": (
        Schema([Binary("b")]),
        lambda: Sum(Sum(mixture("b"), Leaf("b"), Leaf("b")), *mixture("b").children[:2]),
    ),
    "the same child twice": (PAIR, lambda: Sum(*[Product(Leaf("a"), mixture("b"))] * 2, Product(Leaf("a"), Leaf("b")))),
    "random": (SCHEMA, lambda: random_circuit(SCHEMA, C, depth=3, repetitions=2, seed=1)),
}
over_circuits = pytest.mark.parametrize("name", CIRCUITS)


def compiled(name: str) -> CompiledCircuit:
    schema, build = CIRCUITS[name]
    root = build()
    check_circuit(root, schema, C)
    return CompiledCircuit(root, schema)


def draw(
    template: Template, rows: int, *, seed: int = 0, scale: float = 3.0, dtype: torch.dtype = torch.float64
) -> tuple[list[Tensor], Tensor]:
    """Log-densities by attribute, [rows, leaves] each, and log-priors [rows, S, C] that differ from row to row."""
    generator = torch.Generator().manual_seed(seed)
    log_densities = [
        scale * torch.randn(rows, count, generator=generator, dtype=torch.float64) for count in template.leaf_counts
    ]
    states = len(next(unit for unit in walk(template.structure) if isinstance(unit, Sum)).children)
    raw = torch.randn(rows, template.num_sum_units, states, generator=generator, dtype=torch.float64)
    return [value.to(dtype) for value in log_densities], torch.log_softmax(raw, dim=-1).to(dtype)
