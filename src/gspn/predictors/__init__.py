"""Predictors on embeddings: small supervised networks that read what a GSPN has learned without labels.

Here belongs what takes one matrix of vertex embeddings a graph and labels. How embeddings come about is the models'
business; models with labels inside the circuit are not predictors.
"""

from gspn.predictors.deep_sets import DeepSets

__all__ = ["DeepSets"]
