"""Validates a job file: returns its `JobSpec`, or raises every problem it has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from portal.job_file import build, commands, fit, plugins, raw, rules
from portal.job_file.facts import ClusterFacts
from portal.job_file.loader import Document, load
from portal.job_file.model import JobSpec
from portal.job_file.problems import MAX_PROBLEMS, Problem, SpecInvalid, path_text
from portal.job_file.raw import Raw
from portal.job_file.schema import shape_problems
from portal.job_file.secrets import unmasked
from portal.job_file.templates import MAX_RENDERED, RenderedTooLong, render

MAX_ENTRIES: Final = 100
"""Maximum task roles, prerequisites and deployments, each."""


def parse(
    source: str | bytes, cluster: ClusterFacts | None = None, *, hidden: Mapping[str, Any] | None = None
) -> JobSpec:
    """The job that a YAML or JSON file of protocol v2 asks for.

    With `cluster`, also checks that it can ever run there. `hidden`: the job's secrets, if the file is a stored one in
    which they are masked. Raises `SpecInvalid` with all problems at once, in the order of the file, and nothing else.
    """
    return build.job_spec(_checked(source, cluster, hidden).value)


def parsed_form(source: str | bytes) -> dict[str, Any]:
    """The file as OpenPAI's REST server passes it on: prerequisites and deployments by name, `auth` with its secrets,
    and each role's rendered `entrypoint` added. Contains secrets in clear. Raises `SpecInvalid`."""
    _checked(source, None)
    job = load(source).value  # plug-ins are filled in later
    for name, role in raw.roles(job):
        role["entrypoint"] = commands.script(job, name, commands.deployed_lines(job, name))
    job["prerequisites"] = {
        kind: {name: _with_auth(item, job) for name, item in raw.prerequisites(job, kind).items()}
        for kind in ("data", "output", "script", "dockerimage")
    }
    job["deployments"] = raw.named(job.get("deployments"))
    return job


def _checked(source: str | bytes, cluster: ClusterFacts | None, hidden: Mapping[str, Any] | None = None) -> Document:
    document = load(source)
    if hidden is not None:
        document = replace(document, value=unmasked(document.value, hidden))
    document = _filled(document)
    crowded = _located(_crowded(document.value), document)
    problems = [*document.problems, *(crowded or _all_problems(document, cluster))]
    if not problems and cluster is not None:
        problems = _located(fit.refused(document.value, build.job_spec(document.value), cluster), document)
    if problems:
        raise SpecInvalid(sorted(problems, key=lambda problem: problem.line or 0))
    return document


def _filled(document: Document) -> Document:
    try:
        return replace(document, value=plugins.filled(document.value))
    except RenderedTooLong:
        message = f"are longer than {MAX_RENDERED:,} characters with their parameters filled in"
        line = document.line(plugins.PLACE)
        raise SpecInvalid([Problem(path_text(plugins.PLACE), message, "too_large", line)]) from None


def _all_problems(document: Document, cluster: ClusterFacts | None) -> list[Problem]:
    problems = [*shape_problems(document), *_located(rules.findings(document.value), document)]
    if cluster is not None:
        problems += _located(fit.findings(document.value, cluster), document)
    return problems


def _crowded(job: Raw) -> Iterator[rules.Finding]:
    """Sections too long to check: their contents are only judged once they are shorter."""
    for section in ("prerequisites", "taskRoles", "deployments"):
        entries = job.get(section)
        if isinstance(entries, dict | list) and len(entries) > MAX_ENTRIES:
            message = f"must have at most {MAX_ENTRIES} entries, not {len(entries):,}"
            yield rules.Finding((section,), message, "maxItems")


def _located(findings: Iterable[rules.Finding], document: Document) -> list[Problem]:
    return [
        Problem(path_text(found.path), found.message, found.code, document.line(found.path))
        for found in islice(findings, MAX_PROBLEMS + 1)
    ]


def _with_auth(item: Raw, job: Raw) -> Raw:
    if "auth" not in item:
        return item
    secrets = {"secrets": raw.mapping(job, "secrets")}
    return {**item, "auth": {key: render(value, secrets) for key, value in item["auth"].items()}}
