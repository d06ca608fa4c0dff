"""What people are told in refusals and alerts is marked for translation, wherever it is made."""

from __future__ import annotations

from pathlib import Path

from tests.support.run.spoken import unmarked

SOURCE = """
from django.core.exceptions import ValidationError
from django.utils.translation import gettext, gettext_noop
from portal.common.errors import Conflict, Fault

LATER = "try it again later"
WORDS = {1: "there is none of these", 2: gettext_noop("marked and therefore good")}

class Gone(Conflict):
    def __init__(self, name):
        super().__init__(f"{name} is not there any more")

def refuse(name, kind, many):
    message = f"{many} of them wait"
    raise Conflict(message if many else gettext("Only one of them waits."))

def faults(name):
    yield _fault("code_of_it", "the first is wrong")
    yield _fault("code_of_it", gettext("the second is wrong"))
    yield Fault("name", WORDS[1], "bad")
    yield Fault("name", _which(name), "bad")

def _fault(code, words):
    return Fault("name", words, code)

def _which(name):
    return f"{name} is one of many" if name else LATER

def checked(form):
    form.add_error("name", "this cannot be")
    raise ValidationError("and this neither")
"""


def test_no_refusal_fault_or_alert_is_told_in_one_language_only() -> None:
    found = [f"{path}:{line}: {text}" for path, line, text in unmarked()]
    assert found == [], "give these to gettext, then: .venv/bin/python -m scripts.languages update, and translate"


def test_sentences_are_found_through_variables_functions_and_tables(tmp_path: Path) -> None:
    (tmp_path / "portal").mkdir()
    (tmp_path / "portal" / "errors.py").write_text("class Refused(Exception): ...\nclass Conflict(Refused): ...\n")
    (tmp_path / "portal" / "some.py").write_text(SOURCE)
    assert {text.strip("f'\"") for _, _, text in unmarked(tmp_path)} == {
        "{name} is not there any more", "{many} of them wait", "the first is wrong", "there is none of these",
        "{name} is one of many", "try it again later", "this cannot be", "and this neither",
    }  # fmt: skip
