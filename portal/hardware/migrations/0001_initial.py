import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

import portal.common.sentence_field


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Sku",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=64,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z0-9][A-Za-z0-9_.-]*\\Z", "Letters, digits, dot, dash and underscore only."
                            )
                        ],
                    ),
                ),
                ("gpu_model", models.CharField(max_length=100)),
                ("gpu_memory_mb", models.PositiveIntegerField()),
                ("cpu_milli", models.PositiveIntegerField(help_text="CPU per GPU, in thousandths of a core")),
                ("memory_mb", models.PositiveIntegerField(help_text="Memory per GPU")),
                (
                    "price",
                    models.DecimalField(
                        blank=True,
                        decimal_places=4,
                        help_text="of one GPU for one hour, in the portal's currency; empty: none is told",
                        max_digits=10,
                        null=True,
                        validators=[django.core.validators.MinValueValidator(0)],
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="CellType",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=100,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z0-9][A-Za-z0-9_.-]*\\Z", "Letters, digits, dot, dash and underscore only."
                            )
                        ],
                    ),
                ),
                ("child_count", models.PositiveIntegerField(default=0)),
                ("is_node_level", models.BooleanField(default=False)),
                ("derived", models.BooleanField(default=False)),
                (
                    "child",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="parents",
                        to="hardware.celltype",
                    ),
                ),
                (
                    "sku",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="cell_types", to="hardware.sku"
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Node",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=64,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z0-9][A-Za-z0-9_.-]*\\Z", "Letters, digits, dot, dash and underscore only."
                            )
                        ],
                    ),
                ),
                (
                    "public_key",
                    models.CharField(
                        blank=True,
                        help_text="Ed25519, base64: signs this node's reports; empty: it has not joined yet",
                        max_length=64,
                    ),
                ),
                (
                    "intent",
                    models.CharField(
                        choices=[("open", "Open"), ("cordoned", "Cordoned"), ("draining", "Draining")],
                        default="open",
                        max_length=10,
                    ),
                ),
                ("intent_reason", models.TextField(blank=True)),
                (
                    "health",
                    models.CharField(
                        choices=[("unknown", "Never heard of"), ("healthy", "Healthy"), ("lost", "Lost")],
                        default="unknown",
                        max_length=10,
                    ),
                ),
                (
                    "health_reason",
                    portal.common.sentence_field.SentenceField(
                        blank=True, default=portal.common.sentence_field.nothing
                    ),
                ),
                ("full_since", models.DateTimeField(blank=True, null=True)),
                ("stuck_since", models.DateTimeField(blank=True, null=True)),
                ("stuck_cause", models.CharField(blank=True, db_default="", default="", max_length=10)),
                ("stuck_words", models.TextField(blank=True, db_default="", default="")),
                ("due", models.BigIntegerField(db_default=0, default=0)),
                ("due_since", models.DateTimeField(blank=True, null=True)),
                ("heard_since", models.DateTimeField(blank=True, null=True)),
                ("out_since", models.DateTimeField(blank=True, null=True)),
                ("out_cause", models.CharField(blank=True, db_default="", default="", max_length=20)),
                ("trial_at", models.DateTimeField(blank=True, null=True)),
                ("trials", models.PositiveSmallIntegerField(db_default=0, default=0)),
                ("generation", models.BigIntegerField(default=1)),
                ("placement_version", models.BigIntegerField(default=0)),
                ("slots", models.JSONField(blank=True, default=list)),
                ("rack", models.CharField(blank=True, max_length=64)),
                ("chain", models.CharField(blank=True, max_length=100)),
                ("cpu_milli", models.PositiveIntegerField(default=0)),
                ("memory_mb", models.PositiveIntegerField(default=0)),
                ("address", models.CharField(blank=True, max_length=64)),
                ("interface", models.CharField(blank=True, max_length=32)),
                ("runtime", models.CharField(blank=True, max_length=16)),
                ("simulated", models.BooleanField(default=False)),
                ("port_first", models.PositiveIntegerField(default=20000)),
                ("port_last", models.PositiveIntegerField(default=29999)),
                ("storages", models.JSONField(blank=True, default=list, help_text="Roots that are mounted there")),
                (
                    "storage_faults",
                    models.JSONField(
                        blank=True,
                        db_default={},
                        default=dict,
                        help_text="Of storages that it shall have and has not, by root, why",
                    ),
                ),
                ("inventory", models.JSONField(blank=True, default=dict, help_text="As last reported, for people")),
                (
                    "strangers",
                    models.JSONField(
                        blank=True,
                        db_default={},
                        default=dict,
                        help_text="task attempts that it runs and that are not known here -> gpus, folder, seen_at, stopped_by, reason",
                    ),
                ),
                (
                    "accepted",
                    models.JSONField(
                        blank=True, help_text="Of its claims, what counts; none: it is pending", null=True
                    ),
                ),
                ("accepted_at", models.DateTimeField(blank=True, null=True)),
                (
                    "claims",
                    models.JSONField(blank=True, db_default={}, default=dict, help_text="What it says beyond that"),
                ),
                ("accept_first", models.BooleanField(db_default=False, default=False)),
                ("cpu_tasks", models.BooleanField(db_default=True, default=True)),
                (
                    "ties",
                    models.JSONField(
                        blank=True, db_default={}, default=dict, help_text="To storages, by id: portal.storages.ties"
                    ),
                ),
                ("boot", models.BigIntegerField(default=0)),
                ("seq", models.BigIntegerField(default=0)),
                (
                    "clock_skew_ms",
                    models.BigIntegerField(default=0, help_text="ahead of the portal's clock; negative: behind"),
                ),
                (
                    "late_ms",
                    models.BigIntegerField(
                        db_default=0, default=0, help_text="by how much its last report seemed late"
                    ),
                ),
                (
                    "late_at",
                    models.DateTimeField(blank=True, help_text="when that was taken in, expired or not", null=True),
                ),
                ("last_report_at", models.DateTimeField(blank=True, null=True)),
                ("joined_at", models.DateTimeField(auto_now_add=True)),
                ("removed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "shape",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="nodes",
                        to="hardware.celltype",
                    ),
                ),
                (
                    "sku",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="nodes",
                        to="hardware.sku",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="NodeEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(db_index=True)),
                ("code", models.CharField(max_length=40)),
                ("data", models.JSONField(default=dict)),
                (
                    "actor",
                    models.CharField(blank=True, help_text="user name, or empty for Berth itself", max_length=150),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="events", to="hardware.node"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="ReportsLane",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("open_since", models.DateTimeField()),
                ("last_pulse_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("id", 1), ("open_since__lte", models.F("last_pulse_at"))), name="one_lane"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="UpperCell",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("address", models.CharField(max_length=200, unique=True)),
                (
                    "cell_type",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="upper_cells", to="hardware.celltype"
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="children",
                        to="hardware.uppercell",
                    ),
                ),
            ],
            options={
                "ordering": ["address"],
            },
        ),
        migrations.AddField(
            model_name="node",
            name="upper",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="nodes",
                to="hardware.uppercell",
            ),
        ),
        migrations.CreateModel(
            name="Gpu",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.CharField(max_length=80)),
                ("index", models.PositiveIntegerField(help_text="as the node counts today")),
                ("slot", models.PositiveIntegerField(blank=True, null=True)),
                ("model", models.CharField(max_length=100)),
                ("memory_mb", models.PositiveIntegerField()),
                (
                    "details",
                    models.JSONField(blank=True, default=dict, help_text="PCI address, NUMA node, groups, driver"),
                ),
                (
                    "present",
                    models.BooleanField(default=True, help_text="False: was there and is not reported any more"),
                ),
                ("fault", models.TextField(blank=True, help_text="Not empty: fenced off, and why")),
                (
                    "told",
                    models.TextField(
                        blank=True, db_default="", default="", help_text="What its node says is wrong with it now"
                    ),
                ),
                (
                    "accepted",
                    models.TextField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="Of what its node says, what does not fence it off any more",
                    ),
                ),
                (
                    "cell_type",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="gpus", to="hardware.celltype"
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="gpus", to="hardware.node"
                    ),
                ),
            ],
            options={
                "ordering": ["node_id", "index"],
                "indexes": [
                    models.Index(
                        condition=models.Q(
                            models.Q(("fault", ""), _negated=True),
                            models.Q(("present", False), ("slot__isnull", False)),
                            _connector="OR",
                        ),
                        fields=["node", "index"],
                        name="gpu_bad",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("present", True)), fields=("node", "index"), name="gpu_place_once"
                    ),
                    models.UniqueConstraint(fields=("node", "uuid"), name="gpu_of_node_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("present", True)), fields=("uuid",), name="gpu_present_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="GpuCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("held", models.PositiveIntegerField()),
                ("lent", models.PositiveIntegerField()),
                ("free", models.PositiveIntegerField()),
                ("out", models.PositiveIntegerField()),
                ("sick", models.PositiveIntegerField()),
                (
                    "sku",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="counts", to="hardware.sku"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [models.UniqueConstraint(fields=("at", "sku"), name="gpu_count_once")],
            },
        ),
        migrations.AddConstraint(
            model_name="celltype",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("child__isnull", True), ("child_count", 0)),
                    models.Q(("child__isnull", False), ("child_count__gte", 1)),
                    _connector="OR",
                ),
                name="cell_type_children_counted",
            ),
        ),
        migrations.AddConstraint(
            model_name="node",
            constraint=models.UniqueConstraint(
                condition=models.Q(("removed_at__isnull", True)), fields=("name",), name="node_name_once"
            ),
        ),
    ]
