"""Where the server is: what --url and --protocol say together."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from convertor.errors import UsageError, one_line

PORTS = {"http": 8000, "grpc": 8001}
# scheme -> protocol that it names (None: either), TLS
_SCHEMES: dict[str, tuple[str | None, bool]] = {
    "": (None, False),
    "http": (None, False),
    "https": (None, True),
    "grpc": ("grpc", False),
    "grpcs": ("grpc", True),
}


@dataclass(frozen=True)
class Endpoint:
    """A server's address.

    Attributes:
        protocol: `http` or `grpc`.
        address: `host:port`, with HTTP perhaps followed by `/path`, as tritonclient takes it.
        tls: Encrypted, the server's certificate checked.
    """

    protocol: str
    address: str
    tls: bool = False

    def __str__(self) -> str:
        return f"{self.protocol}{'s' if self.tls else ''}://{self.address}"


def parse_endpoint(url: str | None, protocol: str | None) -> Endpoint:
    """Return the endpoint of `--url` and `--protocol`; each may be absent.

    A URL is `host`, `host:port` or `scheme://host[:port]` with http, https (TLS), grpc or grpcs; http and https also
    serve as an address of gRPC when the protocol says so. Without a port: 8000 for HTTP, 8001 for gRPC, 443 with TLS.

    Raises:
        UsageError: The URL is none, or contradicts the protocol.
    """
    if url is None:
        chosen = protocol or "http"
        return Endpoint(chosen, f"127.0.0.1:{PORTS[chosen]}")
    parts, port = _split(url)
    if parts.scheme not in _SCHEMES:
        raise UsageError(f"--url {url}: expected http, https, grpc or grpcs, got {parts.scheme}")
    named, tls = _SCHEMES[parts.scheme]
    if named and protocol and named != protocol:
        raise UsageError(f"--url {url} contradicts --protocol {protocol}")
    chosen = protocol or named or "http"
    path = parts.path.rstrip("/")
    if path and chosen == "grpc":
        raise UsageError(f"--url {url}: gRPC takes no path after the port")
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return Endpoint(chosen, f"{host}:{port or (443 if tls else PORTS[chosen])}{path}", tls)


def _split(url: str) -> tuple[SplitResult, int | None]:
    expected = "expected host:port, http://host:port or https://host:port"
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        port = parts.port
    except ValueError as error:
        raise UsageError(f"--url {one_line(url)}: {error}; {expected}") from error
    if not parts.hostname or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise UsageError(f"--url {one_line(url)}: {expected}")
    if parts.username is not None:
        raise UsageError("--url: a user name or password in the URL is not sent; leave it out")
    return parts, port
