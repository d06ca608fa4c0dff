"""``python -m nodes`` runs the agent; ``python -m nodes join URL TOKEN`` lets the server join, ``… check`` says what is
wrong on it, ``… key`` makes its key and prints the public half."""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import structlog
from celery.exceptions import SecurityWarning

from nodes.agent.app import app_make
from nodes.agent.check import check
from nodes.agent.config.join import JoinFailed, join, join_at_start
from nodes.agent.config.options import (
    OptionInvalid,
    OptionMissing,
    key_make,
    key_path_load,
    options_load,
    state_dir_load,
)
from nodes.agent.config.policy import PolicyInvalid
from nodes.agent.config.settings_files import server_settings
from nodes.agent.hardware.gpus.base import GpusUnavailable
from nodes.agent.runtimes.docker.socket import socket_watch
from nodes.agent.write_error import NoRoomOnce, cannot_write, is_known

BY_HAND = ("key", "join", "check")
"""Commands of people, at whose terminal the settings are not that systemd gives to the agent."""


def main(argv: Sequence[str]) -> int:
    """Exit status: 2 and one sentence for a setting that cannot be used, and for a disk."""
    try:
        return _run(argv)
    except OptionMissing as error:
        return _refused(f"{error}; berth-node join URL TOKEN sets all that is needed")
    except (OptionInvalid, PolicyInvalid, GpusUnavailable, JoinFailed) as error:
        return _refused(str(error))
    except OSError as error:
        if not is_known(error):
            raise
        return _refused(cannot_write(error, state_dir_load([], os.environ)))


def _refused(why: str) -> int:
    """The exit status. The line is written in one piece, since a thread may be writing to the log meanwhile."""
    sys.stderr.write(f"berth-node: {why}\n")
    return 2


def _run(argv: Sequence[str]) -> int:
    if argv and argv[0] in BY_HAND:
        os.environ.update(server_settings(os.environ))
    if list(argv[:1]) == ["key"]:
        print(key_make(key_path_load(argv[1:], os.environ)).public)
        return 0
    if list(argv[:1]) == ["join"]:
        print(join(argv[1:], os.environ), "Start the agent now.")
        return 0
    if list(argv[:1]) == ["check"]:
        return check(argv[1:], os.environ)
    if joined := join_at_start(argv, os.environ):
        print(f"berth-node: {joined}", file=sys.stderr)
    options = options_load(argv, os.environ)
    _logging(options.log_level, options.state_dir)
    app = app_make(options)
    worker = app.Worker(
        pool="threads",
        concurrency=1,
        hostname=f"berth@{options.name}",
        loglevel=options.log_level.upper(),
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    if options.runtime == "docker":
        socket_watch(options.docker_url, gone=lambda: os.kill(os.getpid(), signal.SIGTERM))
    worker.start()
    return int(worker.exitcode or 0)


def _logging(level: str, state: Path) -> None:
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=number, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for chatty in ("celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(chatty).setLevel(max(number, logging.WARNING))  # a list of orders comes every few seconds
    logging.getLogger("celery.worker.consumer.consumer").addFilter(_said_by_the_reporter)
    warnings.simplefilter("ignore", SecurityWarning)  # about pickle under root; only JSON is accepted here
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            NoRoomOnce(state),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _said_by_the_reporter(record: logging.LogRecord) -> bool:
    """Celery tells of each try to reach the broker, the first time with a traceback; why, and what to do, stands in
    the reporter's sentence."""
    record.exc_info = None
    return not (isinstance(record.args, tuple) and any(isinstance(one, Exception) for one in record.args))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
