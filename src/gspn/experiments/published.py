"""The numbers of the paper's tables (ICLR 2024), to stand beside ours: by table, row and column, mean ± deviation."""

from __future__ import annotations

from collections.abc import Mapping

from gspn.experiments.findings import Number

_MOLECULES = ("benzene", "ethanol", "malonaldehyde", "naphthalene", "salicylic_acid", "toluene", "uracil")
_GRAPHS = ("NCI1", "REDDIT-BINARY", "REDDIT-MULTI-5K", "COLLAB")

Published = Mapping[str, Mapping[str, Number]]


def _number(cell: str) -> Number:
    mean, deviation = (*cell.split(), "")[:2]
    return Number(float(mean), float(deviation) if deviation else None, written=(mean, deviation))


def _rows(columns: tuple[str, ...], rows: Mapping[str, str]) -> Published:
    """From "mean deviation, …" in the order of the columns; "-" where the paper has no number."""
    return {
        name: {
            column: _number(cell) for column, cell in zip(columns, text.split(","), strict=True) if cell.strip() != "-"
        }
        for name, text in rows.items()
    }


PUBLISHED: Mapping[str, Published] = {
    "scarce supervision": _rows(
        (*_MOLECULES, "ogbg-molpcba"),
        {
            "GIN": "41.4 45.6, 4.00 1.0, 8.00 5.3, 34.9 19.4, 36.7 13.4, 29.6 18.0, 19.7 14.1, 4.12 0.2",
            "GAE+DS": "2.00 0.1, 7.79 7.8, 5.49 1.3, 4.45 0.3, 233.3 27.1, 4.83 0.3, 387.7 13.7, 3.36 0.3",
            "DGI+DS": "6.22 1.2, 5.35 3.5, 4.31 1.8, 6.34 2.3, 17.0 7.3, 9.18 0.3, 409.7 1.5, 3.00 0.5",
            "GSPN_U+DS": "2.24 0.5, 3.36 0.0, 4.31 1.4, 4.44 0.1, 4.90 0.5, 4.87 1.4, 3.93 0.0, 4.00 0.5",
        },
    ),
    "missing data": _rows(
        _MOLECULES,
        {
            "Gaussian": "9.96 0.0, 5.72 0.0, 5.88 0.0, 6.48 0.0, 6.91 0.0, 6.00 0.0, 7.54 0.0",
            "GMM": "4.31 0.01, 3.81 0.01, 3.93 0.01, 3.31 0.10, 3.21 0.13, 3.59 0.06, 3.11 0.5",
            "GSPN_U": "4.17 0.02, 3.77 0.03, 3.88 0.01, 3.18 0.07, 3.06 0.21, 3.35 0.05, 3.17 0.17",
        },
    ),
    "graph classification": _rows(
        _GRAPHS,
        {
            "Baseline": "69.8 2.2, 82.2 3.0, 52.2 1.5, 70.2 1.5",
            "DGCNN": "76.4 1.7, 87.8 2.5, 49.2 1.2, 71.2 1.9",
            "DiffPool": "76.9 1.9, 89.1 1.6, 53.8 1.4, 68.9 2.0",
            "ECC": "76.2 1.4, -, -, -",
            "GIN": "80.0 1.4, 89.9 1.9, 56.1 1.7, 75.6 2.3",
            "GraphSAGE": "76.0 1.8, 84.3 1.9, 50.0 1.3, 73.9 1.7",
            "CGMM": "76.2 2.0, 88.1 1.9, 52.4 2.2, 77.3 2.2",
            "E-CGMM": "78.5 1.7, 89.5 1.3, 53.7 1.0, 77.5 2.3",
            "iCGMM": "77.6 1.5, 91.6 2.1, 55.6 1.7, 78.9 1.7",
            "GSPN_U+DS": "76.6 1.9, 90.5 1.1, 55.3 2.0, 78.1 2.5",
            "GSPN_S": "77.6 3.0, 89.7 2.3, 54.2 2.1, 74.1 2.5",
        },
    ),
    "shortcut ablation": _rows(
        _GRAPHS,
        {
            "GSPN_U+DS (no shortcut)": "76.5 1.9, 88.9 3.9, 52.3 5.2, 75.7 2.6",
            "GSPN_U+DS": "76.6 1.9, 90.5 1.1, 55.3 2.0, 78.1 2.5",
        },
    ),
    "time comparison": _rows(
        _GRAPHS,
        {
            "GSPN forward": "30, 35, 35, 36",
            "GIN forward": "12, 14, 14, 14",
            "GSPN backward": "17, 24, 22, 21",
            "GIN backward": "14, 15, 15, 15",
        },
    ),
}
