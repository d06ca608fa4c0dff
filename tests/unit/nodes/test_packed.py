"""What a packed folder may hold, and what is refused before anything is done with it."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc

import pytest

from nodes.protocol.packed import Bounds, Entry, PackedInvalid, PackedTooLarge, packed_check, packed_read
from tests.support.run.archives import HELLO, member, packed

BOUNDS = Bounds(unpacked=10 << 20, entries=100)
MB = 1 << 20


def refusal(archive: bytes, bounds: Bounds = BOUNDS) -> str:
    with pytest.raises(PackedInvalid) as refused:
        packed_check(io.BytesIO(archive), bounds)
    return refused.value.reason


def test_a_folder_is_read_with_its_files_folders_and_links() -> None:
    archive = packed(
        {".": member(".", tarfile.DIRTYPE), **HELLO, "run": member("run", tarfile.SYMTYPE, "lib/words.py")},
        modes={"train.py": 0o755},
    )
    found = {entry.path: (entry.kind, entry.executable, b"".join(data)) for entry, data in read(archive)}
    assert found == {
        "train.py": ("file", True, HELLO["train.py"]),
        "lib/words.py": ("file", False, HELLO["lib/words.py"]),
        "run": ("link", False, b""),
    }
    assert packed_check(io.BytesIO(archive), BOUNDS) == Bounds(unpacked=sum(map(len, HELLO.values())), entries=4)


def read(archive: bytes) -> list[tuple[Entry, list[bytes]]]:
    return [(entry, list(data)) for entry, data in packed_read(io.BytesIO(archive), BOUNDS)]


@pytest.mark.parametrize("target", ["words.py", "../train.py", "./../lib/words.py", "nowhere"])
def test_links_that_stay_inside_are_taken(target: str) -> None:
    archive = packed({**HELLO, "lib/link": member("lib/link", tarfile.SYMTYPE, target)})
    assert packed_check(io.BytesIO(archive), BOUNDS).entries == 4


@pytest.mark.parametrize(
    ("hostile", "said"),
    [
        (member("/etc/passwd", tarfile.DIRTYPE), "absolute path"),
        (member("a/../../b", tarfile.DIRTYPE), "leaves the folder"),
        (member("..", tarfile.DIRTYPE), "leaves the folder"),
        (member("link", tarfile.SYMTYPE, "/etc/passwd"), "leaves the folder"),
        (member("link", tarfile.SYMTYPE, "../outside"), "leaves the folder"),
        (member("lib/link", tarfile.SYMTYPE, "../../outside"), "leaves the folder"),
        (member("lib/link", tarfile.SYMTYPE, "words/../.."), "leaves the folder"),
        (member("link", tarfile.SYMTYPE, ""), "cannot be followed"),
        (member("hard", tarfile.LNKTYPE, "train.py"), "a hard link"),
        (member("pipe", tarfile.FIFOTYPE), "neither a file"),
        (member("null", tarfile.CHRTYPE), "neither a file"),
        (member("disk", tarfile.BLKTYPE), "neither a file"),
        (member("sparse", tarfile.GNUTYPE_SPARSE), "neither a file"),
        (member("./train.py", tarfile.SYMTYPE, "lib"), "twice"),
        (member("train.py/below", tarfile.DIRTYPE), "no folder"),
        (member("new\nline", tarfile.DIRTYPE), "control characters"),
        (member("no\udcffutf8", tarfile.DIRTYPE), "not UTF-8"),
        (member("/".join("d" * 41), tarfile.DIRTYPE), "folders deep"),
        (member("n" * 256, tarfile.DIRTYPE), "too long"),
    ],
    ids=lambda value: value.name[:20] if isinstance(value, tarfile.TarInfo) else "",
)
def test_what_could_reach_outside_or_is_no_plain_content_is_refused(hostile: tarfile.TarInfo, said: str) -> None:
    assert said in refusal(packed({**HELLO, hostile.name: hostile}))


def test_nothing_is_written_through_a_link() -> None:
    assert "no folder" in refusal(packed({"out": member("out", tarfile.SYMTYPE, "lib"), "out/x": b"x"}))
    assert "twice" in refusal(packed({"out/x": b"x", "out": member("out", tarfile.SYMTYPE, "lib")}))


def test_what_is_no_archive_or_a_damaged_one_is_refused() -> None:
    good = packed(HELLO)
    for bad in (b"", b"no archive", gzip.compress(b"no tar"), good[:-12], good[:-4] + b"\0\0\0\0", good[:60]):
        assert "archive" in refusal(bad)


def test_a_bomb_is_found_before_it_is_unpacked() -> None:
    bomb = gzip.compress(packed_tar("zeros", 200 * MB))
    assert len(bomb) < MB
    tracemalloc.start()
    with pytest.raises(PackedTooLarge, match="10,485,760 bytes"):
        packed_check(io.BytesIO(bomb), BOUNDS)
    assert tracemalloc.get_traced_memory()[1] < 8 * MB
    tracemalloc.stop()


def packed_tar(name: str, size: int) -> bytes:
    """A tar of one file of zeros."""
    made = tarfile.TarInfo(name)
    made.size = size
    return made.tobuf() + bytes(size + 1024)


def test_a_header_that_is_itself_a_bomb_is_refused() -> None:
    assert "headers" in refusal(packed({"huge": long_header(5 * MB)}))


def long_header(size: int) -> tarfile.TarInfo:
    made = tarfile.TarInfo("name")
    made.pax_headers = {"comment": "x" * size}
    return made


def test_headers_without_files_are_refused_before_they_take_long() -> None:
    top = member(".", tarfile.DIRTYPE).tobuf() * 10_000
    chained = (pax(tarfile.XGLTYPE, "comment") * 50 + member(".", tarfile.DIRTYPE).tobuf()) * 100
    for again in (top, member("again", tarfile.DIRTYPE).tobuf() * 10_000, chained):
        archive = gzip.compress(again + bytes(1024))
        assert len(archive) < 64 * 1024
        assert "so few files" in refusal(archive)


def test_what_stands_for_all_members_is_little() -> None:
    """Each member goes through it."""
    keys = pax(tarfile.XGLTYPE, *(f"k{number}" for number in range(17)))
    for at_once in (keys, b"".join(pax(tarfile.XGLTYPE, f"k{number}") for number in range(17))):
        assert "global headers" in refusal(gzip.compress(at_once + packed_tar("name", 5)))
        assert "global headers" in refusal(gzip.compress(member("d", tarfile.DIRTYPE).tobuf() + at_once + bytes(1024)))
    commented = pax(tarfile.XGLTYPE, "comment") + packed_tar("name", 5)
    assert [entry.path for entry, _ in read(gzip.compress(commented))] == ["name"], "as git archive writes"


def pax(kind: bytes, *keywords: str) -> bytes:
    """An extended header with these keywords."""
    records = b"".join(f"{len(word) + 6:02} {word}=x\n".encode() for word in keywords)
    made = tarfile.TarInfo("pax")
    made.type, made.size = kind, len(records)
    return made.tobuf() + records + bytes(-len(records) % 512)


def test_many_files_with_long_names_in_extended_headers_are_taken() -> None:
    name = "/".join(["folder" * 30] * 5)
    many = {f"{name}/{number}ü": b"x" for number in range(90)}
    assert packed_check(io.BytesIO(packed(many)), BOUNDS).entries == 95


def test_too_many_files_are_too_many_whatever_their_size() -> None:
    many = packed({f"f{number}": b"" for number in range(101)})
    with pytest.raises(PackedTooLarge, match="more than 100"):
        packed_check(io.BytesIO(many), BOUNDS)
    deep = packed({f"{number}/a/b/c/f": b"" for number in range(25)})
    with pytest.raises(PackedTooLarge, match="more than 100"):
        packed_check(io.BytesIO(deep), BOUNDS)
