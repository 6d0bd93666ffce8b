"""Speed and memory, measured side by side with peers in one run: `python -m gspn.benchmarks NAME`.

Every ratio is taken between medians of interleaved repetitions, so that a noisy machine disturbs both sides alike. No
test asserts a time; this is where times live. `versions` compares with another version of this library instead of a
peer.
"""
