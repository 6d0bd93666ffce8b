"""Questions to a hierarchy: stateless functions over its parameters and a batch.

They need no gradients and change nothing. Training's objectives are not queries; they live in `hierarchy`.
"""
