"""Translates faults of a configuration, by the sentence's form and its values. The configuration reader
(``scheduling/config``) is plain Python, so its forms are marked for translation here."""

from __future__ import annotations

from django.utils.translation import gettext, gettext_noop

from portal.common.sentences import reworded
from scheduling.config.faults import Words

FORMS = (
    gettext_noop("%(kind)s (%(value)s)"),
    gettext_noop("nothing"),
    gettext_noop("true or false"),
    gettext_noop("text"),
    gettext_noop("a number"),
    gettext_noop("a broken number"),
    gettext_noop("a list"),
    gettext_noop("a mapping"),
    gettext_noop("a very large number"),
    gettext_noop("must be a mapping, not %(kind)s"),
    gettext_noop("the key %(key)s must be text: quote it"),
    gettext_noop("is not known here; known are %(known)s"),
    gettext_noop("must be a list, not %(kind)s"),
    gettext_noop("must be a whole number, not %(kind)s"),
    gettext_noop("must be at least %(least)s and below %(most)s, not %(value)s"),
    gettext_noop("must be true or false, not %(kind)s"),
    gettext_noop("must be text, not %(kind)s: quote it"),
    gettext_noop("must be text, not %(kind)s"),
    gettext_noop("must be a name, not %(value)s"),
    gettext_noop("must not hold %(bad)s: %(value)s"),
    gettext_noop("must be a number of cores, such as 4, 0.5 or 500m, not %(value)s"),
    gettext_noop("must be an amount of at least 1Mi, such as 8192Mi or 8Gi, not %(value)s"),
    gettext_noop("%(type)s is no cell type of this cluster"),
    gettext_noop("neither %(type)s nor a type below it is a node (isNodeLevel)"),
    gettext_noop("makes %(leaves)s leaf cells in all; at most %(most)s can be read"),
    gettext_noop("another cell has the address %(address)s"),
    gettext_noop("the name of a node must not hold '@': %(node)s"),
    gettext_noop("%(node)s is a node of the chain %(chain)s already"),
    gettext_noop("two leaf cells have the address %(address)s"),
    gettext_noop("GPU %(index)s of %(node)s is in the chain %(chain)s already"),
    gettext_noop("of a leaf cell must be a GPU's number, not %(value)s"),
    gettext_noop("has %(given)s cells; a %(type)s is made of %(children)s"),
    gettext_noop("must be %(type)s here"),
    gettext_noop("%(type)s is a leaf cell, which has no children"),
    gettext_noop("another cell is called %(name)s already"),
    gettext_noop("is for a node; %(type)s is none"),
    gettext_noop("%(subject)s %(problem)s"),
    gettext_noop("the quotas need %(needed)s cells of type %(type)s in the chain %(chain)s, %(there)s are there"),
    gettext_noop("is missing: a cell type is made of it"),
    gettext_noop("is made of itself: %(types)s"),
    gettext_noop("has more than %(most)s levels of cells"),
    gettext_noop("has two levels that are a node: %(types)s"),
    gettext_noop("must be 1, or 0 of a server without GPUs: a leaf cell is one GPU"),
    gettext_noop("%(cell)s belongs to %(vc)s already"),
    gettext_noop("%(name)s: %(advice)s"),
    gettext_noop("no cell of type %(type)s is among the physicalCells; there are none"),
    gettext_noop("no cell of type %(type)s is among the physicalCells; there are %(known)s"),
    gettext_noop("there is no such path through the cell types; there are %(known)s"),
    gettext_noop("no physical cell is called %(name)s"),
    gettext_noop("%(name)s is listed twice"),
)
_CONTRADICTIONS = (gettext_noop("has leaf cells in common with the pinned cell %(cell)s"),)
"""Contradictions that a cluster's description may still have once its configuration could be read."""


def configuration_words(words: Words) -> str:
    """Translates a fault's words."""
    return gettext(words.form) % {name: _filled(value) for name, value in words.values.items()}


def _filled(value: object) -> object:
    if isinstance(value, Words):
        return configuration_words(value)
    return reworded(value, _CONTRADICTIONS) if isinstance(value, str) else value
