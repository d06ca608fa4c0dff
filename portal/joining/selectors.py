"""Reads join tokens."""

from __future__ import annotations

from django.db.models import QuerySet

from portal.accounts.models import User
from portal.common.errors import NotFound
from portal.joining.models import JoinToken
from portal.teams.selectors.visible import node_add_right


def join_tokens_of(*, user: User) -> QuerySet[JoinToken]:
    """Unrevoked join tokens, used up and expired ones included, newest first. Raises Denied as ``node_add_right``."""
    node_add_right(user=user)
    return JoinToken.objects.filter(revoked_at__isnull=True)


def join_token_get(*, user: User, token_id: int) -> JoinToken:
    """The join token with that id. Raises Denied, NotFound."""
    token = join_tokens_of(user=user).filter(pk=token_id).first()
    if token is None:
        raise NotFound("join token", token_id)
    return token
