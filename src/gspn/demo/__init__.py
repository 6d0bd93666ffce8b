"""The demonstration: what the library does, on graphs that it generates itself, in under a minute.

Run it with `python -m gspn.demo`. Nothing else depends on it.
"""
