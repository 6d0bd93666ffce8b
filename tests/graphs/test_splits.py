"""Folds: disjoint, complete, stratified, reproducible; the published form is read or refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gspn.errors import InputError
from gspn.graphs.splits import Fold, holdout, kfold, read_folds


def everything(fold: Fold) -> list[int]:
    return sorted(torch.cat([fold.train, fold.validation, fold.test]).tolist())


@given(st.integers(1, 200), st.floats(0, 0.9), st.floats(0, 0.9), st.integers(0, 5), st.booleans())
def test_holdout_covers_all_graphs_once(n: int, test: float, validation: float, seed: int, stratified: bool) -> None:
    strata = torch.arange(n) % 3 if stratified else None
    fold = holdout(n, test=test, validation=validation, seed=seed, strata=strata)
    assert everything(fold) == list(range(n))
    assert len(fold.test) == round(test * n)
    assert len(fold.validation) == round(validation * (n - len(fold.test)))


@given(st.integers(2, 120), st.integers(2, 10), st.integers(0, 5))
def test_kfold_tests_every_graph_once(n: int, k: int, seed: int) -> None:
    k = min(k, n)
    folds = kfold(n, k, seed=seed, strata=torch.arange(n) % 2)
    assert sorted(torch.cat([fold.test for fold in folds]).tolist()) == list(range(n))
    assert all(everything(fold) == list(range(n)) for fold in folds)
    sizes = [len(fold.test) for fold in folds]
    assert max(sizes) - min(sizes) <= 1


def shares(strata: Tensor, chosen: Tensor) -> Tensor:
    return torch.bincount(strata[chosen], minlength=3).double() / len(chosen)


def test_strata_are_kept() -> None:
    generator = torch.Generator().manual_seed(0)
    strata = torch.multinomial(torch.tensor([0.7, 0.25, 0.05]), 1_000, replacement=True, generator=generator)
    whole = shares(strata, torch.arange(1_000))
    for fold in (holdout(1_000, strata=strata), *kfold(1_000, 10, strata=strata)):
        for part in (fold.train, fold.validation, fold.test):
            # Evenly spaced picks from an interleaved order miss a class by at most about one graph.
            assert (shares(strata, part) - whole).abs().max() <= 2.5 / len(part)


def test_seeds_differ_and_repeat() -> None:
    assert torch.equal(holdout(100, seed=1).test, holdout(100, seed=1).test)
    assert not torch.equal(holdout(100, seed=1).test, holdout(100, seed=2).test)
    validations = [set(fold.validation.tolist()) for fold in kfold(200, 5)]
    assert len(set.union(*validations)) > 60, "folds share their validation graphs"


def test_arguments_are_checked() -> None:
    with pytest.raises(InputError, match=r"test must be a share .* got 1\.0"):
        holdout(10, test=1.0)
    with pytest.raises(InputError, match="k must be between 2 and the number of graphs, 5, got 6"):
        kfold(5, 6)
    with pytest.raises(InputError, match="one class per graph: 10, got 3"):
        holdout(10, strata=torch.zeros(3))


PUBLISHED = [{"test": [0, 3], "model_selection": [{"train": [1, 4], "validation": [2]}]}]


@pytest.mark.parametrize("zipped", [False, True])
def test_published_form_is_read(tmp_path: Path, zipped: bool) -> None:
    raw = json.dumps(PUBLISHED).encode()
    path = tmp_path / "folds.json"
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    (fold,) = read_folds(path, num_graphs=5)
    assert (fold.train.tolist(), fold.validation.tolist(), fold.test.tolist()) == ([1, 4], [2], [0, 3])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{}]", "published form"),
        ("{", "published form"),
        ('[{"test": [0], "model_selection": []}]', "published form"),
        ('[{"test": ["a"], "model_selection": [{"train": [], "validation": []}]}]', "published form"),
        ('[{"test": [0], "model_selection": [{"train": [0], "validation": []}]}]', "fold 0: some graph occurs twice"),
        ('[{"test": [9], "model_selection": [{"train": [0], "validation": []}]}]', "out of range, there are 5 graphs"),
    ],
)
def test_other_forms_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "folds.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message) as error:
        read_folds(path, num_graphs=5)
    assert "folds.json" in str(error.value)


def test_damaged_gzip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "folds.json.gz"
    raw = bytearray(gzip.compress(json.dumps(PUBLISHED * 50).encode()))
    for position in range(2, len(raw)):
        damaged = raw.copy()
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            read_folds(path)
        except InputError as error:
            assert "folds.json.gz" in str(error)  # noqa: PT017 (a flipped bit of the header may also do no harm)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "graphs"), [("NCI1", 4110), ("REDDIT-BINARY", 2000), ("REDDIT-MULTI-5K", 4999), ("COLLAB", 5000)]
)
def test_published_folds_of_the_paper(data_root: Path, name: str, graphs: int) -> None:
    folds = read_folds(data_root / "splits" / f"{name}.json.gz", num_graphs=graphs)
    assert len(folds) == 10
    assert sorted(torch.cat([fold.test for fold in folds]).tolist()) == list(range(graphs))
    assert all(everything(fold) == list(range(graphs)) for fold in folds)
