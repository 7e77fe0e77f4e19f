"""A connection makes the options of every client, and keeps passwords to itself."""

import logging
import ssl
from pathlib import Path

import pytest
import trustme
from aiokafka.protocol.admin import SaslAuthenticateRequest

from schemas.settings import Settings
from streams.connection import Connection, ConnectionSettingsError

PASSWORD = "s3cr3t"


@pytest.fixture(scope="module")
def ca_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    trustme.CA().cert_pem.write_to_path(path)
    return path


def login(**changes: object) -> Connection:
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "worker", "sasl_password": PASSWORD, **changes}
    return Connection(bootstrap_servers="kafka:9092", **given)  # type: ignore[arg-type]  # the shape is right


def test_passwords_are_not_in_the_representation() -> None:
    assert PASSWORD not in repr(login(ssl_key_password=PASSWORD))
    assert PASSWORD not in repr(login().faust_credentials())


def test_without_a_login_no_credentials_are_sent() -> None:
    options = Connection(bootstrap_servers="kafka:9092").client_options()
    assert options == {"bootstrap_servers": "kafka:9092", "security_protocol": "PLAINTEXT", "ssl_context": None}
    assert Connection(bootstrap_servers="kafka:9092").faust_credentials() is None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_both_kinds_of_clients_get_the_login(mechanism: str) -> None:
    connection = login(sasl_mechanism=mechanism)
    options = connection.client_options()
    assert (options["sasl_mechanism"], options["sasl_plain_username"], options["sasl_plain_password"]) == (
        mechanism,
        "worker",
        PASSWORD,
    )
    credentials = connection.faust_credentials()
    assert (credentials.mechanism.value, credentials.username, credentials.password) == (mechanism, "worker", PASSWORD)
    assert credentials.protocol.value == "SASL_PLAINTEXT"


def test_tls_checks_certificates_and_host_names_and_trusts_only_the_given_authority(ca_file: Path) -> None:
    context = login(security_protocol="SASL_SSL", ssl_ca_file=ca_file).ssl_context
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


def test_a_certificate_that_cannot_be_read_is_an_error_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match=r"^LOOPWARDEN_SSL_CA_FILE: .*absent.pem: no such file or directory$"):
        login(security_protocol="SSL", ssl_ca_file=tmp_path / "absent.pem").client_options()


def test_settings_become_a_connection_and_passwords_are_read_from_their_files(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\n")
    settings = Settings(security_protocol="SASL_SSL", sasl_username="worker", sasl_password_file=path, bootstrap_servers="k:1")
    connection = Connection.from_settings(settings)
    assert (connection.bootstrap_servers, connection.sasl_password) == ("k:1", PASSWORD)


def test_the_debug_log_of_the_client_does_not_quote_the_login(caplog: pytest.LogCaptureFixture) -> None:
    """The client logs each request, and a PLAIN login carries the password in one."""
    caplog.set_level(logging.DEBUG, "aiokafka.conn")
    request = SaslAuthenticateRequest(f"\0worker\0{PASSWORD}".encode()).prepare({36: (0, 1)})
    assert PASSWORD in repr(request), "what the client would log"
    logging.getLogger("aiokafka.conn").debug("Request to %s:%d %d: %s", "kafka", 9092, 3, request)
    assert PASSWORD not in caplog.text
    assert "Request to kafka:9092 3: (login)" in caplog.text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "user worker"),
        ({"security_protocol": "PLAINTEXT"}, "this client"),
        ({"security_protocol": "SSL", "ssl_cert_file": Path("/c.pem")}, "the client with the certificate /c.pem"),
    ],
)
def test_errors_name_who_we_are(changes: dict[str, object], expected: str) -> None:
    assert login(**changes).user == expected
