"""A task's secrets are hidden whatever becomes of its agent, and in what the agent says of the task."""

from __future__ import annotations

from pathlib import Path

from nodes.agent.attempts.secrets import AttemptSecrets
from nodes.agent.logs.masks import Masks
from nodes.agent.runtimes.base import AttemptFailed
from nodes.protocol import wordings
from nodes.protocol.messages import Exit, SshServer, encode
from nodes.protocol.states import Cause, ContainerState, Phase
from tests.support.cluster.agent_logs import Printed, line
from tests.support.cluster.memory_runtime import MemoryRuntime
from tests.support.cluster.portal_side import spec_of
from tests.support.cluster.supervised_node import Node, desired, in_state, order, soon, wait_for

SECRET = "hunter2-hunter2"
SPEC = spec_of("true", hidden=("another secret", SECRET))
STARS = "*" * len(SECRET)


def printing(*texts: str) -> MemoryRuntime:
    records = [line(number, text) for number, text in enumerate(texts, 1)]
    return MemoryRuntime(output=lambda: Printed(records, ended=True))


def test_an_agent_that_is_started_anew_hides_secrets_before_it_hears_of_the_portal(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.life() as supervisor:
        supervisor.take(desired(1, order(SPEC, Phase.RUN)))
        wait_for(supervisor, SPEC, in_state(ContainerState.RUNNING))
    node.runtime.output = printing(f"token {SECRET}\n").output
    node.runtime.end(SPEC.attempt, 1)
    with node.life() as supervisor:
        ended = soon(supervisor, SPEC, lambda report: report.exit)
    assert ended.exit is not None
    assert ended.exit.log_tail == f"token {STARS}\n"
    assert SECRET not in everything_kept(tmp_path)


def test_a_log_is_not_read_until_it_is_known_what_it_hides(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.life() as supervisor:
        supervisor.take(desired(1, order(SPEC, Phase.RUN)))
        wait_for(supervisor, SPEC, in_state(ContainerState.RUNNING))
    (tmp_path / "attempts" / f"{SPEC.attempt}.json").unlink()
    node.runtime.output = printing(f"token {SECRET}\n").output
    with node.life() as supervisor:
        for _ in range(3):
            assert soon(supervisor, SPEC, in_state(ContainerState.RUNNING)).log_end == 0
        supervisor.take(desired(2, order(SPEC, Phase.STOP)))
        ended = soon(supervisor, SPEC, lambda report: report.exit and report.log_complete)
    assert ended.exit is not None
    assert ended.exit.log_tail == f"token {STARS}\n"
    assert SECRET not in everything_kept(tmp_path)


def everything_kept(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def test_a_reason_hides_secrets(tmp_path: Path) -> None:
    node = Node(
        tmp_path,
        MemoryRuntime(fails=AttemptFailed(Cause.IMAGE_DENIED, f"no image at https://bob:{SECRET}@example.org")),
    )
    with node.life() as supervisor:
        supervisor.take(desired(1, order(SPEC, Phase.RUN)))
        ended = wait_for(supervisor, SPEC, lambda report: report.exit)
    assert ended.exit is not None
    assert ended.exit.message == f"no image at https://bob:{STARS}@example.org"


def test_what_a_message_hides_is_not_in_its_data_either() -> None:
    secrets = AttemptSecrets(None)  # type: ignore[arg-type]  # asked only for what a record keeps
    secrets.masks = Masks([SECRET])
    ended = Exit(cause=Cause.INVALID, message=wordings.NO_COMMAND(why=f"no file {SECRET}"))
    shown = SshServer(message=wordings.NO_COMMAND(why=SECRET))
    for told in (secrets.exit(ended), secrets.ssh(shown)):
        assert SECRET not in encode(told).decode()
        assert told.message.startswith("the command could not be started")
    plain = Exit(cause=Cause.INVALID, message=wordings.NO_SHELL())
    assert secrets.exit(plain) == plain, "what hides nothing stays as it is"
