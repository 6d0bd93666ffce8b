"""Parts for gspn that another package brings: importing this package registers them.

Leaf families `student_t`, `bivariate_gaussian` and `neighbour_regression`, the aggregation `by_degree` and the kernel
`loops`.
"""

from gspn import register_aggregation
from gspn.circuits import register_leaf
from gspn.kernels import register_kernel
from gspn_extension.bivariate_gaussian import BivariateGaussianLeaves
from gspn_extension.degree import ByDegree
from gspn_extension.kernel import LOOPS
from gspn_extension.neighbour_regression import NeighbourRegressionLeaves
from gspn_extension.student_t import StudentTLeaves

__all__ = ["LOOPS", "BivariateGaussianLeaves", "ByDegree", "NeighbourRegressionLeaves", "StudentTLeaves"]

register_leaf("student_t", ["continuous"], StudentTLeaves)
register_leaf("bivariate_gaussian", ["continuous"], BivariateGaussianLeaves, attributes=2)
register_leaf("neighbour_regression", ["continuous"], NeighbourRegressionLeaves, context=True)
register_aggregation("by_degree", ByDegree)
register_kernel(LOOPS)
