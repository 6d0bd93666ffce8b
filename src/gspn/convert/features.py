"""What scikit-learn passes around, X and y, as tables of vertices, and completed tables as what X was.

Checks of arrays are scikit-learn's own, with its messages. What columns mean is the business of `tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from gspn.columns import shorten
from gspn.convert.edges import is_table
from gspn.convert.files import Table, import_pandas
from gspn.convert.foreign import DataFrame
from gspn.errors import InputError


def as_frame(estimator: Any, X: Any, *, reset: bool) -> DataFrame:
    """X as a DataFrame whose columns have names; `reset` remembers them in the estimator, as `fit` does.

    Columns of a DataFrame are found by name, so other ones than in `fit`, or in another order, are no error here.
    """
    pandas = import_pandas()
    if X is None or isinstance(X, str | PathLike | Mapping | Table | pandas.Series):
        raise InputError(f"nodes must be a pandas DataFrame or an array, got {shorten(X)}")
    if not is_bare(X) and (reset or hasattr(estimator, "feature_names_in_")):
        if reset:
            validate_data(estimator, X, skip_check_array=True)
        named: DataFrame = X
        return named
    array = validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
    frame = pandas.DataFrame(array, index=getattr(X, "index", None) if hasattr(X, "columns") else None)
    names = getattr(estimator, "feature_names_in_", [f"x{place}" for place in range(frame.shape[1])])
    made: DataFrame = frame.set_axis(list(names), axis=1).infer_objects()
    return made


def is_bare(X: Any) -> bool:
    """Whether X has no names of columns: then each is there because somebody wants it."""
    return not (hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns))


def like(completed: DataFrame, X: Any) -> Any:
    """A completed table as what X was: a DataFrame with its columns, or an array."""
    if isinstance(X, import_pandas().DataFrame):
        return completed.set_axis(X.columns, axis=1)
    array: NDArray[Any] = completed.to_numpy()
    return array


def edges_among(y: Any, edges: Any) -> Any:
    """The edges: as given by name, or in y's place where they stood before; labels there are ignored."""
    return y if edges is None and _is_edges(y) else edges


def _is_edges(y: Any) -> bool:
    if y is None or is_table(y) or isinstance(y, str | PathLike):
        return y is not None and (not hasattr(y, "columns") or len(y.columns) > 1)
    if any(hasattr(y, name) for name in ("tocoo", "sparse", "obsp")) or callable(getattr(y, "nodes", None)):
        return True
    if hasattr(y, "shape"):
        return len(y.shape) == 2 and y.shape[0] == 2 and not np.issubdtype(np.asarray(y).dtype, np.floating)
    return isinstance(y, (list, tuple)) and bool(y) and isinstance(y[0], (list, tuple)) and len(y[0]) == 2
