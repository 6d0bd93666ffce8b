"""Molecules to choose from in the page: well-known ones, from small to large."""

from __future__ import annotations

EXAMPLES = (
    {"name": "Chlorobenzene", "smiles": "Clc1ccccc1"},
    {"name": "Aspirin", "smiles": "CC(=O)Oc1ccccc1C(=O)O"},
    {"name": "Caffeine", "smiles": "Cn1cnc2c1c(=O)n(C)c(=O)n2C"},
    {"name": "Paracetamol", "smiles": "CC(=O)Nc1ccc(O)cc1"},
    {"name": "Ibuprofen", "smiles": "CC(C)Cc1ccc(cc1)C(C)C(=O)O"},
    {"name": "Nicotine", "smiles": "CN1CCCC1c1cccnc1"},
    {"name": "Dopamine", "smiles": "NCCc1ccc(O)c(O)c1"},
    {"name": "Diclofenac", "smiles": "OC(=O)Cc1ccccc1Nc1c(Cl)cccc1Cl"},
    {"name": "Sulfanilamide", "smiles": "Nc1ccc(cc1)S(N)(=O)=O"},
    {"name": "Phenylalanine", "smiles": "N[C@@H](Cc1ccccc1)C(=O)O"},
    {"name": "Penicillin G", "smiles": "CC1(C)SC2C(NC(=O)Cc3ccccc3)C(=O)N2C1C(=O)O"},
    {"name": "Cholesterol", "smiles": "CC(C)CCCC(C)C1CCC2C1(C)CCC1C2CC=C2CC(O)CCC12C"},
    {"name": "Atorvastatin", "smiles": "CC(C)c1c(C(=O)Nc2ccccc2)c(-c2ccccc2)c(-c2ccc(F)cc2)n1CCC(O)CC(O)CC(=O)O"},
)
