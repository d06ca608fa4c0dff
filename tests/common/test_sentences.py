"""Sentences in the reader's language: others' words in them cost little, whatever they are."""

from collections.abc import Iterator

import pytest
from django.utils.translation import override

from portal.common.sentences import DEEPEST, LONGEST
from portal.jobs.problem_words import problem_words


@pytest.fixture(autouse=True)
def chinese() -> Iterator[None]:
    with override("zh-hans"):
        yield


def test_a_sentence_that_is_too_long_to_look_through_stays_as_it_was_written() -> None:
    told = "no deployment is named x; there is: " + "y" * LONGEST
    assert problem_words(told) == told
    assert problem_words(told[:LONGEST]) != told[:LONGEST]


@pytest.mark.parametrize("times", [40, 5000])
def test_sentences_within_sentences_are_worded_so_deep_and_no_deeper(times: int) -> None:
    told = problem_words("must be at least 1, not 5" + " characters" * times)
    assert times + 1 - DEEPEST <= told.count("characters") <= times
