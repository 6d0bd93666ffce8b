"""The pictures of the documentation: `python docs/build/pictures.py` draws them all into docs/pictures.

Drawings that explain the method are written here; those that show results are made by `gspn.plots` from models that
are trained here, in a few minutes. The same code and seed give the same pictures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gspn.plots.colours import GRID, INK, PALETTE, PAPER, QUIET

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
BLUE, ORANGE, GREEN = PALETTE[:3]
FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


# Words of SVG.


def svg(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    background = f"<rect width='{width}' height='{height}' rx='8' fill='{PAPER}'/>"
    inside = "\n".join([f"<title>{title}</title>", background, *parts])
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
        f"role='img' {FONT}>\n{inside}\n</svg>\n"
    )


def text(
    x: float, y: float, words: str, size: float = 14, colour: str = INK, anchor: str = "middle", style: str = ""
) -> str:
    return (
        f"<text x='{x:g}' y='{y:g}' font-size='{size:g}' fill='{colour}' text-anchor='{anchor}' {style}>{words}</text>"
    )


def line(x: float, y: float, to_x: float, to_y: float, colour: str = QUIET, width: float = 1.6, dash: str = "") -> str:
    dashed = f" stroke-dasharray='{dash}'" if dash else ""
    return f"<path d='M{x:g} {y:g} L{to_x:g} {to_y:g}' stroke='{colour}' stroke-width='{width:g}' fill='none'{dashed}/>"


def arrow(x: float, y: float, to_x: float, to_y: float, colour: str = QUIET, width: float = 1.6) -> str:
    length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
    along, across = (to_x - x) / length, (to_y - y) / length
    back_x, back_y = to_x - 8 * along, to_y - 8 * across
    head = (
        f"<path d='M{to_x:g} {to_y:g} L{back_x - 4 * across:.1f} {back_y + 4 * along:.1f} "
        f"L{back_x + 4 * across:.1f} {back_y - 4 * along:.1f} Z' fill='{colour}'/>"
    )
    return line(x, y, back_x, back_y, colour, width) + head


def disc(x: float, y: float, words: str, colour: str = INK, fill: str = PAPER, radius: float = 16) -> str:
    ring = f"<circle cx='{x:g}' cy='{y:g}' r='{radius:g}' fill='{fill}' stroke='{colour}' stroke-width='2'/>"
    return ring + text(x, y + 5, words, 15, colour, style="font-weight='600'")


def bars(x: float, y: float, shares: Sequence[float], colour: str, width: float = 66, height: float = 44) -> str:
    """Shares as columns that stand on (x … x + width, y)."""
    step = width / len(shares)
    columns = "".join(
        f"<rect x='{x + step * i + 3:.1f}' y='{y - height * share:.1f}' width='{step - 6:.1f}' "
        f"height='{height * share:.1f}' fill='{colour}'/>"
        for i, share in enumerate(shares)
    )
    return columns + line(x, y, x + width, y, QUIET, 1.2)


# The method.


def unrolled_tree() -> str:
    """A graph with a cycle, and the tree of one of its vertices over three levels."""
    places = {"a": (70, 96), "b": (70, 206), "c": (160, 151), "d": (250, 151)}
    parts = [text(160, 34, "the graph", 15, QUIET)]
    parts += [line(*places[u], *places[v], INK, 2) for u, v in ("ab", "ac", "bc", "cd")]
    parts += [disc(*place, name, ORANGE if name == "a" else INK) for name, place in places.items()]

    parts.append(text(545, 34, "the tree of vertex a, three levels", 15, QUIET))
    levels = {2: 76, 1: 156, 0: 236}
    for level, y in levels.items():
        name = {2: "level 2, the root", 1: "level 1", 0: "level 0"}[level]
        parts += [line(335, y, 690, y, GRID, 1), text(700, y + 5, name, 13, QUIET, "start")]
    root, middle = (505, 76), {"b": (410, 156), "c": (600, 156)}
    below = {"b": [("a", 375), ("c", 445)], "c": [("a", 540), ("b", 600), ("d", 660)]}
    edges, discs = [], [disc(*root, "a", ORANGE)]
    for name, place in middle.items():
        edges.append(arrow(place[0], place[1], *_towards(place, root, 18)))
        discs.append(disc(*place, name))
        for child, x in below[name]:
            start = (x, levels[0])
            edges.append(arrow(*start, *_towards(start, place, 18)))
            discs.append(disc(*start, child, ORANGE if child == "a" else INK))
    parts += edges + discs
    parts.append(text(480, 284, "after two steps, a hears itself: its echo", 13, ORANGE))
    return svg(830, 304, "A graph of four vertices and the tree that is unrolled from one of them", parts)


def _towards(start: tuple[float, float], end: tuple[float, float], gap: float) -> tuple[float, float]:
    """The point that lies `gap` before the end."""
    length = ((end[0] - start[0]) ** 2 + (end[1] - start[1]) ** 2) ** 0.5
    return end[0] - gap * (end[0] - start[0]) / length, end[1] - gap * (end[1] - start[1]) / length


def one_step() -> str:
    """From the neighbours' posteriors to a prior, and with the evidence to a posterior; three states, real numbers."""
    theta = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.1, 0.3, 0.6]]
    neighbours = {"b": [0.7, 0.2, 0.1], "c": [0.1, 0.75, 0.15]}
    sent = {name: [sum(h[k] * theta[k][i] for k in range(3)) for i in range(3)] for name, h in neighbours.items()}
    prior = [sum(message[i] for message in sent.values()) / len(sent) for i in range(3)]
    density = [0.9, 0.25, 0.1]
    weights = [p * d for p, d in zip(prior, density, strict=True)]
    posterior = [weight / sum(weights) for weight in weights]

    parts = []
    for number, (name, h) in enumerate(neighbours.items()):
        y = 100 + 110 * number
        parts += [disc(36, y - 20, name), bars(70, y, h, BLUE), text(103, y + 20, "posterior h", 13, QUIET)]
        parts += [arrow(150, y - 18, 196, y - 18), bars(206, y, sent[name], BLUE), text(239, y + 20, "θᵀ h", 13, QUIET)]
        parts.append(arrow(286, y - 18, 344, 136 + 14 * number))
    parts += [text(304, 146, "mean", 13, QUIET), bars(356, 160, prior, ORANGE), text(389, 180, "prior π", 13, QUIET)]
    parts += [text(446, 146, "×", 22), bars(470, 160, density, GREEN), text(503, 180, "p(x | state)", 13, QUIET)]
    parts += [text(503, 198, "of what is observed", 13, QUIET)]
    parts += [arrow(556, 142, 606, 142), bars(620, 160, posterior, ORANGE), text(653, 180, "posterior h", 13, QUIET)]
    parts += [disc(722, 140, "a", ORANGE)]
    parts += [text(36, 34, "level ℓ − 1: the neighbours", 15, QUIET, "start")]
    parts += [text(356, 34, "level ℓ: the vertex", 15, QUIET, "start")]
    return svg(770, 252, "One step: neighbours' posteriors make a prior, the evidence turns it into a posterior", parts)


