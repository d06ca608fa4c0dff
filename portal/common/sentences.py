"""How sentences for people are put together, in the reader's language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from django.utils.translation import get_language, gettext

LONGEST = 1_000
"""Characters of a sentence that is worded anew: a form with several holes looks at each place of a text for each other
one, and others' words stand in it."""
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
        if found := _pattern(form).fullmatch(text):
            holes = found.groupdict()
            return gettext(form) % {name: _reworded(value, parts, parts, deep - 1) for name, value in holes.items()}
    return text


@cache
def _pattern(form: str) -> re.Pattern[str]:
    pieces = _HOLE.split(form)
    written = [re.escape(piece.replace("%%", "%")) for piece in pieces[::2]]
    # What stands at the very beginning is as long as it can be: mostly a whole sentence, with others' words in it.
    holes = [f"(?P<{name}>.+{'?' if written[0] or place else ''})" for place, name in enumerate(pieces[1::2])]
    return re.compile("".join(text + hole for text, hole in zip(written, [*holes, ""], strict=True)), re.DOTALL)
