"""How sentences for people are put together, in the reader's language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from django.utils.translation import get_language, gettext

LONGEST = 1_000
"""Characters of a sentence that is worded anew."""
DEEPEST = 10
"""Sentences within sentences that are."""
_HOLE = re.compile(r"%\((\w+)\)s")


def sentence(words: str) -> str:
    """With a capital at its beginning and a stop at its end."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '!', '?', '。')) else gettext('.')}"


def some_of(names: Sequence[str], most: int) -> str:
    """The first of them, and how many more there are: ``gpu01, gpu02 and 7 more``."""
    named = ", ".join(names[:most])
    if len(names) <= most:
        return named
    return gettext("%(names)s and %(number)s more") % {"names": named, "number": len(names) - most}


def reworded(text: str, forms: Sequence[str], parts: Sequence[str] = ()) -> str:
    """A sentence that was written in English, in the reader's language: by the first of these forms that it has, with
    what fills the form's holes worded anew by ``parts``. One that has none of the forms stays as it was written, and
    one of more than ``LONGEST`` characters."""
    return text if get_language() == "en" or len(text) > LONGEST else _reworded(text, forms, parts, DEEPEST)


def _reworded(text: str, forms: Sequence[str], parts: Sequence[str], deep: int) -> str:
    if " " not in text:  # a name, a number: no sentence
        return gettext(text) if text in forms else text
    for form in forms if deep else ():
        if (holes := holes_of(form, text)) is not None:
            return gettext(form) % {name: _reworded(value, parts, parts, deep - 1) for name, value in holes.items()}
    return text


def holes_of(form: str, text: str) -> dict[str, str] | None:
    """What fills the form's holes, each with something; None where the text has not that form. What stands at the very
    beginning is as long as it can be (mostly a whole sentence, with others' words in it), all else as short as it can
    be. Each word is looked for once: a pattern tries all places of one with all of another, for a minute where somebody
    fills a text with blanks."""
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
    """The names of the holes, and what is written before, between and behind them."""
    pieces = _HOLE.split(form)
    return pieces[1::2], [piece.replace("%%", "%") for piece in pieces[::2]]
