"""Session server: receives the portal's requests, and passes each session its frames, in one thread over one
connection."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import msgspec
import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from nodes.agent.clock import Clock
from nodes.agent.config.policy import Policy
from nodes.agent.connecting import redis_fault
from nodes.agent.log_throttle import LogThrottle
from nodes.agent.runtimes.base import Runtime, RuntimeUnavailable
from nodes.agent.sessions.channel import ChannelClosed, SessionChannel
from nodes.agent.sessions.deletions import JobFolderDeletions
from nodes.agent.sessions.files import files_serve
from nodes.agent.sessions.proof_writer import ProofWriter
from nodes.agent.sessions.shells import shell_serve
from nodes.protocol.envelope import EnvelopeRejected, NodeKey, envelope_open
from nodes.protocol.messages import decode
from nodes.protocol.names import session_requests
from nodes.protocol.sessions import SessionEnd, SessionFault, SessionRequest, ShellRequest, secret_open

BLOCK_MS = 500
AT_ONCE = 64
FILES_AT_ONCE = 16
AWAY_S = 1.0
CLOSE_WITHIN_S = 3.0
SWEEP_WAIT_S, SWEEP_AGAIN_S = 5.0, 2.0
REMEMBERED = 4096
"""Session ids remembered, so that none is opened twice; a request lives for seconds."""

log = structlog.get_logger(__name__)


class SessionServer:
    """Opens sessions. ``boot`` numbers this start of the agent, ``shells`` is how many may be open at once, and
    ``lease_still_s`` how long the leases of a folder to be deleted must not change."""

    def __init__(
        self,
        *,
        node: str,
        key: NodeKey,
        portal_public_key: str,
        boot: int,
        redis_url: str,
        runtime: Runtime,
        policy: Policy,
        shells: int,
        lease_still_s: float,
        clock: Clock,
    ) -> None:
        self._node, self._key, self._portal, self._boot = node, key, portal_public_key, boot
        self._runtime, self._policy, self._shells, self._clock = runtime, policy, shells, clock
        self._client = redis.Redis.from_url(
            redis_url, socket_timeout=5, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0)
        )
        self._removals = JobFolderDeletions(roots=policy.mount_roots, still_s=lease_still_s)
        self._proofs = ProofWriter(roots=policy.mount_roots)
        self._redis_url, self._throttle = redis_url, LogThrottle(clock.monotonic)
        self._requests = session_requests(node)
        self._last = b"$"
        self._channels: dict[str, tuple[SessionChannel, bool]] = {}
        self._threads: set[threading.Thread] = set()
        self._seen: dict[str, None] = {}
        self._swept, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="session-door", daemon=True)
        self._sweeper = threading.Thread(target=self._sweep, name="session-sweep", daemon=True)

    def open(self) -> None:
        self._thread.start()
        self._sweeper.start()

    def close(self) -> None:
        """Ends every session, its shell included, with a message to the portal."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(5)
        for channel, _ in self._channels.values():
            channel.end(SessionEnd(fault=SessionFault.AWAY, message=f"The agent of {self._node} is shutting down."))
        deadline = self._clock.monotonic() + CLOSE_WITHIN_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
        self._removals.close()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._listen()
            except (redis.RedisError, OSError) as error:
                if self._throttle.new(why := redis_fault(error, self._redis_url, now_ms=self._clock.now_ms())):
                    log.warning("no sessions", reason=why)
                self._drop_all()
                self._closing.wait(AWAY_S)
            except Exception:
                log.exception("sessions: a pass failed")
                self._drop_all()
                self._closing.wait(AWAY_S)

    def _listen(self) -> None:
        if self._last == b"$":
            self._last = self._newest()
        ticked = self._clock.monotonic()
        while not self._closing.is_set():
            self._channels = {name: entry for name, entry in self._channels.items() if not entry[0].over}
            by_stream = {channel.down.encode(): channel for channel, _ in self._channels.values()}
            wanted: Any = {self._requests: self._last, **{key: channel.last for key, channel in by_stream.items()}}
            answer: Any = self._client.xread(wanted, count=AT_ONCE, block=BLOCK_MS)
            self._throttle.over()
            for stream, entries in answer or ():
                for entry_id, fields in entries:
                    self._entry(by_stream.get(stream), entry_id, fields)
            if self._clock.monotonic() - ticked >= BLOCK_MS / 1000:
                ticked = self._clock.monotonic()
                for channel, _ in self._channels.values():
                    with suppress(ChannelClosed):
                        channel.tick()

    def _newest(self) -> bytes:
        """The id behind which requests are for this agent: earlier ones are expired or another's."""
        newest: Any = self._client.xrevrange(self._requests, count=1)
        return newest[0][0] if newest else b"0-0"

    def _entry(self, channel: SessionChannel | None, entry_id: bytes, fields: dict[bytes, bytes]) -> None:
        if channel is not None:
            if not channel.over:
                channel.give(entry_id, fields)
            return
        self._last = entry_id
        try:
            self._request(fields.get(b"request", b"").decode())
        except (EnvelopeRejected, msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.warning("a session was refused", reason=str(error))

    def _drop_all(self) -> None:
        for channel, _ in self._channels.values():
            channel.close()

    # ------------------------------------------------------------ requests

    def _request(self, text: str) -> None:
        """Opens the requested session. Raises EnvelopeRejected, MsgspecError for what must not be answered."""
        body = envelope_open(
            text, public=self._portal, sender="portal", to=self._node, kind="session", now_ms=self._clock.now_ms()
        )
        request = decode(body, SessionRequest)
        if request.boot != self._boot:
            raise EnvelopeRejected("it is for an earlier or later start of this agent")
        if request.session in self._seen:
            raise EnvelopeRejected("it was answered already")
        self._seen[request.session] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._open(request)

    def _open(self, request: SessionRequest) -> None:
        channel = SessionChannel(
            self._client, node=self._node, session=request.session, secret=secret_open(self._key, request.secret),
            silence_s=request.silence_s, clock=self._clock,
        )  # fmt: skip
        is_shell = request.shell is not None
        most = self._shells if is_shell else FILES_AT_ONCE
        if sum(shell is is_shell for other, shell in self._channels.values() if not other.over) >= most:
            channel.end(SessionEnd(fault=SessionFault.BUSY, message=_busy(self._node, most, is_shell)))
            return
        self._channels[request.session] = (channel, is_shell)
        thread = threading.Thread(target=self._serve, args=(channel, request), name="session", daemon=True)
        self._threads = {one for one in self._threads if one.is_alive()} | {thread}
        thread.start()

    def _serve(self, channel: SessionChannel, request: SessionRequest) -> None:
        """Serves one session, in a thread of its own."""
        try:
            if request.shell is not None:
                self._serve_shell(channel, request.shell)
            elif (asked := request.listing or request.reading) is not None:
                files_serve(channel, asked, self._policy)
            elif request.deleting is not None:
                self._removals.serve(channel, request.deleting)
            elif request.proving is not None:
                self._proofs.serve(channel, request.proving)
        except Exception:
            log.exception("a session failed", session=request.session)
        finally:
            channel.end(SessionEnd(fault=SessionFault.BROKEN, message=f"The agent of {self._node} made a mistake."))

    def _serve_shell(self, channel: SessionChannel, request: ShellRequest) -> None:
        # What an earlier agent left open is ended first: else the sweep would take this one for such.
        if self._swept.wait(SWEEP_WAIT_S):
            shell_serve(channel, request, self._runtime)
        else:
            channel.end(SessionEnd(fault=SessionFault.AWAY, message=f"The runtime of {self._node} does not answer."))

    def _sweep(self) -> None:
        """Ends the shells that a killed agent left behind."""
        throttle = LogThrottle(self._clock.monotonic)
        while not self._closing.is_set():
            try:
                self._runtime.end_leftover_shells()
            except RuntimeUnavailable as away:
                if throttle.new(str(away)):
                    log.warning("shells of an earlier agent are not ended yet", error=str(away))
                self._closing.wait(SWEEP_AGAIN_S)
            except Exception:
                log.exception("shells of an earlier agent are not ended yet")
                self._closing.wait(SWEEP_AGAIN_S)
            else:
                self._swept.set()
                return


def _busy(node: str, most: int, is_shell: bool) -> str:
    if is_shell and most == 0:
        return f"{node} allows no shells."
    return f"{most} {'shells' if is_shell else 'downloads'} are open on {node}, as many as it allows. Try again later."
