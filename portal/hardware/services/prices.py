"""Prices of GPU hours, and the CPU and memory that go with a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import NotFound
from portal.hardware.models import Sku


def sku_set_price(*, name: str, price: Decimal | None, now: datetime, actor: str) -> Sku:
    """Set the price of one GPU of this kind per hour; None: no price. Again: no change. Raises NotFound."""
    return _set(Audited.SKU_PRICE, name, {"price": price}, now, actor)


def sku_set_share(*, name: str, cpu_milli: int, memory_mb: int, now: datetime, actor: str) -> Sku:
    """Set the CPU (thousandths of a core) and memory that go with one GPU of this kind, as forms offer and OpenPAI's
    API reports. Nodes' resources and jobs' limits stay as they are. Again: no change. Raises NotFound."""
    return _set(Audited.SKU_SHARE, name, {"cpu_milli": cpu_milli, "memory_mb": memory_mb}, now, actor)


def _set(action: Audited, name: str, values: Mapping[str, Any], now: datetime, actor: str) -> Sku:
    with transaction.atomic():
        sku = Sku.objects.select_for_update().filter(name=name).first()
        if sku is None:
            raise NotFound("SKU", name)
        was = {column: getattr(sku, column) for column in values}
        if was != values:
            Sku.objects.filter(pk=sku.pk).update(**values)
            audit_write(action, actor=actor, target=name, now=now, before=_told(was), after=_told(values))
        sku.refresh_from_db()
    return sku


def _told(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, Decimal) else value for name, value in values.items()}
