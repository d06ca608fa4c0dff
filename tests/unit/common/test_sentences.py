"""Sentences in the reader's language: others' words in them cost little, whatever they are."""

import re
import time
from collections.abc import Iterator

import pytest
from django.utils.translation import override
from hypothesis import given
from hypothesis import strategies as st

from portal.common.sentences import DEEPEST, LONGEST, holes_of
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


def test_a_text_full_of_a_sentences_words_costs_no_time() -> None:
    """A file says what it likes, and no other page is made while one text is looked through."""
    told = "the job needs " + " " * 160 + " at once; one user of team " * 3 + " may hold " * 53 + ", " * 80
    begun = time.process_time()
    assert ", , " in problem_words(told)
    assert time.process_time() - begun < 0.5


@given(st.lists(st.sampled_from(["a", "b", "; "]), min_size=2, max_size=4), st.text("ab; x", max_size=14))
def test_the_first_hole_takes_as_much_as_it_can_and_each_other_one_as_little(pieces: list[str], text: str) -> None:
    for first in ("", "a"):
        written = [first, *pieces[1:]]
        form = "".join(f"{words}%(h{place})s" for place, words in enumerate(written[:-1])) + written[-1]
        holes = [f"(?P<h{place}>.+{'?' if first or place else ''})" for place in range(len(written) - 1)]
        pattern = "".join(f"{words}{hole}" for words, hole in zip(written, holes, strict=False)) + written[-1]
        found = re.fullmatch(pattern, text)
        assert holes_of(form, text) == (found.groupdict() if found else None)
