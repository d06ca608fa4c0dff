"""Declared sentences: said in every language with all their data; only these are stored; safe to read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django.template import Context, Template
from django.utils.translation import override

from nodes.protocol import wordings as says
from nodes.protocol.messages import Exit, decode, encode
from nodes.protocol.states import Cause
from nodes.protocol.wording import DEEPEST, LONGEST, Wording, declared, heard, stored, told
from portal.common.sentence_field import SentenceField
from portal.common.sentences import worded
from portal.jobs import wordings
from portal.jobs.services.transitions import job_event

CHINESE = re.compile("[\u4e00-\u9fff]")
ONLY_PARTS = {"idle_warned", "end", "end_of", "gpu", "rule", "words", "node_gpu_fault"}
"""These put others together, and have no word of their own to translate."""


@pytest.fixture
def chinese() -> Iterator[None]:
    with override("zh-hans"):
        yield


def said(wording: Wording, number: int) -> str:
    data: dict[str, Any] = {name: f"<{name}>" for name in wording.names}
    return wording(**data | ({wording.count: number} if wording.count else {}))


@pytest.mark.parametrize("language", [code for code, _ in settings.LANGUAGES])
@pytest.mark.parametrize("number", [1, 2])
def test_every_sentence_is_said_in_every_language_with_all_that_fills_it(language: str, number: int) -> None:
    with override(language):
        for wording in declared().values():
            sentence = said(wording, number)
            text = worded(sentence)
            for name in wording.names - {wording.count}:
                assert f"<{name}>" in text, wording
            assert "%(" not in text, wording
            assert language == "en" or wording.code in ONLY_PARTS or CHINESE.search(text), wording
            assert language != "en" or text == sentence, wording


@pytest.mark.usefixtures("chinese")
def test_sentences_in_sentences_and_lists_are_worded_as_well_and_come_back_as_they_were_stored() -> None:
    other = wordings.OF_OTHERS(user="bob", vc="audio", gpus=wordings.GPUS(number=1))
    sentence = wordings.PREEMPTS(
        number=2, jobs=wordings.AND(names=["alice/a#1", other], last="alice/b#1"), time="12:00"
    )
    text = "2 GPUs of alice/a#1, a job of bob in audio (1 GPU) and alice/b#1 are taken back for it by 12:00 UTC."
    assert sentence == text == told(sentence.stored())
    assert told(sentence.stored()).wording is wordings.PREEMPTS  # type: ignore[attr-defined]
    assert worded(told(sentence.stored())) == worded(sentence) != text
    assert "bob 在 audio 中的一个作业" in worded(sentence)


def test_what_is_not_declared_is_an_error_when_it_is_stored() -> None:
    with pytest.raises(TypeError, match=r"only declared sentences .* are stored, not 'Stopped by hand.'"):
        stored("Stopped by hand.")
    with pytest.raises(TypeError, match="only declared sentences"):
        SentenceField().get_prep_value("Stopped by hand.")
    with pytest.raises(TypeError, match="only declared sentences"):
        job_event(job=None, code="stopped", message="Stopped by hand.", now=None)  # type: ignore[arg-type]
    assert stored("") == {}


def test_a_sentence_is_said_with_its_data_and_no_other_and_declared_once() -> None:
    with pytest.raises(TypeError, match="the sentence stopped_by takes .*who"):
        wordings.STOPPED_BY()
    with pytest.raises(TypeError, match="the sentence stopped_by takes .*who"):
        wordings.STOPPED_BY(who="alice", why="")
    with pytest.raises(TypeError, match="the sentence tasks takes"):
        wordings.TASKS()
    with pytest.raises(ValueError, match="two sentences are declared as stopped_by"):
        Wording("stopped_by", "Stopped.")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({}, ""),
        (None, ""),
        ([1], ""),
        ({"says": 3}, ""),
        ({"says": "of_a_later_release", "who": "alice"}, "of_a_later_release"),
        ({"says": "stopped_by"}, "Stopped by ?."),
        ({"says": "stopped_by", "who": None, "more": "x"}, "Stopped by None."),
        ({"says": "stopped_by", "who": {"says": "x" * 5_000}}, f"Stopped by {'x' * LONGEST}."),
        ({"says": "stopped_by", "who": "x" * 5_000}, f"Stopped by {'x' * LONGEST}."),
        ({"says": "stopped_by", "who": "a\0%(who)s %s"}, "Stopped by a\ufffd%(who)s %s."),
        ({"says": "stopped_by", "who": [1, {"says": "resumed"}, [2]]}, "Stopped by 1, Resumed by ?., ['2']."),
        ({"says": "tasks", "number": "many"}, "many tasks"),
    ],
)
def test_whatever_is_stored_can_be_read(data: Any, text: str) -> None:
    assert told(data) == text
    with override("zh-hans"):
        assert worded(told(data)) is not None


@pytest.mark.usefixtures("chinese")
def test_stored_sentences_are_read_so_deep_and_no_deeper_and_are_no_markup() -> None:
    data: dict[str, Any] = {"says": "stopped_by", "who": "<script>"}
    shown = Template("{% load frontend %}{{ said|worded }}").render(Context({"said": told(data)}))
    assert shown == "由 &lt;script&gt; 停止。"
    for _ in range(2 * DEEPEST):
        data = {"says": "stopped_by", "who": data}
    assert told(data).count("Stopped by") == DEEPEST


def test_what_a_node_says_as_code_and_data_counts_only_if_it_says_the_same_as_its_text() -> None:
    sent = Exit(cause=Cause.PORT_TAKEN, message=says.PORT_TAKEN(port=8080))
    got = decode(encode(sent), Exit)
    assert type(got.message) is str
    assert heard(got.message, got.said) == got.message == "host port 8080 is in use on this node"
    with override("zh-hans"):
        assert CHINESE.search(worded(heard(got.message, got.said)))
        for said in (None, {}, {"says": "x"}, {"says": "node_port_taken", "port": 80}, says.STILL_THERE().stored()):
            assert worded(heard(got.message, said)) == got.message
    again = replace(got, message="its own words")
    assert heard(again.message, again.said) == "its own words", "what it said before is no word of that"
