"""Graphs in memory: packed datasets, batches, masks, and the private copies that keep a root out of its own tree.

Nothing here knows of distributions or learning; reading and writing other formats belongs to `convert` and `datasets`.
"""

from gspn.graphs.batch import Batch
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import Graphs, OneGraph, SeveralGraphs, is_single_graph, pack

__all__ = ["Batch", "GraphDataset", "Graphs", "OneGraph", "SeveralGraphs", "is_single_graph", "pack"]
