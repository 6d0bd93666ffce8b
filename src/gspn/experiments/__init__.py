"""The paper's experiments: protocols, grids, runners on one machine or on Ray, records and reports.

A run is planned from a grid (`grids`), divided into pieces of work that are keyed by their content (`work`), done by
a runner (`local`, `on_ray`), kept as records (`records`) and shown as tables and figures (`findings`, `report`).
"""

from gspn.errors import MissingExtraError

try:
    import pydantic  # noqa: F401 (grids are checked by it)
except ImportError as error:
    raise MissingExtraError(
        "experiments need pydantic, which is not installed: pip install 'gspn[experiments]'"
    ) from error
