"""Settings come from the environment, check each other, and never show a secret."""

import traceback
from pathlib import Path

import pytest
from pydantic import ValidationError

from schemas.settings import SecretFileError, Settings

PASSWORD = "s3cr3t pässword"
LOGIN = {"security_protocol": "SASL_SSL", "sasl_username": "worker", "sasl_password": PASSWORD}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("LOOPWARDEN_"):
            monkeypatch.delenv(name)


def faults(**given: object) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        Settings(**given)  # type: ignore[arg-type]  # wrong on purpose
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
    return {".".join(map(str, fault["loc"])): fault["msg"] for fault in caught.value.errors()}


def test_secrets_are_not_shown() -> None:
    settings = Settings(**LOGIN, ssl_key_password=PASSWORD)  # type: ignore[arg-type]  # as from the environment
    for text in (repr(settings), str(settings), str(settings.model_dump()), settings.model_dump_json()):
        assert PASSWORD not in text
    assert settings.read_secret("sasl_password") == PASSWORD
    assert settings.read_secret("ssl_key_password") == PASSWORD


@pytest.mark.parametrize(
    "broken", [{"sasl_mechanism": "GSSAPI"}, {"run_ttl": -1}, {"sasl_username": None}, {"ssl_key_file": "x"}]
)
def test_an_error_does_not_quote_what_was_given(broken: dict[str, object]) -> None:
    assert faults(**{**LOGIN, **broken}).keys() == broken.keys()


def test_a_login_needs_a_name_and_a_password() -> None:
    assert faults(security_protocol="SASL_SSL").keys() == {"sasl_username", "sasl_password_file"}
    assert faults(security_protocol="SASL_PLAINTEXT", sasl_username="worker").keys() == {"sasl_password_file"}


def test_a_name_without_a_login_is_refused() -> None:
    """Else somebody believes that the connection is authenticated."""
    message = faults(sasl_username="worker")["sasl_username"]
    assert message.startswith("not used with LOOPWARDEN_SECURITY_PROTOCOL=PLAINTEXT")


def test_a_variable_that_is_set_to_nothing_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CA_FILE", "SASL_USERNAME", "SASL_PASSWORD", "RUN_TTL"):
        monkeypatch.setenv(f"LOOPWARDEN_{name}", "")
    settings = Settings()
    assert settings.ssl_ca_file is None
    assert settings.sasl_username is None
    assert settings.run_ttl == Settings.model_fields["run_ttl"].default


@pytest.mark.parametrize("content", ["from file\n", "from file", "from file\r\nsecond line"])
def test_the_first_line_of_a_file_is_the_password(tmp_path: Path, content: str) -> None:
    path = tmp_path / "password"
    path.write_bytes(content.encode())
    settings = Settings(security_protocol="SASL_SSL", sasl_username="worker", sasl_password_file=path)
    assert settings.read_secret("sasl_password") == "from file"


def test_a_given_password_wins_over_its_file(tmp_path: Path) -> None:
    assert Settings(**LOGIN, sasl_password_file=tmp_path / "absent").read_secret("sasl_password") == PASSWORD  # type: ignore[arg-type]  # as from the environment


@pytest.mark.parametrize("content", [b"", b"\nsecond", b"s3cr\xff\xfet"])
def test_a_file_without_a_password_is_an_error_that_names_it_and_quotes_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    settings = Settings(security_protocol="SASL_SSL", sasl_username="worker", sasl_password_file=path)
    with pytest.raises(SecretFileError) as caught:
        settings.read_secret("sasl_password")
    assert f"LOOPWARDEN_SASL_PASSWORD_FILE: {path}" in str(caught.value) or str(path) in str(caught.value)
    assert "s3cr" not in "".join(traceback.format_exception(caught.value))


def test_the_environment_of_a_child_gives_it_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(**LOGIN, run_ttl=3.5, idempotent_producer=False, topic_prefix="eu.", ssl_ca_file=Path("/ca.pem"))  # type: ignore[arg-type]  # as from the environment
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings
