"""Which page answers whom: 404 to those who may not see it, 403 to those who see the thing and may not do this."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.accounts.matrix import PEOPLE
from tests.integration.accounts.test_rights import kept as kept
from tests.integration.accounts.test_rights import may
from tests.integration.accounts.test_rights import scene as scene
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db(transaction=True)  # the scene runs the scheduler
VC = "/virtual-clusters/vision"
PAGES = {
    # page: (right to see it, right to do what it is for)
    "/audit": ("audit.read", "audit.read"),
    "/settings": ("settings.read", "settings.read"),
    "/cluster/configuration": ("cluster.configure", "cluster.configure"),
    "/cluster/webhook": ("webhook.read", "webhook.read"),
    "/cluster/nodes/gpu01": ("node.read", "node.read"),
    "/new-node": ("node.read", "node.add"),
    "/join-tokens": ("node.read", "node.add"),
    "/cluster/nodes/gpu01/join": ("node.read", "node.add"),
    "/cluster/nodes/gpu01/remove": ("node.read", "node.remove"),
    "/virtual-clusters": ("vc.read", "vc.read"),
    "/new-virtual-cluster": ("vc.read", "vc.make"),
    VC: ("vc.read", "vc.read"),
    f"{VC}/rules": ("vc.read", "vc.cap"),
    f"{VC}/quota": ("vc.read", "cluster.configure"),
    f"{VC}/remove": ("vc.read", "vc.make"),
    f"{VC}/secrets": ("vc.secrets_list", "vc.secrets_list"),
    f"{VC}/idle": ("idle.read", "idle.read"),
    "/new-storage": ("vc.read", "storage.manage"),
    "/jobs/{waiting}": ("job.read", "job.read"),
}
LEADS = {"lead", "group_lead", "other"}
"""Of some virtual cluster: they have people to see."""
OF_PEOPLE = {"/users": True, "/groups": True, "/new-user": False, "/users/import": False, "/new-group": False}
"""Whether auditors and leads may open it; whom they have none to see do not know of it."""


def of_people(person: str, *, opens: bool) -> int:
    if person == "admin" or (opens and (person == "auditor" or person in LEADS)):
        return 200
    return 403 if person == "auditor" or person in LEADS else 404


def test_a_page_that_one_may_not_see_is_not_there(scene: Any) -> None:
    wrong = []
    for person in PEOPLE:
        browser = Browser(scene.people[person])
        expected = {
            path: 200 if may(person, does) else 403 if may(person, sees) else 404
            for path, (sees, does) in PAGES.items()
        } | {path: of_people(person, opens=opens) for path, opens in OF_PEOPLE.items()}
        for path, status in expected.items():
            got = browser.get(path.format(waiting=scene.waiting.pk)).status
            wrong += [f"{path} to {person}: {got}, not {status}"] if got != status else []
    assert wrong == []
