"""What is done where nobody says: one policy for the table imputer, the commands and the page.

How large a model is, how long it learns and what is held out meanwhile (`learning`); which models fill gaps, and how
they are weighed (`selection`). Experiments, which say everything, do not come here.
"""

from gspn.policy.candidates import EFFORTS, Candidate, Effort
from gspn.policy.held_out import HeldOutEntries, held_out_mask
from gspn.policy.learning import edge_types_of, fit, fitting, hold_out, model_for, settings_for
from gspn.policy.selection import Selection, Step, Tried, columns_alone, loss_of_columns, select
from gspn.policy.telling import choosing, how_far

__all__ = [
    "EFFORTS",
    "Candidate",
    "Effort",
    "HeldOutEntries",
    "Selection",
    "Step",
    "Tried",
    "choosing",
    "columns_alone",
    "edge_types_of",
    "fit",
    "fitting",
    "held_out_mask",
    "hold_out",
    "how_far",
    "loss_of_columns",
    "model_for",
    "select",
    "settings_for",
]
