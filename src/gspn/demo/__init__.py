"""The demonstration: what the library does on the built-in molecules, in a minute or two. `gspn demo` shows it.

`story` tells it from the beginning to the end; each of its parts (`filling`, `few_labels`, `replacing`) compares what a
GSPN makes of a question with what simpler models make of it. `report` writes the pictures and the page. Numbers are
computed when it runs, none are written down beforehand. Nothing else depends on it.
"""
