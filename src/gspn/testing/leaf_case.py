"""What a leaf family is tried on: known parameters, an independent density, and places to integrate over.

The density is the proof: it is written by whoever brings the family, in plain Python or scipy, from the parameters as
people read them, and shares no code with the family. What is compared with it is the business of the suite.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.attributes import Attribute, Binary, Categorical
from gspn.circuits import Context, Evidence, Leaves, leaves_for
from gspn.circuits.leaves import Natural, at_level, with_atoms
from gspn.circuits.leaves.gaps import with_gaps
from gspn.testing import oracle

Array: TypeAlias = NDArray[np.float64]

Code: TypeAlias = str
"""Of an entry: "observed", "missing" or "hidden"."""


@dataclass(frozen=True)
class LeafCase:
    """A family with parameters that are known.

    Parameters
    ----------
    family:
        The name under which it is registered.
    attributes:
        Its scope.
    exported:
        Parameters by name, in users' units, [levels][leaves]…, at least two of each.
    density:
        The log-density of one leaf, as the oracle takes it: a function of (its parameters, the values of the scope or
        None where unknown, their codes, the context or None). Unknown values are summed out.
    contexts:
        For families with a context: rows of equal width to try, None for a row that has received nothing.
    units:
        Centre and spread by attribute, for families that measure in units of the data.
    around:
        By continuous attribute: where the leaves are, and the scale of the narrowest. Integrals run over a grid that is
        dense there and reaches far out.
    counts:
        Up to which counts are summed.
    build:
        Instead of the registered family: gives the leaves, called as `register_leaf` says.
    tied_slopes:
        For families that may have a context: whether all leaves of a level depend on it alike.
    steps:
        How often an estimate may be repeated before it has to be the best; every time it must not be worse. By default
        once; a hundred times with a context, where families may make the steps of generalised EM, and over several
        attributes, where gaps make an estimate a step of EM itself.
    atoms:
        By continuous attribute: values that have a mass of their own, which the family is given beside its density;
        none of them `around` the leaves' very centres, where the grid of integrals has a point.
    gaps:
        "informative" for the family with probabilities of gaps around it, parameters "gaps".
    """

    family: str
    attributes: Sequence[Attribute]
    exported: Mapping[str, Any] = field(repr=False)
    density: oracle.Density = field(repr=False)
    contexts: Sequence[Sequence[float] | None] = ()
    units: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    around: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    counts: int = 400
    build: Callable[..., Leaves] | None = None
    tied_slopes: bool = True
    steps: int | None = None
    atoms: Mapping[str, Sequence[float]] = field(default_factory=dict)
    gaps: str = "ignorable"

    def parameters(self) -> dict[str, Tensor]:
        return {key: torch.as_tensor(value, dtype=torch.float64) for key, value in self.exported.items()}

    @property
    def shape(self) -> tuple[int, int]:
        """Levels and leaves."""
        levels, leaves = next(iter(self.parameters().values())).shape[:2]
        return levels, leaves

    @property
    def context_width(self) -> int:
        return max((len(row) for row in self.contexts if row is not None), default=0)

    # The family.

    def empty(self, dtype: torch.dtype = torch.float64) -> Leaves:
        """With random parameters."""
        levels, leaves = self.shape
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            if self.build is None:
                made = leaves_for(
                    self.attributes,
                    levels,
                    leaves,
                    family=self.family,
                    context_width=self.context_width,
                    tied_slopes=self.tied_slopes,
                    atoms=self.atoms,
                    gaps=self.gaps,
                )
            elif self.context_width:
                made = self.build(self.attributes, levels, leaves, context_width=self.context_width)
            else:
                made = self.build(self.attributes, levels, leaves)
            if self.build is not None:
                made = with_gaps(with_atoms(made, self.atoms), self.gaps)
        return made.to(dtype)

    def leaves(self, dtype: torch.dtype = torch.float64) -> Leaves:
        """With the known parameters."""
        made = self.empty(dtype)
        given = made.check_exported(self.parameters(), made.num_levels)
        made.assign_units(dict(self.units), given, fitted=False)
        made.assign(given)
        return made

    # What the independent density says.

    def expected(
        self,
        exported: Natural,
        level: int,
        leaf: int,
        values: Sequence[float | None],
        codes: Sequence[Code],
        context: Sequence[float] | None = None,
    ) -> float:
        own = {key: value[level, leaf].numpy() for key, value in exported.items()}
        plain = {key: float(value) if value.ndim == 0 else value for key, value in own.items()}
        return self.density(plain, values, codes, context)

    # Rows to try.

    def places(self, attribute: Attribute) -> list[float]:
        """A few values: in the middle, at both sides, far out."""
        if isinstance(attribute, Categorical):
            return [float(code) for code in range(len(attribute.categories))]
        if isinstance(attribute, Binary):
            return [0.0, 1.0]
        if attribute.kind == "count":
            return [0.0, 1.0, 2.0, 5.0, 17.0]
        center, scale = self.around.get(attribute.name, (0.0, 1.0))
        return [center + scale * step for step in (-8.0, -1.3, 0.0, 0.4, 2.0, 11.0)] + self.atoms_of(attribute)

    def atoms_of(self, attribute: Attribute) -> list[float]:
        return sorted(self.atoms.get(attribute.name, []))

    def rows(self) -> Iterator[tuple[list[float | None], list[Code]]]:
        """Values and codes: all known in many combinations, and every pattern of what is unknown, for two rows.

        Of a value that is known, the code may say missing or hidden: then it was put in to ask how likely it is.
        """
        complete = list(itertools.product(*map(self.places, self.attributes)))
        for values in complete:
            yield list(values), ["observed"] * len(values)
        states: list[tuple[bool, Code]] = [(True, "observed")]
        states += [(known, code) for code in ("missing", "hidden") for known in (False, True)]
        for row in (complete[len(complete) // 3], complete[-2]):
            for pattern in itertools.product(states, repeat=len(row)):
                kept = [value if known else None for value, (known, _) in zip(row, pattern, strict=True)]
                yield kept, [code for _, code in pattern]

    def levels(self, leaves: Leaves) -> Iterator[tuple[int, Natural, Sequence[float] | None, bool]]:
        """Level, its parameters, a context and whether one is given at all: level 0 has none."""
        natural = leaves.natural()
        for level in range(leaves.num_levels):
            own = at_level(natural, level)
            if not self.contexts or level == 0:
                yield level, own, None, False
            else:
                for context in self.contexts:
                    yield level, own, context, True

    def context_of(self, row: Sequence[float] | None, given: bool, rows: int, dtype: torch.dtype) -> Context | None:
        """The same context for all rows, as leaves are given it."""
        if not given:
            return None
        mean = torch.tensor([0.0] * self.context_width if row is None else list(row), dtype=torch.float64)
        return Context(mean.to(dtype).expand(rows, -1), torch.full((rows,), row is not None))

    # Integrals.

    def grid(self, attribute: Attribute, points: int) -> tuple[Array, Array]:
        """Values that carry all the probability, and their weights in an integral (1 of discrete ones and atoms)."""
        if isinstance(attribute, Categorical | Binary) or attribute.kind == "count":
            size = self.counts if attribute.kind == "count" else len(self.places(attribute))
            return np.arange(size, dtype=np.float64), np.ones(size)
        center, scale = self.around.get(attribute.name, (0.0, 1.0))
        # Trapezoids in t with x = centre + scale · sinh t: exact to many digits also where tails are powers of x.
        t, step = np.linspace(-35.0, 35.0, points, retstep=True)
        places, atoms = center + scale * np.sinh(t), np.array(self.atoms_of(attribute), dtype=np.float64)
        assert not np.isin(places, atoms).any(), f"an atom of '{attribute.name}' is a place of the integrals"
        return np.append(places, atoms), np.append(scale * np.cosh(t) * step, np.ones(len(atoms)))


def evidence_of(rows: Sequence[tuple[Sequence[float | None], Sequence[Code]]]) -> Evidence:
    """Rows of values and codes as leaves are given them."""
    x = torch.tensor(
        [[math.nan if value is None else value for value in values] for values, _ in rows], dtype=torch.float64
    )
    hidden = torch.tensor([[code == "hidden" for code in codes] for _, codes in rows])
    missing = torch.tensor([[code == "missing" for code in codes] for _, codes in rows])
    return Evidence(x, hidden, missing)


def observed(x: Tensor) -> Evidence:
    """Values [n, attributes] without gaps."""
    return Evidence(x, torch.zeros_like(x, dtype=torch.bool), torch.zeros_like(x, dtype=torch.bool))
