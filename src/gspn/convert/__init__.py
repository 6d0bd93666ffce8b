"""Graphs from and to the forms in which people have them: tables, NetworkX, plain arrays, molecules.

A way in ends in a checked, packed GraphDataset that remembers what vertices and graphs are called; a way out carries
results back under those names. Whatever cannot be taken as given is an error that names the row, vertex or edge:
nothing is dropped, merged or filled in silently. Optional packages are imported where they are used.

Named public datasets, their files and their preprocessing belong to `datasets`; `Data` objects of torch_geometric are
read by `graphs.pack`.
"""
