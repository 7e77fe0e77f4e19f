"""An endpoint on a free port, and how to ask it."""

import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping

import pytest
from prometheus_client import CollectorRegistry

from streams.operations.http_endpoint import HttpEndpoint, Probe

Answer = tuple[int, str, Mapping[str, str]]


def ask(url: str, *, accept: str = "*/*", method: str = "GET") -> Answer:
    """Return status, text and headers of an answer, whatever the status."""
    request = urllib.request.Request(url, headers={"Accept": accept}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode(), dict(response.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


def free_port() -> int:
    """Return a port that nobody listens on right now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def endpoint_factory() -> Iterator[Callable[..., HttpEndpoint]]:
    """Start endpoints: `endpoint_factory({"livez": probe}, registry=...)`; they are stopped at the end."""
    started: list[HttpEndpoint] = []

    def start(probes: Mapping[str, Probe] | None = None, *, registry: CollectorRegistry | None = None) -> HttpEndpoint:
        endpoint = HttpEndpoint(host="127.0.0.1", port=free_port(), probes=probes or {}, registry=registry or CollectorRegistry())
        endpoint.start()
        started.append(endpoint)
        return endpoint

    yield start
    for endpoint in started:
        endpoint.stop()
