"""What the server has at hand: its model, molecules that were asked for lately, and uploads with their models."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException

from gspn.errors import GSPNError, InputError
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack
from gspn.web.columns import TableColumns
from gspn.web.inputs import Question
from gspn.web.learning import Learning, learn_tables, load_default
from gspn.web.limits import Limits
from gspn.web.subjects import Subject, Upload, from_text, read_tables
from gspn.web.worker import AbandonedError, Worker

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _Shelved:
    upload: Upload
    learning: Learning
    is_fitted: bool
    """Whether the model was fitted to this upload, rather than loaded"""

    @property
    def can_leave_out(self) -> bool:
        return self.learning.can_leave_out if self.is_fitted else self.upload.can_leave_out


class Shelf:
    """Graphs by what the page calls them. Subjects are made, and models asked, in the worker's thread alone."""

    def __init__(self, model: GSPN | Stack | None, limits: Limits, worker: Worker, columns: TableColumns) -> None:
        self._limits, self._worker, self._columns = limits, worker, columns
        self.greeting: str | None = None
        """The upload that the page shows first"""
        self.learning = Learning(model, share=0.0 if model is None else 1.0)
        self._subjects: OrderedDict[tuple[str, str, int], Subject] = OrderedDict()
        self._uploads: OrderedDict[str, _Shelved] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Load the page's own model, if none was given."""
        if self.learning.model is None:
            self._go(self.learning, lambda: load_default(self.learning))

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def subject(self, question: Question) -> Subject:
        if (question.smiles is None) == (question.upload is None):
            raise InputError("a question is about a smiles or about an upload, one of them")
        key = (question.smiles or "", question.upload or "", question.graph)
        if key not in self._subjects:
            self._subjects[key] = self._make(question)
            while len(self._subjects) > self._limits.molecules:
                self._subjects.popitem(last=False)
        self._subjects.move_to_end(key)
        return self._subjects[key]

    def _make(self, question: Question) -> Subject:
        if question.smiles is not None:
            return from_text(_ready(self.learning), question.smiles, self._limits)
        shelved = self._find(question.upload or "")
        return shelved.upload.subject(_ready(shelved.learning), question.graph)

    async def add(self, nodes: bytes, edges: bytes | None) -> dict[str, Any]:
        """Keep uploaded tables, and start to fit a model to them if the present one does not fit."""
        # Without rdkit there is no model of molecules, but tables can do without.
        model = None if self.learning.error else _ready(self.learning)
        name = hashlib.sha256(len(nodes).to_bytes(8, "big") + nodes + (edges or b"")).hexdigest()[:16]
        if name not in self._uploads or self._uploads[name].learning.error:
            upload, fits = await self._worker.ask(read_tables, nodes, edges, model, self._limits, self._columns)
            if name in self._uploads and not self._uploads[name].learning.error:
                return self.report(name)  # the same tables have come twice at once
            learning = self.learning if fits else Learning()
            self._uploads[name] = _Shelved(upload, learning, is_fitted=not fits)
            if not fits:
                self._go(learning, lambda: learn_tables(learning, upload.dataset, self._limits))
            while len(self._uploads) > self._limits.uploads:
                self._forget(next(iter(self._uploads)))
        return self.report(name)

    async def greet(self, nodes: bytes, edges: bytes | None) -> None:
        """Show these tables first."""
        self.greeting = (await self.add(nodes, edges))["upload"]

    def _forget(self, name: str) -> None:
        forgotten = self._uploads.pop(name)
        if forgotten.is_fitted:
            forgotten.learning.is_wanted = False
        for key in [key for key in self._subjects if key[1] == name]:
            del self._subjects[key]

    def report(self, name: str) -> dict[str, Any]:
        """An upload and how far its model has come."""
        shelved = self._find(name)
        schema = shelved.upload.dataset.schema
        return {
            "upload": name,
            "graphs": list(shelved.upload.names),
            "fitted": shelved.is_fitted,
            "can_leave_out": shelved.can_leave_out,
            "attributes": [{"name": one.name, "kind": one.kind} for one in schema],
            **shelved.learning.report(),
        }

    def _find(self, name: str) -> _Shelved:
        if name not in self._uploads:
            raise HTTPException(404, "this upload is not here (any more): upload the tables again")
        return self._uploads[name]

    def _go(self, learning: Learning, learn: Callable[[], None]) -> None:
        task = asyncio.get_running_loop().create_task(self._learn(learning, learn))
        self._tasks.add(task)  # or nobody would hold it
        task.add_done_callback(self._tasks.discard)

    async def _learn(self, learning: Learning, learn: Callable[[], None]) -> None:
        try:
            await self._worker.learn(learn, lambda: learning.is_wanted)
        except AbandonedError:
            _log.info("an upload has been forgotten before its model was learned")
        except GSPNError as error:
            learning.error = str(error)
        except Exception:
            _log.exception("learning failed")
            learning.error = "learning failed; the server's log says more"


def _ready(learning: Learning) -> GSPN | Stack:
    if learning.error is not None:
        raise HTTPException(503, f"there is no model: {learning.error}")
    if learning.model is None:
        raise HTTPException(503, f"the model is still learning: {learning.share:.0%}")
    return learning.model
