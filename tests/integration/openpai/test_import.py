"""An OpenPAI cluster brought over: from its REST answers and its files, row by row, twice the same as once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command

from nodes.agent.config.options import options_load
from nodes.agent.storage.mounts import StorageManager
from nodes.agent.storage.nosuid import MountGuard
from nodes.protocol.envelope import PortalKey
from portal.accounts.models import AuditEntry, ClusterRole, User
from portal.hardware.models import Node
from portal.storages.models import Storage
from portal.storages.selectors.storages import storage_wishes, storages_granted
from portal.teams.models import Membership, VirtualCluster
from tests.support.cluster.played import manage
from tests.support.people.cast import person
from tests.support.people.pages import Browser
from tests.support.people.reader import reader_of

pytestmark = pytest.mark.django_db
ANSWERS: dict[str, Any] = {
    "virtual-clusters": {"default": {"capacity": 30}, "vision": {"capacity": 70, "dedicated": False}},
    "groups": [
        {"groupname": "admingroup", "description": "", "externalName": "",
         "extension": {"acls": {"admin": True, "virtualClusters": ["default", "vision"], "storageConfigs": ["data"]}}},
        {"groupname": "default", "description": "everybody", "externalName": "",
         "extension": {"acls": {"admin": False, "virtualClusters": ["default"], "storageConfigs": ["data"]}}},
        {"groupname": "seeing", "description": "who sees", "externalName": "cn=seeing",
         "extension": {"colour": "red", "acls": {"virtualClusters": ["vision"], "storageConfigs": ["data", "share"]}}},
    ],
    "users": [
        {"username": "boss", "grouplist": ["admingroup", "default"], "email": "boss@example.org", "extension": {},
         "admin": True, "virtualCluster": ["default", "vision"]},
        {"username": "eve", "grouplist": ["default", "seeing"], "email": "eve@example.org",
         "extension": {"sshKeys": []}, "admin": False, "virtualCluster": ["default", "vision"]},
        {"username": "sam", "grouplist": ["default"], "email": "", "admin": False,
         "virtualCluster": ["default", "vision"]},
    ],
    "storages": [
        {"name": "data", "share": False, "volumeName": "data-pv", "default": True, "type": "nfs",
         "data": {"server": "10.0.0.4", "path": "/data"}, "readOnly": True, "mountOptions": []},
        {"name": "share", "share": True, "volumeName": "share-pv", "type": "samba", "data": {"address": "//x/y"}},
    ],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, answer in ANSWERS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(answer))
    return tmp_path


def change(folder: Path, kind: str, answer: Any) -> None:
    (folder / f"{kind}.json").write_text(json.dumps(answer))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[tuple[str, str], str], str]:
    """What each row says, by kind and name, and what else is printed."""
    call_command("import_openpai", *words)
    out, err = capsys.readouterr()
    rows = {}
    for line in out.splitlines():
        kind = next((one for one in ("virtual cluster", "group", "user", "storage") if line.startswith(one)), "")
        if kind:
            name, _, told = line.removeprefix(kind).strip().partition(" ")
            rows[kind, name] = " ".join(told.split())
    return rows, out + err


def everything() -> tuple[Any, ...]:
    groups = {group.name: sorted(user.username for user in group.user_set.all()) for group in Group.objects.all()}
    held = Membership.objects.values_list("vc__name", "user__username", "group__name", "role")
    return (
        sorted(VirtualCluster.objects.values_list("name", "description")), groups, sorted(map(str, held)),
        sorted(User.objects.values_list("username", "email", "role")),
        [(one.name, one.kind, one.export, one.root, one.read_only, one.per_user, sorted(map(str, one.vcs.all())))
         for one in Storage.objects.all()],
    )  # fmt: skip


COPIED = (
    [("default", "everybody"), ("vision", "")],
    {"seeing": ["eve"]},
    sorted(map(str, [
        ("default", "boss", None, "member"), ("default", "eve", None, "member"), ("default", "sam", None, "member"),
        ("vision", "sam", None, "member"), ("vision", None, "seeing", "member"),
    ])),
    [("boss", "boss@example.org", "admin"), ("eve", "eve@example.org", "user"), ("sam", "", "user")],
    [("data", "nfs", "10.0.0.4:/data", "/mnt/berth/data", True, True, ["default", "vision"])],
)  # fmt: skip


def test_it_says_what_it_would_do_and_does_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = everything()
    rows, printed = run(capsys, str(folder))
    assert rows == {
        ("virtual cluster", "default"): "make",
        ("virtual cluster", "vision"): "make",
        ("group", "admingroup"): "leave out its members become administrators, each by their own role",
        ("group", "default"): "leave out it is the virtual cluster of this name",
        ("group", "seeing"): "make virtual clusters vision",
        ("user", "boss"): "make administrator, virtual clusters default",
        ("user", "eve"): "make virtual clusters default, groups seeing",
        ("user", "sam"): "make virtual clusters default vision",
        ("storage", "data"): "make 10.0.0.4:/data at /mnt/berth/data, for default vision",
        ("storage", "share"): "leave out it is samba: mount it on the servers yourself, and add it as a path",
    }
    assert "7 make, 3 leave out" in printed
    assert "Nothing was done; --apply does it." in printed
    assert everything() == before


def test_it_brings_everything_over_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, printed = run(capsys, str(folder), "--apply")
    assert everything() == COPIED
    links = dict(line.split("  ") for line in printed.splitlines() if "/password/new/" in line)
    assert sorted(links) == ["boss", "eve", "sam"]
    path = links["eve"].removeprefix("http://127.0.0.1:8000")
    assert "Log in with it now." in Browser().send(path, new="correct-horse-battery").text
    written = AuditEntry.objects.count()
    rows, printed = run(capsys, str(folder), "--apply")
    assert {told.partition(" ")[0] for told in rows.values()} == {"there", "leave"}
    assert "/password/new/" not in printed
    assert (everything(), AuditEntry.objects.count()) == (COPIED, written)
    _, printed = run(capsys, str(folder), "--apply", "--links")
    assert sorted(line.split()[0] for line in printed.splitlines() if "/password/new/" in line) == ["boss", "sam"]


@pytest.mark.parametrize(
    ("root", "told"),
    [
        ("", ["BERTH_NODE_NFS_SERVERS=10.0.0.4"]),
        ("{own}/nfs/", ["BERTH_NODE_NFS_SERVERS=10.0.0.4", "BERTH_NODE_NFS_ROOT={own}/nfs"]),
        ("/mnt", ["BERTH_NODE_MOUNT_ROOTS=/mnt"]),
    ],
)
def test_what_servers_must_be_told_for_its_storages_is_printed(
    folder: Path, capsys: pytest.CaptureFixture[str], root: str, told: list[str]
) -> None:
    words = ["--storage-root", root.format(own=folder)] if root else []
    _, printed = run(capsys, str(folder), *words)
    lines = [line for line in printed.splitlines() if line.startswith("BERTH_NODE_")]
    assert lines == [line.format(own=folder) for line in told]
    _, printed = run(capsys, str(folder), "--apply", *words)
    _, printed = run(capsys, str(folder), *words)
    assert "BERTH_NODE_" not in printed, "all of it is there"


def test_a_server_that_was_told_so_mounts_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The agent's own reading of these lines, and its keeper of storages, with a kind that no kernel knows: it comes
    as far as `mount`."""
    _, printed = run(capsys, str(folder), "--apply", "--storage-root", f"{folder}/nfs")
    lines = dict(line.split("=", 1) for line in printed.splitlines() if line.startswith("BERTH_NODE_"))
    least = {"NAME": "gpu01", "REDIS_URL": "redis://127.0.0.1/0",
             "PORTAL_PUBLIC_KEY": PortalKey.generate().public}  # fmt: skip
    faults: list[str] = []
    for told in ({}, lines):
        options = options_load([], {**{f"BERTH_NODE_{name}": value for name, value in least.items()}, **told})
        keeper = StorageManager(
            allowed=(), own=options.nfs_root, servers=options.nfs_servers, state=folder / "state.json", kind="nokind",
            guards=MountGuard((options.nfs_root,), binds=True),
        )  # fmt: skip
        keeper.want(storage_wishes(node=Node(accepted={}), granted=storages_granted()))
        faults += keeper.look().faults.values()
    assert faults[0].startswith(f"its agent allows no storage at {folder}/nfs/data (BERTH_NODE_MOUNT_ROOTS)")
    assert "mount: " in faults[1], "it was let to try"


