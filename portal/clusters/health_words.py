"""What was stored in English of what is wrong with a server or a GPU, for readers of another language."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from portal.common.sentences import reworded

_SENTENCES = (
    gettext_noop("No report since %(time)s; given up after %(seconds)s s."),
    gettext_noop(
        "%(number)s of %(all)s nodes fell silent together; none is given up. Look at the network and at the broker's "
        "address."
    ),
    gettext_noop("not part of the node's topology: %(why)s"),
)
_PARTS = (
    gettext_noop("never"),
    gettext_noop("its node has %(sku)s"),
    gettext_noop("its node has no place left; an administrator can take the topology anew"),
    gettext_noop("the configuration gives it no cell"),
)


def health_words(message: str) -> str:
    """The sentence in the reader's language; what a server itself says of a GPU stays as it says it."""
    return reworded(message, _SENTENCES, _PARTS)
