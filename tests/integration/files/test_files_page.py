"""The files of a job on its page: what is listed, looked into and downloaded, by whom, and what is said when not."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import pytest

if TYPE_CHECKING:
    from tests.integration.files.conftest import Running
    from tests.support.people.pages import Browser, Page

pytestmark = pytest.mark.django_db(transaction=True)

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


@pytest.fixture
def browser(cluster: Running) -> Browser:
    from tests.support.people.pages import Browser

    return Browser(cluster.world.user)


def files(browser: Browser, running: Running, path: str = "") -> Page:
    return browser.get(f"/jobs/{running.job.pk}/files" + (f"?{urlencode({'path': path})}" if path else ""))


def test_a_folder_is_shown_with_sizes_and_ways_into_it_and_back(running: Running, browser: Browser) -> None:
    (running.folder / "out" / "deep").mkdir(parents=True)
    (running.folder / "a.txt").write_text("hello")
    (running.folder / "out" / "model.pt").write_bytes(b"1" * 2048)
    (running.folder / "latest").symlink_to("/etc/passwd")
    top = files(browser, running)
    assert top.text.index("out/") < top.text.index("a.txt"), "folders first"
    assert "latest a link" in top.text
    assert "It is a link that leads out of the job's folder, to /etc/passwd." in browser.get(top.links["latest"]).text
    assert "5 B" in top.html
    inside = browser.get(top.links["out/"])
    assert "2 KB" in inside.html
    assert inside.links[running.folder.name] == f"/jobs/{running.job.pk}/files"
    assert inside.links["Download the folder"] == f"/jobs/{running.job.pk}/files/content?path=out"
    deep = browser.get(inside.links["deep/"])
    assert "This folder is empty." in deep.text
    assert deep.links["out"] == f"/jobs/{running.job.pk}/files?path=out"


def test_a_file_is_downloaded_from_its_page(running: Running, browser: Browser) -> None:
    (running.folder / "page.html").write_text("<script>alert(1)</script>")
    page = files(browser, running, "page.html")
    assert "<script>alert(1)</script>" in page.text, "as text"
    assert "<script>alert" not in page.html
    answer = browser.client.get(page.links["Download"])
    assert answer.headers["Content-Disposition"] == 'attachment; filename="page.html"'
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    answer.close()


def test_of_a_long_text_its_beginning_is_shown(running: Running, browser: Browser) -> None:
    (running.folder / "log.txt").write_bytes(b"x" * 65_535 + "é".encode() + b"end")
    page = files(browser, running, "log.txt")
    assert "only its beginning is shown" in page.text
    assert "end" not in page.html[page.html.index("<pre") : page.html.index("</pre>")]


def test_only_pictures_that_run_nothing_are_drawn_whatever_they_are_called(running: Running, browser: Browser) -> None:
    for name, content in {"a.txt": PNG, "b.png": SVG, "c.png": b"\0\1\2"}.items():
        (running.folder / name).write_bytes(content)
    drawn = files(browser, running, "a.txt").attribute("img", "src")[-1]
    assert drawn == f"/jobs/{running.job.pk}/files/image?path=a.txt"
    answer = browser.client.get(drawn)
    assert (answer.content, answer.headers["Content-Type"]) == (PNG, "image/png")
    assert answer.headers["Content-Disposition"] == "attachment"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    for name in ("b.png", "c.png"):
        assert browser.client.get(f"/jobs/{running.job.pk}/files/image?path={name}").status_code == 404
    assert "alert(1)" in files(browser, running, "b.png").text
    assert "neither text nor a picture" in files(browser, running, "c.png").text


def test_hostile_names_are_text_and_lead_to_their_files(running: Running, browser: Browser) -> None:
    (running.folder / '"><b>x').write_text("quoted")
    (running.folder / "cod\u202egpj.exe").write_text("turned")
    (running.folder / "%2e%2e").write_text("percent")
    page = files(browser, running)
    assert "<b>" not in page.html
    assert "\u202e" not in page.html
    assert "percent" in browser.get(page.links["%2e%2e"]).text
    assert "quoted" in browser.get(page.links['"><b>x']).text


def test_a_path_that_leads_out_is_none(running: Running, browser: Browser) -> None:
    for path in ("../x", "/etc/passwd", "a//b", "%zz"):
        assert "There is no such path." in files(browser, running, path).text, path
        for where in ("content", "image"):
            answer = browser.client.get(f"/jobs/{running.job.pk}/files/{where}?path={quote(path, safe='')}")
            assert answer.status_code == 404, path


def test_what_is_not_there_or_cannot_be_opened_is_said_in_words(running: Running, browser: Browser) -> None:
    (running.folder / "link").symlink_to("/etc/passwd")
    assert "There is nothing at this path (any more)." in files(browser, running, "nothing").text
    assert "no text and no picture" not in files(browser, running, "link").text
    assert "Nothing has been written yet." not in files(browser, running).text
    (running.folder / "link").unlink()
    assert "Nothing has been written yet." in files(browser, running).text
    running.folder.rmdir()
    assert f"has no folder {running.folder}" in files(browser, running).text


def test_when_no_node_can_answer_it_says_why(
    cluster: Running, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal.hardware.models import Node
    from portal.node_sessions import folders
    from portal.storages.models import Storage

    monkeypatch.setattr(folders, "ANSWER_WITHIN_S", 0.2)
    silent = files(browser, cluster)
    Node.objects.update(health="lost")
    nobody = files(browser, cluster)
    Storage.objects.all().delete()
    nowhere = files(browser, cluster)
    assert "The files cannot be reached now." in silent.text
    assert "The agent of gpu01 does not answer." in silent.text
    assert "No node that has the storage jobs" in nobody.text
    assert "jobs have none" in nowhere.text


def test_a_long_folder_comes_in_pages(running: Running, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    from portal.files import views as view

    monkeypatch.setattr(view, "NAMES_LISTED", 3)
    for number in range(5):
        (running.folder / f"f{number}").touch()
    first = files(browser, running)
    assert "f2" in first.links
    assert "f3" not in first.links
    second = browser.get(first.links["Next names"])
    assert {"f3", "f4", "First names"} <= set(second.links)


def test_a_refreshed_frame_asks_no_node(running: Running, browser: Browser) -> None:
    (running.folder / "a").touch()
    frame = browser.get(f"/jobs/{running.job.pk}/files", HX_Request="true")
    assert 'id="files-frame" data-morph-skip' in frame.html
    assert "file-list" not in frame.html


def test_members_find_no_link_and_are_told_who_may_and_an_administrators_look_is_an_entry(running: Running) -> None:
    from portal.accounts.models import Audited, AuditEntry, ClusterRole
    from portal.teams.services.teams import member_set
    from tests.support.people.cast import person
    from tests.support.people.pages import Browser

    (running.folder / "a").touch()
    path = f"/jobs/{running.job.pk}"
    member = person("bob")
    member_set(vc=running.world.vc, user=member, role="member", now=running.world.now)
    bob = Browser(member)
    assert "Files" not in bob.get(path).links
    for address in ("files", "files/content", "files/content?path=a", "files/image?path=a"):
        refused = bob.get(f"{path}/{address}")
        assert (refused.status, "see a job's files" in refused.text) == (403, True), address
    root = Browser(person("root", ClusterRole.ADMIN))
    assert "a" in root.get(root.get(path).links["Files"]).links
    (entry,) = AuditEntry.objects.filter(action=Audited.FILES_READ)
    assert (entry.actor, entry.target) == ("root", running.job.label)
