"""What the page may ask, as JSON: checked for form here, for meaning where it is answered."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Number = Annotated[int, Field(ge=0, lt=10**9)]
Name = Annotated[str, Field(max_length=300)]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class SetEntry(_Input):
    """One attribute of one vertex gets a value; null is unknown."""

    do: Literal["set"]
    vertex: Number
    attribute: Name
    value: Name | bool | int | float | None


class RemoveEdge(_Input):
    """An edge, in both directions where the graph has both, goes."""

    do: Literal["remove"]
    ends: Annotated[list[Number], Field(min_length=2, max_length=2)]


class AddEdge(_Input):
    """An edge comes, in both directions where all edges have both; `type` is a code."""

    do: Literal["add"]
    ends: Annotated[list[Number], Field(min_length=2, max_length=2)]
    type: Number = 0


Edit = Annotated[SetEntry | RemoveEdge | AddEdge, Field(discriminator="do")]


class Question(_Input):
    """A graph, a molecule or one of an upload, and the edits made to it, in order."""

    smiles: str | None = None
    upload: Annotated[str, Field(max_length=64)] | None = None
    graph: Number = 0
    edits: list[Edit] = []
    leave_one_out: bool = False


class EntryQuestion(Question):
    """About one attribute of one vertex of the edited graph."""

    vertex: Number
    attribute: Name
    values: Annotated[list[int | float], Field(max_length=20)] = []
    """Further values to try, for attributes without a list of them"""
