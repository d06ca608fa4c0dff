"""SSH into jobs, at the portal's end: whose keys go to the nodes, what nodes tell, and what is shown to whom."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from nodes.protocol.messages import SshServer
from nodes.protocol.states import Phase
from portal.accounts.keys import ssh_key_add, ssh_key_remove, ssh_keys_of
from portal.accounts.models import User
from portal.hardware.models import Node, NodeEvent
from portal.job_file.problems import SpecInvalid
from portal.job_file.validate import parse
from portal.jobs.models import Job, JobEvent, TaskAttempt
from portal.node_orders.services.environment import Peer
from portal.node_orders.services.job_ssh import job_key, job_ssh_script, public_line
from portal.secrets.models import SecretKind
from portal.secrets.services import secret_set
from portal.teams.services.teams import member_set
from tests.support.cluster.job_files import GONE, spec
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import person
from tests.support.people.pages import Browser

if TYPE_CHECKING:
    from tests.support.cluster.scripted_node import ScriptedNode

pytestmark = pytest.mark.django_db

LAPTOP = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
DESK = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"
OF_JOB = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIC"
ROLE = {"dockerImage": "image", "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}, "commands": ["true"]}
PLUGINS = "extras/com.microsoft.pai.runtimeplugin"
JOBSSH = {"parameters": {"jobssh": True}}
OPEN = SshServer(user="root", host_key=DESK)


PRIVATE = re.compile("-----BEGIN.*?END OPENSSH PRIVATE KEY-----\n", re.DOTALL)


def extras(**parameters: Any) -> dict[str, Any]:
    plugin = {"plugin": "ssh", "parameters": {"jobssh": True, **parameters}}
    return {"gangAllocation": True, "com.microsoft.pai.runtimeplugin": [plugin]}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def node(world: World) -> ScriptedNode:
    return world.node("gpu01", gpus=8)


def running(world: World, **changes: Any) -> tuple[Job, TaskAttempt]:
    job = world.submit(**changes)
    world.settle()
    return job, TaskAttempt.objects.get(task__job=job)


def keys(node: ScriptedNode) -> tuple[str, ...]:
    (order,) = [one for one in node.desired().orders if one.phase is Phase.RUN]
    assert order.ssh is not None
    return order.ssh.keys


def tells(node: ScriptedNode, told: SshServer) -> None:
    (attempt,) = node.containers
    node.containers[attempt] = replace(node.containers[attempt], ssh=told)
    node.report()


def test_the_keys_of_the_profile_as_they_are_now_and_the_jobs_own_go_with_the_order(
    world: World, node: ScriptedNode
) -> None:
    ssh_key_add(user=world.user, name="", public=f"{LAPTOP} alice@laptop", now=world.now)
    ssh_key_add(user=person("bob"), name="", public=f"{DESK} bob@desk", now=world.now)
    given = f"# mine\n{OF_JOB} alice@cluster\n"
    _, run = running(world, extras=extras(userssh={"type": "custom", "value": given}))
    (order,) = node.desired().orders
    assert order.ssh is not None
    assert (order.ssh.port, order.ssh.keys) == (run.ports["ssh"][0], (OF_JOB, LAPTOP))
    ssh_key_remove(key=ssh_keys_of(user=world.user).get(), now=world.now)
    assert keys(node) == (OF_JOB,)
    User.objects.filter(pk=world.user.pk).update(is_active=False)
    assert keys(node) == ()
    node.finish()
    world.settle()
    assert [one.ssh for one in node.desired().orders] in ([], [None])


def test_a_key_of_the_jobs_own_may_be_a_secret_of_the_file_or_one_that_is_stored(
    world: World, node: ScriptedNode
) -> None:
    secret: dict[str, Any] = {"owner": world.user, "kind": SecretKind.SECRET, "name": "desk", "actor": "alice"}
    secret_set(**secret, value=DESK, now=world.now)
    value = "<% $secrets.job %>\n<% $secrets.desk %>"
    running(world, extras=extras(userssh={"type": "custom", "value": value}), secrets={"job": OF_JOB})
    assert keys(node) == (OF_JOB, DESK)
    secret_set(**secret, value="hunter2", now=world.now)
    with pytest.raises(SpecInvalid) as refused:
        world.submit(name="other", extras=extras(userssh={"type": "custom", "value": value}), secrets={"job": OF_JOB})
    assert [(one.code, "hunter2" in one.message) for one in refused.value.problems] == [("ssh_key", False)]


def test_the_tasks_of_one_attempt_share_a_key_that_opens_no_other(world: World, node: ScriptedNode) -> None:
    for name in ("first", "second"):
        world.submit(name=name, instances=2, extras=extras(sshbarrier=True))
    world.submit(name="alone", extras=extras(sshbarrier=True))
    world.settle()
    let_in: dict[str, set[str]] = {}
    for order in node.desired().orders:
        spec = node.spec(order)
        assert order.ssh is not None
        let_in.setdefault(spec.job, set()).update(order.ssh.keys)
        alone = spec.job == "alice/alone#1"
        assert ("Host worker-1\n" not in spec.script) is ("BERTH_JOB_SSH" not in spec.env) is alone
        if not alone:
            pem = PRIVATE.search(spec.script)
            assert pem is not None
            assert order.ssh.keys == (public_line(load_ssh_private_key(pem[0].encode(), None)),)  # type: ignore[arg-type]
    assert sorted(len(keys) for keys in let_in.values()) == [0, 1, 1]
    assert len(set().union(*let_in.values())) == 2


@pytest.mark.parametrize(
    "parameters",
    [{"jobssh": False}, {"jobssh": False, "userssh": {}}, {"jobssh": False, "userssh": {"type": "none", "value": ""}}],
)
def test_a_job_that_does_not_ask_is_given_no_server(
    world: World, node: ScriptedNode, parameters: dict[str, Any]
) -> None:
    ssh_key_add(user=world.user, name="", public=LAPTOP, now=world.now)
    plain, _ = running(world)
    off, _ = running(world, name="off", extras=extras(**parameters))
    assert [one.ssh for one in node.desired().orders] == [None, None]
    assert not JobEvent.objects.filter(job__in=[plain, off], data__says__startswith="ssh").exists()


def test_a_task_is_known_by_openpai_s_form_of_its_role_as_well() -> None:
    peers = [Peer("PS_server", index, index, f"10.0.0.{index}", {"ssh": (20_000,)}, 1) for index in (1, 2)]
    wish = spec(("taskRoles/PS_server", ROLE), ("taskRoles/train", GONE), (PLUGINS, [{"plugin": "ssh", **JOBSSH}]))
    script = job_ssh_script(wish, key=job_key(1), private="", me=peers[0], peers=peers)
    assert "Host PS_server-2 psserver-2\n  HostName 10.0.0.2\n" in script
    assert "Host PS_server-1 psserver-1 PS_server-2 psserver-2\n  HostKeyAlias" in script


def test_the_owner_is_shown_what_to_type_and_nobody_else(world: World, node: ScriptedNode) -> None:
    job, run = running(world, extras=extras())
    alice = Browser(world.user)
    page = alice.get(f"/jobs/{job.pk}")
    assert "its SSH server is being started" in page.text
    assert "you have no SSH key here" in page.text
    assert JobEvent.objects.filter(job=job, code="hint", data__says="ssh_nobody").exists()
    ssh_key_add(user=world.user, name="", public=LAPTOP, now=world.now)
    tells(node, OPEN)
    command = f"ssh -p {run.ports['ssh'][0]} -o HostKeyAlias=berth-{run.pk.hex[:12]} root@127.0.0.1"
    page = alice.get(f"/jobs/{job.pk}")
    assert command in page.text
    assert "you have no SSH key here" not in page.text
    lead = person("lena")
    member_set(vc=world.vc, user=lead, role="lead", now=world.now)
    shown = Browser(lead).get(f"/jobs/{job.pk}")
    assert shown.status == 200
    assert command not in shown.text
    Node.objects.update(address="-oProxyCommand=x")
    assert "ssh -p" not in alice.get(f"/jobs/{job.pk}").text


@pytest.mark.parametrize(
    "told",
    [
        SshServer(user="root; reboot", host_key=DESK),
        SshServer(user="-oProxyCommand=x", host_key=DESK),
        SshServer(user="root", host_key="ssh-ed25519 AAAA\n* ssh-rsa AAAA"),
    ],
)
def test_what_a_container_says_that_has_not_the_form_opens_nothing(
    world: World, node: ScriptedNode, told: SshServer
) -> None:
    job, _ = running(world, extras=extras())
    tells(node, told)
    page = Browser(world.user).get(f"/jobs/{job.pk}")
    assert "No SSH: its SSH server could not be started." in page.text
    assert "reboot" not in page.text


def test_an_image_without_a_server_is_an_event_once_and_ends_nothing(world: World, node: ScriptedNode) -> None:
    job, _ = running(world, extras=extras())
    for _ in range(2):
        tells(node, SshServer(message="its image has no SSH server"))
    assert "you have no SSH key here" not in Browser(world.user).get(f"/jobs/{job.pk}").text
    hint = "No SSH into worker/0 on gpu01: its image has no SSH server."
    assert [one.message for one in JobEvent.objects.filter(job=job, code="hint")].count(hint) == 1
    job.refresh_from_db()
    assert job.state == "running"


@pytest.mark.parametrize("value", [f'command="id" {OF_JOB}', f"{OF_JOB}\nnonsense", "-----BEGIN PRIVATE KEY-----"])
def test_what_is_no_public_key_is_refused_at_its_place(value: str) -> None:
    with pytest.raises(SpecInvalid) as refused:
        parse(job_file(extras=extras(userssh={"type": "custom", "value": value})))
    (problem,) = refused.value.problems
    assert (problem.code, problem.path.endswith("parameters.userssh.value")) == ("ssh_key", True)
    assert "is no public SSH key" in problem.message


def test_orders_ask_the_database_as_often_for_many_jobs_as_for_one(
    world: World, node: ScriptedNode, django_assert_max_num_queries: Any, django_assert_num_queries: Any
) -> None:
    running(world, extras=extras())
    with django_assert_max_num_queries(20) as one:
        node.desired()
    for number in range(3):
        world.submit(name=f"more{number}", extras=extras())
    world.settle()
    with django_assert_num_queries(len(one)):
        assert len(node.desired().orders) == 4


def test_a_server_without_an_address_that_can_be_gets_no_word_into_its_neighbours_script(world: World) -> None:
    """Of a job on two servers: what one of them calls itself comes into the other one's script and variables."""
    honest, hostile = world.node("gpu01", gpus=1), world.node("gpu02", gpus=1)
    words = "1\nBERTH_END\ntouch /tmp/pwned;:<<'BERTH_END'"
    hostile.inventory = replace(hostile.inventory, address=words)
    for _ in range(2):
        assert hostile.report()
    assert hostile.row.address == ""
    events = NodeEvent.objects.filter(code="address_wrong")
    assert [event.message for event in events] == [
        "The agent of gpu02 names no address: tasks on other servers cannot reach those there."
    ]
    world.submit(instances=2, extras=extras())
    world.settle()
    (order,) = honest.desired().orders
    spec = honest.spec(order)
    assert "touch" not in "\n".join([spec.script, *spec.env.values()])
    (order,) = hostile.desired().orders
    assert "HostName 127.0.0.1\n" in hostile.spec(order).script
