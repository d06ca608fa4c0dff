"""Tokens as OpenPAI means them. Berth keeps only their hashes: a token is named by its id, or by itself."""

from __future__ import annotations

from datetime import datetime

from portal.accounts.models import Scope, Token, User
from portal.accounts.selectors import tokens_of
from portal.accounts.services import NewToken, token_create, token_revoke
from portal.openpai.errors import forbidden

LARGEST_ID = 2**63 - 1


def application_token(*, user: User, now: datetime) -> NewToken:
    """A token without end that may read, submit and stop jobs, and nothing else."""
    return token_create(user=user, name="application", scope=Scope.SUBMIT, now=now, expires_at=None)


def token_end(*, user: User, named: str, now: datetime) -> None:
    """End one of the user's own tokens. Raises ForbiddenUserError for any other."""
    own = tokens_of(user=user)
    by_id = own.filter(pk=int(named)) if _is_id(named) else own.filter(digest=Token.digest_of(named))
    token = by_id.first()
    if token is None:
        raise forbidden(f"User {user.username} is not allowed to revoke this token.")
    token_revoke(token=token, now=now)


def _is_id(named: str) -> bool:
    return named.isascii() and named.isdigit() and len(named) < 20 and int(named) <= LARGEST_ID
