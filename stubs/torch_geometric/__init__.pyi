"""What the type checker is told of PyTorch Geometric, which ships no types: its graphs, see `data`."""