def test_what_is_there_stays_and_gets_what_it_lacks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    eve = person("eve", ClusterRole.AUDITOR)
    rows, _ = run(capsys, str(folder), "--apply")
    assert rows["user", "eve"] == "add virtual clusters default, groups seeing"
    eve.refresh_from_db()
    assert (eve.role, eve.email, [group.name for group in eve.groups.all()]) == ("auditor", "", ["seeing"])


WRONG: dict[str, tuple[str, Any, tuple[str, str], str]] = {
    "a user's name": (
        "users", [{"username": "eve smith", "grouplist": []}], ("user", "eve"),
        "username: Letters, digits, dot, dash and underscore only.",
    ),
    "an address": ("users", [{"username": "eve", "email": "no"}], ("user", "eve"), "email: Enter a valid email"),
    "a group that is not there": (
        "users", [{"username": "eve", "grouplist": ["lost"]}], ("user", "eve"), "grouplist: there is no group lost",
    ),
    "a virtual cluster's name": (
        "virtual-clusters", {"-x": {}}, ("virtual cluster", "-x"), "a letter or digit first",
    ),
    "a group's virtual cluster": (
        "groups", [{"groupname": "g", "extension": {"acls": {"virtualClusters": ["lost"]}}}], ("group", "g"),
        "virtualClusters: there is no virtual cluster lost",
    ),
    "twice the same": (
        "users", [{"username": "eve"}, {"username": "eve"}], ("user", "eve"), "name: stands there twice",
    ),
    "another shape": ("users", [{"username": 7}], ("users", "users[0].username"), "users[0].username: must be text"),
    "no list": ("groups", {"a": 1}, ("groups", "groups"), "groups: must be a list"),
    "an export": (
        "storages", [{"name": "data", "type": "nfs", "data": {"server": "", "path": "data"}}], ("storage", "data"),
        "export: an NFS storage needs server:/export",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_told_by_row_and_field_and_nothing_is_stored(
    folder: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    kind, answer, row, said = WRONG[case]
    for name in ANSWERS:
        change(folder, name, answer if name == kind else type(ANSWERS[name])())
    before = everything()
    with pytest.raises(CommandError, match="1 rows cannot be; nothing was done"):
        call_command("import_openpai", str(folder), "--apply")
    lines = [line for line in capsys.readouterr().out.splitlines() if " wrong " in line]
    assert [line.startswith(f"{row[0]}  ") and row[1] in line and said in line for line in lines] == [True], lines
    assert everything() == before


def test_the_rest_comes_without_the_rows_that_cannot_be(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(folder, "users", [*ANSWERS["users"], {"username": "e v e"}])
    run(capsys, str(folder), "--apply", "--leave-out-wrong")
    assert everything() == COPIED


def test_the_services_configuration_has_groups_and_virtual_clusters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = ANSWERS["groups"]
    manager = {"admin-group": groups[0], "default-group": groups[1], "grouplist": groups[2:]}
    vcs: dict[str, Any] = {name: {} for name in ANSWERS["virtual-clusters"]}
    cells = {"physicalCluster": {}, "virtualClusters": vcs}
    settings = {"authentication": {"group-manager": manager}, "hivedscheduler": {"config": yaml.safe_dump(cells)}}
    (tmp_path / "services-configuration.yaml").write_text(yaml.safe_dump(settings))
    run(capsys, str(tmp_path / "services-configuration.yaml"), "--apply")
    assert everything()[0] == COPIED[0]
    assert list(everything()[1]) == ["seeing"]


@pytest.fixture
def server() -> Iterator[str]:
    """A REST server that answers what is above to an administrator's token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802  # its parent's name
            allowed = self.headers["Authorization"] == "Bearer good"
            kind, _, name = self.path.removeprefix("/rest-server/api/v2/").partition("/")
            if kind == "storages":
                rows = ANSWERS["storages"]
                found = next((row for row in rows if row["name"] == name), {"storages": rows})
            else:
                found = ANSWERS.get(kind)
            status = 401 if not allowed else 404 if found is None else 200
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(found if status == 200 else {"code": "X"}).encode())

        def log_message(self, format: str, *args: Any) -> None:
            return

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()
    thread.join()


def test_what_another_cluster_says_moves_no_cursor_and_looks_like_no_other_row(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The administrator agrees to what is shown."""
    name = "x\x1b[1A\x1b[2K\nuser  eve  make\u202e"
    change(folder, "users", [{"username": name, "grouplist": [name]}])
    with pytest.raises(CommandError):
        call_command("import_openpai", str(folder))
    out = capsys.readouterr().out
    assert all(one.isprintable() for one in out.replace("\n", ""))
    assert "x\\u001b[1A\\u001b[2K\\u000auser  eve  make\\u202e" in out
    assert not [line for line in out.splitlines() if line.startswith("user  eve")]


BOMB = "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"] + [
    f"a{number}: &a{number} [" + ", ".join([f"*a{number - 1}"] * 10) + "]" for number in range(1, 10)
])  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "users.json",
            '[{"username": "eve", "extension": {"k": ["a\\u0000b"]}}]',
            "users.json: .0..extension.k.0. hol",
        ),
        ("users.json", '[{"username": "\\ud800"}]', "holds a character that cannot be kept"),
        ("users.json", '[{"username": "eve", "extension": {"\\u0000": 1}}]', "holds a character that cannot be kept"),
        ("users.json", "[" * 100_000, "users.json is no JSON"),
        ("users.yaml", "[" * 100_000, "users.yaml is no YAML"),
        ("users.yaml", BOMB, "says more than 1,000,000 things"),
        ("services-configuration.yaml", "authentication: {group-manager: {grouplist: 7}}", "grouplist is no list"),
    ],
)
def test_what_cannot_be_kept_or_read_to_an_end_is_said(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    before = everything()
    with pytest.raises(CommandError, match=said):
        call_command("import_openpai", str(tmp_path), "--apply")
    assert everything() == before


def test_a_running_cluster_is_asked_as_the_page_says(server: str, tmp_path: Path) -> None:
    with reader_of(tmp_path, {"PAI": server, "TOKEN": "good"}, {"manage.py": manage}) as reader:
        words = {"https://pai.example.org": server, "…": "good"}
        said = [*reader.section("docs/user/openpai.md", "Moving a cluster here", words=words).values()]
        assert "Nothing was done; --apply does it." in reader.complaint(0)
    assert everything() == COPIED
    assert "make" not in said[-1], "from files: all of it is there already"


def test_what_cannot_be_read_is_said(
    server: str, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "users.json").write_text("[")
    (tmp_path / "other.json").write_text("[]")
    (tmp_path / "empty").mkdir()
    for words, said in {
        (): "Name files",
        (str(tmp_path / "bad"),): "users.json is no JSON",
        (str(tmp_path / "other.json"),): "its name says not what it holds",
        (str(tmp_path / "empty"),): "There is none of the files",
        ("--url", server): "OPENPAI_TOKEN",
    }.items():
        with pytest.raises(CommandError, match=said):
            call_command("import_openpai", *words)
    for token, url, said in [
        ("bad", server, "the token must be one of an administrator"),
        ("good", f"{server}/elsewhere", "is it the address of an OpenPAI cluster"),
        ("good", "http://127.0.0.1:1", "does not answer"),
    ]:
        monkeypatch.setenv("OPENPAI_TOKEN", token)
        with pytest.raises(CommandError, match=said):
            call_command("import_openpai", "--url", url)
