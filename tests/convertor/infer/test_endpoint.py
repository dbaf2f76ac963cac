from __future__ import annotations

import pytest

from convertor.errors import UsageError
from convertor.infer.endpoint import parse_endpoint


@pytest.mark.parametrize(
    ("url", "protocol", "expected"),
    [
        (None, None, "http://127.0.0.1:8000"),
        (None, "grpc", "grpc://127.0.0.1:8001"),
        ("box", None, "http://box:8000"),
        ("box", "grpc", "grpc://box:8001"),
        ("box:9000", "grpc", "grpc://box:9000"),
        ("http://box:9000/", None, "http://box:9000"),
        ("http://box:9000", "grpc", "grpc://box:9000"),
        ("https://box", None, "https://box:443"),
        ("https://box/models/triton/", None, "https://box:443/models/triton"),
        ("https://box:8001", "grpc", "grpcs://box:8001"),
        ("grpc://box", None, "grpc://box:8001"),
        ("grpcs://box", None, "grpcs://box:443"),
        ("[::1]:9000", None, "http://[::1]:9000"),
    ],
)
def test_endpoints(url: str | None, protocol: str | None, expected: str) -> None:
    assert str(parse_endpoint(url, protocol)) == expected


@pytest.mark.parametrize(
    ("url", "protocol", "line"),
    [
        ("", None, "expected host:port"),
        (":8000", None, "expected host:port"),
        ("ftp://box", None, "expected http, https, grpc or grpcs, got ftp"),
        ("box:99999", None, "Port out of range"),
        ("box:port", None, "expected host:port"),
        ("http://box?x=1", None, "expected host:port"),
        ("http://a:b@box", None, "a user name or password in the URL is not sent"),
        ("grpc://box", "http", "contradicts --protocol http"),
        ("box/path", "grpc", "gRPC takes no path"),
        ("bo x", None, "expected host:port"),
    ],
)
def test_bad_urls(url: str, protocol: str | None, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_endpoint(url, protocol)
    assert line in str(caught.value)
    assert "b@" not in str(caught.value)
