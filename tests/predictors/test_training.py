"""While a head is trained: Ctrl-C and the bar."""

from __future__ import annotations

import io
import sys

import pytest
from interruptions import interrupt_step
from small_embeddings import GRAPHS, KIND, OTHER_SIGNAL, OTHERS, SIGNAL, fitted, kinds, make

from gspn.errors import NotFittedError
from gspn.predictors import DeepSets


@pytest.mark.parametrize("validated", [True, False])
def test_an_interrupted_run_leaves_what_it_has_learned(validated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    validation = (OTHERS, kinds(OTHER_SIGNAL)) if validated else None
    head = make(batch_size=40)
    with monkeypatch.context() as patch:
        interrupt_step(patch, 3 * 3 + 2)
        with pytest.raises(KeyboardInterrupt):
            head.fit(GRAPHS, kinds(SIGNAL), validation=validation, progress=False)
    whole = make(batch_size=40, epochs=3).fit(GRAPHS, kinds(SIGNAL), validation=validation, progress=False)
    assert len(head.history_) == 3
    assert (head.predict_proba(OTHERS) == whole.predict_proba(OTHERS)).all()


def test_interrupted_before_the_first_epoch_it_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    head, unfitted = fitted(epochs=2), make(batch_size=40)
    before = head.predict_proba(OTHERS)
    for one in (head, unfitted):
        with monkeypatch.context() as patch:
            interrupt_step(patch, 2)
            with pytest.raises(KeyboardInterrupt):
                one.fit(GRAPHS, kinds(SIGNAL), progress=False)
    assert (head.predict_proba(OTHERS) == before).all()
    with pytest.raises(NotFittedError, match="this DeepSets is not fitted yet"):
        unfitted.predict(OTHERS)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("progress", [True, False])
def test_a_bar_on_a_terminal_only(progress: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shown in ((Terminal(), progress), (io.StringIO(), False)):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            make(epochs=3).fit(GRAPHS, kinds(SIGNAL), validation=(OTHERS, kinds(OTHER_SIGNAL)), progress=progress)
            DeepSets.fit_many([{}, {}], GRAPHS, kinds(SIGNAL), progress=progress, target=KIND, epochs=3)
        text = stream.getvalue()
        assert ("fit, epoch 3/3" in text) == shown
        assert ("validation=" in text) == shown
        assert ("heads left=0" in text) == shown
        assert bool(text) == shown
