"""The `gspn` command: thin, it parses, calls and prints.

One file a command. What they share: `options` (what can be said, and which columns mean what), `inputs` (files
and names become graphs), `outputs` (tables, pictures and models become files), `training` (what is said of it),
`console` (where words go).

Everything heavy is imported inside the commands, so that `gspn --help` answers at once. What a command computes belongs
to the library: here it is only asked for.
"""
