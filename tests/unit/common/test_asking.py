"""Questions to a file system that may be away."""

from __future__ import annotations

import threading

import pytest

from portal.common.asking import Asking


def test_who_could_begin_no_thread_asks_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Asking(lambda: "there", 1)

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            asking.answer()
    assert asking.answer() == "there"


def test_what_ends_the_thread_is_heard_and_the_next_one_asks_anew() -> None:
    answers = iter((SystemExit(3), None))

    def ask() -> str:
        if error := next(answers):
            raise error
        return "there"

    asking = Asking(ask, 1)
    with pytest.raises(SystemExit):
        asking.answer()
    assert asking.answer() == "there"
