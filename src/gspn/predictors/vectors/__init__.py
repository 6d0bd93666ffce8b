"""Heads on vectors: one row of numbers per graph going in, what is predicted coming out; chosen by validation.

Here belongs what takes a matrix [G, F] and labels: linear maps, support vectors, their choice and calibration.
Fitted heads are plain arrays that are evaluated here, so they can be saved without pickling. Where the rows come from
is the business of whoever makes them; networks on sets of vertex embeddings are `DeepSets`.
"""

from gspn.predictors.vectors.choosing import DEFAULT, MONITORS, Chosen, choose_heads
from gspn.predictors.vectors.families import FAMILIES

__all__ = ["DEFAULT", "FAMILIES", "MONITORS", "Chosen", "choose_heads"]
