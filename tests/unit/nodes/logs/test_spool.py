"""The spool keeps what it was given, whenever it is killed, and says what it could not keep."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.agent.logs.base import MAX_PAYLOAD
from nodes.agent.logs.sidecar import sidecar_read
from nodes.agent.logs.spool import Spool
from nodes.protocol.logs import MARK, STDERR, STDOUT, LogRecord, records_decode
from tests.support.cluster.agent_logs import Printed, line, lines, text_of


def all_records(spool: Spool, offset: int = 0, limit: int = 64 * 1024) -> list[LogRecord]:
    return [record for _, data in batches(spool, offset, limit) for record in records_decode(data)]


def batches(spool: Spool, offset: int = 0, limit: int = 64 * 1024) -> Iterator[tuple[int, bytes]]:
    while True:
        start, data = spool.read(offset, limit)
        if not data:
            return
        yield start, data
        offset = start + len(data)


def feed(spool: Spool, source: Printed, number: int) -> None:
    """Takes up to ``number`` records more from an ended source, as a follower does."""
    for record, _ in zip(source.frames(spool.position), range(number), strict=False):
        spool.append(record)


def newest_segment(folder: Path) -> Path:
    return max(folder.glob("*.seg"))


def tear(folder: Path, size: int) -> None:
    """Cuts up to ``size`` bytes off the newest segment, as a write that was killed half way; never what was synced."""
    newest, synced = newest_segment(folder), json.loads((folder / "state.json").read_bytes())["offset"]
    os.truncate(newest, max(synced - int(newest.stem), newest.stat().st_size - size, 0))


def no_room(*written: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


records_of_a_job = st.lists(
    st.builds(
        lambda step, stream, payload: (step, stream, payload),
        st.integers(0, 2),
        st.sampled_from([STDOUT, STDERR]),
        st.binary(max_size=40),
    ),
    min_size=1,
    max_size=60,
).map(
    lambda raw: [
        LogRecord(1 + sum(step for step, _, _ in raw[: n + 1]), stream, payload)
        for n, (_, stream, payload) in enumerate(raw)
    ]
)


@settings(max_examples=60)
@given(
    printed=records_of_a_job,
    rounds=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 60)), max_size=6),
    segment=st.sampled_from([1, 50, 200, 4000]),
    busy=st.booleans(),
)
def test_killed_at_any_byte_it_goes_on_without_losing_or_doubling_a_record(
    printed: list[LogRecord], rounds: list[tuple[int, int]], segment: int, busy: bool
) -> None:
    clock = (lambda: 0.0) if busy else count().__next__
    source = Printed(printed, ended=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "attempt"
        for number, torn in rounds:
            spool = Spool(folder, segment=segment, clock=clock, boot="one")
            feed(spool, source, number)
            tear(folder, torn)  # what the killed agent had in memory is gone with it
        spool = Spool(folder, segment=segment, boot="one")
        feed(spool, source, len(printed))

        assert all_records(spool) == printed
        assert all_records(spool, limit=1) == printed
        spool.remove()


def test_a_closed_spool_gives_the_same_bytes_and_position_when_opened_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", segment=100, boot="one")
    for record in [*lines(20), line(20, "same time\n"), line(20, "err\n", STDERR)]:
        spool.append(record)
    before, end, position = all_records(spool), spool.end, spool.position
    spool.close()

    again = Spool(tmp_path / "a", segment=100, boot="one")

    assert (all_records(again), again.end, again.position) == (before, end, position)
    assert (position.last_time_ns, position.at_last) == (20, 3)
    assert position.payload_bytes == {STDOUT: 210, STDERR: 4}


def test_the_greatest_time_is_known_after_a_clock_was_set_back(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", boot="one")
    for time_ns in (5, 9, 2, 3):
        spool.append(LogRecord(time_ns, STDOUT, b"x\n"))
    position = spool.position
    assert (position.last_time_ns, position.newest_ns) == (3, 9)
    spool.close()
    assert Spool(tmp_path / "a", boot="one").position == position


def test_of_a_spool_that_is_closed_or_removed_no_file_stays_open(tmp_path: Path) -> None:
    def held() -> list[str]:
        there = (os.readlink(file) for file in Path("/proc/self/fd").iterdir() if file.is_symlink())
        return [name for name in there if name.startswith(str(tmp_path))]

    for number in range(3):
        spool = Spool(tmp_path / f"spool-{number}", segment=500)
        for record in lines(30):
            spool.append(record)
        assert len(held()) == 1
        spool.close()
        assert not held()
        again = Spool(tmp_path / f"spool-{number}", segment=500)
        assert len(held()) == 1
        again.remove()
        assert not held()


def test_bytes_that_are_no_record_are_cut_off_when_it_opens(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", boot="one")
    spool.append(line(1, "whole\n"))
    spool.flush()
    with newest_segment(tmp_path / "a").open("ab") as file:
        file.write(bytes(100))

    again = Spool(tmp_path / "a", boot="one")
    again.append(line(2, "next\n"))

    assert text_of(all_records(again)) == "whole\nnext\n"


def test_acknowledged_segments_are_deleted_and_the_rest_stays_readable(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", segment=230, boot="one")  # ten records a segment
    for record in lines(100):
        spool.append(record)
    spool.acknowledge(1000)

    assert spool.start == 920
    assert all_records(spool, 1012) == lines(100)[44:]
    spool.acknowledge(1150)
    assert spool.start == 1150, "a segment goes with its last byte"
    assert [spool.boundary_from(offset) for offset in (1150, 1151, 1172, 1173, 1174)] == [1150, 1173, 1173, 1173, 1196]
    assert sum(path.stat().st_size for path in (tmp_path / "a").glob("*.seg")) < 23 * 100


def test_a_batch_ends_at_a_record_and_holds_at_least_one(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", boot="one")
    for record in lines(10):
        spool.append(record)

    assert [len(data) for _, data in batches(spool, limit=70)] == [69, 69, 69, 23]
    assert [len(data) for _, data in batches(spool, limit=1)] == [23] * 10


def test_the_longest_payload_fits_any_limit(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", segment=1000, boot="one")
    for n in range(3):
        spool.append(LogRecord(n + 1, STDOUT, b"x" * MAX_PAYLOAD))

    assert [len(record.payload) for record in all_records(spool, limit=10)] == [MAX_PAYLOAD] * 3


# ---------------------------------------------------------------- a full spool


def test_a_full_spool_drops_whole_lines_and_marks_their_place(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", limit=230, segment=50, boot="one")
    for record in lines(15):
        spool.append(record)
    spool.acknowledge(spool.end)
    for record in lines(5, first=15):
        spool.append(record)

    kept = all_records(spool, spool.start)
    mark = [record for record in all_records(spool, spool.start) if record.stream == MARK]
    assert spool.dropped_lines == 5
    assert [record.payload.decode() for record in mark] == ["… 5 lines dropped here: the portal was away\n"]
    assert kept[kept.index(mark[0]) + 1 :] == lines(5, first=15)


def test_killed_right_behind_a_mark_it_neither_forgets_nor_repeats_what_it_dropped(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", limit=230, segment=150, boot="one")
    for record in lines(15):
        spool.append(record)
    spool.acknowledge(spool.end)
    spool.append(line(16, "back again\n"))
    spool.flush()

    again = Spool(tmp_path / "a", limit=230, segment=150, boot="one")

    assert again.dropped_lines == 5
    assert again.position.payload_bytes == {STDOUT: 150 + len("back again\n")}
    assert text_of(all_records(again, again.start)).endswith("the portal was away\nback again\n")


def test_killed_while_it_drops_it_goes_on_from_what_it_noted_a_bounded_number_of_bytes_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.agent.logs.spool.STATE_EVERY", 40)
    spool, taken = Spool(tmp_path / "a", limit=230, segment=150, boot="one"), 0
    for record in lines(40):
        spool.append(record)
        taken += len(record.payload)
        known = sidecar_read(tmp_path / "a" / "state.json")
        assert known
        if spool.dropped_lines:
            assert taken - known.position.payload_bytes[STDOUT] < 40
    assert spool.dropped_lines > 20


def test_a_line_that_is_dropped_in_pieces_counts_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", limit=230, segment=50, boot="one")
    for record in [*lines(10), line(11, "begun "), line(12, "and "), line(13, "ended\n"), line(14, "another\n")]:
        spool.append(record)
    assert spool.dropped_lines == 2


def test_lines_dropped_at_the_very_end_are_marked_too(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", limit=230, boot="one")
    for record in lines(11):
        spool.append(record)
    spool.settle()

    assert all_records(spool)[:10] == lines(10)
    assert text_of(all_records(spool)[10:]) == "… 1 line dropped here: the portal was away\n"


def test_a_line_begun_before_the_spool_was_full_gets_its_end(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", limit=60, segment=10, boot="one")
    spool.append(line(1, "the loss is "))
    spool.append(line(2, "0.25 and falling\nnever seen\n"))
    spool.append(line(3, "half of "))
    before = text_of(all_records(spool))
    spool.acknowledge(spool.end)
    spool.append(line(4, "a dropped line\nback again\n"))

    assert before == "the loss is 0.25 and falling\n"
    assert text_of(all_records(spool)).endswith("… 2 lines dropped here: the portal was away\nback again\n")


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=80),
    kills=st.sets(st.integers(0, 80), max_size=5),
    acks=st.sets(st.integers(0, 80), max_size=8),
    limit=st.sampled_from([100, 300, 1000]),
    segment=st.sampled_from([64, 200]),
)
def test_every_line_is_either_kept_in_order_or_counted_whatever_kills_it(
    sizes: list[int], kills: set[int], acks: set[int], limit: int, segment: int
) -> None:
    printed = [line(n + 1, f"{n}".zfill(size) + "\n") for n, size in enumerate(sizes)]
    source = Printed(printed, ended=True)
    archive: list[LogRecord] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "attempt"
        archived = 0
        spool = Spool(folder, limit=limit, segment=segment, boot="one")
        for step in range(len(sizes)):
            if step in acks:
                archive += all_records(spool, archived)
                archived = spool.end
                spool.acknowledge(archived)
            if step in kills:
                spool = Spool(folder, limit=limit, segment=segment, boot="one")
            feed(spool, source, 1)
        feed(spool, source, len(sizes))
        spool.settle()
        archive += all_records(spool, archived)

        kept = [record for record in archive if record.stream != MARK]
        told = sum(int(record.payload.decode().split()[1]) for record in archive if record.stream == MARK)
        assert [record for record in printed if record in kept] == kept
        assert len(kept) + told == len(printed)
        assert told == spool.dropped_lines
        assert spool.position.payload_bytes == {STDOUT: sum(len(record.payload) for record in printed)}
        spool.remove()


# ---------------------------------------------------------------- a machine started anew


def test_after_a_start_of_the_machine_it_goes_on_where_others_know_more(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", boot="one")
    spool.append(line(1, "kept\n"))
    spool.flush()

    again = Spool(tmp_path / "a", boot="two")
    assert again.tail_uncertain
    again.resume_at(5000, time_ns=7)
    again.append(line(9, "after\n"))

    assert not again.tail_uncertain
    assert text_of(all_records(again, 5000)).startswith("… this node was started anew")
    assert text_of(all_records(again, 5000)).endswith("after\n")
    assert text_of(all_records(again, 0)).startswith("kept\n… this node")
    assert not Spool(tmp_path / "a", boot="two").tail_uncertain


def test_the_doubt_lasts_until_it_is_resolved(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", boot="one")
    spool.append(line(1, "kept\n"))
    spool.flush()

    assert Spool(tmp_path / "a", boot="two").tail_uncertain
    assert Spool(tmp_path / "a", boot="two").tail_uncertain


# ---------------------------------------------------------------- a full disk


def test_a_record_that_the_disk_refused_is_taken_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path / "a", clock=lambda: 0.0, boot="one")
    real, room = os.write, [5]

    def small_disk(fd: int, data: bytes) -> int:
        if room[0] <= 0:
            raise OSError(28, "No space left on device")
        written = real(fd, bytes(data)[: room[0]])
        room[0] -= written
        return written

    spool.append(line(1, "first\n"))
    monkeypatch.setattr(os, "write", small_disk)
    with pytest.raises(OSError, match="No space"):
        spool.flush()
    assert all_records(spool) == []
    room[0] = 1 << 30
    spool.append(line(2, "second\n"))

    assert text_of(all_records(spool)) == "first\nsecond\n"


def test_a_record_that_the_disk_refused_stands_there_once_whoever_still_holds_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path / "a", clock=lambda: 0.0, boot="one")
    spool.append(line(1, "first\n"))
    with monkeypatch.context() as full:
        full.setattr(os, "write", no_room)
        with pytest.raises(OSError, match="No space") as held:
            spool.flush()

    spool.flush()
    spool.append(line(2, "second\n"))

    assert text_of(all_records(spool)) == "first\nsecond\n"
    assert held.value.errno == errno.ENOSPC


def test_a_segment_that_could_not_be_begun_is_begun_later_and_nothing_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, real, refusals = Spool(tmp_path / "a", segment=46, boot="one"), os.open, [2]

    def too_many_files(path: Path, flags: int, mode: int = 0o777) -> int:
        if str(path).endswith(".seg") and refusals[0]:
            refusals[0] -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags, mode)

    first, second, third = lines(3)
    spool.append(first)
    spool.append(second)
    monkeypatch.setattr(os, "open", too_many_files)
    for _ in range(2):
        with pytest.raises(OSError, match="Too many"):
            spool.append(third)
        assert all_records(spool) == [first, second]
    spool.append(third)

    assert all_records(spool) == [first, second, third]


def test_a_spool_opens_on_a_full_disk_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path / "a", segment=100, boot="one")
    for record in lines(20):
        spool.append(record)
    spool.close()
    monkeypatch.setattr("nodes.agent.logs.spool.sidecar_write", no_room)

    again = Spool(tmp_path / "a", segment=100, boot="one")

    assert all_records(again) == lines(20)
    assert again.position == spool.position


def test_a_boundary_is_told_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path / "a", clock=lambda: 0.0, boot="one")
    for record in lines(2):
        spool.append(record)
    spool.flush()
    spool.append(line(3, "waits in memory\n"))
    monkeypatch.setattr(os, "write", no_room)

    assert spool.boundary_from(30) == 46


# ---------------------------------------------------------------- a disk that loses what it had


@pytest.mark.parametrize("kept", [b"", b"{", b'{"boot": 5}', b'{"boot": "\xff"}'])
def test_a_spool_whose_state_cannot_be_read_asks_others_and_goes_on(tmp_path: Path, kept: bytes) -> None:
    spool = Spool(tmp_path / "a", segment=100, boot="one")
    for record in lines(20):
        spool.append(record)
    spool.close()
    (tmp_path / "a" / "state.json").write_bytes(kept)

    again = Spool(tmp_path / "a", segment=100, boot="one")

    assert again.tail_uncertain
    again.resume_at(0, time_ns=1)
    assert (again.position, again.end) == (spool.position, spool.end)
    assert all_records(again) == lines(20)
    assert not Spool(tmp_path / "a", segment=100, boot="one").tail_uncertain


def test_a_segment_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", segment=230, boot="one")  # ten records a segment
    for record in lines(35):
        spool.append(record)
    gone = sorted((tmp_path / "a").glob("*.seg"))[1]
    gone.unlink()

    assert all_records(spool) == [*lines(10), *lines(15, first=20)]
    assert spool.boundary_from(300) == 300


def test_the_doubt_stays_where_the_disk_cannot_take_what_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path / "a", boot="one")
    spool.append(line(1, "kept\n"))
    spool.close()
    again = Spool(tmp_path / "a", boot="two")
    with monkeypatch.context() as full:
        full.setattr("nodes.agent.logs.spool.sidecar_write", no_room)
        with pytest.raises(OSError, match="No space"):
            again.resume_at(5000, time_ns=7)
    assert again.tail_uncertain
    again.resume_at(5000, time_ns=7)
    assert not again.tail_uncertain
    assert text_of(all_records(again, 5000)).startswith("… this node was started anew")


def test_the_tail_is_what_the_container_said_last_also_after_it_opens_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", boot="one")
    for record in lines(1000):
        spool.append(record)
    spool.mark("a line of ours\n", time_ns=1)
    spool.close()

    for tail in (spool.tail, Spool(tmp_path / "a", boot="one").tail):
        assert len(tail) == 4096
        assert tail.endswith("000000998\n000000999\n")
