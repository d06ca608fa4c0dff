"""Template tags of the cluster's pages."""

from __future__ import annotations

from collections.abc import Mapping

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.cluster.selectors.overview import Place
from portal.hardware.health_words import health_words

register = template.Library()
register.filter("health_words", health_words)

ORDER = (Place.HELD, Place.LENT, Place.FREE, Place.OUT, Place.SICK)


@register.simple_tag
def sum_bar(places: Mapping[Place, int], total: int) -> SafeString:
    """A bar of GPUs by their state."""
    parts, begin = [], 0
    for place in ORDER:
        if places[place]:
            parts.append((str(place), begin, places[place]))
            begin += places[place]
    rects = format_html_join("", '<rect class="mark-{}" x="{}" y="0" width="{}" height="1"></rect>', parts)
    return format_html('<svg viewBox="0 0 {} 1" preserveAspectRatio="none">{}</svg>', total or 1, rects)
