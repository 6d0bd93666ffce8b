"""Models as notebooks show them: what they are, how they learned. The pictures themselves are in `sketches`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gspn import sketches

if TYPE_CHECKING:
    from gspn.models.gspn import GSPN
    from gspn.models.stack import Stack


def model_html(model: GSPN) -> str:
    """Its arguments, and the losses of its epochs."""
    history: list[dict[str, Any]] = getattr(model, "history_", None) or []
    fitted = model.__sklearn_is_fitted__()
    count = sum(parameter.numel() for parameter in model.parameters())
    rows: list[tuple[str, object]] = [
        ("attributes", "found at fit" if model.schema is None else ", ".join(model.schema.names)),
        ("levels, states", f"{model.num_layers}, {model.num_states}"),
        ("objective", model.objective),
        ("parameters", f"{count:,}"),
        ("state", f"fitted, {len(history)} epochs" if fitted and history else "fitted" if fitted else "not fitted"),
    ]
    curves = [
        sketches.curve(
            [record["epoch"] for record in history],
            [float("nan") if record.get(name) is None else float(record[name]) for record in history],
            f"{name} loss, by epoch: last {history[-1][name]:.4g}",
            dots=len(history) < 2,
        )
        for name in ("train", "validation")
        if history and history[-1].get(name) is not None
    ]
    return sketches.shown(type(model).__name__, sketches.listed(rows), *curves)


def stack_html(stack: Stack) -> str:
    """Its models, with the weight of each."""
    labels = [f"{model.num_layers} levels, {model.num_states} states" for model in stack.models]
    attributes = f"attributes: {', '.join(stack.schema.names)}"
    return sketches.shown("Stack", sketches.shares(labels, stack.weights, "weights of the models"), note=attributes)
