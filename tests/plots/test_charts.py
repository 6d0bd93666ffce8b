"""Charts show the numbers they are given, in axes that say what they are; bad numbers are named; files are whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import torch
from refusals import refused

import gspn
from gspn.circuits import Rows
from gspn.circuits.components import Components
from gspn.circuits.distributions import CategoricalDistribution, MixtureDistribution
from gspn.circuits.leaves import GaussianLeaves
from gspn.errors import InputError
from gspn.plots.calibration import calibration, coverage
from gspn.plots.charts import Curve, bars, curves
from gspn.plots.files import save_figure, svg_text
from gspn.plots.imputed import observed_against_imputed
from gspn.plots.training import training_curves
from gspn.plots.transitions import transitions

HISTORY = [{"epoch": e, "train": 2.0 / (e + 1), "validation": 2.5 / (e + 1), "seconds": 0.1} for e in range(8)]


def words(figure: Any) -> str:
    return " ".join("".join(element.itertext()) for element in ET.fromstring(svg_text(figure)).iter() if element.text)


def gaussians(means: list[float], deviation: float = 1.0) -> MixtureDistribution:
    """One Gaussian a row, in the form that models answer."""
    leaves = GaussianLeaves(gspn.Continuous("charge"), 1, len(means))
    natural = {"mean": torch.tensor([means]), "scale": torch.full((1, len(means)), deviation)}
    weights = torch.full((len(means), len(means)), -1e9).fill_diagonal_(0.0)
    return MixtureDistribution(Components([Rows(leaves, natural)]), weights)


def test_curves_show_every_number() -> None:
    figure = curves([Curve("a", [1, 2, 4], [3, np.nan, 5], [0.1, np.nan, 0.2]), Curve("b", [1, 2, 4], [1, 2, 3])])
    (axes,) = figure.axes
    assert [np.asarray(line.get_ydata())[-1] for line in axes.lines] == [5, 3]
    assert len(axes.collections) == 1
    assert {text.get_text() for text in axes.texts} == {"a", "b"}
    assert list(axes.get_xticks()) == [1, 2, 4]


def test_dollars_are_no_formulas() -> None:
    figure = curves([Curve("$x^$", [1], [1]), Curve("b", [1], [2])], x_label="in $", y_label=r"\frac $1$", title="<b>&")
    shown = words(figure)
    assert all(text in shown for text in ("$x^$", "in $", r"\frac $1$", "<b>&"))


def test_bars_stand_in_groups_and_say_their_numbers() -> None:
    figure = bars(["NCI1", "COLLAB"], {"GSPN": [1.25, 3], "GIN": [2, np.nan]}, spread={"GSPN": [0.1, 0.2]}, y_label="s")
    shown = words(figure)
    assert all(text in shown for text in ("1.25", "3", "2", "NCI1", "COLLAB", "GSPN", "GIN", "s"))
    assert "nan" not in shown.lower()
    tops = [bar.get_window_extent().height for bar in figure.axes[0].patches]
    assert tops[1] / tops[0] == pytest.approx(3 / 1.25)


def test_training_curves_of_one_run_and_of_several() -> None:
    assert len(training_curves(HISTORY).axes) == 1
    scored = [{**epoch, "score": 0.5} for epoch in HISTORY]
    figure = training_curves({"long": scored, "short": HISTORY[:3]}, y_label="nats")
    losses, scores = figure.axes
    assert len(scores.lines) == 1
    assert losses.get_ylabel() == "nats"
    assert all(name in words(figure) for name in ("long", "short", "train", "validation"))
    without = [{"epoch": 0, "train": 1.0, "validation": None}, {"epoch": 1, "train": 0.5, "validation": None}]
    assert "validation" in words(training_curves(HISTORY))
    assert len(training_curves(without).axes[0].lines) >= 1


def test_coverage_of_honest_distributions_is_their_level() -> None:
    draws = torch.randn(2000, generator=torch.Generator().manual_seed(0)).double()
    honest = gaussians([0.0])[torch.zeros(2000, dtype=torch.long)]
    levels = [0.1, 0.5, 0.9]
    assert coverage(honest, draws, levels) == pytest.approx(levels, abs=0.04)
    assert coverage(gaussians([0.0], 3.0)[torch.zeros(2000, dtype=torch.long)], draws, levels)[1] > 0.9
    draws[:1990] = torch.nan
    shown = words(calibration({"honest": (honest, draws)}))
    assert "n = 10" in shown


def test_imputed_numbers_show_how_many_intervals_hold() -> None:
    figure = observed_against_imputed(gaussians([0.0, 1.0, 2.0]), torch.tensor([0.1, torch.nan, 9.0]), unit="e")
    shown = words(figure)
    assert "1 inside their 90% intervals" in shown
    assert "1 outside" in shown
    assert "charge (e), true" in shown


def test_imputed_categories_show_probabilities_by_true_category() -> None:
    attribute = gspn.Categorical("element", ["C", "N", "O", "Cl"])
    probs = torch.tensor([[0.9, 0.1, 0.0, 0.0], [0.7, 0.3, 0.0, 0.0], [0.25, 0.75, 0.0, 0.0]])
    figure = observed_against_imputed(CategoricalDistribution(attribute, probs.log()), ["C", "C", "N"])
    shares = figure.axes[0].images[0].get_array()
    assert shares is not None
    assert np.asarray(shares) == pytest.approx(np.array([[0.8, 0.2], [0.25, 0.75]]))
    shown = words(figure)
    assert "C (2)" in shown
    assert "100.0%" in shown
    assert "Cl" not in shown


def test_transitions_of_a_model() -> None:
    schema = gspn.Schema([gspn.Categorical("a", [0, 1])])
    parameters = gspn.GSPN(schema, num_layers=3, num_states=4).get_parameters()
    figure = transitions(parameters, title="$")
    strip, *maps, _ = figure.axes
    assert np.asarray(strip.images[0].get_array()) == pytest.approx(parameters["prior"].numpy())
    for level, axes in enumerate(maps):
        assert np.asarray(axes.images[0].get_array()) == pytest.approx(parameters["transitions"][level, 0, 0].numpy())
    assert len({axes.images[0].get_clim() for axes in (strip, *maps)}) == 1
    transitions(gspn.GSPN(schema, num_layers=1, num_states=4).get_parameters())


def test_files_are_written_whole_and_alike(tmp_path: Path) -> None:
    figure = curves([Curve("a", [1, 2], [1, 2])])
    first, second = save_figure(figure, tmp_path / "a.svg"), save_figure(figure, tmp_path / "b.SVG")
    assert first.read_bytes() == second.read_bytes()
    assert first.read_text().startswith("<svg")
    ET.fromstring(first.read_text())
    assert save_figure(figure, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert save_figure("<svg/>", tmp_path / "c.svg").read_text() == "<svg/>"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.png", "a.svg", "b.SVG", "c.svg"]


@pytest.mark.parametrize("points", [3, 40])
def test_labels_stand_beside_the_ends_of_their_curves(points: int) -> None:
    """Also where no tick has made matplotlib look for the limits: values far from 0 to 1."""
    x = np.arange(points)
    figure = curves([Curve("low", x, np.full(points, 4.0)), Curve("high", x, np.full(points, 18.0))])
    figure.draw_without_rendering()
    (axes,) = figure.axes
    places = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert 0 <= places["low"] < 0.2
    assert 0.8 < places["high"] <= 1
    width = figure.bbox.width
    assert all(text.get_window_extent().x1 <= width for text in axes.texts), "no label is cut off"


TABLE = CategoricalDistribution(gspn.Binary("a"), torch.tensor([[0.5, 0.5]]).log())
PARAMETERS = {"prior": np.full((1, 2), 0.5), "transitions": np.full((1, 1, 1, 2, 2), 0.5)}


@pytest.mark.parametrize(
    ("call", "named"),
    [
        refused("there are no curves", curves, []),
        refused("y of 'a' has 1 numbers for 2 places x", curves, [Curve("a", [1, 2], [1])]),
        refused("spread of 'a' has 1 numbers for 2", curves, [Curve("a", [1, 2], [1, 2], [1])]),
        refused("spread of 'a' is negative", curves, [Curve("a", [1, 2], [1, 2], [1, -1])]),
        refused("y of 'a' has no number, only NaN", curves, [Curve("a", [1], [np.nan])]),
        refused("x of 'a' has no number", curves, [Curve("a", [np.nan], [1])]),
        refused("x of 'a' is NaN at 1", curves, [Curve("a", [1, np.nan], [1, 2])]),
        refused("y of 'a' has an infinite value at 0", curves, [Curve("a", [1], [np.inf])]),
        refused("y has values that are not positive", curves, [Curve("a", [1], [0])], log_y=True),
        refused("x has values that are not positive", curves, [Curve("a", [0], [1])], log_x=True),
        refused("there are no bars", bars, [], {}),
        refused("heights of 'a' has 1 numbers for 2 groups", bars, ["x", "y"], {"a": [1]}),
        refused("spread is given for 'b'", bars, ["x"], {"a": [1]}, spread={"b": [1]}),
        refused("the history is empty", training_curves, []),
        refused("there are no histories", training_curves, {}),
        refused("must be a list with one dict an epoch", training_curves, "abc"),
        refused("without 'epoch'", training_curves, [{"train": 1.0}]),
        refused("no numbers under 'train'", training_curves, [{"epoch": 0, "train": float("nan")}]),
        refused("train .* infinite value", training_curves, [{"epoch": 0, "train": float("inf")}]),
        refused("history 'b' is empty", training_curves, {"a": HISTORY, "b": []}),
        refused("21 runs", training_curves, {str(i): HISTORY for i in range(21)}),
        refused("all values are missing", calibration, (gaussians([0.0]), torch.tensor([torch.nan]))),
        refused("there are 1 distributions, but 2 values", calibration, (gaussians([0.0]), torch.zeros(2))),
        refused("only continuous attributes and counts have intervals", calibration, (TABLE, torch.zeros(1))),
        refused("all values are missing", observed_against_imputed, TABLE, [None]),
        refused("'prior' must", transitions, PARAMETERS | {"prior": None}),
        refused("'transitions' must be", transitions, PARAMETERS | {"transitions": np.zeros((1, 2, 2))}),
        refused(r"end in \[1, 2, 2\]", transitions, PARAMETERS | {"transitions": np.zeros((1, 1, 1, 3, 3))}),
        refused("30 pairs of levels", transitions, PARAMETERS | {"transitions": np.zeros((30, 1, 1, 2, 2))}),
        refused("unit must be 0 … 0, got 1", transitions, PARAMETERS, unit=1),
        refused("must have 'prior' and 'transitions'", transitions, {}),
        refused("saved as .svg or .png, not as 'a.pdf'", save_figure, "<svg/>", Path("none") / "a.pdf"),
        refused("a drawing is SVG text", save_figure, "<svg/>", Path("none") / "a.png"),
        refused("there is no folder", save_figure, "<svg/>", Path("none") / "a.svg"),
    ],
)
def test_refusals(call: Callable[[], object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        call()
