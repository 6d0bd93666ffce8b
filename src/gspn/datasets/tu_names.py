"""The names of the TU collection of graph datasets, and which of them have published folds.

Just names: the reader is in `tu`, and takes any other archive of this format as well.
"""

from __future__ import annotations

_NAMES = """
    AIDS BZR BZR_MD COX2 COX2_MD DHFR DHFR_MD ER_MD FRANKENSTEIN MUTAG Mutagenicity NCI1 NCI109 PTC_FM PTC_FR PTC_MM
    PTC_MR QM9 ZINC_full ZINC_test ZINC_train ZINC_val alchemy_dev alchemy_full alchemy_valid
    DD ENZYMES KKI OHSU PROTEINS PROTEINS_full Peking_1
    COIL-DEL COIL-RAG Cuneiform FIRSTMM_DB Fingerprint Letter-high Letter-low Letter-med MSRC_21 MSRC_21C MSRC_9
    COLLAB DBLP_v1 IMDB-BINARY IMDB-MULTI REDDIT-BINARY REDDIT-MULTI-12K REDDIT-MULTI-5K TWITTER-Real-Graph-Partial
    deezer_ego_nets github_stargazers reddit_threads twitch_egos
    COLORS-3 SYNTHETIC SYNTHETICnew Synthie TRIANGLES
"""
_SCREENS = "MCF-7 MOLT-4 NCI-H23 OVCAR-8 P388 PC-3 SF-295 SN12C SW-620 UACC257 Yeast"
_TOX21_ASSAYS = "AhR AR AR-LBD ARE aromatase ATAD5 ER ER-LBD HSE MMP p53 PPAR-gamma"

TU_NAMES: tuple[str, ...] = (
    *sorted(_NAMES.split(), key=str.lower),
    *(f"{name}{hydrogens}" for name in _SCREENS.split() for hydrogens in ("", "H")),
    *(f"Tox21_{assay}_{part}" for assay in _TOX21_ASSAYS.split() for part in ("training", "testing", "evaluation")),
)

_CHEMICAL = ("DD", "ENZYMES", "NCI1", "PROTEINS_full")
_SOCIAL = ("COLLAB", "IMDB-BINARY", "IMDB-MULTI", "REDDIT-BINARY", "REDDIT-MULTI-5K")

PUBLISHED_FOLDS: dict[str, str] = {
    **dict.fromkeys(_CHEMICAL, "CHEMICAL"),
    **dict.fromkeys(_SOCIAL, "COLLABORATIVE_DEGREE"),
}
"""The sets of the "fair comparison" study, by its folder of folds; social ones with the degree as attribute"""
