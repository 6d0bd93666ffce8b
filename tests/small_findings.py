"""Findings of an experiment that nobody made: all kinds of parts, gaps, ties, hostile text."""

from __future__ import annotations

from gspn.experiments.findings import Chart, Findings, Line, Number, Picture, ResultTable, Row

NAN = float("nan")
HOSTILE = "</td><script>alert(1)</script> *a* _b_ | `c` & $d$ \\e"
SQUARE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="700" height="90"><defs><linearGradient id="g"/></defs>'
    '<rect width="600" height="80" fill="url(#g)" stroke="#333"/><text x="20" y="40">a square</text></svg>'
)


def table(
    *rows: tuple[str, dict[str, Number]],
    better: str | None = "higher",
    digits: int = 2,
    published: dict[str, dict[str, Number]] | None = None,
) -> ResultTable:
    columns = tuple(dict.fromkeys(column for _, ours in rows for column in ours)) or ("NCI1",)
    made = tuple(Row(label, ours, (published or {}).get(label, {})) for label, ours in rows)
    return ResultTable("Accuracy", "accuracy (%)", better, columns, made, digits)  # type: ignore[arg-type]


def findings(done: int = 12, planned: int = 20) -> Findings:
    columns = ("NCI1", "REDDIT-BINARY", "COLLAB", "REDDIT-MULTI-5K", "PROTEINS", "ENZYMES", "IMDB-BINARY")
    rows = tuple(
        Row(
            label,
            {c: Number(60.125 + 7 * i + j, 1.5 + i, 10) for j, c in enumerate(columns) if (i + j) % 4},
            {c: Number(59.25 + 7 * i + j, 2.75, 10) for j, c in enumerate(columns) if i != 2},
        )
        for i, label in enumerate(("structure-agnostic", "GIN", "GSPN, unsupervised, with deep sets", HOSTILE))
    )
    wide = ResultTable("Graph classification", "accuracy (%)", "higher", columns, rows, 1, ("A note.", HOSTILE))
    x = (2.0, 5.0, 10.0, 20.0)
    lines = (
        Line("GSPN", x, (70.0, 74.0, 76.0, 77.0), (1.0, 1.0, 0.5, 0.5)),
        Line("CGMM", x, (69.0, float("inf"), 73.0, 71.0)),
        Line("lost", x, (NAN, NAN, NAN, NAN)),
    )
    chart = Chart("Number of levels", "levels", "accuracy (%)", lines, ("Bands are deviations.",))
    empty = Chart("Nothing yet", "x", "y", ())
    picture = Picture("A square", SQUARE)
    command = "gspn experiment run graph-classification --grid small"
    made_with = {"gspn": "0.1.0", "machine": HOSTILE}
    return Findings(
        "Classification", command, done, planned, (wide, chart, empty, picture), ("Said first.",), made_with
    )
