"""TLS against a real broker: what is accepted, and one clear line for what is not."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.broker

Run = Callable[..., Any]
Environment = Callable[..., dict[str, str]]


def test_topics_are_made_events_published_and_decisions_read_over_tls(loopwarden: Run, environment: Environment) -> None:
    variables = environment("SSL")
    assert loopwarden(variables, "topics", "create").exit_code == 0
    call = '{"run": "r", "seq": 1, "tool": "read", "args": {}, "result": "same"}\n'
    published = loopwarden(variables, "publish", "--from", "calls", "-", text=call)
    assert published.exit_code == 0, published.stderr
    assert loopwarden(variables, "decisions", "--json").exit_code == 0


def test_a_client_certificate_is_shown_where_the_broker_asks_for_one(
    loopwarden: Run, environment: Environment, secured: Any
) -> None:
    variables = environment("MUTUAL", ssl_cert_file=str(secured.files["client"]))
    # A client with a certificate is somebody, who may do nothing here: the broker knows the name.
    refused = loopwarden(variables, "topics", "check")
    assert refused.exit_code == 1
    assert f"the client with the certificate {secured.files['client']} may not Describe it" in refused.stderr
    assert "CN=" in secured.kafka.log_path.read_text() or "Principal = User:" in secured.kafka.log_path.read_text()


def test_the_key_of_a_client_certificate_may_be_locked(
    loopwarden: Run, environment: Environment, secured: Any, tmp_path: Any
) -> None:
    locked = str(secured.files["client-locked"])
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    for given in ({"ssl_key_password": "open sesame"}, {"ssl_key_password_file": str(password)}):
        assert loopwarden(environment("MUTUAL", ssl_cert_file=locked, **given), "topics", "check").exit_code == 1
    for given in ({"ssl_key_password": "close sesame"}, {}):
        wrong = loopwarden(environment("MUTUAL", ssl_cert_file=locked, **given), "topics", "check")
        assert wrong.exit_code == 2
        assert "LOOPWARDEN_SSL_KEY_PASSWORD does not open the key" in wrong.line
        assert "sesame" not in wrong.stderr


CHECK, WORKER, DECISIONS, PUBLISH = ("topics", "check"), ("worker",), ("decisions",), ("publish", "--from", "calls", "-")


@pytest.mark.parametrize(
    ("command", "listener", "changes", "expected"),
    [
        (CHECK, "SSL", {"ssl_ca_file": "other-ca"}, "LOOPWARDEN_SSL_CA_FILE must name the authority that issued it"),
        (WORKER, "SSL", {"ssl_ca_file": None}, "LOOPWARDEN_SSL_CA_FILE must name the authority that issued it"),
        (DECISIONS, "SSL", {"ssl_ca_file": "other-ca"}, "LOOPWARDEN_SSL_CA_FILE must name the authority that issued it"),
        (PUBLISH, "SSL", {"ssl_ca_file": "other-ca"}, "LOOPWARDEN_SSL_CA_FILE must name the authority that issued it"),
        (WORKER, "EXPIRED", {}, "certificate has expired; it has to be renewed"),
        (CHECK, "STRANGER", {}, "; connect by an address that is in it"),
        (CHECK, "MUTUAL", {}, "the broker does not accept our certificate"),
        (WORKER, "MUTUAL", {"ssl_cert_file": "foreign-client"}, "the broker does not accept our certificate"),
        (CHECK, "SSL", {"security_protocol": "PLAINTEXT"}, "LOOPWARDEN_SECURITY_PROTOCOL is PLAINTEXT, is that what this"),
        (CHECK, "PLAINTEXT", {"security_protocol": "SSL", "ssl_ca_file": "ca"}, "LOOPWARDEN_SECURITY_PROTOCOL is SSL, is that"),
    ],
)
def test_what_does_not_fit_is_one_line_with_the_remedy(
    command: tuple[str, ...],
    listener: str,
    changes: dict[str, str | None],
    expected: str,
    loopwarden: Run,
    environment: Environment,
    secured: Any,
) -> None:
    variables = environment(listener)
    for name, value in changes.items():
        variables.pop(f"LOOPWARDEN_{name.upper()}", None)
        if value is not None:
            variables[f"LOOPWARDEN_{name.upper()}"] = str(secured.files.get(value, value))
    result = loopwarden(variables, *command, text='{"run": "r", "seq": 1, "tool": "t", "args": {}}\n')
    assert result.exit_code == 2
    lines = [line for line in result.stderr.splitlines() if "no policy: only the post-compaction guard runs" not in line]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith(f"loopwarden: {secured.address(listener)}: ")
    assert expected in lines[0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ssl_ca_file": "/nowhere/ca.pem"}, "LOOPWARDEN_SSL_CA_FILE: /nowhere/ca.pem: no such file or directory"),
        ({"ssl_ca_file": __file__}, "there is no PEM certificate in it"),
        ({"ssl_cert_file": "/nowhere/c.pem"}, "LOOPWARDEN_SSL_CERT_FILE: /nowhere/c.pem: no such file or directory"),
        ({"ssl_cert_file": __file__}, "no PEM file"),
        ({"ssl_cert_file": "client", "ssl_key_file": "foreign-client"}, "the key is not that of the certificate"),
        ({"ssl_key_file": "client"}, "LOOPWARDEN_SSL_KEY_FILE: a key without LOOPWARDEN_SSL_CERT_FILE"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_setting(
    changes: dict[str, str], expected: str, loopwarden: Run, environment: Environment, secured: Any
) -> None:
    files = {name: str(secured.files.get(value, value)) for name, value in changes.items()}
    result = loopwarden(environment("SSL", **files), "topics", "check")
    assert result.exit_code == 2
    assert expected in result.line
