"""Secrets that one task's log and messages mask. They come with the spec, and are kept in the record, sealed to the
node's own key: a restarted agent reads the log on before the portal tells it anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from nodes.agent.attempts.context import AttemptContext
from nodes.agent.attempts.journal import Record
from nodes.agent.logs.masks import Masks
from nodes.protocol.envelope import EnvelopeForged
from nodes.protocol.messages import ContainerSpec, Exit, Progress, SshServer


def with_secrets(context: AttemptContext, record: Record, spec: ContainerSpec | None) -> Record:
    """The record with the secrets of its spec, where the spec is known."""
    if record.hidden is not None or spec is None:
        return record
    return replace(record, hidden=context.seal(json.dumps(spec.hidden).encode()) if spec.hidden else "")


class AttemptSecrets:
    """Masks the secrets of one task. ``masks`` is None until they are known: of a task whose record was lost, until the
    portal sends its spec again."""

    def __init__(self, context: AttemptContext) -> None:
        self._context = context
        self.masks: Masks | None = None

    def load(self, record: Record, spec: ContainerSpec | None) -> None:
        """Takes the secrets from the spec, or else from the record, once."""
        if self.masks is None:
            hidden = spec.hidden if spec else self._kept(record.hidden)
            self.masks = None if hidden is None else Masks(hidden)

    def _kept(self, sealed: str | None) -> Sequence[str] | None:
        """The secrets in a record; None where there are none, or under an earlier key of this node."""
        if not sealed:
            return None if sealed is None else ()
        try:
            hidden: list[str] = json.loads(self._context.key.unseal(sealed))
            return hidden
        except EnvelopeForged:
            return None

    def text(self, text: str) -> str:
        return self.masks.text(text) if self.masks else text

    def exit(self, exit: Exit) -> Exit:
        text = self.text(exit.message)
        return exit if text == exit.message else replace(exit, message=text, said={})

    def progress(self, progress: Progress) -> Progress:
        return replace(progress, message=self.text(progress.message))

    def ssh(self, server: SshServer) -> SshServer:
        text = self.text(server.message)
        return server if text == server.message else replace(server, message=text, said={})
