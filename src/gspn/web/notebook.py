"""The what-if page inside a notebook: a server in a thread of the notebook's process, and a frame that shows it.

    from gspn.web.notebook import NotebookPage
    NotebookPage(model)

The frame is on this machine's loopback: a notebook that runs elsewhere cannot show it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Self

from gspn.errors import InputError
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack
from gspn.web.app import create_app
from gspn.web.limits import Limits
from gspn.web.serving import columns_of, listening, model_of, server_of

_LOOPBACK = "127.0.0.1"
_NOTEBOOKS = f"http://localhost:* http://{_LOOPBACK}:*"
"""Pages that may frame ours: those of this machine, whatever their port."""


class NotebookPage:
    """The page for a fitted model, a saved one's folder, or (None) the page's own model of drug-like molecules.

    As the last value of a cell it shows itself, `height` pixels high. Its server ends with `close`, or with the
    notebook.
    """

    def __init__(
        self,
        model: GSPN | Stack | str | os.PathLike[str] | None = None,
        *,
        height: int = 800,
        limits: Limits | None = None,
    ) -> None:
        if isinstance(height, bool) or not isinstance(height, int) or height < 1:
            raise InputError(f"height must be a positive number of pixels, got {height!r}")
        self._server = server_of(create_app(model_of(model), limits, columns=columns_of(model), framed_by=_NOTEBOOKS))
        self._open = contextlib.ExitStack()
        listener = self._open.enter_context(listening(_LOOPBACK, 0))
        self.address = f"http://{_LOOPBACK}:{listener.getsockname()[1]}/"
        self.height = height
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.address}" title="what if" width="100%" height="{self.height}"></iframe>'

    def __repr__(self) -> str:
        return f"NotebookPage({self.address}{'' if self._thread.is_alive() else ', closed'})"

    def close(self) -> None:
        """End the server; a second time does nothing."""
        self._server.should_exit = True
        self._thread.join()
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
