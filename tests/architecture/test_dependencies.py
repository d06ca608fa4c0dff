"""Every library is locked with its hashes, and stands with its reason in the list."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTS = ["requirements", "nodes/requirements", "requirements-plot", "requirements-dev", "scripts/uv", "scripts/node"]


def asked_for(listing: str) -> list[str]:
    lines = (ROOT / f"{listing}.in").read_text().splitlines()
    return [re.split(r"[\[~=<>]", line)[0].lower() for line in lines if line[:1].isalpha()]


@pytest.mark.parametrize("listing", LISTS)
def test_what_is_asked_for_is_locked(listing: str) -> None:
    locked = (ROOT / f"{listing}.txt").read_text().lower()
    assert [name for name in asked_for(listing) if f"\n{name}==" not in locked and f"\n{name}[" not in locked] == []


@pytest.mark.parametrize("listing", LISTS)
def test_every_locked_version_has_its_hashes(listing: str) -> None:
    entries = re.split(r"\n(?=[a-zA-Z])", (ROOT / f"{listing}.txt").read_text())
    assert [entry for entry in entries if "==" in entry and "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("listing", LISTS)
def test_a_lock_names_no_package_index(listing: str) -> None:
    assert not re.search(r"://|--index|--find-links", (ROOT / f"{listing}.txt").read_text())


@pytest.mark.parametrize("listing", ["nodes/requirements", "requirements-plot", "requirements-dev"])
def test_one_environment_can_hold_the_portals_lock_and_this_one(listing: str) -> None:
    portal, other = versions("requirements"), versions(listing)
    assert {name: other[name] for name in portal.keys() & other.keys() if portal[name] != other[name]} == {}


def versions(listing: str) -> dict[str, str]:
    return dict(
        re.findall(r"^([a-z0-9][\w.-]*)(?:\[.*\])?==(\S+)", (ROOT / f"{listing}.txt").read_text(), re.MULTILINE)
    )


@pytest.mark.parametrize("listing", LISTS)
def test_every_library_stands_with_its_reason_in_the_list(listing: str) -> None:
    reasons = (ROOT / "docs/decisions/dependencies.md").read_text().lower()
    names = [name for name in asked_for(listing) if not name.startswith("types-")]
    assert [name for name in names if name.removesuffix("-sidecar") not in reasons] == []
