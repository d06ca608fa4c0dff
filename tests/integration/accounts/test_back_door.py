"""Django's own administration: administrators look at every row there, and change none."""

from typing import Any

import pytest
from django.contrib import admin
from django.test import Client

from portal.accounts.models import ClusterRole, User
from portal.upkeep.tables import tables
from tests.support.cluster.world import World
from tests.support.people.cast import person


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def root(world: World, settings: Any) -> Client:
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}  # no files are collected for tests
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    user = person("root", ClusterRole.ADMIN)
    User.objects.filter(pk=user.pk).update(is_staff=True, is_superuser=True)  # as with every administrator's account
    return client_of(user)


def test_an_administrator_sees_lists_and_rows_of_every_kind_but_no_secrets(world: World, root: Client) -> None:
    world.node("gpu01", gpus=1)
    job = world.submit()
    world.settle()
    names = [model._meta for model in admin.site._registry]
    assert {"jobs.job", "accounts.user", "hardware.node"} <= {one.label_lower for one in names}
    for one in names:
        assert root.get(f"/admin/{one.app_label}/{one.model_name}/").status_code == 200, one.label
    page = root.get(f"/admin/jobs/job/{job.pk}/change/").content.decode()
    assert "alice" in page
    assert "secrets_sealed" not in page
    assert "password" not in root.get(f"/admin/accounts/user/{world.user.pk}/change/").content.decode().lower().replace(
        "password_change", ""
    )


def test_nothing_is_changed_there(world: World, root: Client) -> None:
    vc = f"/admin/teams/virtualcluster/{world.vc.pk}"
    assert root.post(f"{vc}/change/", {"name": "other"}).status_code == 403
    assert root.post(f"{vc}/delete/", {"post": "yes"}).status_code == 403
    assert root.get("/admin/teams/virtualcluster/add/").status_code == 403


def test_nobody_else_comes_in(world: World) -> None:
    for user in (world.user, person("auditor", ClusterRole.AUDITOR)):
        answer = client_of(user).get("/admin/jobs/job/")
        assert (answer.status_code, "/login" in answer.headers["Location"]) == (302, True)


def test_it_has_no_log_in_of_its_own(world: World) -> None:
    answer = Client().get("/admin/", follow=True)
    assert answer.redirect_chain[-1] == ("/login?next=/admin/", 302)
    assert client_of(world.user).get("/admin/", follow=True).status_code == 404


def test_it_has_no_page_of_its_own_where_a_password_could_be_guessed_at(root: Client) -> None:
    answer = root.post("/admin/password_change/", {"old_password": "x"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/profile")


def test_no_column_that_holds_a_secret_is_shown(rf: object) -> None:
    for model in tables():
        if (shown := admin.site._registry.get(model)) is not None:
            fields = shown.get_fields(rf)  # type: ignore[arg-type]  # it asks for nothing
            assert not [name for name in fields if "sealed" in name or "password" in name], model
