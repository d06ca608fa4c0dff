"""Breadcrumbs: links to the pages above the current one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django import template
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

register = template.Library()


class Step(NamedTuple):
    """One breadcrumb: a URL ``name``, the URL arguments that it shares with the current page, and a ``label``; without
    one its label is the context variable ``called``."""

    name: str
    label: str = ""
    shares: tuple[str, ...] = ()
    called: str = ""


JOBS = Step("jobs", gettext_noop("Jobs"))
JOB = Step("job", shares=("job_id",), called="job.label")
CLUSTER = Step("cluster", gettext_noop("Cluster"))
NODES = Step("nodes", gettext_noop("Nodes"))
NODE = Step("node", shares=("name",), called="node.name")
TEAMS = Step("vcs", gettext_noop("Virtual clusters"))
TEAM = Step("vc", shares=("name",), called="vc.name")
USERS = Step("users", gettext_noop("Users"))
GROUPS = Step("groups", gettext_noop("Groups"))
STORAGES = Step("storages", gettext_noop("Storages"))
SUBMIT = Step("submit", gettext_noop("Submit"))
TEMPLATES = Step("templates", gettext_noop("Templates"))

ABOVE: dict[str, tuple[Step, ...]] = {
    "job": (JOBS,),
    "job-move": (JOBS, JOB),
    "job-queue": (JOBS, JOB),
    "job-stop": (JOBS, JOB),
    "jobs-bulk": (JOBS,),
    "templates": (SUBMIT,),
    "template": (SUBMIT, TEMPLATES),
    "template-new": (SUBMIT, TEMPLATES),
    "template-remove": (SUBMIT, TEMPLATES),
    "nodes": (CLUSTER,),
    "node": (CLUSTER, NODES),
    "node-new": (CLUSTER, NODES),
    "node-join": (CLUSTER, NODES, NODE),
    "node-remove": (CLUSTER, NODES, NODE),
    "join-tokens": (CLUSTER, NODES),
    "vc": (TEAMS,),
    "vc-new": (TEAMS,),
    "vc-quota": (TEAMS, TEAM),
    "vc-rules": (TEAMS, TEAM),
    "vc-remove": (TEAMS, TEAM),
    "vc-usage": (TEAMS, TEAM),
    "vc-idle": (TEAMS, TEAM),
    "vc-secrets": (TEAMS, TEAM._replace(shares=("vc",))),
    "user": (USERS,),
    "user-new": (USERS,),
    "users-import": (USERS,),
    "group": (GROUPS,),
    "group-new": (GROUPS,),
    "storage": (STORAGES,),
    "storage-new": (STORAGES,),
}
SECTION = "job-"
"""Prefix of the URL names of a job's sections; they share the job's breadcrumbs."""


@register.inclusion_tag("parts/trail.html", takes_context=True)
def trail(context: template.Context) -> dict[str, Any]:
    """Breadcrumbs of the current page; none on pages that the top bar links to."""
    match = getattr(context.get("request"), "resolver_match", None)
    name = match.url_name or "" if match else ""
    steps = ABOVE.get(name) or (ABOVE["job"] if name.startswith(SECTION) else ())
    return {"steps": list(_links(steps, match.kwargs, context)) if match else []}


def _links(steps: tuple[Step, ...], address: dict[str, Any], context: template.Context) -> Iterator[tuple[str, str]]:
    """URL and label of each step. An error page has less context: steps without a label are left out."""
    for step in steps:
        label = gettext(step.label) if step.label else template.Variable(step.called)
        if isinstance(label, template.Variable):
            try:
                label = str(label.resolve(context))
            except template.VariableDoesNotExist:
                continue
        args = [address[part] for part in step.shares]
        yield reverse(step.name, args=args), label
