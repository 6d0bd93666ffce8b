"""Starting the page's server: where it listens, with which model, and opening a browser."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import threading
import webbrowser
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gspn.errors import InputError, from_extra
from gspn.graph_level.loading import Saved, load
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack
from gspn.web.app import create_app
from gspn.web.columns import TableColumns
from gspn.web.editing import property_of
from gspn.web.limits import Limits

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Server

_log = logging.getLogger(__name__)

PORT = 8000


def serve(
    model: Saved | str | os.PathLike[str] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    open_browser: bool = True,
    limits: Limits | None = None,
    tables: tuple[Path, Path | None] | None = None,
    allowed_names: Collection[str] = (),
    announce: Callable[[str], Any] = print,
) -> None:
    """Show the what-if page until it is interrupted.

    model: a fitted model or the folder of a saved one. None takes the page's own, which has learned from 20,000
        drug-like molecules. One that predicts a property of molecules also lists edits by what they change of it.
    host: the address to listen on. Anything but loopback lets everyone in the network ask, and is warned about.
    port: None takes 8000, or any free one if that is taken; 0 any free one.
    limits: how much may be asked; see `Limits`.
    tables: nodes and edges, CSV files that the page shows first.
    allowed_names: names of this machine that browsers may call it by, besides localhost and numbers.
    announce: is told the address once the server listens.
    """
    import torch

    loaded = model_of(model)
    if not _is_loopback(host):
        _log.warning(
            "THE PAGE IS OPEN TO THE NETWORK: it listens on %s, without passwords; everyone who reaches this machine "
            "can ask the model and upload tables. Leave host out to keep it to yourself.",
            host,
        )
    # Graphs of the page are small: a second thread would cost more than it gives.
    torch.set_num_threads(1)
    server = server_of(
        create_app(
            loaded,
            limits,
            columns=columns_of(model) if isinstance(loaded, GSPN | Stack) else None,
            greeting=None if tables is None else (tables[0].read_bytes(), _bytes(tables[1])),
            allowed_names=[*allowed_names, host],
        )
    )
    with listening(host, port) as listener:
        shown = host if _is_loopback(host) else socket.gethostname()
        address = f"http://{f'[{shown}]' if ':' in shown else shown}:{listener.getsockname()[1]}/"
        announce(address)
        if open_browser:
            threading.Timer(0.5, webbrowser.open, [address]).start()
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def model_of(model: Saved | str | os.PathLike[str] | None) -> Saved | None:
    """A model as it is given, or loaded from its folder; None stays None."""
    loaded = load(Path(model)) if isinstance(model, str | os.PathLike) else model
    if not isinstance(loaded, GSPN | Stack | None) and property_of(loaded) is None:
        raise InputError(f"the page asks a model of vertices or one property of molecules; {model} is neither")
    return loaded


def _bytes(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()


def columns_of(model: object) -> TableColumns | None:
    """What the columns of a saved model's tables meant, if it is given by its folder."""
    return TableColumns.beside(Path(model)) if isinstance(model, str | os.PathLike) else None


def server_of(app: FastAPI) -> Server:
    """A server for the app, not yet running."""
    with from_extra("web", "the page needs uvicorn"):
        import uvicorn
    return uvicorn.Server(
        uvicorn.Config(
            app, log_level="warning", server_header=False, ws="none", limit_concurrency=100, timeout_keep_alive=5
        )
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextlib.contextmanager
def listening(host: str, port: int | None) -> Iterator[socket.socket]:
    """A socket that browsers can connect to from now on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named: asyncio would else leave answers waiting, 40 ms each, for more to send.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for number in (PORT, 0) if port is None else (port,):
            try:
                listener.bind((host, number))
                break
            except OSError as error:
                if number == 0 or port is not None:
                    raise InputError(f"cannot listen on {host}, port {number}: {error.strerror}") from error
            except OverflowError as error:
                raise InputError(f"port must be a number from 0 to 65535, got {number}") from error
        listener.listen(128)  # from now on a browser that is too early waits instead of being refused
        yield listener
