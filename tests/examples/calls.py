"""What is asked of the scene, in an order in which everything is there when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from nodes.protocol.envelope import NodeKey
from portal.jobs.models import Job
from tests.examples.scene import PASSWORD, STRANGER, training
from tests.support.run.archives import packed

CLAIMS = {
    "cpu_milli": 64000, "memory_mb": 262144, "address": "10.1.0.13", "runtime": "docker", "simulated": False,
    "storages": ["/srv/berth"], "gpus": {"NVIDIA A100": [4, 80000]},
}  # fmt: skip
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl alice@laptop"
SERVER_KEY = NodeKey.load("c2VydmVyIHRoYXQgam9pbnMgYnkgaXRzIG93biBrZXk=").public
NEW = training("unet", "vision", berth={"timeLimit": "8h"})
YAML = "text/yaml"
CODE = packed({"train.py": b"print('hello')\n", "lib/words.py": b"WORDS = 3\n"})
PEOPLE = "username,email,virtual_clusters\ndora,dora@example.org,vision\n"
HOOK = {"url": "https://hooks.example.org/berth", "kinds": ["job.succeeded", "job.failed"]}
HOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass(frozen=True)
class Call:
    """One request. ``keep``: fields of the answer that later requests name in their path or body as ``{field}``;
    ``silent``: the node that said nothing for long before it."""

    operation: str
    method: str
    path: str
    body: Any = None
    by: str = "root"
    title: str = ""
    kind: str = "application/json"
    keep: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    silent: str = ""


def of_accounts() -> list[Call]:
    return [
        Call("login", "POST", "login", {"username": "alice", "password": PASSWORD, "name": "laptop"}, by=""),
        Call("me_change", "PATCH", "me", {"language": "en"}, "alice"),
        Call("me", "GET", "me", by="alice"),
        Call("token_create", "POST", "tokens", {"name": "ci", "scope": "submit", "expires_in_days": 90}, "alice",
             keep={"token": "id"}),
        Call("token_list", "GET", "tokens?limit=2", by="alice"),
        Call("token_revoke", "DELETE", "tokens/{token}", by="alice"),
        Call("ssh_key_add", "POST", "me/ssh-keys", {"public": KEY}, "alice", keep={"key": "id"}),
        Call("ssh_key_list", "GET", "me/ssh-keys", by="alice"),
        Call("ssh_key_remove", "DELETE", "me/ssh-keys/{key}", by="alice"),
        Call("notice_choice_set", "PUT", "me/notices", {"kinds": ["failed", "preempted"]}, "alice"),
        Call("notice_choice", "GET", "me/notices", by="alice"),
        Call("saved_view_save", "POST", "saved-views", {"name": "Mine that failed", "query": "mine=on&state=failed"},
             "alice", keep={"view": "id"}),
        Call("saved_view_list", "GET", "saved-views", by="alice"),
        Call("saved_view_forget", "DELETE", "saved-views/{view}", by="alice"),
        *_secrets("", "", "alice"),
        *_secrets("virtual_cluster_", "virtual-clusters/vision/", "bob"),
    ]  # fmt: skip


def _secrets(names: str, under: str, by: str) -> list[Call]:
    login = {"username": "robot", "password": "9f2c71aa"}
    return [
        Call(f"{names}secret_set", "PUT", f"{under}secrets/mail", {"value": {"user": "alice", "password": "7d1e"}}, by),
        Call(f"{names}secret_list", "GET", f"{under}secrets", by=by),
        Call(f"{names}secret_delete", "DELETE", f"{under}secrets/mail", by=by),
        Call(f"{names}registry_login_set", "PUT", f"{under}registry-logins/registry.example.org", login, by),
        Call(f"{names}registry_login_list", "GET", f"{under}registry-logins", by=by),
        Call(f"{names}registry_login_delete", "DELETE", f"{under}registry-logins/registry.example.org", by=by),
    ]


def of_people() -> list[Call]:
    erin = {"username": "erin", "email": "erin@example.org", "uid": 1005, "gid": 1005, "virtual_clusters": ["vision"]}
    crew = {
        "name": "robotics",
        "description": "the robotics lab",
        "virtual_clusters": [{"name": "vision", "role": "member"}],
    }
    return [
        Call("user_create", "POST", "users", erin),
        Call("user_change", "PATCH", "users/erin", {"email": "e.smith@example.org", "extra_gids": [2001]}),
        Call("user_set_password", "PUT", "users/erin/password", {"password": "battery staple 12"}),
        Call("user", "GET", "users/erin"),
        Call("user_list", "GET", "users?vc=vision&limit=2"),
        Call("user_import_template", "GET", "users/import"),
        Call("user_import", "POST", "users/import", PEOPLE, kind="text/csv"),
        Call("group_create", "POST", "groups", crew),
        Call("group_member_add", "PUT", "groups/robotics/members/erin"),
        Call("group_change", "PATCH", "groups/robotics", {"description": "robotics, building 4"}),
        Call("group", "GET", "groups/robotics"),
        Call("group_list", "GET", "groups"),
        Call("group_member_remove", "DELETE", "groups/robotics/members/erin"),
        Call("group_remove", "DELETE", "groups/robotics"),
        Call("user_remove", "DELETE", "users/erin"),
    ]  # fmt: skip


def of_jobs() -> list[Call]:
    """Alice's; ``{name}`` is the id of a job of the scene."""
    as_json = yaml.safe_load(NEW)
    once = {"Idempotency-Key": "7c9e6679"}
    return [
        Call("code_upload", "POST", "code", CODE, "alice", "stored anew", "application/gzip", keep={"code": "id"}),
        Call("code_upload", "POST", "code", CODE, "alice", "there already", "application/gzip"),
        Call("code_list", "GET", "code", by="alice"),
        Call("code", "GET", "code/{code}", by="alice"),
        Call("code_archive", "GET", "code/{code}/archive", by="alice"),
        Call("code_limits", "GET", "code/limits", by="alice"),
        Call("code_forget", "DELETE", "code/{code}", by="alice"),
        Call("sample_list", "GET", "samples", by="alice"),
        Call("job_validate", "POST", "validate", NEW, "alice", kind=YAML),
        Call("job_validate", "POST", "validate", as_json, "alice", title="a job file as JSON"),
        Call("job_validate", "POST", "validate", NEW.replace("gpu: 1", "gpu: -1"), "alice", "not valid", YAML),
        Call("job_estimate", "POST", "estimates", NEW, "alice", kind=YAML),
        Call("job_estimate", "POST", "estimates", as_json, "alice", title="a job file as JSON"),
        Call("job_submit", "POST", "jobs", NEW, "alice", kind=YAML, headers=once, keep={"unet": "id"}),
        Call("job_submit", "POST", "jobs", NEW, "alice", "sent again", YAML, headers=once),
        Call("job_submit", "POST", "jobs", as_json, "alice", "a job file as JSON"),
        Call("job_list", "GET", "jobs?limit=2", by="alice"),
        Call("job", "GET", "jobs/{resnet50}", by="alice", title="it runs"),
        Call("job", "GET", "jobs/{sweep-2}", by="bob", title="it waits"),
        Call("job_config", "GET", "jobs/{resnet50}/config", by="alice"),
        Call("job_event_list", "GET", "jobs/{resnet50}/events", by="alice"),
        Call("job_attempt_list", "GET", "jobs/{aligner}/attempts", by="carol"),
        Call("job_preemption_list", "GET", "jobs/{aligner}/preemptions", by="carol"),
        Call("job_task_list", "GET", "jobs/{resnet50}/tasks", by="alice"),
        Call("job_advice", "GET", "jobs/{resnet50}/advice", by="alice"),
        Call("job_metrics", "GET", "jobs/{resnet50}/metrics?gpu=0&step=60", by="alice"),
        Call("job_log", "GET", "jobs/{resnet50}/logs", by="alice"),
        Call("job_log", "GET", "jobs/{resnet50}/logs?format=text", by="alice"),
        Call("job_log_all", "GET", "jobs/{resnet50}/logs/all", by="alice"),
        Call("job_log_all", "GET", "jobs/{resnet50}/logs/all?format=zip", by="alice"),
        Call("job_log_all", "GET", "jobs/{resnet50}/logs/all?format=list", by="alice"),
        Call("job_log_search", "GET", "jobs/{resnet50}/logs/search?text=epoch", by="alice"),
        Call("job_file_list", "GET", "jobs/{resnet50}/files", by="alice"),
        Call("job_file_content", "GET", "jobs/{resnet50}/files/content?path=config.json", by="alice"),
        Call("job_file_content", "GET", "jobs/{resnet50}/files/content?path=logs", by="alice"),
        Call("job_idle", "GET", "jobs/{whisper}/idle", by="carol"),
        Call("job_idle_extend", "POST", "jobs/{whisper}/idle/extend", by="carol"),
        Call("queue_list", "GET", "queue?limit=2", by="bob"),
        *_changes(),
    ]  # fmt: skip


