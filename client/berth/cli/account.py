"""Signing in, and one's tokens."""

from __future__ import annotations

import os
import socket
import sys
from typing import Annotated
from urllib.parse import urlsplit

import typer

from berth.cli.jobs import AsJson, session
from berth.cli.screen import say, show, show_json, table, when
from berth.cli.settings import ca_file, load, save
from berth.client import Client
from berth.errors import Misused
from berth.everything import Scope

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
    stored.url, stored.tokens[at] = at, secret
    file = save(stored)
    show(f"Signed in at {at} as {me.username} (scope {me.scope}); the token is in {file}.")


def _new_token(client: Client, *, user: str | None, password_stdin: bool, scope: Scope, days: int) -> str:
    name = user or typer.prompt("User", err=True)
    if password_stdin:
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = typer.prompt("Password", hide_input=True, err=True)
    named = f"berth on {socket.gethostname()}"[:100]
    return client.login(name, password, name=named, scope=scope, expires_in_days=days).token


def logout(ctx: typer.Context) -> None:
    """Forget the token of this machine. Other machines' tokens stay; `berth token revoke` ends one for good."""
    stored = load()
    address = session(ctx).url or os.environ.get("BERTH_URL") or stored.url
    if stored.tokens.pop(address.rstrip("/"), None) is None:
        raise Misused(f"there is no token for {address or 'any server'} here")
    save(stored)
    show(f"The token for {address} is forgotten here.")


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
