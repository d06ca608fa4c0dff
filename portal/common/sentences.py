"""Builds sentences for people, in the reader's language."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from django.utils.translation import get_language, gettext, ngettext

from nodes.protocol.wording import Filled, Sentence, heard
from nodes.protocol.wordings import WORDS

LONGEST = 1_000
"""Longest text, in characters, that is reworded."""
DEEPEST = 10
"""How deeply nested sentences are reworded."""
_HOLE = re.compile(r"%\((\w+)\)s")


def sentence(words: str) -> str:
    """The words with a capital at the start and a full stop at the end."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '!', '?', '。')) else gettext('.')}"


def said_by_node(text: str, said: Any) -> Sentence:
    """A node's text as a sentence that can be stored: in its own words, where it declares none."""
    message = heard(text, said)
    return message if isinstance(message, Sentence) else WORDS(text=message)


def some_of(names: Sequence[str], most: int) -> str:
    """The first ``most`` names, and how many more: ``gpu01, gpu02 and 7 more``."""
    named = ", ".join(names[:most])
    if len(names) <= most:
        return named
    return gettext("%(names)s and %(number)s more") % {"names": named, "number": len(names) - most}


def worded(text: str, others: Callable[[str], str] = str) -> str:
    """A declared sentence in the reader's language; any other text as it is."""
    if get_language() == "en":
        return text
    if not isinstance(text, Sentence):
        return others(text)
    wording = text.wording
    between = gettext(", ") if wording.between == ", " else wording.between
    values = {name: _worded(value, between, others) for name, value in text.data.items()}
    one = wording.is_one(text.data)
    form = ngettext(wording.text, wording.plural, 1 if one else 2) if wording.plural else gettext(wording.text)
    return form % Filled(values)


def _worded(value: Any, between: str, others: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return between.join(worded(one, others) for one in value)
    return worded(value, others) if isinstance(value, str) else value


def reworded(text: str, forms: Sequence[str], parts: Sequence[str] = ()) -> str:
    """Translates a sentence that was stored in English: by the first of ``forms`` that it matches, with what fills its
    placeholders translated by ``parts``. Returned as it is if no form matches, or it has more than ``LONGEST``
    characters."""
    return text if get_language() == "en" or len(text) > LONGEST else _reworded(text, forms, parts, DEEPEST)


def _reworded(text: str, forms: Sequence[str], parts: Sequence[str], deep: int) -> str:
    if " " not in text:  # a name or number, no sentence
        return gettext(text) if text in forms else text
    for form in forms if deep else ():
        if (holes := holes_of(form, text)) is not None:
            return gettext(form) % {name: _reworded(value, parts, parts, deep - 1) for name, value in holes.items()}
    return text


def holes_of(form: str, text: str) -> dict[str, str] | None:
    """What fills the form's placeholders, none of it empty; None if the text does not match. A placeholder at the very
    start is matched greedily (mostly a whole sentence, with others' words in it), all others lazily. Literals are
    searched for one by one: a regular expression would backtrack for a minute on a text full of blanks."""
    names, written = _pieces(form)
    if not names:
        return {} if text == form.replace("%%", "%") else None
    first, *between, last = written
    if not (text.startswith(first) and text.endswith(last)):
        return None
    inner, begin, found = text[len(first) : max(len(text) - len(last), len(first))], 0, []
    if not first and between:
        at = len(inner)
        for words in reversed(between):
            if (at := inner.rfind(words, 1, max(at - 1, 0))) < 0:
                return None
        found.append(inner[:at])
        begin = at + len(between.pop(0))
    for words in between:
        if (at := inner.find(words, begin + 1)) < 0:
            return None
        found.append(inner[begin:at])
        begin = at + len(words)
    found.append(inner[begin:])
    return dict(zip(names, found, strict=True)) if found[-1] else None


@cache
def _pieces(form: str) -> tuple[list[str], list[str]]:
    """The placeholders' names, and the literals before, between and after them."""
    pieces = _HOLE.split(form)
    return pieces[1::2], [piece.replace("%%", "%") for piece in pieces[::2]]
