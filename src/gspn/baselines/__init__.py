"""The models that GSPN is compared with, behind the same interface.

Predictors: fit, predict, predict_proba, score. Imputers: fit, impute, and with a density log_prob_missing. Embedders:
fit, embed.
"""

from gspn.baselines.cgmm import CGMM
from gspn.baselines.constant import Constant
from gspn.baselines.deep_multisets import DeepMultisets
from gspn.baselines.dgcnn import DGCNN
from gspn.baselines.diff_pool import DiffPool
from gspn.baselines.ecc import ECC
from gspn.baselines.ecgmm import ECGMM
from gspn.baselines.encoders import DGI, GAE
from gspn.baselines.gin import GIN
from gspn.baselines.graph_embedder import GraphEmbedder
from gspn.baselines.graph_network import GraphNetwork
from gspn.baselines.graph_sage import GraphSAGE
from gspn.baselines.icgmm import ICGMM
from gspn.baselines.imputers import FeatureImputer
from gspn.baselines.mixture import Mixture
from gspn.baselines.molecule_rows import MoleculeForest
from gspn.baselines.pooled_attributes import PooledAttributes
from gspn.baselines.sorted_attributes import SortedAttributes
from gspn.baselines.structure_agnostic import StructureAgnostic
from gspn.baselines.weisfeiler_lehman import WeisfeilerLehman

__all__ = [
    "CGMM",
    "DGCNN",
    "DGI",
    "ECC",
    "ECGMM",
    "GAE",
    "GIN",
    "ICGMM",
    "Constant",
    "DeepMultisets",
    "DiffPool",
    "FeatureImputer",
    "GraphEmbedder",
    "GraphNetwork",
    "GraphSAGE",
    "Mixture",
    "MoleculeForest",
    "PooledAttributes",
    "SortedAttributes",
    "StructureAgnostic",
    "WeisfeilerLehman",
]
