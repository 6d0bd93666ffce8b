"""The one exception family of the library.

Everything that `gspn` raises on purpose is a `GSPNError`. The subclasses exist only where a caller would want to react
differently, and each also is the builtin (or scikit-learn) exception that people already catch for that situation.
"""

from sklearn.exceptions import NotFittedError as _SklearnNotFittedError


class GSPNError(Exception):
    """Something is wrong with what the library was given or asked; the message says what, where and what to do."""


class InputError(GSPNError, ValueError):
    """A value, graph, schema, setting or file that cannot be used as given."""


class CircuitError(InputError):
    """A template that is no valid circuit: the message names the unit and the reason."""


class NotFittedError(GSPNError, _SklearnNotFittedError):
    """A question to a model that has no learned or given parameters yet."""


class CheckpointError(InputError):
    """A checkpoint or saved model that is damaged, foreign, or belongs to another run."""


class MissingExtraError(GSPNError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""
