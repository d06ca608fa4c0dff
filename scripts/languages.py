"""The catalogues of languages: `python -m scripts.languages update | compile`.

``update`` writes into each .po file what is marked in the code now: what is new comes untranslated, what is gone goes.
``compile`` makes of them what the portal reads. Neither needs GNU gettext.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
CATALOGUES = ROOT / "portal" / "locale"
SINGULAR = {"_", "gettext", "gettext_lazy", "gettext_noop"}
PLURAL = {"ngettext", "ngettext_lazy"}
MARKING = {"NotFound"}
"""What is made with a text that it translates itself: literals given to it first are marked by that."""
DECLARING = {"Wording"}
"""What declares a sentence, after its code: its text, and the plural."""
_TEXT = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_CALL = re.compile(rf"\b(_|gettext|ngettext)\(({_TEXT})(?:, ({_TEXT}))?", re.DOTALL)
_PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]|%%|%[sd]|\{\w*\}")


class Marked(NamedTuple):
    """A text that is marked for translation, and the file it stands in."""

    text: str
    plural: str | None
    place: str

    @property
    def key(self) -> str | tuple[str, str]:
        """As catalogues name it."""
        return self.text if self.plural is None else (self.text, self.plural)


class BadMark(Exception):
    """A text is marked in a way that cannot be translated."""


def marked() -> Iterator[Marked]:
    """Every text that is marked, file by file, and what the gallery says of its samples."""
    for path in sorted((ROOT / "frontend" / "templates").rglob("*.*")):
        yield from _in_template(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    for folder in ("portal", "nodes/protocol"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from _in_python(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    for path in sorted((ROOT / "portal" / "templates" / "samples" / "files").glob("*.yaml")):
        for text in re.findall(r"^description: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield Marked(text, None, str(path.relative_to(ROOT)))


def _in_template(text: str, place: str) -> Iterator[Marked]:
    for name, *texts in _CALL.findall(templatize(text, origin=place)):
        first, second = (ast.literal_eval(one) if one else None for one in texts)
        yield Marked(str(first), second if name == "ngettext" else None, place)


def _in_python(text: str, place: str) -> Iterator[Marked]:
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in MARKING and node.args:
            for one in ast.walk(node.args[0]):
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield Marked(one.value, None, place)
        args = node.args
        count = 1 if node.func.id in SINGULAR else 2 if node.func.id in PLURAL else 0
        if node.func.id in DECLARING:
            args = node.args[1:]
            count = len(args)
        texts = [one.value for one in args[:count] if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if any(isinstance(one, ast.JoinedStr) for one in args[:count]):
            raise BadMark(f"{place}:{node.lineno}: an f-string is made before it could be translated.")
        if count and len(texts) == count:
            yield Marked(texts[0], texts[1] if count == 2 else None, place)


def catalogues() -> Iterator[tuple[Path, Catalog]]:
    """Each .po file with what it says."""
    for path in sorted(CATALOGUES.glob("*/LC_MESSAGES/django.po")):
        with path.open("rb") as file:
            yield path, read_po(file, locale=path.parts[-3])


def problems(catalog: Catalog) -> Iterator[str]:
    """What is wrong with a catalogue: texts that it lacks or has not translated, and placeholders that disagree."""
    for one in dict.fromkeys((one.key, one.place) for one in marked()):
        message = catalog.get(one[0])
        if message is None or not all(_forms(message)):
            yield f"not translated: {one[0]!r} ({one[1]})"
    for message in catalog:
        if message.id and message.fuzzy:
            yield f"only guessed: {message.id!r}"
        wanted = sorted(_PLACEHOLDER.findall(message.id if isinstance(message.id, str) else message.id[-1]))
        if message.id and any(sorted(_PLACEHOLDER.findall(form)) != wanted for form in _forms(message)):
            yield f"other placeholders: {message.id!r} as {message.string!r}"


def _forms(message: Message) -> tuple[str, ...]:
    forms = message.string or ""
    return (forms,) if isinstance(forms, str) else tuple(forms)


def update() -> None:
    """Write what is marked now into each .po file."""
    places: dict[str | tuple[str, str], dict[str, None]] = {}
    for one in marked():
        places.setdefault(one.key, {})[one.place] = None
    for path, old in catalogues():
        new = Catalog(locale=old.locale)
        for key, found in places.items():
            known = old.get(key)
            string: str | tuple[str, ...] | list[str] | None = known.string if known else None
            if string and isinstance(key, tuple) is isinstance(string, str):  # it has a plural now, or no more
                string = (string,) if isinstance(string, str) else string[0]
            new.add(key, string, locations=[(place, 1) for place in found])
        header = path.read_bytes().partition(b"\n\n")[0]
        with path.open("wb") as file:
            file.write(header + b"\n\n")
            write_po(file, new, width=0, include_lineno=False, omit_header=True)


def compile_all() -> None:
    """Make of each .po file the .mo beside it that the portal reads."""
    for path, catalog in catalogues():
        with path.with_suffix(".mo").open("wb") as file:
            write_mo(file, catalog)


if __name__ == "__main__":
    {"update": update, "compile": compile_all}[sys.argv[1]]()
