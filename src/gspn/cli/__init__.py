"""The `gspn` command: thin, it parses, calls and prints.

Everything heavy is imported inside the commands, so that `gspn --help` answers at once.
"""
