"""Ports: free ones, taken ones, and ones that another server of ours is about to bind."""

import re
import socket
from collections.abc import Iterator

import pytest

from convertor.errors import ServerError
from convertor.serve.ports import PortWish, claim_port, resolve_host

HOST = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_taken_port_is_refused_with_the_option_to_change(taken: int) -> None:
    with pytest.raises(ServerError, match=f"port {taken} on {HOST} is taken .* --grpc-port"):
        claim_port(HOST, PortWish(taken), "--grpc-port")


def test_a_taken_default_gives_way_to_a_free_port(taken: int) -> None:
    with claim_port(HOST, PortWish(taken, or_any=True), "--http-port") as claim:
        assert claim.number not in (0, taken)


def test_a_claimed_port_is_taken_until_it_is_let_go() -> None:
    with claim_port(HOST, PortWish(), "--http-port") as claim, pytest.raises(ServerError, match="is taken"):
        claim_port(HOST, PortWish(claim.number), "--http-port")
    with claim_port(HOST, PortWish(claim.number), "--http-port") as again:
        assert again.number == claim.number


def test_connections_of_a_former_server_do_not_count() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server's
        listener.bind((HOST, 0))
        listener.listen()
        number = listener.getsockname()[1]
        with socket.create_connection((HOST, number)) as client:
            accepted, _ = listener.accept()
            accepted.close()  # the server's side closes first and stays in TIME_WAIT
            assert client.recv(1) == b""
    with claim_port(HOST, PortWish(number), "--http-port") as claim:
        assert claim.number == number


@pytest.mark.parametrize(
    "host", ["no.such.host.invalid", pytest.param("a..b", id="empty label"), pytest.param("a" * 64, id="long label")]
)
def test_a_host_without_an_address(host: str) -> None:
    with pytest.raises(ServerError, match=f"--host {re.escape(host)}: .*; give an IPv4 address of this machine"):
        resolve_host(host)


def test_an_address_of_another_machine() -> None:
    with pytest.raises(ServerError, match=r"--host 203\.0\.113\.1: .*; give an IPv4 address of this machine"):
        claim_port("203.0.113.1", PortWish(), "--http-port")
