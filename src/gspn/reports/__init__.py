"""Reports of one's own data: how well gaps are filled or targets predicted, beside simple methods, as one page.

`report` is the way in. `hiding` chooses the entries that are hidden, `rivals` fills them simply, `checking` compares,
`certainty` measures intervals and probabilities, `surroundings` describes the graph, and `page` and `figures` show all
of it. `targets` scores predictions by models that learn once more in `learning_again`, beside `baselines`. How a model
learns is the business of `policy` and `models`.
"""

from gspn.reports.making import Report, report

__all__ = ["Report", "report"]
