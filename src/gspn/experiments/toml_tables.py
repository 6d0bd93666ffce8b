"""What tables of TOML files are read into: known keys, values of the right kinds, none of the needed ones missing."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator


class TomlTable(BaseModel):
    """A table with these keys and no others. Nothing is converted: records say what stands in the file."""

    model_config = ConfigDict(frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, table: Any) -> Any:
        if isinstance(table, dict) and (unknown := sorted({*table} - {*cls.model_fields})):
            known = ", ".join(cls.model_fields) or "none"
            raise ValueError(f"unknown key {', '.join(unknown)}; known are {known}")
        return table


def _check_finite(value: JsonValue) -> JsonValue:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise ValueError(f"numbers must be finite, got {value!r}") from None
    return value


Setting = Annotated[JsonValue, AfterValidator(_check_finite)]
"""What records can hold: text, finite numbers, true, false, lists and tables of them. TOML has dates, too."""
Settings = dict[str, Setting]
Share = Annotated[float, Field(gt=0, lt=1)]
