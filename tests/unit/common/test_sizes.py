"""Numbers of bytes, and amounts, are written alike everywhere, without digits that say nothing."""

from __future__ import annotations

from decimal import Decimal

import pytest

from portal.common.templatetags.frontend import amount, size


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"), (9, "9 B"), (344, "344 B"), (1023, "1023 B"), (1024, "1 KB"), (1229, "1.2 KB"),
        (10 << 10, "10 KB"), (100 << 20, "100 MB"), (1000 << 20, "1000 MB"), (5 << 29, "2.5 GB"), (3 << 50, "3072 TB"),
    ],
)  # fmt: skip
def test_a_size_in_words(count: int, words: str) -> None:
    assert size(count) == words


@pytest.mark.parametrize(
    ("count", "digits", "words"),
    [
        (0, "-1g", "0"), (0.0, "1g", "0.0"), (4.0, "1g", "4.0"), (0.5, "-1g", "0.5"), (1234.56, "-1g", "1,234.6"),
        (0.02, "-1g", "0.02"), (0.0234, "1g", "0.023"), (0.0999, "1g", "0.1"), (0.0043, "-1g", "0.0043"),
        (0.0004, "-1g", "< 0.001"), (Decimal("0.06"), "2g", "0.06"), (Decimal("0.56"), "2g", "0.56"),
    ],
)  # fmt: skip
def test_a_small_amount_is_not_shown_as_none(count: float | Decimal, digits: str, words: str) -> None:
    assert amount(count, digits) == words
