"""The yardstick of vertices: sets with labels, what is hidden of them, rivals, scores, ranks.

`sets` lists what is measured on, `gaps` what is hidden of the attributes, `methods` who predicts (`networks` those by
gradient descent), `scores` how good that is, `tables` what it comes to. Planning and records are those of all
experiments.
"""
