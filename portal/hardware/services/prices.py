"""Prices of GPU hours, and the CPU and memory that go with a GPU."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.db import transaction

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import NotFound
from portal.hardware.models import Sku


def sku_set_price(*, name: str, price: Decimal | None, now: datetime, actor: str) -> Sku:
    """Set the price of one GPU of this kind per hour; None: no price. Again: no change. Raises NotFound."""
    with transaction.atomic():
        sku = Sku.objects.select_for_update().filter(name=name).first()
        if sku is None:
            raise NotFound("SKU", name)
        if sku.price != price:
            before, after = ({"price": None if one is None else str(one)} for one in (sku.price, price))
            Sku.objects.filter(pk=sku.pk).update(price=price)
            audit_write(Audited.SKU_PRICE, actor=actor, target=name, now=now, before=before, after=after)
        sku.refresh_from_db()
    return sku


def sku_set_share(*, name: str, cpu_milli: int, memory_mb: int, now: datetime, actor: str) -> Sku:
    """Set the CPU (thousandths of a core) and memory that go with one GPU of this kind, as forms offer and OpenPAI's
    API reports. Nodes' resources and jobs' limits stay as they are. Again: no change. Raises NotFound."""
    after = {"cpu_milli": cpu_milli, "memory_mb": memory_mb}
    with transaction.atomic():
        sku = Sku.objects.select_for_update().filter(name=name).first()
        if sku is None:
            raise NotFound("SKU", name)
        before = {column: getattr(sku, column) for column in after}
        if before != after:
            Sku.objects.filter(pk=sku.pk).update(**after)
            audit_write(Audited.SKU_SHARE, actor=actor, target=name, now=now, before=before, after=after)
        sku.refresh_from_db()
    return sku
