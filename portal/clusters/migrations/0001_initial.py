import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "__first__"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="Backup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("made_at", models.DateTimeField(db_index=True, help_text="the moment that it holds")),
                ("path", models.TextField(help_text="where it was written")),
                ("size", models.BigIntegerField(help_text="bytes")),
            ],
        ),
        migrations.CreateModel(
            name="DataFolder",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("mark", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="Restore",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("made_at", models.DateTimeField(help_text="the moment that the backup holds")),
                ("at", models.DateTimeField()),
            ],
        ),
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
                        to="clusters.celltype",
                    ),
                ),
                (
                    "sku",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="cell_types", to="clusters.sku"
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("child__isnull", True), ("child_count", 0)),
                            models.Q(("child__isnull", False), ("child_count__gte", 1)),
                            _connector="OR",
                        ),
                        name="cell_type_children_counted",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ClusterVersion",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("version", models.BigIntegerField(default=1)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="one_cluster_version")],
            },
        ),
        migrations.CreateModel(
            name="JoinToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("prefix", models.CharField(max_length=16)),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("uses", models.PositiveIntegerField()),
                ("used", models.PositiveIntegerField(default=0)),
                ("rack", models.CharField(blank=True, max_length=64)),
                ("accept", models.BooleanField(db_default=False, default=False)),
                ("cpu_tasks", models.BooleanField(db_default=False, default=False)),
                ("created_by", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("used__lte", models.F("uses"))), name="join_token_uses")
                ],
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
                ("health_reason", models.TextField(blank=True)),
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
                        blank=True, db_default={}, default=dict, help_text="To storages, by id: portal.clusters.ties"
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
                        to="clusters.celltype",
                    ),
                ),
                (
                    "sku",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="nodes",
                        to="clusters.sku",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("removed_at__isnull", True)), fields=("name",), name="node_name_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="NodeEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(db_index=True)),
                ("code", models.CharField(max_length=40)),
                ("message", models.TextField()),
                ("data", models.JSONField(blank=True, default=dict)),
                (
                    "actor",
                    models.CharField(blank=True, help_text="user name, or empty for Berth itself", max_length=150),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="events", to="clusters.node"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="QuotaChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField(blank=True, null=True)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("actor", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField()),
                ("begun_at", models.DateTimeField(blank=True, null=True)),
                (
                    "over_at",
                    models.DateTimeField(
                        blank=True, help_text="ended, withdrawn, or made part of the quotas", null=True
                    ),
                ),
                ("withdrawn", models.BooleanField(default=False)),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ends_at__isnull", True), ("ends_at__gt", models.F("starts_at")), _connector="OR"
                        ),
                        name="quota_change_ends_later",
                    )
                ],
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
                        on_delete=django.db.models.deletion.PROTECT, related_name="upper_cells", to="clusters.celltype"
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="children",
                        to="clusters.uppercell",
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
                to="clusters.uppercell",
            ),
        ),
        migrations.CreateModel(
            name="VirtualCluster",
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
                ("description", models.TextField(blank=True)),
                (
                    "default_profile",
                    models.CharField(choices=[("user", "user"), ("root", "root")], default="root", max_length=10),
                ),
                (
                    "host_network",
                    models.BooleanField(default=False, help_text="Jobs of several tasks may use the host network"),
                ),
                (
                    "weight",
                    models.PositiveIntegerField(default=1, validators=[django.core.validators.MinValueValidator(1)]),
                ),
                ("user_factor", models.FloatField(blank=True, null=True)),
                ("user_gpus", models.PositiveIntegerField(blank=True, null=True)),
                ("class_gpus", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "default_borrow",
                    models.CharField(
                        choices=[("never", "Never"), ("auto", "Automatically")], default="never", max_length=5
                    ),
                ),
                (
                    "member_class",
                    models.CharField(
                        choices=[("crit", "crit"), ("prod", "prod"), ("test", "test"), ("oppo", "oppo")],
                        default="prod",
                        max_length=4,
                    ),
                ),
                (
                    "lead_class",
                    models.CharField(
                        choices=[("crit", "crit"), ("prod", "prod"), ("test", "test"), ("oppo", "oppo")],
                        default="crit",
                        max_length=4,
                    ),
                ),
                ("log_quota_gb", models.PositiveIntegerField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("removed_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("removed_at__isnull", True)), fields=("name",), name="vc_name_once"
                    ),
                    models.CheckConstraint(condition=models.Q(("weight__gte", 1)), name="vc_weight_from_one"),
                    models.CheckConstraint(
                        condition=models.Q(("user_factor__isnull", True), ("user_factor__gt", 0), _connector="OR"),
                        name="vc_user_factor_above_zero",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="VcEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(db_index=True)),
                ("code", models.CharField(max_length=40)),
                ("message", models.TextField()),
                ("data", models.JSONField(blank=True, default=dict)),
                (
                    "actor",
                    models.CharField(blank=True, help_text="user name, or empty for Berth itself", max_length=150),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="events", to="clusters.virtualcluster"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="StoredSecret",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(choices=[("secret", "Secret"), ("registry", "Registry log-in")], max_length=8),
                ),
                ("name", models.CharField(max_length=260)),
                ("username", models.CharField(blank=True, help_text="of a registry log-in", max_length=255)),
                ("sealed", models.TextField()),
                ("changed_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="stored_secrets",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="stored_secrets",
                        to="clusters.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("user__isnull", True), ("vc__isnull", False)),
                            models.Q(("user__isnull", False), ("vc__isnull", True)),
                            _connector="OR",
                        ),
                        name="stored_secret_one_owner",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", False)),
                        fields=("user", "kind", "name"),
                        name="stored_secret_of_user",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("vc__isnull", False)),
                        fields=("vc", "kind", "name"),
                        name="stored_secret_of_vc",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Storage",
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
                ("kind", models.CharField(choices=[("path", "path"), ("nfs", "nfs")], default="path", max_length=8)),
                ("root", models.CharField(help_text="path on every node that offers it", max_length=500)),
                ("export", models.CharField(blank=True, help_text="nfs only: server:/export", max_length=500)),
                (
                    "options",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="nfs only: what to mount it with",
                        max_length=300,
                    ),
                ),
                ("read_only", models.BooleanField(default=False)),
                ("per_user", models.BooleanField(default=False, help_text="each user sees only a folder of their own")),
                ("must_be_mount", models.BooleanField(default=True)),
                ("jobs", models.BooleanField(default=False)),
                ("everyone", models.BooleanField(default=False)),
                ("vcs", models.ManyToManyField(blank=True, related_name="storages", to="clusters.virtualcluster")),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("jobs", True)), fields=("jobs",), name="one_storage_for_jobs"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="QuotaLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("chain", models.CharField(blank=True, max_length=100)),
                ("count", models.PositiveIntegerField()),
                (
                    "cell_type",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="quota", to="clusters.celltype"
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="quota", to="clusters.virtualcluster"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [models.UniqueConstraint(fields=("vc", "cell_type", "chain"), name="quota_line_once")],
            },
        ),
        migrations.CreateModel(
            name="QuotaChangeLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("chain", models.CharField(blank=True, max_length=100)),
                ("count", models.PositiveIntegerField()),
                (
                    "cell_type",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_changes",
                        to="clusters.celltype",
                    ),
                ),
                (
                    "change",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="lines", to="clusters.quotachange"
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="quota_changes",
                        to="clusters.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("change", "vc", "cell_type", "chain"), name="quota_change_line_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PinnedCell",
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
                ("first", models.PositiveIntegerField(default=0)),
                (
                    "cell_type",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="pinned_cells", to="clusters.celltype"
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="pinned_cells",
                        to="clusters.node",
                    ),
                ),
                (
                    "upper",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="pinned_cells",
                        to="clusters.uppercell",
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="pinned_cells",
                        to="clusters.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("first", 0), ("node__isnull", True), ("upper__isnull", False)),
                            models.Q(("node__isnull", False), ("upper__isnull", True)),
                            _connector="OR",
                        ),
                        name="pinned_cell_somewhere",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.CharField(choices=[("member", "Member"), ("lead", "Lead")], default="member", max_length=10),
                ),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="vc_memberships",
                        to="auth.group",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="clusters.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", False)), fields=("vc", "user"), name="member_once"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("group__isnull", False)), fields=("vc", "group"), name="group_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("group__isnull", True), ("user__isnull", False)),
                            models.Q(("group__isnull", False), ("user__isnull", True)),
                            _connector="OR",
                        ),
                        name="member_user_or_group",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LoanLimit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("max_borrow", models.PositiveIntegerField(blank=True, null=True)),
                ("max_lend", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "sku",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="loan_limits", to="clusters.sku"
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="loan_limits",
                        to="clusters.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [models.UniqueConstraint(fields=("vc", "sku"), name="loan_limit_once")],
            },
        ),
        migrations.CreateModel(
            name="KeptLogs",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("over", models.BigIntegerField(help_text="of jobs that are over")),
                ("live", models.BigIntegerField(help_text="of all others")),
                ("counted_at", models.DateTimeField()),
                (
                    "vc",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="kept_logs",
                        to="clusters.virtualcluster",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ImageRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pattern", models.CharField(max_length=300)),
                (
                    "profile",
                    models.CharField(
                        choices=[("user", "user"), ("root", "root")], db_default="root", default="root", max_length=10
                    ),
                ),
                ("note", models.CharField(blank=True, max_length=500)),
                ("created_at", models.DateTimeField()),
                (
                    "vc",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="image_rules",
                        to="clusters.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("vc__isnull", False)), fields=("vc", "pattern"), name="image_rule_of_vc"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("vc__isnull", True)), fields=("pattern",), name="image_rule_of_cluster"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="FirmRight",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("gpus", models.PositiveIntegerField()),
                ("last_day", models.DateField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="firm_rights",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="firm_rights",
                        to="clusters.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [models.UniqueConstraint(fields=("vc", "user"), name="firm_right_once")],
            },
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
                        on_delete=django.db.models.deletion.PROTECT, related_name="gpus", to="clusters.celltype"
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="gpus", to="clusters.node"
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
                        on_delete=django.db.models.deletion.CASCADE, related_name="counts", to="clusters.sku"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [models.UniqueConstraint(fields=("at", "sku"), name="gpu_count_once")],
            },
        ),
    ]
