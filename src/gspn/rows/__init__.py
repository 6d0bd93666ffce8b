"""What learns from rows of numbers and is kept as plain arrays: what is to be learned of them, and trees.

scikit-learn grows trees, compiled code walks them. Where rows come from, which settings are tried and how several heads
are weighed is the business of whoever uses them: labels of vertices (`models`), heads on vectors (`predictors`).
"""
