"""The models that GSPN is compared with, behind the same interface: fit, predict, score on lists of graphs."""

from gspn.baselines.cgmm import CGMM
from gspn.baselines.ecgmm import ECGMM
from gspn.baselines.icgmm import ICGMM
from gspn.baselines.structure_agnostic import StructureAgnostic

__all__ = ["CGMM", "ECGMM", "ICGMM", "StructureAgnostic"]
