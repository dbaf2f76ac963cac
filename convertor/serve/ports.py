"""Ports for a server that binds them only seconds later, when its models are loaded."""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
from dataclasses import dataclass

from convertor.errors import ServerError


@dataclass(frozen=True)
class PortWish:
    """Which port to take.

    Attributes:
        number: The port; 0 means any free one.
        or_any: Whether any free port will do when `number` is taken.
    """

    number: int = 0
    or_any: bool = False


class PortClaim(contextlib.AbstractContextManager["PortClaim"]):
    """A port that no other server started by this tool will choose while the claim is held.

    Triton binds its ports after loading its models, and its gRPC port may be shared by two servers that both believe to
    own it. So a second `serve` in those seconds must see the claim: a socket in Linux's abstract namespace, which the
    kernel drops with the process.
    """

    def __init__(self, number: int, marker: socket.socket | None) -> None:
        self.number = number
        self._marker = marker

    def __exit__(self, *_: object) -> None:
        if self._marker is not None:
            self._marker.close()


def resolve_host(host: str) -> str:
    """Return the IPv4 address of `host`: given a name, Triton says that it serves HTTP there, but does not.

    Raises:
        ServerError: It has none.
    """
    try:
        return socket.gethostbyname(host)
    except (OSError, UnicodeError) as error:  # UnicodeError: an empty label in it, or one over 63 letters
        reason = getattr(error, "strerror", None) or "no name of a host"
        raise ServerError(f"--host {host}: {reason}; give an IPv4 address of this machine") from error


def claim_port(host: str, wish: PortWish, option: str) -> PortClaim:
    """Claim a port on `host`.

    Args:
        host: An IPv4 address.
        wish: Which port.
        option: The command line option that sets it, for the error.

    Raises:
        ServerError: The port is taken and must be this one, or `host` is no address of this machine.
    """
    for number in (wish.number, 0) if wish.or_any else (wish.number,):
        claim = _try_claim(host, number)
        if claim is not None:
            return claim
    raise ServerError(
        f"port {wish.number} on {host} is taken by another program; give {option} another number, or 0 for a free one"
    )


def _try_claim(host: str, number: int) -> PortClaim | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the server does: connections of a former server in TIME_WAIT do not count, a listening one does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return None
            raise ServerError(f"--host {host}: {error.strerror}; give an IPv4 address of this machine") from error
        bound = int(probe.getsockname()[1])
        return _mark(bound)


def _mark(number: int) -> PortClaim | None:
    if sys.platform != "linux":
        return PortClaim(number, None)
    marker = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        marker.bind(f"\0triton-convertor/port/{number}")
    except OSError:
        marker.close()
        return None
    return PortClaim(number, marker)
