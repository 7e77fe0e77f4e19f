import threading
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from streams.operations.health import Check, Health
from streams.operations.http_endpoint import HttpEndpoint, PortTakenError
from tests.streams.operations.conftest import ask

Endpoints = Callable[..., HttpEndpoint]


def health(ok: bool) -> Health:
    return Health([Check("member", ok, "said so")])


def test_metrics_are_served_in_the_form_that_is_asked_for(endpoint_factory: Endpoints) -> None:
    registry = CollectorRegistry()
    Counter("caught", "Loops.", registry=registry).inc(3)
    url = endpoint_factory(registry=registry).url
    status, text, headers = ask(f"{url}/metrics")
    assert status == 200
    assert "caught_total 3.0" in text
    assert headers["Content-Type"].startswith("text/plain; version=")
    _, text, headers = ask(f"{url}/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


@pytest.mark.parametrize(("ok", "status"), [(True, 200), (False, 503)])
def test_a_probe_answers_with_its_status(endpoint_factory: Endpoints, ok: bool, status: int) -> None:
    url = endpoint_factory({"readyz": lambda: health(ok)}).url
    assert ask(f"{url}/readyz")[0] == status
    assert ask(f"{url}/readyz", method="HEAD")[0] == status
    assert "member" in ask(f"{url}/readyz?verbose")[1]


def test_other_paths_and_methods_are_refused(endpoint_factory: Endpoints) -> None:
    url = endpoint_factory({"readyz": lambda: health(True)}).url
    assert ask(f"{url}/nothing")[0] == 404
    assert ask(f"{url}/readyz", method="POST")[0] == 405


def test_a_probe_that_fails_is_an_answer_and_the_endpoint_goes_on(endpoint_factory: Endpoints) -> None:
    def broken() -> Health:
        raise RuntimeError("broken")

    url = endpoint_factory({"readyz": broken, "livez": lambda: health(True)}).url
    assert ask(f"{url}/readyz")[0] == 500
    assert ask(f"{url}/livez")[0] == 200


def test_a_taken_port_is_told_by_name(endpoint_factory: Endpoints) -> None:
    first = endpoint_factory()
    host, port = first.url.removeprefix("http://").split(":")
    with pytest.raises(PortTakenError, match=rf"127\.0\.0\.1:{port}: address already in use"):
        HttpEndpoint(host=host, port=int(port), probes={}).start()


def test_an_address_of_another_machine_is_told_by_name() -> None:
    with pytest.raises(PortTakenError, match=r"192\.0\.2\.1:9464"):
        HttpEndpoint(host="192.0.2.1", port=9464, probes={}).start()


def test_it_ends_with_its_thread(endpoint_factory: Endpoints) -> None:
    endpoint = endpoint_factory()
    endpoint.stop()
    assert "http-endpoint" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(OSError, match="refused"):
        ask(endpoint.url)


def test_it_answers_many_at_a_time(endpoint_factory: Endpoints) -> None:
    url = endpoint_factory({"livez": lambda: health(True)}).url
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(f"{url}/livez")[0])) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 20