# Results.


def _molecule_model() -> Any:
    import gspn

    molecules = gspn.datasets.load("molecules", target="logp", progress=False)
    fold = molecules.splits[0]
    model = gspn.GSPN(molecules.schema, num_layers=4, num_states=16, num_edge_types=5, objective="masked", epochs=30)
    return model.fit(molecules[fold.train], validation=molecules[fold.validation], progress=False)


def what_if() -> str:
    """Two replacements in one molecule: the change at every atom."""
    import gspn
    from gspn.plots.molecules import draw_molecules

    smiles = "Clc1ccc(CNC(C)=O)cc1"
    edits = {"Cl becomes O": "Oc1ccc(CNC(C)=O)cc1", "N becomes O": "Clc1ccc(COC(C)=O)cc1"}
    model, molecule = _molecule_model(), gspn.from_smiles([smiles])[0]
    answers = []
    for edited in edits.values():
        values = model.schema.decode(gspn.from_smiles([edited])[0].x)
        changes = {v: {name: column[v] for name, column in values.items()} for v in range(molecule.num_nodes)}
        answers.append(model.what_if(molecule, changes, leave_one_out=True))
        print(edited, answers[-1])
    return draw_molecules(
        list(edits.values()),
        [answer.change for answer in answers],
        titles=[
            f"{name}: {answer.total:+.1f} nats".replace("-", "−") for name, answer in zip(edits, answers, strict=True)
        ],
        label="change of each atom\u2019s log-likelihood given all others, nats",
    )


def imputed() -> Any:
    """True values that were hidden, beside what the model said."""
    from gspn.plots.imputed import observed_against_imputed

    names: dict[str, Any] = {}
    page = (FOLDER.parent / "guides" / "missing-data.md").read_text()
    with TemporaryDirectory() as folder, chdir(folder):  # the guide writes files
        for block in page.split("```python\n")[1:]:
            exec(block.split("```")[0], names)
    people, truth = names["people"], names["truth"]
    hidden = (people["age"].isna() & truth["age"].notna()).to_numpy().nonzero()[0]
    ages = names["imputer"].model_.conditional(names["graph"], "age", vertices=hidden.tolist())
    return observed_against_imputed(ages, truth["age"].to_numpy()[hidden], unit="years")


PICTURES: dict[str, Callable[[], Any]] = {
    "tree": unrolled_tree,
    "step": one_step,
    "what-if": what_if,
    "imputed": imputed,
}


def main(names: Sequence[str]) -> None:
    from gspn.plots.files import save_figure

    FOLDER.mkdir(exist_ok=True)
    for name in names or PICTURES:
        print(save_figure(PICTURES[name](), FOLDER / f"{name}.svg"))


if __name__ == "__main__":
    main(sys.argv[1:])
