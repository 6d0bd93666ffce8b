"""The one exception family of the library.

Everything that `gspn` raises on purpose is a `GSPNError`. The subclasses exist only where a caller would want to react
differently, and each also is the builtin exception that people already catch for that situation.
"""


class GSPNError(Exception):
    """Something is wrong with what the library was given or asked; the message says what, where and what to do."""


class InputError(GSPNError, ValueError):
    """A value, graph, schema, setting or file that cannot be used as given."""


class CircuitError(InputError):
    """A template that is no valid circuit: the message names the unit and the reason."""


class NotFittedError(GSPNError, ValueError, AttributeError):
    """A question to a model that has no learned or given parameters yet (with the bases of scikit-learn's own)."""


class CheckpointError(InputError):
    """A checkpoint or saved model that is damaged, foreign, or belongs to another run."""


class MissingExtraError(GSPNError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""
