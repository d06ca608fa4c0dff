"""What OpenPAI's clients are told of an exit code."""

from __future__ import annotations

from portal.openpai.exits import exit_spec

KNOWN = {
    "issuer": "USER_CONTAINER PAI_OS PAI_RUNTIME PAI_DOCKER PAI_K8S PAI_FC UNKNOWN",
    "causer": "USER_SUBMISSION USER_CONTAINER USER_STOP PAI_OS PAI_RUNTIME PAI_K8S PAI_HW PAI_UNKNOWN UNKNOWN",
    "type": "USER_SUCCESS USER_STOP USER_FAILURE PLATFORM_FAILURE RESOURCE_ALLOCATION_TIMEOUT UNKNOWN_FAILURE",
    "stage": "SUBMITTING ALLOCATING LAUNCHING RUNNING COMPLETING UNKNOWN",
    "behavior": "TRANSIENT TRANSIENT_CONFLICT PERMANENT UNKNOWN",
    "reaction": "ALWAYS_RETRY ALWAYS_BACKOFF_RETRY RETRY_TO_MAX NEVER_RETRY",
}
"""What OpenPAI's exit specification lists; clients choose words and colours by these."""


def test_every_code_is_told_in_the_words_of_openpais_lists() -> None:
    specs = [exit_spec(code) for code in range(-8000, 257)]
    for field, known in KNOWN.items():
        assert {spec[field] for spec in specs if spec} <= set(known.split()), field
    missing = exit_spec(127)
    assert missing
    assert (missing["code"], missing["phrase"], missing["type"]) == (127, "UserCommandExitWithError", "USER_FAILURE")
    assert missing["solution"] == ["Check the command's name and the image's PATH."]
