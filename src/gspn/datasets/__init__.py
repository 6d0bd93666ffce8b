"""Named public datasets: their files, cache and download, and the built-in molecules.

People's own graphs come in through `gspn.convert`; what a dataset is in memory and on disk belongs to `gspn.graphs`.
"""

from gspn.datasets.registry import load, names

__all__ = ["load", "names"]
