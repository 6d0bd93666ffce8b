"""What notebooks show: well-formed pictures with the right numbers, for every kind of answer and for models."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graph, draw_graphs
from small_models import random_model

import gspn
from gspn import GSPN, sketches


def pictures(html: str) -> list[ET.Element]:
    """All pictures of a page, which is well formed as a whole and fetches nothing."""
    ET.fromstring(f"<all>{html}</all>")
    assert "src=" not in html
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    return [ET.fromstring(text) for text in re.findall("<svg.*?</svg>", html)]


def words(html: str) -> str:
    return unescape(re.sub("<[^>]*>", " ", html))


def test_shares_and_changes() -> None:
    html = sketches.shown("a < b", sketches.shares(["x & y", "z"], [0.75, 0.25]), sketches.changes(["u"], [-2.5]))
    shares, changes = pictures(html)
    widths = [float(bar.attrib["width"]) for bar in shares.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[0] == pytest.approx(3 * widths[1], abs=0.2)
    assert "75.0%" in words(html)
    assert "−2.5" in words(html)
    assert "x & y" in words(html)
    assert len(list(changes.iter("{http://www.w3.org/2000/svg}rect"))) == 1
    assert pictures(sketches.curve([0, 1, 2], [1.0, float("nan"), 3.0], band=(0.5, 9.0)))
    assert not pictures(sketches.curve([], []))
    assert pictures(sketches.changes(["a", "b"], [0.0, float("nan")]))


@pytest.mark.parametrize("name", EVERY_KIND.names)
def test_distributions(name: str) -> None:
    model, graph = random_model(EVERY_KIND), draw_graph(np.random.default_rng(3), 9)
    found: Any = model.conditional(graph, name)
    html = found._repr_html_()
    assert len(pictures(html)) == 6
    assert "9 distributions" in words(html)
    assert "and 3 more rows" in words(html)
    alone = found[0]._repr_html_()
    assert "1 distribution" in words(alone)
    assert "more rows" not in words(alone)
    if hasattr(found, "probs"):
        assert f"{found[0].probs.max():.1%}" in words(alone)
    else:
        assert f"mean {found[0].mean.item():.4g}" in words(alone)


def test_joints_and_answers() -> None:
    model, graph = random_model(EVERY_KIND), draw_graph(np.random.default_rng(3), 9)
    assert len(pictures(model.conditional(graph, ["charge", "element"], vertices=[2])._repr_html_())) == 2
    element: Any = EVERY_KIND["element"]
    code = int(graph.x[0, 1].nan_to_num(0))
    answer = model.what_if(graph, {0: {"element": element.categories[(code + 1) % 3]}})
    html = answer._repr_html_()
    assert len(pictures(html)) == 1
    vertex = int(answer.change.abs().argmax())
    assert f"vertex {vertex}" in words(html)
    assert str(answer).splitlines()[0] in words(html)
    assert "no vertex changes" in words(model.what_if(graph)._repr_html_())


def test_models() -> None:
    graphs = draw_graphs(8, seed=1)
    model: Any = GSPN(EVERY_KIND, num_layers=2, num_states=2, epochs=3)
    assert "not fitted" in words(model._repr_html_())
    model.fit(graphs[:6], validation=graphs[6:], progress=False)
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == repr(model)
    assert len(pictures(bundle["text/html"])) == 2
    assert f"validation loss, by epoch: last {model.history_[-1]['validation']:.4g}" in words(bundle["text/html"])
    assert "found at fit" in words(GSPN()._repr_html_())
    stack = gspn.Stack([model, model], [0.25, 0.75])._repr_html_()
    assert "75.0%" in words(stack)
    assert torch.is_grad_enabled()
