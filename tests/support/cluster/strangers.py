"""Containers on a stack's server that its portal does not know, as a portal that was restored finds them."""

from nodes.agent.runtimes.base import Image
from nodes.agent.runtimes.process.runtime import ProcessRuntime
from tests.support.cluster.portal_side import spec_of
from tests.support.cluster.stack import Stack


def stranger_begin(stack: Stack, *, gpus: tuple[str, ...]) -> str:
    """One on the first server, of the process runtime, made but never told to begin. Its task attempt."""
    agent = stack.agents[0]
    state = stack.state_of(agent)
    runtime = ProcessRuntime(cluster="berth", node=agent.name, folder=state / "process", homes=state / "homes")
    spec = spec_of("true", gpus=gpus)
    runtime.create(spec, "unknown", Image(digest="process", reference=spec.image))
    runtime.close()
    return spec.attempt
