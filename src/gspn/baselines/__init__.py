"""The models that GSPN is compared with, behind the same interface: fit, predict, score on lists of graphs."""

from gspn.baselines.structure_agnostic import StructureAgnostic

__all__ = ["StructureAgnostic"]
