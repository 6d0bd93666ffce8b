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

from gspn.plots.colours import GRID, INK, PALETTE, PAPER, QUIET, blend

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
BLUE, ORANGE, GREEN, PURPLE = PALETTE[:4]
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
    parts.append(text(480, 284, "after two steps, a sees its own value", 13, ORANGE))
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


# The library.

_ROOMS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        BLUE,
        (
            ("errors", "one family"),
            ("columns, attributes, infer,\ntargets, scores", "typed values"),
            ("graphs", "packed, batches, masks"),
            ("convert", "tables, molecules"),
            ("datasets", "by name, cached"),
        ),
    ),
    (
        ORANGE,
        (("circuits", "leaves, templates"), ("kernels", "the loop over levels"), ("hierarchy", "graph and levels")),
    ),
    (
        GREEN,
        (
            ("queries", "questions"),
            ("training", "loop, checkpoints"),
            ("models", "the public face"),
            ("policy", "what nobody has said"),
        ),
    ),
    (
        QUIET,
        (
            ("imputation", "tables, PyG"),
            ("predictors", "on embeddings"),
            ("baselines", "for comparison"),
            ("graph_level", "whole graphs"),
            ("plots", "every figure"),
            ("benchmarks", "times, memory"),
            ("experiments", "grids, reports"),
            ("demo", "gspn demo"),
            ("web", "the what-if page"),
            ("cli", "the command"),
        ),
    ),
    (PURPLE, (("testing", "suites, the oracle"),)),
)
"""From the top of the house down, in groups: data, the model, learning and asking, uses, and what proves parts."""


def architecture() -> str:
    """The rooms from top to bottom, and beside them the way of the data with the seams that it crosses."""
    parts = [text(44, 40, "the rooms", 17, INK, "start", "font-weight='600'")]
    parts += [text(310, 40, "the way of the data", 17, INK, "start", "font-weight='600'")]
    parts += _rooms(44, 64, 236)
    parts += _reading(64) + _densities(196) + _levels(338) + _results(582) + _seams(786)
    return svg(1200, 888, "The rooms of the library, the way of the data through them, and the seams", parts)


def _rooms(x: float, y: float, width: float) -> list[str]:
    parts, top = [], y
    for colour, rooms in _ROOMS:
        for name, what in rooms:
            lines = name.split("\n")
            height = 10 + 18 * len(lines)
            parts.append(_frame(x, y, width, height, colour, blend((PAPER, colour), 0.08)))
            for number, words in enumerate(lines):
                parts.append(text(x + 10, y + 19 + 18 * number, words, 14, INK, "start", "font-weight='600'"))
            parts.append(text(x + width - 10, y + height - 9, what, 12.5, QUIET, "end"))
            y += height + 4
        y += 8
    place = f"transform='rotate(-90 22 {(top + y) / 2:g})'"
    parts.append(arrow(31, y - 14, 31, top))
    parts.append(text(22, (top + y) / 2, "imports point up", 13, QUIET, style=place))
    return parts


def _reading(y: float) -> list[str]:
    """From files to a batch."""
    parts = [
        _box(310, y, 182, 92, "", "files", ("tables, NetworkX, PyG,", "molecules, archives"), QUIET),
        _box(541, y, 182, 92, "convert, datasets", "reading", ("checked, never", "silently repaired"), BLUE),
        _box(771, y, 182, 92, "graphs", "GraphDataset", ("packed, edges sorted", "by receiving vertex"), BLUE),
        _box(1002, y, 182, 92, "graphs", "Batch", ("x in float64, edges,", "which entries are hidden"), BLUE),
    ]
    parts += [arrow(x, y + 46, x + 45, y + 46) for x in (494, 725, 955)]
    return [*parts, _bent((1093, y + 92), y + 112, (423, y + 130))]


