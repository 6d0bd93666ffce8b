"""The loop over all levels, several times over: the reference in plain torch, a compiled one, and those of others.

Kernels get densities from leaves and priors from an aggregation; what these compute is not their business.
"""

from gspn.kernels.contract import Climb, Kernel, Levels, Received
from gspn.kernels.registry import register_kernel

__all__ = ["Climb", "Kernel", "Levels", "Received", "register_kernel"]
