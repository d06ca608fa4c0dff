"""Somebody who reads a long answer slowly, and loses the right to it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import httpx
import pytest

from tests.support.people.live_web import LiveWeb


def broken_off(web: LiveWeb, path: str, headers: Mapping[str, str], lose: Callable[[], object]) -> None:
    """The answer begins, and never ends once ``lose`` was called. It must be longer than all buffers on the way."""
    with (
        httpx.Client(base_url=f"http://{web.host}", headers=headers, timeout=30, trust_env=False) as client,
        client.stream("GET", path) as answer,
    ):
        assert answer.status_code == 200
        pieces = answer.iter_raw()
        assert next(pieces)
        lose()
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete|without sending complete"):
            for _ in pieces:
                pass


def disabled(user: object) -> Callable[[], object]:
    """As an administrator does it, or the provider that is asked at the next log-in."""

    def lose() -> object:
        from portal.accounts.models import User

        return User.objects.filter(pk=user.pk).update(is_active=False)  # type: ignore[attr-defined]  # a User

    return lose
