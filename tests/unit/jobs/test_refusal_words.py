"""What the scheduler refuses is told in the reader's language: every sentence that a person's job file can bring."""

import pytest
from django.utils import translation

from portal.jobs.problem_words import problem_words
from tests.unit.scheduling.test_admission import REFUSED

OF_PROGRAMS = (
    *("there is no virtual cluster", "priority ", "the job asks for", "the job waits for itself"),
    *("role worker is to run with", "role worker has no GPUs"),
)
"""What the portal itself has refused before."""
SENTENCES = sorted({case[-1] for case in REFUSED.values() if not case[-1].startswith(OF_PROGRAMS)})


@pytest.mark.parametrize("words", SENTENCES)
def test_a_refusal_of_the_scheduler_is_told_in_chinese(words: str) -> None:
    with translation.override("zh-hans"):
        assert problem_words(words) != words
    with translation.override("en"):
        assert problem_words(words) == words
