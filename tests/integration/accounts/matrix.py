"""The matrix of rights: who may do what, in other words than the code's, and how each operation is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.support.cluster.world import job_file

CLAIMS = {
    "cpu_milli": 640_000, "memory_mb": 0, "address": "", "runtime": "docker", "simulated": True,
    "storages": ["/more"], "gpus": {},
}  # fmt: skip
RIGHTS = {
    "job.read": "admin auditor lead member owner",
    "job.stop": "admin lead owner",
    "job.move": "admin lead owner",
    "job.pause": "admin lead owner",
    "job.tag": "admin lead owner",
    "job.priority": "admin lead owner",
    "job.order": "admin lead owner",
    "job.files": "admin auditor lead owner",
    "job.shell": "admin owner",
    "job.submit": "admin lead member",
    "vc.order": "admin lead",
    "vc.read": "admin auditor lead member owner other",
    "vc.cap": "admin lead",
    "vc.members": "admin lead",
    "vc.configure": "admin",
    "vc.make": "admin",
    "vc.secrets_list": "admin auditor lead member",
    "vc.secrets_set": "admin lead",
    "cluster.configure": "admin",
    "node.read": "admin auditor lead member owner other",
    "node.add": "admin",
    "node.set_intent": "admin",
    "node.remove": "admin",
    "audit.read": "admin auditor",
    "usage.read": "admin auditor lead member owner",
    "usage.users": "admin auditor lead owner",
    "webhook.read": "admin auditor",
    "webhook.set": "admin",
    "user.read": "admin auditor lead",
    "user.manage": "admin",
    "group.read": "admin auditor lead",
    "group.manage": "admin",
    "storage.read": "admin auditor lead member",
    "storage.manage": "admin",
    "images.read": "admin auditor lead member",
    "images.set": "admin",
    "template.read": "admin auditor lead member",
    "template.write": "admin lead",
    "template.publish": "admin",
    "settings.read": "admin auditor",
    "alert.read": "admin auditor lead",
    "alert.silence": "admin",
    "idle.read": "admin auditor lead member",
    "idle.set": "admin",
    "idle.exempt": "admin lead",
    "idle.extend": "admin lead owner",
}
"""The whole table, in other words than the code's."""

SAME_AS = {"group_lead": "lead", "group_member": "member", "nobody": "other"}
PEOPLE = ["admin", "auditor", "lead", "group_lead", "member", "group_member", "owner", "other", "nobody"]


@dataclass(frozen=True)
class Case:
    """What is asked, under which right, and the status that says no: 403 to those who may see the thing, which
    ``sees`` says."""

    action: str
    method: str
    path: str
    body: object = None
    refusal: int | None = None
    granted: tuple[int, ...] = (200, 201, 202, 204)
    sees: str = "job.read"
    kind: str = ""


