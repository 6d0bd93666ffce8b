"""Whole graphs: from graphs to one row of numbers each, and predictions from such rows.

Here belong `GraphFeatures`, which reads the rows off fitted models, and `GraphClassifier` and `GraphRegressor`, which
learn a model without labels, then a head on the rows. Heads on given rows belong to `predictors`, what rows can be
made without any model to `baselines`.
"""
