"""The loop over levels: priors from the neighbours' posteriors, posteriors from the priors and the evidence."""
