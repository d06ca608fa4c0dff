"""The root of the API: account, queue, alerts, hardware, usage, and one's own tokens; each method written once for both
clients."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, TypedDict, Unpack
from urllib.parse import quote

from berth.calls import LONG, Call, Listing, get, not_none, nothing, send, text
from berth.endpoint import ExecutorT_co, Resource, endpoint, rows
from berth.model.accounts import Me, NewToken, Token
from berth.model.cluster import Alert, AlertSilence, LeafGpu, Sku
from berth.model.jobs import Queued
from berth.model.usage import Usage

Scope = Literal["read", "submit", "admin"]
Alerts = list[Alert]
AlertSilences = list[AlertSilence]
Skus = list[Sku]


class UsageQuery(TypedDict, total=False):
    """Days, groups and filters of a usage report."""

    first: date | None
    last: date | None
    by: Sequence[str]
    vc: str | None
    user: str | None
    sku: str | None


class Tokens(Resource[ExecutorT_co]):
    """One's own tokens."""

    @rows
    def list(self) -> Listing[Token]:
        """Newest first, without their secrets."""
        return Listing("tokens", Token)

    @endpoint
    def create(self, name: str, *, scope: Scope = "submit", expires_in_days: int | None = None) -> Call[NewToken]:
        """A new token; the answer is the only place that ever shows it."""
        return send("POST", "tokens", NewToken, {"name": name, "scope": scope, "expires_in_days": expires_in_days})

    @endpoint
    def revoke(self, token_id: int) -> Call[None]:
        """Ends a token at once."""
        return Call("DELETE", f"tokens/{token_id}", nothing)

    @endpoint
    def revoke_current(self) -> Call[None]:
        """Ends the token that this client has, whatever its scope."""
        return Call("DELETE", "tokens/current", nothing)


class RootResource(Resource[ExecutorT_co]):
    """Parts of the API that stand alone: the account, signing in, the queue, the hardware."""

    @endpoint
    def me(self) -> Call[Me]:
        """The account behind the token."""
        return get("me", Me)

    @endpoint
    def login(
        self, username: str, password: str, *, name: str = "login", scope: Scope = "submit", expires_in_days: int = 30
    ) -> Call[NewToken]:
        """A new token for user name and password. The client itself keeps its own token."""
        body = {"username": username, "password": password, "name": name, "scope": scope}
        return send("POST", "login", NewToken, {**body, "expires_in_days": expires_in_days})

    @rows
    def queue(self, *, vc: str | None = None) -> Listing[Queued]:
        """Every waiting job in the order in which the scheduler takes them."""
        return Listing("queue", Queued, not_none({"vc": vc, **LONG}))

    @endpoint
    def alerts(self) -> Call[Alerts]:
        """What is wrong now, the worst first, each with what to do. Leads read what concerns their virtual clusters."""
        return get("alerts", Alerts)

    @endpoint
    def alert_silences(self) -> Call[AlertSilences]:
        """The active silences, the first to end first."""
        return get("alert-silences", AlertSilences)

    @endpoint
    def silence_alert(self, key: str, *, reason: str, until: datetime) -> Call[AlertSilence]:
        """Silences this alert until then. For administrators."""
        body = {"key": key, "reason": reason, "until": until.isoformat()}
        return send("POST", "alert-silences", AlertSilence, body)

    @endpoint
    def end_alert_silence(self, silence_id: int) -> Call[None]:
        """Ends a silence early. For administrators."""
        return Call("DELETE", f"alert-silences/{silence_id}", nothing)

    @rows
    def gpus(
        self, *, node: str | None = None, sku: str | None = None, vc: str | None = None, state: Sequence[str] = ()
    ) -> Listing[LeafGpu]:
        """Every GPU: where it is, who holds it (``vc``: of which team), what it showed last. ``state``: free, held,
        faulty, unavailable."""
        return Listing(
            "gpus", LeafGpu, not_none({"node": node, "sku": sku, "vc": vc, "state": [*state] or None, **LONG})
        )

    @endpoint
    def skus(self) -> Call[Skus]:
        """How many GPUs of each kind there are, held and free."""
        return get("skus", Skus)

    @endpoint
    def set_price(self, sku: str, price: Decimal | None) -> Call[Sku]:
        """Sets the price of a GPU of this kind for one hour; None: no price. For administrators."""
        body = {"price": None if price is None else str(price)}
        return send("PATCH", f"skus/{quote(sku, safe='')}", Sku, body, repeatable=True)

    @endpoint
    def usage(self, **query: Unpack[UsageQuery]) -> Call[Usage]:
        """GPU hours held beside those really used, from the day ``first`` to ``last`` (both included, UTC; default:
        this month), grouped ``by`` vc (the default), user, sku and one of day, week and month; those of one ``vc``,
        ``user`` or ``sku`` alone."""
        return get("usage", Usage, _usage(query))

    @endpoint
    def usage_csv(self, **query: Unpack[UsageQuery]) -> Call[str]:
        """The same as CSV."""
        params = not_none({**_usage(query), "format": "csv"})
        return Call("GET", "usage", text, params, repeatable=True)


def _usage(query: UsageQuery) -> dict[str, Any]:
    first, last = query.get("first"), query.get("last")
    days = {"from": first.isoformat() if first else None, "to": last.isoformat() if last else None}
    return {**query, "first": None, "last": None, **days, "by": ",".join(query.get("by", ("vc",)))}