def _densities(y: float) -> list[str]:
    """From a batch to what a template is computed from."""
    return [
        _box(310, y, 226, 92, "circuits", "Evidence", ("every entry observed,", "missing or hidden"), ORANGE),
        _box(634, y, 226, 92, "circuits", "Leaves", ("densities by scope, level", "and state"), ORANGE, seam=1),
        _box(958, y, 226, 92, "circuits", "Template", ("naive Bayes, or a", "compiled circuit"), ORANGE, seam=2),
        arrow(538, y + 46, 630, y + 46),
        arrow(862, y + 46, 954, y + 46),
        text(584, y + 36, "columns", 13, QUIET),
        text(908, y + 36, "log-densities", 13, QUIET),
        arrow(1071, y + 94, 1071, y + 140),
        text(1060, y + 122, "inputs [L, N, K]", 13, QUIET, "end"),
    ]


def _levels(y: float) -> list[str]:
    """The loop of a kernel, from level 0 to the root."""
    parts = [_frame(310, y, 874, 208, PURPLE, blend((PAPER, PURPLE), 0.05))]
    parts += [text(330, y + 24, "kernels", 12.5, ORANGE, "start"), _mark(1184, y, 4)]
    parts += [text(330, y + 46, "Kernel: the levels, bottom-up", 16, INK, "start", "font-weight='600'")]
    parts += [text(330, y + 68, "Climb in, Levels out; reference or fast", 13, QUIET, "start")]
    steps = (
        _box(330, y + 116, 148, 76, "", "level 0", ("learned prior \u03c0\u2080", "\u2192 posterior h"), ORANGE),
        _box(560, y + 94, 148, 92, "hierarchy", "Aggregation", ("messages become", "prior and context"), ORANGE, 3),
        _box(790, y + 76, 148, 76, "", "level 1", ("prior \u03c0", "\u2192 posterior h"), ORANGE),
        _box(1016, y + 44, 148, 76, "", "the root", ("level L \u2212 1: log P", "of the evidence"), ORANGE),
    )
    parts += steps
    parts += [arrow(480, y + 150, 556, y + 144), text(518, y + 136, "messages", 13, QUIET)]
    parts += [text(1080, y + 196, "Levels", 13, QUIET, "end")]
    parts += [arrow(710, y + 124, 786, y + 116), text(748, y + 144, "\u03c0, context", 13, QUIET)]
    parts += [line(940, y + 106, 1008, y + 90, QUIET, 1.6, "2 6"), arrow(1004, y + 91, 1013, y + 89)]
    parts += [line(748, y + 112, 748, y - 38, PURPLE, 1.6, "5 4"), arrow(748, y - 36, 748, y - 47, PURPLE)]
    parts += [text(758, y - 16, "for leaves with a context", 13, PURPLE, "start")]
    return [*parts, _bent((1090, y + 122), y + 226, (423, y + 242))]


def _results(y: float) -> list[str]:
    """From what the kernel gives to losses and answers."""
    known = ("log-likelihoods [N]", "posteriors [N, L, S, C]", "log P of hidden entries", "the roots\u2019 priors")
    return [
        _box(310, y, 226, 180, "hierarchy", "Evaluation", known, ORANGE),
        _box(634, y, 226, 80, "hierarchy", "Objective", ("pseudo, masked, leave_one_out",), ORANGE),
        _box(958, y, 226, 80, "training", "the fit loop", ("early stopping, checkpoints",), GREEN),
        _box(634, y + 100, 226, 80, "circuits", "Roots", ("a vertex given all else",), ORANGE, seam=5),
        _box(958, y + 100, 226, 80, "queries", "questions", ("distributions, draws, what-ifs",), GREEN),
        arrow(538, y + 40, 630, y + 40),
        arrow(862, y + 40, 954, y + 40),
        arrow(538, y + 140, 630, y + 140),
        arrow(862, y + 140, 954, y + 140),
        text(908, y + 30, "losses", 13, QUIET),
        text(908, y + 130, "Answering", 13, PURPLE),
    ]


