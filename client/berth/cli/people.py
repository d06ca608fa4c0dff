"""Commands for administrators: accounts and alerts."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from berth.administration import Role
from berth.cli.jobs import AsJson, session
from berth.cli.screen import say, show, show_json, table, when
from berth.errors import Misused
from berth.model.accounts import User
from berth.model.cluster import Alert

users = typer.Typer(no_args_is_help=True, help="Accounts; changing them is for administrators.")
UserName = Annotated[str, typer.Argument(metavar="USER", help="The user name.")]


@users.command("ls")
def user_ls(
    ctx: typer.Context,
    text: Annotated[str | None, typer.Argument(help="Part of the name or of the e-mail address.")] = None,
    vc: Annotated[str | None, typer.Option(help="In this virtual cluster.")] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Disabled accounts alone.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the accounts you may see."""
    with session(ctx).client() as client:
        found = list(client.users.list(text=text, vc=vc, active=False if disabled else None))
    if as_json:
        show_json(found)
        return
    rows = (
        (one.username, one.role, "" if one.active else "disabled", one.email, ", ".join(_vcs(one))) for one in found
    )
    show(table(("USER", "ROLE", "STATE", "E-MAIL", "*VIRTUAL CLUSTERS"), rows))


def _vcs(user: User) -> list[str]:
    return [one.name if one.role == "member" else f"{one.name} ({one.role})" for one in user.virtual_clusters]


@users.command("add")
def user_add(
    ctx: typer.Context,
    user: UserName,
    email: Annotated[str, typer.Option(help="The e-mail address.")] = "",
    role: Annotated[Role, typer.Option(help="What the account may do in the whole cluster.")] = "user",
    vc: Annotated[list[str] | None, typer.Option(help="A virtual cluster to be a member of; several times.")] = None,
    uid: Annotated[int | None, typer.Option(min=1, help="User id of its containers on storages.")] = None,
    gid: Annotated[int | None, typer.Option(min=1, help="Group id of its containers on storages.")] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read a password from standard input; else it has none yet.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make an account."""
    password = sys.stdin.readline().rstrip("\n") if password_stdin else None
    if password == "":
        raise Misused("no password came on standard input")
    with session(ctx).client() as client:
        made = client.users.create(
            user, password=password, email=email, role=role, uid=uid, gid=gid, virtual_clusters=vc or ()
        )
    show_json(made) if as_json else show(f"user {made.username} is made")
    if password is None and not as_json:
        say("- it has no password yet: nobody signs in by one")


def _set_active(ctx: typer.Context, user: str, active: bool, as_json: bool) -> None:
    with session(ctx).client() as client:
        found = client.users.change(user, active=active)
    show_json(found) if as_json else show(f"user {found.username} is {'active' if found.active else 'disabled'}")


@users.command("disable")
def user_disable(ctx: typer.Context, user: UserName, as_json: AsJson = False) -> None:
    """Sign an account out everywhere, and let nobody in with it; its jobs go on."""
    _set_active(ctx, user, False, as_json)


@users.command("enable")
def user_enable(ctx: typer.Context, user: UserName, as_json: AsJson = False) -> None:
    """Let a disabled account in again."""
    _set_active(ctx, user, True, as_json)


def _alert_words(alert: Alert) -> str:
    words = f"{alert.message} {alert.advice}"
    if (silence := alert.silence) is not None:
        words += f" (silenced by {silence.author} until {when(silence.until)}: {silence.reason})"
    return words


def alerts(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show what is wrong now and what to do, the worst first. For administrators; leads see what concerns them."""
    with session(ctx).client() as client:
        found = client.alerts()
    if as_json:
        show_json(found)
        return
    if not found:
        say("- nothing that you may see is wrong")
        return
    rows = (
        (one.severity, f"{one.kind} {one.name}", when(one.since) if one.since else "", _alert_words(one))
        for one in found
    )
    show(table(("SEVERITY", "OF", "SINCE", "*WHAT AND WHAT TO DO"), rows))
