"""Reports of one's own data: how well gaps are filled or targets predicted, beside simple methods, as one page.

`report` is the way in. `hiding` chooses the entries that are hidden, `rivals` fills them simply, `checking` compares,
`certainty` measures intervals and probabilities, `surroundings` describes the graph, `targets` scores predictions of
targets, and `page` and `figures` show all of it. How a model learns is the business of `policy` and `models`.
"""

from gspn.reports.making import Report, report

__all__ = ["Report", "report"]