STRANGER = "5c2d2f6e-0d7c-4a54-9a0f-0f3c9f3c7a11"
"""A task attempt that gpu01 runs and the portal does not know."""
SILENCED = "storage_missing:storage:data"
"""An alert of the scene that is silenced."""
TOMORROW = datetime.now(UTC) + timedelta(days=1)
NO_NODE = (503,)
"""May, but no node of the scene has the storage of job folders."""
LINE = {"vc": "vision", "cell_type": "A100", "count": 1}
CASES = {
    "job_list": Case("job.read", "GET", "jobs"),
    "job": Case("job.read", "GET", "jobs/{job}"),
    "job_config": Case("job.read", "GET", "jobs/{job}/config"),
    "job_event_list": Case("job.read", "GET", "jobs/{job}/events"),
    "job_attempt_list": Case("job.read", "GET", "jobs/{job}/attempts"),
    "job_preemption_list": Case("job.read", "GET", "jobs/{job}/preemptions"),
    "job_task_list": Case("job.read", "GET", "jobs/{job}/tasks"),
    "job_log": Case("job.read", "GET", "jobs/{running}/logs"),
    "job_log_all": Case("job.read", "GET", "jobs/{running}/logs/all"),
    "job_log_search": Case("job.read", "GET", "jobs/{running}/logs/search?text=epoch"),
    "job_advice": Case("job.read", "GET", "jobs/{running}/advice"),
    "job_metrics": Case("job.read", "GET", "jobs/{running}/metrics"),
    "job_file_list": Case("job.files", "GET", "jobs/{job}/files", granted=NO_NODE),
    "job_file_content": Case("job.files", "GET", "jobs/{job}/files/content?path=model.pt", granted=NO_NODE),
    "job_move": Case("job.move", "POST", "jobs/{job}/move", {"vc": "vision"}),
    "job_pause": Case("job.pause", "POST", "jobs/{job}/pause"),
    "job_park": Case("job.pause", "POST", "jobs/{job}/park", granted=(409,)),  # it waits
    "job_resume": Case("job.pause", "POST", "jobs/{job}/resume"),
    "job_tag": Case("job.tag", "PATCH", "jobs/{job}/tags", {"add": ["mine"]}),
    "job_change_priority": Case("job.priority", "POST", "jobs/{job}/priority", {"priority_class": "oppo"}),
    "job_place": Case("job.order", "POST", "jobs/{job}/place", {"to": "front"}),
    "job_bulk": Case("job.tag", "POST", "jobs/bulk", lambda scene: {"jobs": [scene.waiting.pk], "add_tags": ["b"]}),
    "job_stop": Case("job.stop", "POST", "jobs/{job}/stop"),
    "job_submit": Case("job.submit", "POST", "jobs", job_file(name="second"), 400),
    "job_validate": Case("job.submit", "POST", "validate", job_file(name="second")),
    "code": Case("job.read", "GET", "code/{code}", None, 404),
    "code_archive": Case("job.read", "GET", "code/{code}/archive", None, 404),
    "queue_list": Case("job.read", "GET", "queue"),
    "job_estimate": Case("job.submit", "POST", "estimates", job_file(name="second"), 400),
    "virtual_cluster_list": Case("vc.read", "GET", "virtual-clusters"),
    "virtual_cluster": Case("vc.read", "GET", "virtual-clusters/vision"),
    "node_list": Case("node.read", "GET", "nodes"),
    "node": Case("node.read", "GET", "nodes/gpu01"),
    "sku_list": Case("node.read", "GET", "skus"),
    "gpu_list": Case("node.read", "GET", "gpus"),
    "virtual_cluster_set_rules": Case("vc.cap", "PATCH", "virtual-clusters/vision", {"user_gpus": 9}, 403),
    "member_list": Case("vc.members", "GET", "virtual-clusters/vision/members", None, 403),
    "member_set": Case(
        "vc.members", "POST", "virtual-clusters/vision/members", {"name": "nobody", "role": "member"}, 403
    ),
    "member_remove": Case("vc.members", "DELETE", "virtual-clusters/vision/members/{extra}", None, 403),
    "user_share_list": Case("vc.read", "GET", "virtual-clusters/vision/shares"),
    "firm_right_set": Case(
        "vc.configure", "PUT", "virtual-clusters/vision/firm-rights/alice", {"gpus": 1, "last_day": "2999-01-01"}, 403
    ),
    "firm_right_end": Case("vc.configure", "DELETE", "virtual-clusters/vision/firm-rights/alice", None, 403),
    "cluster_export": Case("cluster.configure", "GET", "cluster", None, 404),
    "cluster_import": Case(
        "cluster.configure", "PUT", "cluster?dry_run=true", {"virtualClusters": {"vision": {}}}, 404
    ),
    "quota_list": Case("vc.read", "GET", "quotas"),
    "quota_set": Case("cluster.configure", "PATCH", "quotas?dry_run=true", {"lines": []}, 403),
    "quota_change_list": Case("vc.read", "GET", "quota-changes"),
    "quota_change_plan": Case("cluster.configure", "POST", "quota-changes?dry_run=true", {"lines": [LINE]}, 403),
    "quota_change_withdraw": Case("cluster.configure", "DELETE", "quota-changes/{change}", None, 403),
    "gpu_history": Case("node.read", "GET", "gpus/history"),
    "cell_type_list": Case("node.read", "GET", "cell-types"),
    "node_take_topology": Case("cluster.configure", "POST", "nodes/gpu02/topology", None, 403),
    "join_token_list": Case("node.add", "GET", "join-tokens", None, 403),
    "join_token_create": Case("node.add", "POST", "join-tokens", {}, 403),
    "join_token_revoke": Case("node.add", "DELETE", "join-tokens/{join_token}", None, 403),
    "node_add": Case("node.add", "POST", "nodes", {"name": "gpu09"}, 403),
    "node_new_key": Case("node.add", "POST", "nodes/gpu02/key", None, 403),
    "node_remove": Case("node.remove", "DELETE", "nodes/gpu02?dry_run=true", None, 403),
    "unknown_container_stop": Case(
        "node.set_intent", "POST", f"nodes/gpu01/unknown-containers/{STRANGER}/stop", {}, 403
    ),
    "node_accept": Case("node.add", "POST", "nodes/gpu02/accept", {"claims": CLAIMS}, 403),
    "node_set_cpu_tasks": Case("node.add", "PUT", "nodes/gpu02/cpu-tasks", {"cpu_tasks": False}, 403),
    "node_give_up": Case("node.set_intent", "POST", "nodes/gpu02/give-up", {"reason": "its disk died"}, 403),
    "node_put_back": Case("node.set_intent", "POST", "nodes/gpu02/put-back", {"reason": "repaired"}, 403),
    "node_set_intent": Case("node.set_intent", "PATCH", "nodes/gpu01", {"intent": "cordoned"}, 403),
    "virtual_cluster_create": Case("vc.make", "POST", "virtual-clusters", {"name": "new"}, 403),
    "virtual_cluster_remove": Case("vc.make", "DELETE", "virtual-clusters/idle", None, 403),
    "virtual_cluster_secret_list": Case("vc.secrets_list", "GET", "virtual-clusters/vision/secrets", None, 404),
    "virtual_cluster_secret_set": Case(
        "vc.secrets_set", "PUT", "virtual-clusters/vision/secrets/key", {"value": "x"}, 403
    ),
    "virtual_cluster_secret_delete": Case(
        "vc.secrets_set", "DELETE", "virtual-clusters/vision/secrets/{secret}", None, 403
    ),
    "virtual_cluster_registry_login_list": Case(
        "vc.secrets_list", "GET", "virtual-clusters/vision/registry-logins", None, 404
    ),
    "virtual_cluster_registry_login_set": Case(
        "vc.secrets_set",
        "PUT",
        "virtual-clusters/vision/registry-logins/registry.example.org",
        {"username": "robot", "password": "x"},
        403,
    ),
    "virtual_cluster_registry_login_delete": Case(
        "vc.secrets_set", "DELETE", "virtual-clusters/vision/registry-logins/{registry}", None, 403
    ),
    "sku_set_share": Case("cluster.configure", "PUT", "skus/A100/share", {"cpu_milli": 2000, "memory_mb": 4096}, 403),
    "sku_set_price": Case("cluster.configure", "PATCH", "skus/A100", {"price": "2.50"}, 403),
    "usage_report": Case("usage.read", "GET", "usage"),
    "user_list": Case("user.read", "GET", "users"),
    "user": Case("user.read", "GET", "users/spare", sees="user.read"),
    "user_create": Case("user.manage", "POST", "users", {"username": "new", "uid": 5001}, 403),
    "user_change": Case("user.manage", "PATCH", "users/spare", {"email": "spare@example.org"}, sees="user.read"),
    "user_set_password": Case(
        "user.manage", "PUT", "users/spare/password", {"password": "correct horse 7"}, sees="user.read"
    ),
    "user_import": Case("user.manage", "POST", "users/import", "username\nimported\n", 403, kind="text/csv"),
    "group_list": Case("group.read", "GET", "groups"),
    "group": Case("group.read", "GET", "groups/spares", sees="group.read"),
    "group_create": Case("group.manage", "POST", "groups", {"name": "crew"}, 403),
    "group_change": Case("group.manage", "PATCH", "groups/spares", {"description": "d"}, sees="group.read"),
    "group_member_add": Case("group.manage", "PUT", "groups/spares/members/extra", sees="group.read"),
    "group_member_remove": Case("group.manage", "DELETE", "groups/spares/members/spare", sees="group.read"),
    "group_remove": Case("group.manage", "DELETE", "groups/spares", sees="group.read"),
    "setting_list": Case("settings.read", "GET", "settings", None, 404),
    "alert_list": Case("alert.read", "GET", "alerts"),
    "alert_silence_list": Case("alert.read", "GET", "alert-silences"),
    "alert_silence_set": Case(
        "alert.silence",
        "POST",
        "alert-silences",
        {"key": f"container_unknown:node:gpu01/{STRANGER}", "reason": "r", "until": TOMORROW.isoformat()},
        403,
    ),
    "alert_silence_end": Case("alert.silence", "DELETE", "alert-silences/{silence}", None, 403),
    "job_idle": Case("job.read", "GET", "jobs/{running}/idle"),
    "job_idle_extend": Case("idle.extend", "POST", "jobs/{running}/idle/extend"),
    "idle_policy": Case("vc.read", "GET", "idle-policy"),
    "idle_policy_set": Case("idle.set", "PATCH", "idle-policy", {"percent": 9}, 403),
    "virtual_cluster_idle_policy": Case("idle.read", "GET", "virtual-clusters/vision/idle-policy", None, 404),
    "virtual_cluster_idle_policy_set": Case(
        "idle.set", "PATCH", "virtual-clusters/vision/idle-policy", {"percent": 9}, 403
    ),
    "virtual_cluster_idle_policy_remove": Case("idle.set", "DELETE", "virtual-clusters/vision/idle-policy", None, 403),
    "idle_exemption_list": Case("idle.read", "GET", "idle-exemptions"),
    "idle_exemption_add": Case(
        "idle.exempt", "POST", "idle-exemptions", {"vc": "vision", "user": "alice", "reason": "r"}, 403
    ),
    "idle_exemption_remove": Case("idle.exempt", "DELETE", "idle-exemptions/{exemption}", sees="idle.read"),
    "template_list": Case("template.read", "GET", "templates"),
    "template": Case("template.read", "GET", "templates/{template}", sees="template.read"),
    "template_create": Case(
        "template.publish", "POST", "templates", {"name": "all", "file": job_file(), "public": True}, 403
    ),
    "template_change": Case(
        "template.write", "PATCH", "templates/{template}", {"description": "d"}, sees="template.read"
    ),
    "template_remove": Case("template.write", "DELETE", "templates/{template}", sees="template.read"),
    "image_list": Case("images.read", "GET", "images"),
    "image_disallow": Case("images.set", "DELETE", "images/{rule}", sees="images.read"),
    "image_allow": Case("images.set", "POST", "images", {"pattern": "registry.example.org/*"}, 403),
    "storage_list": Case("storage.read", "GET", "storages"),
    "storage": Case("storage.read", "GET", "storages/data", sees="storage.read"),
    "storage_create": Case("storage.manage", "POST", "storages", {"name": "new", "root": "/mnt/new"}, 403),
    "storage_change": Case("storage.manage", "PATCH", "storages/data", {"per_user": True}, sees="storage.read"),
    "storage_servers": Case("storage.manage", "GET", "storages/data/servers", sees="storage.read"),
    "storage_tie": Case("storage.manage", "PUT", "storages/data/servers/gpu01", {"tied": True}, sees="storage.read"),
    "storage_remove": Case("storage.manage", "DELETE", "storages/data", sees="storage.read"),
    "user_remove": Case("user.manage", "DELETE", "users/spare", sees="user.read"),
    "audit_list": Case("audit.read", "GET", "audit", None, 404),
    "audit_export": Case("audit.read", "GET", "audit/export", None, 404),
    "webhook": Case("webhook.read", "GET", "webhook", None, 404),
    "webhook_delivery_list": Case("webhook.read", "GET", "webhook/deliveries", None, 404),
    "webhook_set": Case(
        "webhook.set", "PUT", "webhook", {"url": "https://example.org/", "kinds": []}, sees="webhook.read"
    ),
    "webhook_test": Case("webhook.set", "POST", "webhook/test", None, sees="webhook.read"),
    "webhook_delete": Case("webhook.set", "DELETE", "webhook", None, sees="webhook.read"),
}
OWN_AFFAIRS = {
    "join",
    "login", "me", "me_change", "token_list", "token_create", "token_revoke", "token_revoke_current",
    "secret_list", "secret_set", "secret_delete", "user_import_template",
    "registry_login_list", "registry_login_set", "registry_login_delete",
    "code_list", "sample_list", "code_limits", "code_upload", "code_forget",
    "notice_choice", "notice_choice_set",
    "ssh_key_list", "ssh_key_add", "ssh_key_remove",
    "saved_view_list", "saved_view_save", "saved_view_forget",
}  # fmt: skip