def _changes() -> list[Call]:
    two = Job.objects.filter(name__in=("sweep-1", "sweep-2")).order_by("id").values_list("pk", flat=True)
    return [
        Call("job_tag", "PATCH", "jobs/{sweep-1}/tags", {"add": ["baseline"], "remove": ["draft"]}, "alice"),
        Call("job_change_priority", "POST", "jobs/{sweep-1}/priority", {"priority_class": "prod"}, "bob"),
        Call("job_change_priority", "POST", "jobs/{sweep-1}/priority", {"priority_class": "test"}, "bob"),
        Call("job_place", "POST", "jobs/{sweep-2}/place", {"to": "front"}, "bob", "to the front"),
        Call("job_place", "POST", "jobs/{sweep-2}/place", {"before": two[0]}, "bob", "before another"),
        Call("job_pause", "POST", "jobs/{sweep-1}/pause", by="alice"),
        Call("job_resume", "POST", "jobs/{sweep-1}/resume", by="alice"),
        Call("job_move", "POST", "jobs/{sweep-2}/move", {"vc": "language"}, "bob"),
        Call("job_bulk", "POST", "jobs/bulk", {"jobs": list(two), "add_tags": ["baseline"]}, title="tag two"),
        Call("job_bulk", "POST", "jobs/bulk", {"jobs": list(two), "stop": True}, title="stop two"),
        Call("job_park", "POST", "jobs/{detector}/park", by="alice"),
        Call("job_stop", "POST", "jobs/{detector}/stop", by="alice"),
        Call("template_create", "POST", "templates",
             {"name": "U-Net", "description": "one GPU, eight hours", "vc": "vision", "file": NEW}, "bob",
             keep={"template": "id"}),
        Call("template_change", "PATCH", "templates/{template}", {"description": "one GPU, a night"}, "bob"),
        Call("template", "GET", "templates/{template}", by="alice"),
        Call("template_list", "GET", "templates", by="alice"),
        Call("template_remove", "DELETE", "templates/{template}", by="bob"),
    ]  # fmt: skip


