"""What a task prints of its secrets stands nowhere in its log: in any writing, however it comes in pieces."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.agent.logs.masking import HOLD_S, StreamMasker
from nodes.agent.logs.masks import MOST, Masks
from nodes.protocol.logs import STDERR, STDOUT, LogRecord
from tests.support.cluster.agent_logs import line, text_of

NASTY = "AZ1K'BZ2K\"CZ3K\\DZ4K $EZ5K`FZ6K!''GZ7K*HZ8K\tJZ9K?KZ0K~LY1K"
NASTY += "{MY2K}NY3K[OY4K]PY5K|QY6K&RY7K;SY8K<TY9K>UY0K(VX1K)WX2K#"
SEVERAL = "-----BEGINNING QX0J-----\nQX1J'QX2J\n\n  QX3JQX4J\nQX\n"
CONTROL = "QX6J\x01QX7J\x1b[0mQX8J"
CHUNKS = re.compile("[A-Z0-9]{4,}")
PLAIN_SHELLS = [["bash"], ["dash"], ["busybox", "sh"]]


def masked(secrets: Iterable[str], text: str | bytes) -> str:
    """A line of a log as it is kept."""
    payload = text if isinstance(text, bytes) else text.encode()
    masking = StreamMasker(Masks(secrets), {})
    given = [*masking.take(LogRecord(1, STDOUT, payload), 0), *masking.rest()]
    assert sum(len(record.payload) for record in given) == len(payload)
    return text_of(given)


# ---------------------------------------------------------------- pieces


def hidden_by_hand(secrets: list[bytes], text: bytes) -> bytes:
    hidden = bytearray(text)
    for secret in secrets:
        for start in range(len(text) - len(secret) + 1):
            if text.startswith(secret, start):
                hidden[start : start + len(secret)] = b"*" * len(secret)
    return bytes(hidden)


@st.composite
def outputs(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, bytes]]]:
    """Secrets of few letters, so that they overlap and lie in each other, and an output full of them in pieces."""
    letters = draw(st.sampled_from(["ab", "xyz01"]))
    secrets = draw(st.lists(st.text(letters, min_size=8, max_size=30), min_size=1, max_size=4))
    parts = draw(st.lists(st.sampled_from([*secrets, *letters, "\n", "other words "]), max_size=30))
    pieces = []
    for stream in (STDOUT, STDERR):
        text, at = "".join([*parts, "\n"]).encode(), 0
        while at < len(text):
            size = draw(st.integers(1, 40))
            pieces.append((stream, text[at : at + size]))
            at += size
    sides = {stream: [piece for piece in pieces if piece[0] == stream] for stream in (STDOUT, STDERR)}
    order = draw(st.permutations([stream for stream, _ in pieces]))
    return secrets, [sides[stream].pop(0) for stream in order]


@settings(max_examples=300)
@given(outputs())
def test_the_same_bytes_are_hidden_however_the_output_comes_in_pieces(
    output: tuple[list[str], list[tuple[int, bytes]]],
) -> None:
    secrets, pieces = output
    masking = StreamMasker(Masks(secrets), {})
    given: list[LogRecord] = []
    for number, (stream, payload) in enumerate(pieces):
        given += masking.take(LogRecord(number, stream, payload), 0)
    assert [(one.time_ns, one.stream, len(one.payload)) for one in given] == [
        (number, stream, len(payload)) for number, (stream, payload) in enumerate(pieces)
    ]
    for stream in (STDOUT, STDERR):
        text = b"".join(payload for side, payload in pieces if side == stream)
        shown = b"".join(record.payload for record in given if record.stream == stream)
        assert shown == hidden_by_hand([secret.encode() for secret in secrets], text)


def test_a_secret_that_comes_in_two_records_is_hidden_in_both() -> None:
    masking = StreamMasker(Masks(["hunter2hunter2"]), {})
    assert [*masking.take(line(1, "token hunter2"), 0)] == []
    shown = [*masking.take(line(2, "hunter2 is set\n"), 0.1)]
    assert shown == [line(1, "token *******"), line(2, "******* is set\n")]


def test_what_only_looks_like_a_beginning_comes_as_it_was() -> None:
    masking = StreamMasker(Masks(["hunter2hunter2"]), {})
    assert [*masking.take(line(1, "a hunter"), 0), *masking.take(line(2, "'s hat\n"), 0)] == [
        line(1, "a hunter"),
        line(2, "'s hat\n"),
    ]


def test_an_unfinished_line_waits_for_half_a_second_at_most_and_shows_no_half_of_a_secret() -> None:
    masking = StreamMasker(Masks(["hunter2hunter2"]), {})
    assert [*masking.take(line(1, "Loading h"), 0)] == []
    assert [*masking.take(line(2, "a warning\n", STDERR), 0.1)] == []
    assert [*masking.overdue(0.9 * HOLD_S)] == []
    assert [*masking.overdue(HOLD_S)] == [line(1, "Loading h"), line(2, "a warning\n", STDERR)]
    assert [*masking.take(line(3, "unter2"), 1)] == []
    assert [*masking.overdue(2)] == [line(3, "******")]
    assert [*masking.take(line(4, "hunter2, done\n"), 3)] == [line(4, "*******, done\n")]


@pytest.mark.parametrize("cut", range(1, 14))
def test_an_agent_that_goes_on_in_the_midst_of_a_secret_shows_no_rest_of_it(cut: int) -> None:
    secret = "hunter2hunter2"
    before = StreamMasker(Masks([secret]), {})
    shown = [*before.take(line(1, f"token {secret[:cut]}"), 0), *before.overdue(HOLD_S)]
    end = shown[-1].payload[-3:]
    after = StreamMasker(Masks([secret]), {STDOUT: end})
    shown += [*after.take(line(2, f"{secret[cut:]} set\n"), 0), *after.take(line(3, "next\n"), 0)]
    assert not re.search("[er2]+hunter|2hunter2|hunter", text_of(shown))
    assert text_of(shown).endswith("\nnext\n")


def test_what_ends_within_a_secret_ends_with_asterisks() -> None:
    assert masked(["hunter2hunter2"], "token hunter2hunt") == "token ***********"


# ---------------------------------------------------------------- ways of writing


@pytest.mark.parametrize("shell", PLAIN_SHELLS, ids=lambda words: str(words[0]))
@pytest.mark.parametrize(
    "secret",
    [
        *(NASTY, NASTY.replace("\t", ""), "'ABCDEFGH'", "ABCDEFGH IJKL", "A'BCDEFGHI", "~QX0J #QX1J:~QX2J"),
        *("ÄÖ9QX5JÜ", "ÄÖ9QX5JÜ\x01", CONTROL, SEVERAL),
    ],
)
@pytest.mark.parametrize("language", ["C", "C.UTF-8"])
def test_shells_that_tell_what_they_do_tell_no_secret(shell: list[str], secret: str, language: str) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]} here")
    script = 'set -x; : "$token"; : a"$token"z; token2=$token; set +x; set; export -p; printf "%q\\n" "$token"'
    environment = {"token": secret, "LC_ALL": language, "PATH": os.environ["PATH"]}
    done = subprocess.run([*shell, "-c", script], env=environment, capture_output=True, check=False)
    told = (done.stdout + done.stderr).splitlines(keepends=True)
    assert sum(text.count(CHUNKS.findall(secret)[0].encode()) for text in told) >= 4
    for text in told:
        left = masked([secret], text)
        assert not [part for part in CHUNKS.findall(secret) if part in left], (text, left)


@pytest.mark.parametrize("secret", ["hunter2/hunter2+", "pässwörd-9?>~~~ÿÿÿ", SEVERAL, "x" * 8, "0123456789" * 40])
@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user:"])
def test_base64_of_a_secret_is_hidden_wherever_it_begins_in_what_is_encoded(secret: str, before: str) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(f"{before}{secret}:behind".encode()).decode()
        left = masked([secret], f"key {text}\n")
        whole = len(text) - len(encode(b":behind")) - len(before) * 4 // 3
        assert left.count("*") >= whole - 6
        assert not re.search(re.escape(text[8 : whole - 4]), left) or whole < 16


def test_base64_in_lines_is_hidden_too() -> None:
    secret = "".join(f"{number:03d}ABC" for number in range(40))
    for width in ("76", "64"):
        done = subprocess.run(["base64", "-w", width], input=secret.encode(), capture_output=True, check=True)
        for text in done.stdout.splitlines(keepends=True):
            assert set(masked([secret], text)) <= set("*=\n")


@pytest.mark.parametrize("secret", [NASTY, CONTROL, 'QÄX1J/"QX2J\\QX3J', 'ÄQX1J"QX2J\x01$QX3J'])
def test_programs_that_quote_a_secret_show_none_of_it(secret: str) -> None:
    ways = [json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret), quote(secret), quote(secret, "")]
    ways.append(shlex.quote(secret))
    for text in ways:
        left = masked([secret], f"x {text}\n")
        assert not re.search("[A-Z]", left), (text, left)


def test_go_javascript_and_forms_write_some_characters_otherwise() -> None:
    """Connection strings and addresses have an ``&``, generated passwords a ``<``, those of mail accounts blanks."""
    secret = 'Q1X&Q2X<Q3X>Q4X Q5X!Q6X*"Q7X'
    for text in (
        r"Q1X\u0026Q2X\u003cQ3X\u003eQ4X Q5X!Q6X*\"Q7X",  # Go's json.Marshal
        "Q1X%26Q2X%3CQ3X%3EQ4X%20Q5X!Q6X*%22Q7X",  # encodeURIComponent
        "Q1X%26Q2X%3CQ3X%3EQ4X+Q5X%21Q6X%2A%22Q7X",  # urlencode
    ):
        assert masked([secret], f"x {text}\n") == f"x {'*' * len(text)}\n"


def test_each_line_of_a_secret_of_several_is_hidden_alone() -> None:
    left = masked([SEVERAL], "cert: QX3JQX4J;\n") + masked([SEVERAL], "-----BEGINNING QX0J-----\n")
    assert left == f"cert: {'*' * 8};\n{'*' * 24}\n"
    assert masked([SEVERAL], "QX is short\n") == "QX is short\n"


def test_less_than_eight_characters_are_no_secret() -> None:
    assert masked(["1234567", "pässwör"], "pin 1234567 pässwör\n") == "pin 1234567 pässwör\n"
    assert masked(["12345678"], "pin 12345678\n") == "pin ********\n"


# ---------------------------------------------------------------- many


@pytest.mark.parametrize("kind", ["beginnings", "ends", "one letter"])
def test_many_secrets_within_each_other_are_ready_at_once(kind: str) -> None:
    whole = "".join(f"{number:02x}" for number in range(128))
    secrets = {
        "beginnings": [whole[: 8 + number] for number in range(242)],
        "ends": [whole[number : number + 250 - number] for number in range(242)],
        "one letter": ["a" * (8 + number) for number in range(242)],
    }[kind]
    begun = time.process_time()
    masks = Masks(secrets)
    assert time.process_time() - begun < 0.5
    assert masks.text(f"x {secrets[-1]} {secrets[100]} y") == f"x {'*' * len(secrets[-1])} {'*' * len(secrets[100])} y"


def test_of_many_secrets_within_each_other_the_longest_that_stands_there_is_found() -> None:
    whole = "".join(f"{number:02x}" for number in range(128))
    masks = Masks([whole[:length] for length in range(8, 256, 3)] + [f"{whole[:length]}/" for length in range(8, 256)])
    for length in range(8, 256):
        at_most = length - (length - 8) % 3
        assert masks.text(f"x{whole[:length]}!") == f"x{'*' * at_most}{whole[at_most:length]}!"


def test_many_secrets_that_begin_alike_do_not_hold_an_agent_up() -> None:
    """A job has as many as its file has values, and prints what it likes."""
    masks = Masks(f"AAAAAAAA{number:05d}" for number in range(4900))
    begun = time.process_time()
    for text in (("A" * 80 + "\n") * 200, "A" * 16_000):
        assert len(list(StreamMasker(masks, {}).take(line(1, text), 0))) == (1 if text.endswith("\n") else 0)
    assert time.process_time() - begun < 2


def test_what_is_looked_for_is_bounded_and_every_line_goes_before_its_other_writings() -> None:
    secrets = [f"secret-{number:05d}" for number in range(MOST // 2)]
    masks = Masks(secrets)
    assert masks.incomplete
    assert not Masks(secrets[:100]).incomplete
    assert all(masks.text(secret) == "*" * len(secret) for secret in (secrets[0], secrets[-1]))


def test_a_long_secret_without_lines_is_hidden_whole_and_holds_back_little() -> None:
    secret = "".join(f"{number:x}" for number in range(5000))
    masks = Masks([secret])
    assert masks.longest <= 4096
    assert masks.text(f"a {secret} b") == f"a {'*' * len(secret)} b"
