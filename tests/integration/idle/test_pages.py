"""The idle policy in the browser: who sets it, who reads it, what a warned job's owner sees and can do."""

from __future__ import annotations

from datetime import timedelta

import pytest

from portal.accounts.models import ClusterRole
from portal.idle.models import IdleExemption, IdlePolicy, IdleWarning
from portal.idle.services.policy import idle_policy_set
from portal.jobs.services.tags import job_tag
from portal.teams.services.teams import member_set
from tests.support.cluster.idle_scenes import MINUTE, Scene
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db

TYPED = {
    "action": "stop", "percent": "5", "minutes": "10", "after_minutes": "30", "extensions": "1",
    "extension_minutes": "20",
}  # fmt: skip


@pytest.fixture
def admin(scene: Scene) -> Browser:
    return Browser(person("root", ClusterRole.ADMIN))


def seen(browser: Browser, path: str = "/idle") -> str:
    """The version that the form was made from."""
    tags = browser.get(path).tags
    return next(named["value"] for tag, named in tags if tag == "input" and named.get("name") == "seen")


def test_an_administrator_sees_whom_a_policy_would_warn_before_setting_it(scene: Scene, admin: Browser) -> None:
    scene.idle(15)
    look = admin.send("/idle", **TYPED)
    assert "With this policy 1 job would have a warning now: alice/train#1 (vision, 4 GPUs)" in look.text
    assert "A task's first 10 minutes counted as work" in look.text
    assert "The first 10 minutes after each start of a task count as work" in admin.get("/idle").text
    assert not IdlePolicy.objects.exists()
    look = admin.send("/idle", **{**TYPED, "minutes": "16"})
    assert "With this policy no job would have a warning now." in look.text
    done = admin.send("/idle", **TYPED, seen=seen(admin), apply="on")
    assert "The policy is set." in done.text
    assert "below 5 % for 10 minutes, its owner is warned. 30 minutes later it is stopped" in done.text


def test_each_wrong_field_is_told_beside_itself_and_what_was_typed_is_kept(admin: Browser) -> None:
    page = admin.send("/idle", **{**TYPED, "percent": "101", "minutes": "soon"}, apply="on")
    assert page.status == 400
    assert "less than or equal to 100" in page.text
    assert "Enter a whole number." in page.text
    assert {"101", "soon"} <= set(page.attribute("input", "value"))
    assert not IdlePolicy.objects.exists()


def test_of_two_who_set_it_at_once_the_second_sees_the_firsts(scene: Scene, admin: Browser) -> None:
    before = seen(admin)
    scene.policy("warn", minutes=77)
    page = admin.send("/idle", **TYPED, seen=before, apply="on")
    assert page.status == 409
    assert "Somebody else has changed it meanwhile" in page.text
    assert "for 77 minutes" in page.text, "what holds now"
    assert "10" in page.attribute("input", "value"), "what was typed"
    again = next(named["value"] for tag, named in page.tags if named.get("name") == "seen")
    assert "The policy is set." in admin.send("/idle", **TYPED, seen=again, apply="on").text


def test_a_virtual_cluster_gets_a_policy_of_its_own_and_follows_the_clusters_again(
    scene: Scene, admin: Browser
) -> None:
    page = admin.get("/virtual-clusters/vision/idle")
    assert "the cluster's: it has none of its own" in page.text
    page = admin.send("/virtual-clusters/vision/idle", **{**TYPED, "action": "off"}, apply="on")
    assert "of vision itself Idle jobs are left alone." in page.text
    assert "With a policy of their own: vision (nothing)" in admin.get("/idle").text
    page = admin.send("/virtual-clusters/vision/idle/end", form="/virtual-clusters/vision/idle")
    assert "The cluster's policy holds in vision again." in page.text


def test_members_read_it_leads_except_jobs_and_others_see_nothing_of_a_team(scene: Scene) -> None:
    lead, other = person("lead"), Browser(person("other"))
    member_set(vc=scene.world.vc, user=lead, role="lead", now=scene.now)
    member = Browser(scene.world.user)
    page = member.get("/virtual-clusters/vision/idle")
    assert "Set the policy" not in page.text
    assert "Add the exception" not in page.text
    assert member.send("/virtual-clusters/vision/idle", form="/profile", **TYPED, apply="on").status == 403
    assert other.get("/virtual-clusters/vision/idle").status == 404
    assert other.get("/idle").status == 200
    leading, path = Browser(lead), "/virtual-clusters/vision/idle"
    done = leading.send(f"{path}/exceptions", form=path, pattern="notebook-*", reason="people think")
    assert "notebook-*" in done.text
    done = leading.send(f"{path}/exceptions", form=path, tag="interactive", reason="people think", user="alice")
    assert "interactive of alice" in done.text
    scene.idle(60)
    job_tag(job=scene.job, add=["interactive"], actor=lead, now=scene.now)
    scene.judge()
    assert scene.told() == []
    job_tag(job=scene.job, remove=["interactive"], actor=lead, now=scene.now)
    scene.judge()
    assert len(scene.told()) == 1
    IdleExemption.objects.filter(tag="interactive").delete()
    wrong = leading.send(f"{path}/exceptions", form=path, user="nobody", reason="r")
    assert "There is no user nobody." in wrong.text
    wrong = leading.send(f"{path}/exceptions", form=path, reason="r")
    assert "Name a user, a job, a pattern of names or a tag." in wrong.text
    assert leading.send("/idle/exceptions", form=path, user="alice", reason="r").status == 403
    row = IdleExemption.objects.get()
    done = leading.send(f"/idle/exceptions/{row.pk}/end", form=path, team="on")
    assert "The policy holds for these jobs again." in done.text


