"""The page's server for tests: a tiny model of molecules, a client without a network, a real server for browsers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from browser import running

from gspn import GSPN, from_smiles
from gspn.datasets.builtin import builtin_molecules

pytest.importorskip("fastapi", reason="the page needs the extra web")
pytest.importorskip("rdkit", reason="molecules need the extra chem")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette would like another client
    from fastapi.testclient import TestClient

from gspn.web.app import create_app
from gspn.web.learning import ATOM_FEATURES
from gspn.web.limits import Limits

BASE = "http://127.0.0.1"


@pytest.fixture(scope="session")
def model() -> GSPN:
    """Trained just enough to prefer some elements to others."""
    graphs = from_smiles(builtin_molecules()[::40], features=ATOM_FEATURES, processes=1, progress=False)
    fresh = GSPN(graphs.schema, num_layers=3, num_states=4, num_edge_types=5, objective="masked", epochs=5, lr=0.05)
    return fresh.fit(graphs, progress=False)


@pytest.fixture(scope="session")
def chemist() -> Iterator[tuple[GSPN, TestClient]]:
    """A model that also knows what follows from elements, bonds and charges, and its page."""
    graphs = from_smiles(builtin_molecules()[::60], processes=1, progress=False)
    fresh = GSPN(graphs.schema, num_layers=3, num_states=3, num_edge_types=5, objective="masked", epochs=3, lr=0.05)
    known = fresh.fit(graphs, progress=False)
    with TestClient(create_app(known, Limits(requests_per_second=1e6)), base_url=BASE) as started:
        yield known, started


@pytest.fixture(scope="session")
def client(model: GSPN) -> Iterator[TestClient]:
    # The pace of tests is not what is tested: who tests that sets a limit.
    with TestClient(create_app(model, Limits(requests_per_second=1e6)), base_url=BASE) as started:
        yield started


@pytest.fixture(scope="session")
def address(model: GSPN) -> Iterator[str]:
    with running(create_app(model, Limits(requests_per_second=1e6))) as started:
        yield started
