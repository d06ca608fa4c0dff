import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("hardware", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
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
            name="VirtualCluster",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        help_text="letters, digits, dot, dash and underscore",
                        max_length=64,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z0-9][A-Za-z0-9_.-]*\\Z", "Letters, digits, dot, dash and underscore only."
                            )
                        ],
                    ),
                ),
                ("description", models.TextField(blank=True, max_length=1000)),
                (
                    "default_profile",
                    models.CharField(
                        choices=[("user", "user"), ("root", "root")],
                        default="root",
                        help_text="as whom containers run: user: always as the job's user; root: as root, or as the user where the job asks for that",
                        max_length=10,
                    ),
                ),
                (
                    "parking",
                    models.BooleanField(
                        default=False,
                        help_text="its jobs of one GPU can be parked where a server can do it: off their GPU, which is lent until they are resumed",
                    ),
                ),
                (
                    "host_network",
                    models.BooleanField(
                        default=False,
                        help_text="jobs of several tasks are accepted: their tasks share the network of their servers, listen on a server's ports, and reach whatever listens on its loopback; a job of one task never does",
                    ),
                ),
                (
                    "weight",
                    models.PositiveIntegerField(
                        default=1,
                        help_text="its share of idle capacity beside others'",
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                    ),
                ),
                (
                    "user_factor",
                    models.FloatField(
                        blank=True,
                        help_text="times the quota: what one user may hold",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(0.001),
                            django.core.validators.MaxValueValidator(1000),
                        ],
                    ),
                ),
                (
                    "user_gpus",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="GPUs that one user may hold",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                    ),
                ),
                (
                    "class_gpus",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="GPUs of jobs of class prod and above together",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                    ),
                ),
                (
                    "default_borrow",
                    models.CharField(
                        choices=[("never", "Never"), ("auto", "Automatically")],
                        default="never",
                        help_text="for jobs that say nothing about it",
                        max_length=5,
                    ),
                ),
                (
                    "member_class",
                    models.CharField(
                        choices=[("crit", "crit"), ("prod", "prod"), ("test", "test"), ("oppo", "oppo")],
                        default="prod",
                        help_text="highest priority class of members",
                        max_length=4,
                    ),
                ),
                (
                    "lead_class",
                    models.CharField(
                        choices=[("crit", "crit"), ("prod", "prod"), ("test", "test"), ("oppo", "oppo")],
                        default="crit",
                        help_text="highest priority class of leads",
                        max_length=4,
                    ),
                ),
                (
                    "log_quota_gb",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="GB of logs that are kept of its jobs that are over; 0: all; null: as BERTH_LOG_QUOTA_GB says",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                    ),
                ),
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
                ("data", models.JSONField(default=dict)),
                (
                    "actor",
                    models.CharField(blank=True, help_text="user name, or empty for Berth itself", max_length=150),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="events", to="teams.virtualcluster"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "abstract": False,
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
                        on_delete=django.db.models.deletion.CASCADE, related_name="kept_logs", to="teams.virtualcluster"
                    ),
                ),
            ],
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
                        on_delete=django.db.models.deletion.PROTECT, related_name="quota", to="hardware.celltype"
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="quota", to="teams.virtualcluster"
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
                        to="hardware.celltype",
                    ),
                ),
                (
                    "change",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="lines", to="teams.quotachange"
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="quota_changes",
                        to="teams.virtualcluster",
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
                        on_delete=django.db.models.deletion.PROTECT, related_name="pinned_cells", to="hardware.celltype"
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="pinned_cells",
                        to="hardware.node",
                    ),
                ),
                (
                    "upper",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="pinned_cells",
                        to="hardware.uppercell",
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="pinned_cells",
                        to="teams.virtualcluster",
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
                        to="teams.virtualcluster",
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
                        on_delete=django.db.models.deletion.PROTECT, related_name="loan_limits", to="hardware.sku"
                    ),
                ),
                (
                    "vc",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="loan_limits",
                        to="teams.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [models.UniqueConstraint(fields=("vc", "sku"), name="loan_limit_once")],
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
                        to="teams.virtualcluster",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [models.UniqueConstraint(fields=("vc", "user"), name="firm_right_once")],
            },
        ),
    ]
