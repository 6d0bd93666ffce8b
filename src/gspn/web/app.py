"""The page's server as a FastAPI app: which address gives what. Numbers come from `answers`, refusals from `guard`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from gspn.errors import GSPNError, InputError, MissingExtraError

try:
    import python_multipart  # noqa: F401 (fastapi reads uploads with it)
    from fastapi import FastAPI, File, Request, UploadFile
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import FileResponse, JSONResponse
    from fastapi.staticfiles import StaticFiles
    from starlette.exceptions import HTTPException
except ImportError as error:
    raise MissingExtraError(f"the page needs {error.name}, which is not installed: pip install 'gspn[web]'") from error

from gspn.graph_level.loading import Saved
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack
from gspn.web import answers, editing
from gspn.web.columns import TableColumns
from gspn.web.examples import EXAMPLES
from gspn.web.guard import Guard
from gspn.web.inputs import EntryQuestion, Question
from gspn.web.limits import Limits
from gspn.web.shelf import Shelf
from gspn.web.subjects import knows_molecules, members
from gspn.web.worker import Worker

_log = logging.getLogger(__name__)
_STATIC = Path(__file__).parent / "static"


def create_app(
    model: Saved | None = None,
    limits: Limits | None = None,
    *,
    columns: TableColumns | None = None,
    greeting: tuple[bytes, bytes | None] | None = None,
    allowed_names: Collection[str] = (),
) -> FastAPI:
    """The what-if page for a fitted model, or for the page's own one of drug-like molecules.

    model: if it predicts a property of molecules, the page lists edits by what they change of it. Of a GraphClassifier
        or GraphRegressor that is all; what edits do to atoms the page's own model says.
    columns: what the columns of uploaded tables mean; None takes the usual names.
    greeting: nodes and edges, as CSV, that the page shows first.
    allowed_names: names of this machine that may stand in a request's Host header besides localhost and numbers.
    """
    limits = limits or Limits()
    if isinstance(model, GSPN) and not model.__sklearn_is_fitted__():
        raise InputError("the model is not fitted, so there is nothing to ask it")
    worker = Worker(limits)
    columns = columns or TableColumns()
    shelf = Shelf(model if isinstance(model, GSPN | Stack) else None, limits, worker, columns)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        shelf.start()
        if greeting is not None:
            await shelf.greet(*greeting)
        yield
        shelf.stop()
        worker.stop()

    # No pages about the interface: theirs would load scripts from other hosts.
    app = FastAPI(title="gspn", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_middleware(Guard, limits=limits, names=allowed_names)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    _add_errors(app)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(_STATIC / "index.html")

    @app.get("/api/about")
    async def about() -> dict[str, Any]:
        known = shelf.learning.model
        shown = None if known is None else {**_describe(known), "learned_from": shelf.learning.source}
        return {
            "model": shown,
            **shelf.learning.report(),
            "limits": asdict(limits),
            "examples": EXAMPLES,
            "columns": asdict(columns),
            "greeting": shelf.greeting,
            "predicts": editing.property_of(model),
        }

    @app.post("/api/what-if")
    async def what_if(question: Question) -> dict[str, Any]:
        _check(question, limits)
        return await worker.ask(
            lambda: answers.compare(shelf.subject(question), question.edits, question.leave_one_out)
        )

    @app.post("/api/replacements")
    async def replacements(question: EntryQuestion) -> dict[str, Any]:
        _check(question, limits)
        asked = question.edits, question.vertex, question.attribute, question.leave_one_out, question.values
        return await worker.ask(lambda: answers.replacements(shelf.subject(question), *asked))

    @app.post("/api/conditional")
    async def conditional(question: EntryQuestion) -> dict[str, Any]:
        _check(question, limits)
        asked = question.edits, question.vertex, question.attribute
        return await worker.ask(lambda: answers.conditional(shelf.subject(question), *asked))

    @app.post("/api/edits")
    async def edits(question: Question) -> dict[str, Any]:
        return await worker.ask(lambda: editing.edits(model, shelf.subject(question), question.smiles, limits))

    @app.post("/api/tables")
    async def tables(
        nodes: Annotated[UploadFile, File()], edges: Annotated[UploadFile | None, File()] = None
    ) -> dict[str, Any]:
        return await shelf.add(await nodes.read(), None if edges is None else await edges.read())

    @app.get("/api/tables/{name:path}")
    async def progress(name: str) -> dict[str, Any]:
        return shelf.report(name)

    return app


def _describe(model: GSPN | Stack) -> dict[str, Any]:
    models = members(model)
    return {
        "attributes": [answers.describe(attribute) for attribute in model.schema],
        "molecules": knows_molecules(model),
        "models": len(models),
        "levels": max(one.num_layers for one in models),
        "states": max(one.num_states for one in models),
        # The paper's objective is the pseudo-likelihood; others teach what a vertex is like given all others.
        "leave_one_out": not isinstance(model, GSPN) or model.objective != "pseudo",
    }


def _check(question: Question, limits: Limits) -> None:
    if len(question.edits) > limits.edits:
        raise InputError(f"too many edits: {len(question.edits):,}, and at most {limits.edits:,} are taken")


def _add_errors(app: FastAPI) -> None:
    """Every refusal is {"error": message}; what nobody expected goes to the log, and not to the browser."""

    def answer(status: int, message: str, headers: Any = None) -> JSONResponse:
        return JSONResponse({"error": message}, status, headers)

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        return answer(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(GSPNError)
    async def wrong(_: Request, error: GSPNError) -> JSONResponse:
        return answer(422, str(error)[:1_000])

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part)[:50] for part in first["loc"] if part != "body")[:200]
        return answer(422, f"the request is malformed{f' at {place}' if place else ''}: {first['msg'][:300]}")

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        _log.error("%s failed", request.url.path, exc_info=error)
        return answer(500, "something went wrong in the server; its log says more")