def test_each_page_says_when_an_idle_job_is_parked(scene: Scene, admin: Browser) -> None:
    job = scene.run_parkable()
    scene.policy("park")
    scene.idle(10, job)
    scene.judge()
    IdleWarning.objects.update(due_at=scene.now + timedelta(days=2))
    policy = admin.get("/idle").text
    assert "30 minutes later it is parked if it can be, unless they work again" in policy
    assert "The owner may put that off once, by 20 minutes." in policy
    assert "parked in 1 d 23 h" in policy
    assert "It is parked in 1 d 23 h" in Browser(scene.world.user).get(f"/jobs/{job.pk}").text


def test_the_owner_sees_the_countdown_and_puts_it_off(scene: Scene) -> None:
    scene.policy("stop")
    scene.idle(10)
    scene.judge()
    IdleWarning.objects.update(due_at=scene.now + timedelta(days=2))
    browser, path = Browser(scene.world.user), f"/jobs/{scene.job.pk}"
    page = browser.get(path)
    assert "The first 10 minutes after the start counted as work." in page.text
    assert "All its 4 GPUs are below 5 %. It is stopped in 1 d 23 h" in page.text
    assert "possible once more" in page.text
    assert page.attribute("span", "data-until")
    assert "idle GPUs" in browser.get("/jobs").text
    done = browser.send(f"{path}/idle/extend", form=path)
    assert "It has been put off." in done.text
    assert "It was put off as often as the policy allows." in done.text
    refused = browser.send(f"{path}/idle/extend", form=path)
    assert "a lead of its virtual cluster or an administrator can except the job" in refused.text
    seen_by_member = person("bob")
    member_set(vc=scene.world.vc, user=seen_by_member, role="member", now=scene.now)
    assert "minutes more" not in Browser(seen_by_member).get(path).text


def test_the_pages_take_as_many_queries_for_many_warned_jobs_as_for_one(scene: Scene, admin: Browser) -> None:
    scene.policy("stop")
    scene.idle(10)
    scene.judge()
    admin.get("/idle")
    few = [admin.queries(path) for path in ("/idle", "/jobs")]
    for number in range(3):
        scene.idle(10, scene.run(name=f"other{number}"))
    scene.judge()
    assert IdleWarning.objects.filter(ended_at=None).count() == 4
    assert [admin.queries(path) for path in ("/idle", "/jobs")] == few


def test_the_api_says_the_same(scene: Scene) -> None:
    root = Api(person("root", ClusterRole.ADMIN))
    answer = root.call("GET", "idle-policy")
    assert (answer.json()["action"], answer.json()["vc"]) == ("warn", None)
    terms = {"action": "stop", "minutes": 10, "percent": 5}
    looked = root.call("PATCH", "idle-policy?dry_run=true", terms)
    assert (looked.status_code, looked.json()["would_warn"]) == (200, [])
    scene.idle(10)
    looked = root.call("PATCH", "idle-policy?dry_run=true", terms)
    assert [row["label"] for row in looked.json()["would_warn"]] == ["alice/train#1"]
    etag = {"If_Match": answer.headers["ETag"]}
    assert root.call("PATCH", "idle-policy", terms, **etag).status_code == 200
    assert root.call("PATCH", "idle-policy", {"percent": 4}, **etag).status_code == 409
    scene.judge()
    mine = Api(scene.world.user)
    told = mine.get(f"jobs/{scene.job.pk}/idle")
    assert (told["warning"]["action"], told["warning"]["gpus"], told["extensions_left"]) == ("stop", 4, 2)
    put_off = mine.call("POST", f"jobs/{scene.job.pk}/idle/extend").json()
    assert put_off["extensions_left"] == 1
    assert put_off["warning"]["due_at"] > told["warning"]["due_at"]
    alerts = [one for one in root.get("alerts") if one["code"] == "job_idle"]
    assert [(one["kind"], one["name"]) for one in alerts] == [("job", "alice/train#1")]
    refused = root.call("POST", "idle-exemptions", {"reason": "r", "vc": "nowhere"})
    assert refused.json()["errors"][0]["path"] == "vc"
    gone = root.call("POST", "idle-exemptions", {"reason": "r", "user": "alice", "until": "2020-01-01T00:00:00Z"})
    assert gone.json()["errors"][0]["path"] == "until"


def test_a_policy_that_is_set_to_what_it_is_changes_nothing(scene: Scene) -> None:
    policy = scene.policy("stop")
    again = idle_policy_set(vc=None, terms={"percent": 5}, now=scene.now + MINUTE, actor="root")
    assert again.pk == policy.pk
