"""References in texts: `<% $parameters.x %>`, `<% $secrets.x.y %>`, `<% $data.uri[0] %>`.

One pass, like OpenPAI: values are not expanded again, and unknown references stay as they are. Parameters and
prerequisites are filled in at submission, secrets only inside the container.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from portal.job_file.model import RegistryAuth, TaskRoleSpec

MAX_RENDERED: Final = 1_000_000
"""Characters of one text with its references filled in."""

_NAME = r"[^\s.\[\]<>%]{1,255}(?: [^\s.\[\]<>%]{1,255}){0,7}"
"""A key in a reference: anything that does not end it, with spaces between words."""
_REFERENCE = re.compile(rf"<%\s*\$([A-Za-z_]\w{{0,63}})((?:\.{_NAME}|\[\d{{1,9}}\]){{0,16}})\s*%>")
_STEP = re.compile(rf"\.({_NAME})|\[(\d+)\]")
_PLAIN_FROM, _PLAIN_BELOW = 1e-6, 1e21
"""Where JavaScript writes a number without an exponent (ECMA-262, Number::toString)."""


class RenderedTooLong(ValueError):
    """The text exceeds its limit with its references filled in."""


def render(text: str, context: Mapping[str, Any], most: int = MAX_RENDERED) -> str:
    """`text` with the references that `context` knows filled in; raises `RenderedTooLong` beyond `most` characters."""
    parts: list[str] = []
    length = position = 0
    for match in _REFERENCE.finditer(text):
        value = value_text(_lookup(match, context))
        parts += [text[position : match.start()], match[0] if value is None else value]
        length += len(parts[-1]) + len(parts[-2])
        position = match.end()
        if length > most:
            raise RenderedTooLong
    parts.append(text[position:])
    if length + len(parts[-1]) > most:
        raise RenderedTooLong
    return "".join(parts)


def render_script(role: TaskRoleSpec, secrets: Mapping[str, Any]) -> str:
    """The role's script with the secrets filled in: for use inside the container, never stored."""
    return render(role.script, {"secrets": secrets})


def render_auth(auth: RegistryAuth, secrets: Mapping[str, Any]) -> RegistryAuth:
    """The login with the secrets filled in, for the pull."""
    context = {"secrets": secrets}
    return RegistryAuth(
        username=render(auth.username, context),
        password=render(auth.password, context),
        registry_uri=render(auth.registry_uri, context),
    )


def references(text: str, name: str) -> Iterator[tuple[str, ...]]:
    """The steps of each reference to `$name` in `text`: `("registry", "password")`."""
    for match in _REFERENCE.finditer(text):
        if match[1] == name:
            yield _steps(match)


def lookup(value: Any, steps: tuple[str, ...]) -> Any:
    """The value at `steps` inside `value`; None if there is none."""
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list | tuple) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _lookup(match: re.Match[str], context: Mapping[str, Any]) -> Any:
    return lookup(context.get(match[1]), _steps(match))


def _steps(match: re.Match[str]) -> tuple[str, ...]:
    return tuple(name or index for name, index in _STEP.findall(match[2]))


def value_text(value: Any) -> str | None:
    """A value as JavaScript writes it, a list with commas; None for a mapping or nothing."""
    if isinstance(value, list | tuple):
        texts = ["" if item is None else value_text(item) for item in value]
        return None if None in texts else ",".join(map(str, texts))
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    return number_text(value) if isinstance(value, float) else None


def number_text(value: float) -> str:
    """A number as JavaScript writes it: 1 for 1.0, 0.00001 for 1e-05, 1e-7 for 1e-07."""
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        text = format(Decimal(repr(value)), "f")
        return text.removesuffix(".0").replace("-0", "0") if value == 0 else text.removesuffix(".0")
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa}e{int(exponent):+d}"
