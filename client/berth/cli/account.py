"""Sign-in commands, and one's tokens."""

from __future__ import annotations

import os
import socket
import sys
from datetime import datetime
from typing import Annotated
from urllib.parse import urlsplit

import typer

from berth.cli.jobs import AsJson, session
from berth.cli.screen import say, show, show_json, table, when
from berth.cli.settings import Settings, ca_file, load, save
from berth.client import Client
from berth.errors import BerthError, Misused, NotSignedIn
from berth.root import Scope

SHOWN = 12
"""Characters of a token shown in lists to tell it from others."""
tokens = typer.Typer(no_args_is_help=True, help="Your tokens.")


def login(
    ctx: typer.Context,
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="The portal's address; else the one of last time.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Your user name; else it is asked for.")] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Read a token, made on your profile page, from standard input.")
    ] = False,
    scope: Annotated[
        Scope, typer.Option(help="What the token may be used for; nodes and tokens need admin.")
    ] = "submit",
    days: Annotated[int, typer.Option(min=1, help="When the token expires.")] = 30,
) -> None:
    """Sign in; the token is kept in a file that only you can read."""
    stored = load()
    address = url or session(ctx).url or os.environ.get("BERTH_URL") or stored.url
    if not address:
        raise Misused("name the portal: berth login https://berth.example.org")
    with Client(address, ca_file=ca_file()) as client:
        at = client.server.url
        _warn_of_plain_text(at)
        secret = (
            sys.stdin.readline().strip()
            if token_stdin
            else _new_token(client, user=user, password_stdin=password_stdin, scope=scope, days=days)
        )
    with Client(at, secret, ca_file=ca_file()) as client:
        me = client.me()
        mine = next((one for one in client.tokens.list() if secret.startswith(one.prefix)), None)
    before, lives = stored.tokens.get(at), _lives_on(stored, at)
    stored.url, stored.tokens[at] = at, secret
    stored.expires.pop(at, None)
    if mine is not None and mine.expires_at is not None:
        stored.expires[at] = mine.expires_at.isoformat()
    file = save(stored)
    show(f"Signed in at {at} as {me.username} (scope {me.scope}); the token is in {file}.")
    if before and before != secret:
        try:
            if _revoked(at, before):
                say("- the token that was here before is revoked")
        except BerthError as error:
            say(f"berth: the token that was here before could not be revoked ({error}). {lives}")


def _new_token(client: Client, *, user: str | None, password_stdin: bool, scope: Scope, days: int) -> str:
    name = user or typer.prompt("User", err=True)
    if password_stdin:
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = typer.prompt("Password", hide_input=True, err=True)
    named = f"berth on {socket.gethostname()}"[:100]
    return client.login(name, password, name=named, scope=scope, expires_in_days=days).token


def logout(ctx: typer.Context) -> None:
    """Revoke the token of this machine and forget it. Other machines' tokens stay; `berth token revoke` ends those."""
    stored = load()
    address = (session(ctx).url or os.environ.get("BERTH_URL") or stored.url).rstrip("/")
    lives = _lives_on(stored, address)
    secret = stored.tokens.pop(address, None)
    if secret is None:
        raise Misused(f"there is no token for {address or 'any server'} here")
    stored.expires.pop(address, None)
    save(stored)
    try:
        ended = _revoked(address, secret)
    except BerthError:
        say(f"berth: the token for {address} is forgotten here, but could not be revoked. {lives}")
        raise
    show(f"The token for {address} {'is revoked' if ended else 'had ended already'}, and forgotten here.")


def _revoked(at: str, secret: str) -> bool:
    """Revokes the token at its portal; False where it had ended already. Raises BerthError."""
    with Client(at, secret, ca_file=ca_file()) as client:
        try:
            client.tokens.revoke_current()
        except NotSignedIn:
            return False
    return True


def _lives_on(stored: Settings, at: str) -> str:
    """Until when the stored token is valid unless it is revoked, and how to revoke it."""
    begins, ends = stored.tokens.get(at, "")[:SHOWN], stored.expires.get(at)
    until = when(datetime.fromisoformat(ends)) if ends else "it expires"
    return f"It lives on until {until}: revoke it on your profile page, {at}/profile, where it begins {begins}."


def _warn_of_plain_text(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        say("berth: this address is not https: password and token can be read on their way")


@tokens.command("ls")
def token_ls(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List your tokens, newest first."""
    with session(ctx).client() as client:
        found = list(client.tokens.list())
    if as_json:
        show_json(found)
        return
    rows = ((one.id, one.name, one.prefix, one.scope, one.expires_at, one.last_used_at) for one in found)
    show(table((">ID", "NAME", "BEGINS", "SCOPE", "EXPIRES", "LAST USED"), rows))


@tokens.command("new")
def token_new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[Scope, typer.Option(help="What it may be used for.")] = "submit",
    days: Annotated[int | None, typer.Option(min=1, help="When it expires; else never.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token, shown this once. Needs a token of scope admin."""
    with session(ctx).client() as client:
        made = client.tokens.create(name, scope=scope, expires_in_days=days)
    if as_json:
        show_json(made)
        return
    ends = f"expires {when(made.expires_at)}" if made.expires_at else "does not expire"
    say(f"- token {made.id}, scope {made.scope}, {ends}; it is shown this once:")
    print(made.token)


@tokens.command("revoke")
def token_revoke(
    ctx: typer.Context, token_id: Annotated[int, typer.Argument(metavar="ID", help="As `berth token ls` shows it.")]
) -> None:
    """End a token at once. Needs a token of scope admin."""
    with session(ctx).client() as client:
        client.tokens.revoke(token_id)
    show(f"Token {token_id} is revoked.")
