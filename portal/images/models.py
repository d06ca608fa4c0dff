"""Which images jobs may run."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from portal.common.columns import asked
from portal.teams.models.teams import PROFILES, VirtualCluster

PATTERN = RegexValidator(
    r"^[A-Za-z0-9._:/@*?\[\]!+-]+\Z", _("Part of an image's name, with * for any text and ? for a character.")
)


class ImageRule(models.Model):
    """Images whose names a shell pattern means may run: in one virtual cluster, or (``vc`` empty) in all that have no
    such rows of their own. Where there are none at all, every image may. ``profile``: as whom at most: ``root``: as the
    virtual cluster says; ``user``: as the job's user there, too."""

    vc = models.ForeignKey(VirtualCluster, null=True, blank=True, on_delete=models.CASCADE, related_name="image_rules")
    pattern = asked(
        models.CharField(
            max_length=300, validators=[PATTERN],
            help_text="an image's name, `*` for any text; without a tag all tags are meant",
        ),
        _("Images"), _("An image's name, * for any text; without a tag all tags are meant."),
        placeholder="nvcr.io/nvidia/*",
    )  # fmt: skip
    profile = asked(
        models.CharField(
            max_length=10, choices=PROFILES, default="root", db_default="root",
            help_text="as whom at most: root: as its virtual cluster says; user: as the job's user there, too",
        ),
        _("Containers run as"),
        _("Root is given where the virtual cluster and a pattern that means the image both allow it."),
        words={"root": _("as the virtual cluster says"), "user": _("the user, always")},
    )  # fmt: skip
    note = asked(models.CharField(max_length=500, blank=True), _("Note"))
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["vc", "pattern"], condition=Q(vc__isnull=False), name="image_rule_of_vc"),
            models.UniqueConstraint(fields=["pattern"], condition=Q(vc__isnull=True), name="image_rule_of_cluster"),
        ]

    def __str__(self) -> str:
        return f"{self.pattern} in {self.vc_id or 'all'}"
