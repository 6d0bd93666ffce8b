"""The loop over levels: priors from the neighbours' posteriors, posteriors from the priors and the evidence.

For naive Bayes twice behind one contract, in plain torch and compiled; for other templates once.
"""
