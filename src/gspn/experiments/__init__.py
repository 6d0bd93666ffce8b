"""The paper's experiments: protocols, grids, runners on one machine or on Ray, records and reports.

A run is planned from a grid (`grids`), divided into pieces of work that are keyed by their content (`work`), done by
a runner (`local`, `on_ray`), kept as records (`records`) and shown as tables and figures (`findings`, `report`).
"""

from gspn.errors import from_extra

with from_extra("experiments", "experiments need pydantic"):
    import pydantic  # noqa: F401 (grids are checked by it)
