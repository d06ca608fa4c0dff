"""Which of a node's ports are taken, as the node tells the portal, which gives those out last."""

import socket

import pytest

from nodes.ports import ports_listening


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
