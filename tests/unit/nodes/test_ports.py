"""Which of a node's ports are taken, as the node tells the portal, which gives those out last, and as it looks itself
before a task starts."""

import socket

import pytest

from nodes.agent.runtimes.base import AttemptFailed
from nodes.agent.runtimes.ports import ports_check, ports_listening
from tests.support.cluster.portal_side import spec_of


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::")])
def test_a_port_counts_as_long_as_something_listens_there(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as there:
        there.bind((address, 0))
        port = there.getsockname()[1]
        assert ports_listening(port, port) == (), "it is bound, and nothing listens yet"
        there.listen()
        assert ports_listening(port, port) == (port,)
        assert ports_listening(1, port - 1)[-1:] != (port,)
        with socket.create_connection(there.getsockname()[:2]):
            assert ports_listening(port, port) == (port,)
    assert ports_listening(port, port) == ()


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_no_task_is_given_a_port_on_which_somebody_listens_by_either_way(
    family: socket.AddressFamily, address: str
) -> None:
    """Else the other tasks, by the address of that kind, would come to a stranger."""
    with socket.socket(family) as there:
        if family is socket.AF_INET6:
            there.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        there.bind((address, 0))
        there.listen()
        spec = spec_of("true", ports={"http": (there.getsockname()[1],)})
        with pytest.raises(AttemptFailed, match="is in use"):
            ports_check(spec)
    ports_check(spec)
