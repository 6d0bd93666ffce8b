"""Every figure: functions from numbers to pictures. What the numbers mean and where they come from is said elsewhere.

Charts (`charts`, `small`, `training`, `calibration`, `imputed`, `maps`, `transitions`) are figures of matplotlib,
drawings of `molecules` and `graphs` are SVG text; `files.save_figure` writes both. matplotlib and networkx come with
the extra `plots`, RDKit with `chem`; they are imported when something is drawn.
"""
