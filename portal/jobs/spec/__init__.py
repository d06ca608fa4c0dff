"""The job file: the one home of job validation. Pure Python, no Django.

A YAML or JSON document of OpenPAI's job protocol v2 goes in; a `JobSpec`, or `SpecInvalid` with every
problem and its path, comes out.
"""

from portal.common.priorities import DEFAULT_PRIORITY_CLASS, PRIORITY_CLASSES
from portal.jobs.spec.commands import has_windows_ends
from portal.jobs.spec.facts import ClusterFacts
from portal.jobs.spec.fit import limit_problems
from portal.jobs.spec.images import image_allowed, image_as_root, image_problems, image_refusal
from portal.jobs.spec.model import (
    BOUND_OFF,
    DEFAULT_VIRTUAL_CLUSTER,
    FANCY_RETRY_OFF,
    JOB_EVENTS,
    RETRY_ALWAYS,
    BerthExtras,
    Callback,
    Completion,
    Image,
    JobSpec,
    Prerequisite,
    RegistryAuth,
    Resources,
    RuntimePlugin,
    StorageMount,
    TaskRoleSpec,
)
from portal.jobs.spec.plugins import no_key, ssh_keys
from portal.jobs.spec.problems import Problem, SpecInvalid
from portal.jobs.spec.schema import schema_berth, schema_job
from portal.jobs.spec.secrets import (
    MASK,
    mask_secrets,
    registries_open,
    secret_names_missing,
    secret_texts,
    with_logins,
    with_secrets,
)
from portal.jobs.spec.shares import share_hints
from portal.jobs.spec.templates import RenderedTooLong, render_auth, render_script
from portal.jobs.spec.unused import unused_keys
from portal.jobs.spec.validate import parse, parsed_form

__all__ = [
    "BOUND_OFF",
    "DEFAULT_PRIORITY_CLASS",
    "DEFAULT_VIRTUAL_CLUSTER",
    "FANCY_RETRY_OFF",
    "JOB_EVENTS",
    "MASK",
    "PRIORITY_CLASSES",
    "RETRY_ALWAYS",
    "BerthExtras",
    "Callback",
    "ClusterFacts",
    "Completion",
    "Image",
    "JobSpec",
    "Prerequisite",
    "Problem",
    "RegistryAuth",
    "RenderedTooLong",
    "Resources",
    "RuntimePlugin",
    "SpecInvalid",
    "StorageMount",
    "TaskRoleSpec",
    "has_windows_ends",
    "image_allowed",
    "image_as_root",
    "image_problems",
    "image_refusal",
    "limit_problems",
    "mask_secrets",
    "no_key",
    "parse",
    "parsed_form",
    "render_auth",
    "render_script",
    "schema_berth",
    "schema_job",
    "registries_open",
    "secret_names_missing",
    "secret_texts",
    "share_hints",
    "ssh_keys",
    "unused_keys",
    "with_logins",
    "with_secrets",
]