def of_clusters() -> list[Call]:
    line = {"vc": "vision", "cell_type": "A100", "count": 1}
    plan = {
        "lines": [line],
        "starts_at": "2026-03-09T08:00:00Z",
        "ends_at": "2026-03-13T18:00:00Z",
        "reason": "deadline",
    }
    return [
        Call("sku_set_price", "PATCH", "skus/A100", {"price": "2.50"}),
        Call("sku_set_share", "PUT", "skus/A100/share", {"cpu_milli": 12000, "memory_mb": 98304}),
        Call("sku_list", "GET", "skus", by="alice"),
        Call("cell_type_list", "GET", "cell-types", by="alice"),
        Call("gpu_list", "GET", "gpus?limit=2", by="alice"),
        Call("gpu_history", "GET", "gpus/history", by="alice"),
        Call("node_list", "GET", "nodes?limit=1", by="alice"),
        Call("node", "GET", "nodes/gpu01", by="alice"),
        Call("join_token_create", "POST", "join-tokens", {"uses": 12, "hours": 24, "labels": "rack=3"},
             keep={"join_token": "secret", "join_token_id": "id"}),
        Call("join", "POST", "join", {"token": "{join_token}", "name": "gpu08", "public_key": SERVER_KEY}, by=""),
        Call("join_token_list", "GET", "join-tokens"),
        Call("join_token_revoke", "DELETE", "join-tokens/{join_token_id}"),
        Call("node_add", "POST", "nodes", {"name": "gpu07"}),
        Call("node_new_key", "POST", "nodes/gpu07/key"),
        Call("node_take_topology", "POST", "nodes/gpu03/topology"),
        Call("node_put_back", "POST", "nodes/gpu03/put-back", {"reason": "reseated; dcgmi diag -r 3 is clean"}),
        Call("node_accept", "POST", "nodes/gpu03/accept", {"claims": CLAIMS}),
        Call("node_set_cpu_tasks", "PUT", "nodes/gpu03/cpu-tasks", {"cpu_tasks": False}),
        Call("node_set_intent", "PATCH", "nodes/gpu03", {"intent": "cordoned", "reason": "new fans on Tuesday"}),
        Call("unknown_container_stop", "POST", f"nodes/gpu03/unknown-containers/{STRANGER}/stop",
             {"reason": "it began after the backup"}),
        Call("node_remove", "DELETE", "nodes/gpu03?dry_run=true"),
        Call("quota_list", "GET", "quotas", by="alice"),
        Call("quota_set", "PATCH", "quotas?dry_run=true", {"lines": [line], "reason": "eight more for the thesis"}),
        Call("quota_change_plan", "POST", "quota-changes?dry_run=true", plan, title="only tried"),
        Call("quota_change_plan", "POST", "quota-changes", plan, keep={"change": "id"}, title="planned"),
        Call("quota_change_list", "GET", "quota-changes", by="alice"),
        Call("quota_change_withdraw", "DELETE", "quota-changes/{change}"),
        Call("cluster_export", "GET", "cluster", keep={"cluster": ""}),
        Call("cluster_import", "PUT", "cluster?dry_run=true", "{cluster}"),
        Call("virtual_cluster_create", "POST", "virtual-clusters", {"name": "robotics", "description": "robots"}),
        Call("virtual_cluster_remove", "DELETE", "virtual-clusters/robotics"),
        Call("virtual_cluster_set_rules", "PATCH", "virtual-clusters/vision", {"user_gpus": 2, "weight": 2}),
        Call("virtual_cluster", "GET", "virtual-clusters/vision", by="alice"),
        Call("virtual_cluster_list", "GET", "virtual-clusters", by="alice"),
        Call("member_set", "POST", "virtual-clusters/vision/members",
             {"name": "carol", "kind": "user", "role": "member"}, "bob"),
        Call("member_list", "GET", "virtual-clusters/vision/members", by="bob", keep={"member": "-1.id"}),
        Call("member_remove", "DELETE", "virtual-clusters/vision/members/{member}", by="bob"),
        Call("user_share_list", "GET", "virtual-clusters/vision/shares", by="bob"),
        Call("firm_right_set", "PUT", "virtual-clusters/vision/firm-rights/alice",
             {"gpus": 1, "last_day": "2026-03-31"}),
        Call("firm_right_end", "DELETE", "virtual-clusters/vision/firm-rights/alice"),
    ]  # fmt: skip


