"""The agent's Celery app, and the worker step that starts and ends the agent."""

from __future__ import annotations

from typing import Any

from celery import Celery, bootsteps
from kombu import Queue

from nodes.agent.assembly import Agent
from nodes.agent.attempts.orders import tasks_register
from nodes.agent.clock import SystemClock
from nodes.agent.config.options import Options
from nodes.protocol.accounts import reports_url
from nodes.protocol.names import CELERY_DEFAULTS, agent_transport_options, node_queue


def app_make(options: Options) -> Celery:
    """Builds an app that consumes only the node's own queue, with the agent that its worker starts."""
    clock = SystemClock()
    # Without fixups: Celery would load the portal where its settings are named, as they are by `make run`.
    app = Celery("nodes", set_as_current=False, fixups=[])
    app.conf.update(
        CELERY_DEFAULTS,
        broker_read_url=options.redis_url,
        broker_write_url=reports_url(options.redis_url, options.name),
        broker_transport_options=agent_transport_options(),
        task_queues=[Queue(node_queue(options.name))],
        task_default_queue=node_queue(options.name),
    )
    agent = Agent(options, app, clock)
    tasks_register(app, node=options.name, portal_public_key=options.portal_public_key, clock=clock, take=agent.take)
    app.steps["worker"].add(agent_step(agent))
    return app


def agent_step(agent: Agent) -> type[bootsteps.StartStopStep]:
    """The worker step over ``agent``. It comes before the consumer, so a broker that is down delays nothing."""

    class AgentStep(bootsteps.StartStopStep):
        requires = ("celery.worker.components:Pool",)

        def start(self, parent: Any) -> None:
            agent.open()

        def stop(self, parent: Any) -> None:
            agent.close()

        def terminate(self, parent: Any) -> None:
            agent.close()

    return AgentStep
