"""Template tags: Vite's assets, and formats for times and amounts."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

from django import template
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.template.defaultfilters import floatformat
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop, ngettext

from portal.common.priorities import PRIORITY_CLASSES, PriorityClass, priority_name
from portal.common.sentences import worded

register = template.Library()
register.filter("worded", worded)

MANIFEST = "manifest.json"


@lru_cache(maxsize=1)
def _manifest(path: Path, changed: float) -> dict[str, dict[str, object]]:
    entries: dict[str, dict[str, object]] = json.loads(path.read_text(encoding="utf-8"))
    return entries


def _entry(source: str) -> dict[str, object]:
    """The manifest entry of a source, from the collected static files if there are any, else from the build."""
    for folder in (settings.STATIC_ROOT, settings.BASE_DIR / "frontend" / "dist"):
        path = folder / MANIFEST
        if path.is_file():
            return _manifest(path, path.stat().st_mtime)[source]
    raise ImproperlyConfigured("The front end is not built: run `make setup`.")


@register.simple_tag
def frontend_styles(source: str) -> SafeString:
    """Links the style sheets of an entry such as ``src/main.ts``. Vite's file names carry a hash of their content, so
    they are linked as they are."""
    sheets = _entry(source).get("css", [])
    assert isinstance(sheets, list)
    return format_html_join("\n", '<link rel="stylesheet" href="{}{}">', ((settings.STATIC_URL, it) for it in sheets))


@register.simple_tag
def frontend_script(source: str, early: bool = False) -> SafeString:
    """Loads the script of an entry; ``early``: a classic script that runs before the page is painted."""
    kind = "" if early else ' type="module"'
    return format_html('<script{} src="{}{}"></script>', SafeString(kind), settings.STATIC_URL, _entry(source)["file"])


@register.simple_tag
def moment(at: datetime | None) -> SafeString | str:
    """A point in time, shown in UTC without script; with script in the reader's own zone."""
    if at is None:
        return "–"
    utc = at.astimezone(timezone.get_fixed_timezone(0))
    return format_html('<time datetime="{}" data-moment>{}</time>', utc.isoformat(), f"{utc:%Y-%m-%d %H:%M:%S} UTC")


@register.simple_tag
def lasted(start: datetime | None, end: datetime | None, now: datetime | None = None) -> SafeString | str:
    """How long something took, or has taken since ``start`` if it has not ended (then it ticks)."""
    if start is None:
        return "–"
    if end is not None:
        return span_words(end - start)
    shown = span_words((now or timezone.now()) - start)
    return format_html('<span data-ticking="{}">{}</span>', int(start.timestamp() * 1000), shown)


@register.simple_tag
def remaining(end: datetime, now: datetime | None = None) -> SafeString:
    """The time until ``end``; the page's script counts down."""
    shown = span_words(end - (now or timezone.now()))
    return format_html('<span data-until="{}">{}</span>', int(end.timestamp() * 1000), shown)


@register.simple_tag
def span(length: timedelta) -> str:
    """A duration: ``1 min 15 s``."""
    return span_words(length)


def span_words(span: timedelta) -> str:
    """``75 s`` as ``1 min 15 s``: the two largest units that are not zero."""
    seconds = max(0, int(span.total_seconds()))
    words = gettext("d h min s").split()
    units = list(zip(words, (86_400, 3_600, 60, 1), strict=True))
    for place, (unit, size) in enumerate(units):
        count, rest = divmod(seconds, size)
        if count:
            lesser, lesser_size = units[min(place + 1, len(units) - 1)]
            more = f" {rest // lesser_size} {lesser}" if rest // lesser_size and lesser != unit else ""
            return f"{count} {unit}{more}"
    return f"0 {words[-1]}"


CLASSES = (gettext_noop("Critical"), gettext_noop("Production"), gettext_noop("Test"), gettext_noop("Opportunistic"))


@register.filter
def priority(number: int) -> str:
    """The name of a priority's class."""
    return gettext(priority_name(number))


@register.filter
def memory(megabytes: int) -> str:
    """An amount of memory: ``256 MB``, ``2 GB``."""
    if megabytes < 1024:
        return f"{megabytes} MB"
    gigabytes = megabytes / 1024
    return f"{gigabytes:.0f} GB" if gigabytes >= 100 else f"{gigabytes:.3g} GB"


@register.filter
def size(count: int) -> str:
    """A number of bytes: ``344 B``, ``1.2 KB``, ``100 MB``; same format as in the scripts (`packing/refusal.ts`)."""
    place = min((max(count, 1).bit_length() - 1) // 10, 4)
    amount = count / 2 ** (10 * place)
    return f"{amount:.1f}".removesuffix(".0") + f" {_UNITS[place]}" if amount < 10 else f"{amount:.0f} {_UNITS[place]}"


_UNITS = ("B", "KB", "MB", "GB", "TB")


@register.filter
def amount(count: float | Decimal | None, digits: str = "-1g") -> str:
    """GPU hours or a price, with ``digits`` as for ``floatformat``; below 0.1 with two significant digits: ``1,234``,
    ``0.5``, ``0.02``. Less than a thousandth is shown as such."""
    much = abs(float(count or 0))
    if much >= LEAST_ROUND or not count:
        return floatformat(count, digits)
    if much < LEAST_SHOWN:
        return f"< {floatformat(LEAST_SHOWN, 3)}"
    words = f"{count:.2g}"
    return floatformat(words, len(words.partition(".")[2]))


LEAST_ROUND, LEAST_SHOWN = 0.1, 0.001


@register.filter
def cores(milli: int) -> str:
    """CPU in cores: ``0.5``, ``4``."""
    return f"{milli / 1000:g}"


@register.filter
def gpus(count: int) -> str:
    """``1 GPU``, ``8 GPUs``, ``no GPU``, translated."""
    if not count:
        return gettext("no GPU")
    return ngettext("%(count)d GPU", "%(count)d GPUs", count) % {"count": count}


@register.filter
def class_words(name: PriorityClass) -> str:
    """The name of a priority class on pages."""
    return gettext(priority_name(PRIORITY_CLASSES[name]))