def of_administration() -> list[Call]:
    data = {"name": "datasets", "root": "/mnt/datasets", "read_only": True, "virtual_clusters": ["vision"]}
    people = {
        "vc": "language",
        "pattern": "notebook-*",
        "reason": "people think in them",
        "until": "2026-06-01T00:00:00Z",
    }
    return [
        Call("storage_create", "POST", "storages", data),
        Call("storage_change", "PATCH", "storages/datasets", {"everyone": True}),
        Call("storage", "GET", "storages/datasets"),
        Call("storage_servers", "GET", "storages/datasets/servers"),
        Call("storage_tie", "PUT", "storages/datasets/servers/gpu01", {"tied": True}),
        Call("storage_list", "GET", "storages", by="alice"),
        Call("storage_remove", "DELETE", "storages/datasets"),
        Call("image_allow", "POST", "images", {"pattern": "nvcr.io/nvidia/*", "note": "NVIDIA's own"},
             keep={"rule": "id"}),
        Call("image_list", "GET", "images", by="alice"),
        Call("image_disallow", "DELETE", "images/{rule}"),
        Call("idle_policy_set", "PATCH", "idle-policy?dry_run=true", {"action": "stop", "minutes": 45}),
        Call("idle_policy", "GET", "idle-policy", by="alice"),
        Call("virtual_cluster_idle_policy_set", "PATCH", "virtual-clusters/language/idle-policy", {"percent": 8}),
        Call("virtual_cluster_idle_policy", "GET", "virtual-clusters/language/idle-policy", by="carol"),
        Call("virtual_cluster_idle_policy_remove", "DELETE", "virtual-clusters/language/idle-policy"),
        Call("idle_exemption_add", "POST", "idle-exemptions", people, keep={"exemption": "id"}),
        Call("idle_exemption_list", "GET", "idle-exemptions"),
        Call("idle_exemption_remove", "DELETE", "idle-exemptions/{exemption}"),
        Call("webhook_set", "PUT", "webhook", {**HOOK, "secret": HOOK_SECRET}, title="set"),
        Call("webhook_set", "PUT", "webhook", {**HOOK, "kinds": ["job.failed"]}, title="changed"),
        Call("webhook", "GET", "webhook"),
        Call("webhook_test", "POST", "webhook/test"),
        Call("webhook_delivery_list", "GET", "webhook/deliveries"),
        Call("webhook_delete", "DELETE", "webhook"),
        Call("setting_list", "GET", "settings?name=BERTH_LOG_RETENTION_DAYS"),
        Call("usage_report", "GET", "usage?by=vc", by="alice"),
        Call("usage_report", "GET", "usage?by=vc&format=csv", by="alice"),
        Call("audit_list", "GET", "audit?limit=3"),
        Call("audit_export", "GET", "audit/export"),
        Call("audit_export", "GET", "audit/export?format=csv"),
    ]  # fmt: skip


def of_alerts() -> list[Call]:
    """Before the clock has gone so far that everything seems to be silent."""
    silence = {
        "key": "gpu_faulty:gpu:gpu03/0",
        "reason": "a new one comes on Friday",
        "until": "2026-03-06T16:00:00Z",
    }
    return [
        Call("alert_silence_set", "POST", "alert-silences", silence, keep={"silence": "id"}),
        Call("alert_list", "GET", "alerts"),
        Call("alert_silence_list", "GET", "alert-silences"),
        Call("alert_silence_end", "DELETE", "alert-silences/{silence}"),
    ]


def every_call() -> list[Call]:
    ended = Call("token_revoke_current", "DELETE", "tokens/current", by="alice")
    lost = {"reason": "its disk died; it is set up anew"}
    last = [ended, Call("node_give_up", "POST", "nodes/gpu03/give-up", lost, silent="gpu03")]
    return [*of_alerts(), *of_jobs(), *of_clusters(), *of_people(), *of_administration(), *of_accounts(), *last]
