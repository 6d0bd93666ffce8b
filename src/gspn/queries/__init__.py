"""Questions to a model: stateless functions over `contract.Answering` and a batch.

They need no gradients and change nothing. Training's objectives are not queries; they live in `hierarchy`.
"""
