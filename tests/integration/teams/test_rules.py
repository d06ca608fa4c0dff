"""Rules of virtual clusters over REST, and as the engine gets them with the cluster's policy."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pytest_django.fixtures import Settings

import scheduling
from portal.accounts.models import AuditEntry, ClusterRole
from portal.hardware.models import CellType
from portal.teams.models import VirtualCluster
from portal.teams.selectors.engine_cluster import cluster_read
from tests.support.cluster.world import World
from tests.support.people.cast import Api, cast_of, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db
VC = "virtual-clusters/vision"


@pytest.fixture
def world() -> World:
    made = World()
    made.node("gpu01", gpus=8)
    return made


@pytest.fixture
def admin(world: World) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


RULES: dict[str, Any] = {
    "weight": 3,
    "user_factor": 0.5,
    "user_gpus": 6,
    "class_gpus": 2,
    "default_borrow": "auto",
    "member_class": "test",
    "lead_class": "prod",
    "log_quota_gb": 20,
    "default_profile": "user",
    "host_network": False,
    "parking": True,
    "loan_limits": [{"sku": "A100", "max_borrow": 4, "max_lend": None}],
}


def test_what_is_set_is_told_and_reaches_the_engine(world: World, admin: Api) -> None:
    answer = admin.call("PATCH", VC, RULES).json()
    assert {name: answer[name] for name in RULES} == RULES
    assert admin.get(VC)["loan_limits"] == RULES["loan_limits"]
    (vc,) = cluster_read().cluster.virtual_clusters
    assert vc.rules == scheduling.Rules(
        weight=3, max_borrow={"A100": 4}, max_lend={}, user_factor=0.5, user_gpus=6, class_priority=100, class_gpus=2
    )


def test_a_limit_is_taken_away_by_null(world: World, admin: Api) -> None:
    admin.call("PATCH", VC, RULES)
    admin.call("PATCH", VC, {"user_factor": None, "user_gpus": None, "class_gpus": None, "loan_limits": []})
    (vc,) = cluster_read().cluster.virtual_clusters
    assert vc.rules == scheduling.Rules(weight=3)


def test_a_lead_sets_what_one_user_may_hold_but_nothing_of_the_cluster(world: World) -> None:
    lead = Api(cast_of(world.vc, world.user)["lead"])
    assert lead.call("PATCH", VC, {"user_gpus": 2, "default_borrow": "auto"}).status_code == 200
    for name in RULES.keys() - {"user_gpus", "user_factor", "default_borrow", "parking"}:
        assert lead.call("PATCH", VC, {"user_gpus": 3, name: RULES[name]}).status_code == 403
    assert VirtualCluster.objects.get(name="vision").user_gpus == 2


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, ""),
    "a weight of nothing": ({"weight": 0}, "weight"),
    "a text": ({"user_gpus": "4"}, "user_gpus"),
    "no profile": ({"default_profile": "nobody"}, "default_profile"),
    "neither yes nor no": ({"host_network": "off"}, "host_network"),
    "no class": ({"member_class": "high"}, "member_class"),
    "members above leads": ({"member_class": "crit", "lead_class": "prod"}, "member_class"),
    "leads below members": ({"lead_class": "test", "loan_limits": [{"sku": "A100", "max_lend": 1}]}, "lead_class"),
    "no SKU": ({"loan_limits": [{"sku": "H100"}]}, "loan_limits[0].sku"),
    "a SKU twice": ({"loan_limits": [{"sku": "A100"}, {"sku": "A100"}]}, "loan_limits[1].sku"),
    "misspelt": ({"wight": 2}, "wight"),
}


@pytest.mark.parametrize("case", BAD)
def test_rules_that_cannot_be_name_their_field_and_change_nothing(world: World, admin: Api, case: str) -> None:
    body, path = BAD[case]
    answer = admin.call("PATCH", VC, body)
    assert answer.status_code == 400
    assert [fault["path"] for fault in answer.json()["errors"]] == [path]
    (vc,) = cluster_read().cluster.virtual_clusters
    assert vc.rules == scheduling.Rules()


def test_a_right_is_given_and_taken_back(world: World, admin: Api) -> None:
    last = str((world.now + timedelta(days=3)).date())
    given = admin.call("PUT", f"{VC}/firm-rights/alice", {"gpus": 2, "last_day": last})
    assert given.json()["firm_rights"] == [{"user": "alice", "gpus": 2, "last_day": last}]
    assert admin.call("PUT", f"{VC}/firm-rights/alice", {"gpus": 9, "last_day": last}).status_code == 400
    assert admin.call("PUT", f"{VC}/firm-rights/alice", {"gpus": 2, "last_day": "2020-01-01"}).status_code == 400
    assert admin.call("PUT", f"{VC}/firm-rights/nobody", {"gpus": 1, "last_day": last}).status_code == 404
    assert admin.call("DELETE", f"{VC}/firm-rights/alice").json()["firm_rights"] == []
    assert admin.call("DELETE", f"{VC}/firm-rights/alice").status_code == 404


def test_a_right_and_what_one_user_may_hold_do_not_contradict_each_other(world: World, admin: Api) -> None:
    last = str((world.now + timedelta(days=3)).date())
    admin.call("PATCH", VC, {"user_gpus": 2})
    refused = admin.call("PUT", f"{VC}/firm-rights/alice", {"gpus": 3, "last_day": last})
    assert refused.json()["errors"][0]["message"] == "one user may hold 2 GPUs in vision"
    assert admin.call("PATCH", VC, {"user_gpus": 3}).status_code == 200
    assert admin.call("PUT", f"{VC}/firm-rights/alice", {"gpus": 3, "last_day": last}).status_code == 200
    refused = admin.call("PATCH", VC, {"user_gpus": 2})
    assert refused.json()["errors"][0]["message"].startswith("alice has a right to 3 GPUs without preemption until")
    assert admin.call("PATCH", VC, {"user_gpus": None}).status_code == 200


def test_the_page_says_all_that_is_wrong_beside_the_fields_and_keeps_what_was_typed(world: World) -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    typed = {
        "default_borrow": "auto", "member_class": "crit", "lead_class": "test", "weight": "7", "user_gpus": "5",
        "default_profile": "root", "host_network": "True", "parking": "False",
    }  # fmt: skip
    page = browser.send("/virtual-clusters/vision/rules", **typed)
    assert page.status == 400
    assert "Members may not have a higher class than leads: Critical (crit) is above Test (test)." in page.text
    assert 'id="id_member_class_error"' in page.html
    assert 'name="weight" value="7"' in page.html
    assert VirtualCluster.objects.get().weight == 1
    assert browser.send("/virtual-clusters/vision/rules", **{**typed, "lead_class": "crit"}).status == 200


def test_on_its_page_an_administrator_takes_root_and_the_host_network_away(world: World) -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    typed = {"default_borrow": "never", "member_class": "prod", "lead_class": "crit", "weight": "1", "parking": "False"}
    before = browser.get("/virtual-clusters/vision").text
    assert "Containers run as root, unless the job says user" in before
    assert "Jobs of several tasks accepted, on the host network" in before
    page = browser.send("/virtual-clusters/vision/rules", **typed, default_profile="user", host_network="False")
    assert "Containers run as the user, always" in page.text
    assert "Jobs of several tasks refused: they need the host network" in page.text
    assert "profile of containers user, host network for jobs of several tasks no" in page.text
    entry = AuditEntry.objects.get(action="vc.rules")
    assert entry.before == {"default_profile": "root", "host_network": True}
    assert entry.after == {"default_profile": "user", "host_network": False}
    kept = browser.get("/virtual-clusters/vision/rules").html
    assert '<option value="False" selected>' in kept
    assert '<option value="user" selected>' in kept


def test_the_policy_of_the_cluster_comes_from_the_settings(world: World, settings: Settings) -> None:
    assert cluster_read().cluster.policy == scheduling.Policy()
    settings.FAIR_SHARE_HALF_LIFE_H, settings.BACKFILL, settings.UNSAVED_WORK_CAP_S = 24, False, 60
    settings.FIRST_TO_PAY = "loss"
    assert cluster_read().cluster.policy == scheduling.Policy(
        half_life_ms=24 * 3_600_000,
        backfill=False,
        unsaved_cap_ms=60_000,
        first_to_pay=scheduling.FirstToPay.LOSS,
    )


def test_cell_types_say_what_they_are_made_of_and_where_they_are(world: World, admin: Api) -> None:
    assert [(kind["name"], kind["child"], kind["gpus"], kind["chains"]) for kind in admin.get("cell-types")] == [
        ("A100", None, 1, ["A100"]), ("A100-node8", "A100", 8, ["A100"]),
    ]  # fmt: skip
    node = admin.get("nodes/gpu01")
    assert (node["cell_type"], node["rack"]) == ("A100-node8", "")


def test_a_change_of_hardware_shows_in_the_next_reading_and_more_nodes_take_no_more_queries(
    world: World, django_assert_max_num_queries: Any
) -> None:
    before = cluster_read().cluster
    assert cluster_read().cluster is before
    CellType.objects.filter(name="A100-node8").update(name="box")
    assert cluster_read().cluster.nodes[0].shape == "box"
    for number in range(2, 6):
        world.node(f"gpu0{number}")
    with django_assert_max_num_queries(13):
        cluster_read()
