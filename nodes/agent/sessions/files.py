"""Serves the portal's requests for files of job folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nodes.agent.config.policy import Policy
from nodes.agent.sessions.channel import ChannelClosed, SessionChannel
from nodes.agent.sessions.folders import (
    FilesFailed,
    entry_at,
    failures,
    file_read,
    folder_archive,
    folder_list,
    path_open,
)
from nodes.protocol.messages import Mount, encode
from nodes.protocol.sessions import (
    FileEntry,
    FrameKind,
    ListRequest,
    ReadRequest,
    SessionAnswer,
    SessionEnd,
    SessionFault,
)


def files_serve(channel: SessionChannel, request: ListRequest | ReadRequest, policy: Policy) -> None:
    """Serves one request to its end."""
    with answering(channel):
        _check(request.mount, policy)
        if isinstance(request, ListRequest):
            _list(channel, request)
        else:
            _read(channel, request)


@contextmanager
def answering(channel: SessionChannel) -> Iterator[None]:
    """Context of an answer: a failure is sent as the last frame, and a session that is over gets nothing."""
    try:
        yield
    except FilesFailed as failed:
        channel.end(SessionEnd(fault=failed.fault, message=failed.message))
    except ChannelClosed:
        pass


def _check(mount: Mount, policy: Policy) -> None:
    if not policy.allows_root(mount.root):
        raise FilesFailed(SessionFault.REFUSED, f"The node's policy does not allow files from {mount.root}.")


def _list(channel: SessionChannel, request: ListRequest) -> None:
    with path_open(request.mount, request.path) as (folder, name), failures():
        entry = entry_at(folder, name)
        if entry.kind == "folder":
            listing = encode(folder_list(folder, name, after=request.after, limit=request.limit))
    channel.answer(_answer(entry))
    if entry.kind == "folder":
        channel.send(FrameKind.DATA, listing)
    channel.end(SessionEnd())


def _read(channel: SessionChannel, request: ReadRequest) -> None:
    with path_open(request.mount, request.path) as (folder, name), failures():
        entry = entry_at(folder, name)
        if entry.kind == "folder":
            title = (request.path or request.mount.source.encode(errors="surrogateescape")).rpartition(b"/")[2]
            channel.answer(_answer(entry))
            folder_archive(folder, name, title, lambda data: channel.send(FrameKind.DATA, data))
        else:
            _read_file(channel, request, folder, name, entry)
    channel.end(SessionEnd())


def _read_file(channel: SessionChannel, request: ReadRequest, folder: int, name: bytes, entry: FileEntry) -> None:
    length = entry.size - request.offset if request.length is None else request.length
    pieces = file_read(folder, name, request.offset, length)
    first = next(pieces, b"")  # what cannot be opened has no answer
    channel.answer(_answer(entry))
    channel.send(FrameKind.DATA, first)
    for piece in pieces:
        channel.send(FrameKind.DATA, piece)


def _answer(entry: FileEntry) -> SessionAnswer:
    return SessionAnswer(kind=entry.kind, size=entry.size, changed_ms=entry.changed_ms)
