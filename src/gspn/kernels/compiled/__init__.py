"""The kernel `fast` and everything else that Numba compiles for the levels: naive Bayes, the mean over neighbours, CPU.

`fast` is its entrance; what it supports is said there. The loops over stored graphs (`ranges`) and the mixture on top
of a readout (`mixture`) are compiled here too, because they share its parts.
"""