def _seams(y: float) -> list[str]:
    parts = [_frame(310, y, 874, 66, PURPLE, PAPER, "5 4")]
    parts += [text(330, y + 27, "The seams", 16, INK, "start", "font-weight='600'")]
    parts += [text(330, y + 49, "where parts are exchanged", 13, QUIET, "start")]
    names = ("leaves", "templates", "aggregations", "kernels", "Answering, Roots")
    for number, (name, x) in enumerate(zip(names, (552, 652, 772, 916, 1024), strict=True), 1):
        parts += [_mark(x, y + 33, number), text(x + 18, y + 38, name, 14, INK, "start")]
    return parts


def _box(
    x: float,
    y: float,
    width: float,
    height: float,
    room: str,
    title: str,
    lines: Sequence[str],
    colour: str,
    seam: int | None = None,
) -> str:
    """Something that has a name, with its room above and what it is below; a seam has a number at its corner."""
    middle, rows = x + width / 2, len(lines) + 1 + bool(room)
    at = y + height / 2 - 9.5 * rows + 14
    parts = [_frame(x, y, width, height, PURPLE if seam else colour, PAPER)]
    if room:
        parts.append(text(middle, at, room, 12.5, colour))
        at += 20
    parts.append(text(middle, at, title, 16, INK, style="font-weight='600'"))
    parts += [text(middle, at + 19 * number, words, 13, QUIET) for number, words in enumerate(lines, 1)]
    return "\n".join(parts if seam is None else [*parts, _mark(x + width, y, seam)])


def _frame(x: float, y: float, width: float, height: float, colour: str, fill: str, dash: str = "") -> str:
    dashed = f" stroke-dasharray='{dash}'" if dash else ""
    place = f"x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}'"
    return f"<rect {place} rx='6' fill='{fill}' stroke='{colour}' stroke-width='1.6'{dashed}/>"


def _mark(x: float, y: float, number: int) -> str:
    """The number of a seam."""
    ring = f"<circle cx='{x:g}' cy='{y:g}' r='12' fill='{PURPLE}'/>"
    return ring + text(x, y + 5, str(number), 14, PAPER, style="font-weight='600'")


def _bent(start: tuple[float, float], turn: float, end: tuple[float, float]) -> str:
    """An arrow back to the beginning of the next row: down, along at the height `turn`, and down."""
    corners = f"M{start[0]:g} {start[1]:g} L{start[0]:g} {turn:g} L{end[0]:g} {turn:g}"
    path = f"<path d='{corners}' stroke='{QUIET}' stroke-width='1.6' fill='none'/>"
    return path + arrow(end[0], turn, *end)


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


def places() -> Any:
    """The map of the spatial guide."""
    names: dict[str, Any] = {}
    page = (FOLDER.parent / "guides" / "spatial.md").read_text()
    with TemporaryDirectory() as folder, chdir(folder):
        for block in page.split("```python\n")[1:]:
            exec(block.split("```")[0], names)
    return names["maps"]


PICTURES: dict[str, Callable[[], Any]] = {
    "tree": unrolled_tree,
    "step": one_step,
    "architecture": architecture,
    "what-if": what_if,
    "imputed": imputed,
    "places": places,
}
MAPS = ("places",)
"""Outlines are many points: as pixels of few colours they take a tenth of the bytes."""


def main(names: Sequence[str]) -> None:
    from gspn.plots.files import save_figure

    FOLDER.mkdir(exist_ok=True)
    for name in names or PICTURES:
        path = save_figure(PICTURES[name](), FOLDER / f"{name}.{'png' if name in MAPS else 'svg'}")
        if name in MAPS:
            from PIL import Image  # matplotlib has it

            with Image.open(path) as image:
                small = image.convert("RGB").resize((image.width * 2 // 3, image.height * 2 // 3))
            small.quantize(200).save(path, optimize=True)
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
