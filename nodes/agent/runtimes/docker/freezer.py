"""Pauses of parked containers, and their memory limits."""

from __future__ import annotations

from docker.errors import APIError

from nodes.agent.runtimes.base import LimitRefused, RuntimeUnavailable
from nodes.agent.runtimes.cgroups import cgroup_container, cgroup_memory_fits, cgroup_memory_limit
from nodes.agent.runtimes.docker.engine import Engine
from nodes.agent.runtimes.docker.faults import engine_errors
from nodes.protocol.names import container_name

_ALREADY = (404, 409, 500)
"""What the Engine answers of a container that is gone, or paused (not paused) already."""


class DockerFreezer:
    """``Freezer`` over one Engine. A container's log may pause it, too: not while it is taken off its GPU, for a paused
    process cannot be; and the log does not let a parked one go on."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: dict[str, bool] = {}  # attempt -> whether it is to be paused

    def sees_processes(self) -> bool:
        return self._engine.age_s() is not None

    def thaw(self, attempt: str) -> None:
        self._kept[attempt] = False
        self._unpause(attempt)

    def freeze(self, attempt: str) -> None:
        self._kept[attempt] = True
        self._pause(attempt)

    def release(self, attempt: str) -> None:
        self._kept.pop(attempt, None)

    def log_freeze(self, attempt: str) -> None:
        """Pauses it for its log. Raises RuntimeUnavailable while it is taken off its GPU, or put back."""
        if self._kept.get(attempt) is False:
            raise RuntimeUnavailable("it is taken off its GPU, or put back, at this moment")
        self._pause(attempt)

    def log_thaw(self, attempt: str) -> None:
        """Lets it go on, as far as its log is concerned."""
        if not self._kept.get(attempt):
            self._unpause(attempt)

    def set_memory(self, attempt: str, mb: int, *, although_more: bool = False) -> None:
        details = self._engine.inspect(attempt)
        if details is None or not details["State"]["Running"]:
            return
        pid = int(details["State"]["Pid"])
        if not although_more and not cgroup_memory_fits(pid, mb << 20):
            raise LimitRefused("its processes hold more than that")
        requests = details["HostConfig"]["DeviceRequests"] or ()
        if all(one["Driver"] == "cdi" for one in requests):
            with engine_errors():
                try:
                    self._engine.client().update_container(details["Id"], mem_limit=mb << 20, memswap_limit=mb << 20)
                except APIError as error:
                    raise LimitRefused(str(error.explanation)) from error
            return
        # An update by the Engine would take the GPUs from a container that has them not by CDI.
        if cgroup_container(pid) != details["Id"]:
            raise LimitRefused("its control group is not seen from here")
        try:
            cgroup_memory_limit(pid, mb << 20)
        except (OSError, KeyError) as error:
            raise LimitRefused(f"its control group does not take it ({error})") from error

    def _pause(self, attempt: str) -> None:
        self._change("pause", attempt)

    def _unpause(self, attempt: str) -> None:
        self._change("unpause", attempt)

    def _change(self, verb: str, attempt: str) -> None:
        """Already done, or ended, is as good."""
        with engine_errors():
            try:
                getattr(self._engine.client(), verb)(container_name(attempt))
            except APIError as error:
                if error.status_code not in _ALREADY:
                    raise RuntimeUnavailable(f"the Engine does not {verb} it: {error.explanation}") from error
