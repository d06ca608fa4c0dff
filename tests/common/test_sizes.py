"""Numbers of bytes are written alike everywhere, without digits that say nothing."""

from __future__ import annotations

import pytest

from portal.common.templatetags.frontend import size


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"), (9, "9 B"), (344, "344 B"), (1023, "1023 B"), (1024, "1 KB"), (1229, "1.2 KB"),
        (10 << 10, "10 KB"), (100 << 20, "100 MB"), (1000 << 20, "1000 MB"), (5 << 29, "2.5 GB"), (3 << 50, "3072 TB"),
    ],
)  # fmt: skip
def test_a_size_in_words(count: int, words: str) -> None:
    assert size(count) == words
