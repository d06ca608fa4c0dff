"""The portal's pages: where each is, who looks at it, and what answers a browser and is none."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from django.urls import URLPattern, URLResolver, get_resolver, resolve, reverse

from tests.support.people.person import Person

VC = "/virtual-clusters/research"
ABSENT = "/no-such-page"
GROUP = "reading"
EVERYBODYS = {
    "home": "/",
    "jobs": "/jobs",
    "submit": "/submit",
    "sample": "/submit?sample=horovod-benchmark",
    "templates": "/templates",
    "template-new": "/templates/new",
    "cluster": "/cluster",
    "usage": "/usage",
    "help": "/help",
    "help-api": "/help/api",
    "profile": "/profile",
    "notices": "/profile/notices",
    "ssh-keys": "/profile/ssh-keys",
    "secrets": "/profile/secrets",
    "vcs": "/virtual-clusters",
    "vc": VC,
    "rules": f"{VC}/rules",
    "queue": "/queue",
    "nothing": "/jobs?text=nothing",
    "jobs-filtered": "/jobs?state=live&state=failed&sort=name",
    "absent": ABSENT,
}
SECTIONS = ("charts", "files", "events", "file", "terminal", "stop")
"""Of a job that runs."""
ADMINISTRATION = {
    "nodes": "/cluster/nodes",
    "node-admin": "/cluster/nodes/here",
    "node-new": "/new-node",
    "join-tokens": "/join-tokens",
    "node-join": "/cluster/nodes/here/join",
    "node-remove": "/cluster/nodes/here/remove",
    "vc-admin": VC,
    "vc-remove": f"{VC}/remove",
    "vc-secrets": f"{VC}/secrets",
    "vc-usage": f"{VC}/usage",
    "vc-new": "/new-virtual-cluster",
    "rules-admin": f"{VC}/rules",
    "webhook": "/cluster/webhook",
    "users": "/users",
    "user": "/users/alice",
    "user-new": "/new-user",
    "users-import": "/users/import",
    "groups": "/groups",
    "group": f"/groups/{GROUP}",
    "group-new": "/new-group",
    "storages": "/storages",
    "storage": "/storages/jobs",
    "storage-new": "/new-storage",
    "images": "/images",
    "skus": "/skus",
    "alerts": "/alerts",
    "audit": "/audit",
    "configuration": "/cluster/configuration",
    "settings": "/settings",
    "idle": "/idle",
    "idle-vc": f"{VC}/idle",
}
IN_OTHER_TESTS = {
    "login": "by who is not signed in",
    "first": "by who is not signed in",
    "password-forgotten": "by who is not signed in",
    "password-new": "by who is not signed in",
    "oidc-start": "by who signs in by a provider",
    "oidc-callback": "by who signs in by a provider",
    "vc-quota": "with what a change would do",
    "alert-silence": "of an alert that there is",
    "api-docs": "with what was tried there",
    "job-queue": "in the journey of a lead",
}
NO_PAGES = {
    "alerts-brief": "a part of the home page",
    "names": "what is offered in a field",
    "job-charts-now": "a part of the charts",
    "job-file-image": "a picture, or the page that there is no such file",
    "job-file-download": "a download, or the page that there is no such file",
}
ADDRESS = {
    "name": "research", "vc": "research", "username": "alice", "user": "alice", "group": GROUP, "ticket": "0" * 32,
    "secret": "none", "server": "none", "kind": "users",
}  # fmt: skip
"""What stands in addresses. Numbers are 1."""


def of_user(user: Person, template: int) -> dict[str, str]:
    """What alice, who leads research, looks at. Her jobs by their names."""
    jobs = {job["name"]: f"/jobs/{job['id']}" for job in user.get("/jobs")["results"]}
    run = jobs["running"]
    of_jobs = {"move": f"{jobs['waiting']}/move", "merged": f"{run}?log=all"}
    of_template = {"template": f"/templates/{template}", "template-remove": f"/templates/{template}/remove"}
    return EVERYBODYS | of_template | of_jobs | jobs | {name: f"{run}/{name}" for name in SECTIONS}


def names_of(paths: dict[str, str]) -> set[str]:
    """The names that the URL configuration has for these addresses."""
    return {resolve(urlsplit(path).path).url_name or "" for path in paths.values() if path != ABSENT}


def addresses() -> Iterator[tuple[str, str]]:
    """Everything in the URL configuration that has a name, with an address of it; the back office is Django's own."""
    for name, parts in _named(get_resolver().url_patterns):
        yield name, reverse(name, kwargs={part: ADDRESS.get(part, 1) for part in parts})


def _named(patterns: list[URLPattern | URLResolver]) -> Iterator[tuple[str, list[str]]]:
    for one in patterns:
        if isinstance(one, URLPattern) and one.name:
            yield one.name, list(one.pattern.converters)
        elif isinstance(one, URLResolver) and one.app_name != "admin":
            yield from _named(one.url_patterns)
