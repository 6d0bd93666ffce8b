"""The yardstick of imputation: real sets, masks, rivals with predictive distributions, scores, ranks.

`sets` lists what is measured on, `masks` what is hidden of it, `methods` who fills it in, `answers` what they say,
`scores` how good that is, `ranks` and `tables` what it comes to. Planning, running and records are those of all
experiments.
"""
