"""Settings of every Loopwarden process, from environment variables `LOOPWARDEN_*`."""

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, StringConstraints, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.topics import Topics

Seconds = Annotated[float, Field(gt=0)]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
Secret = Literal["sasl_password", "ssl_key_password"]


class SecretFileError(OSError):
    """There is no secret in a file that should hold one; the message names the setting, not what is in the file."""


class Settings(BaseSettings):
    """What a process needs to know about its cluster, its topics and its limits.

    Each field is the environment variable `LOOPWARDEN_<FIELD>`; arguments of the command line win over it. Times are seconds,
    sizes bytes. Raises `pydantic.ValidationError` naming the variable when a value is out of range.
    """

    model_config = SettingsConfigDict(
        env_prefix="LOOPWARDEN_",
        extra="ignore",
        frozen=True,
        # A variable that is set to nothing, as compose files do, is not set.
        env_ignore_empty=True,
        # The relations between settings are checked where a setting is missing too.
        validate_default=True,
        # An error would else quote what it was given, passwords included.
        hide_input_in_errors=True,
    )

    bootstrap_servers: str = Field("127.0.0.1:9092", description="Kafka brokers, comma-separated host:port")
    security_protocol: SecurityProtocol = Field("PLAINTEXT", description="as Kafka's clients spell it")
    ssl_ca_file: Path | None = Field(None, description="certificates to trust (PEM); without it the system's")
    ssl_cert_file: Path | None = Field(None, description="client certificate (PEM)")
    ssl_key_file: Path | None = Field(None, description="key of the client certificate (PEM)")
    ssl_key_password: SecretStr | None = Field(None, description="password of that key")
    ssl_key_password_file: Path | None = Field(None, description="file with that password")
    sasl_mechanism: SaslMechanism = Field("PLAIN", description="how to log in")
    sasl_username: str | None = Field(None, description="who logs in")
    sasl_password: SecretStr | None = Field(None, description="the password")
    sasl_password_file: Path | None = Field(None, description="file with the password")
    topic_prefix: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]*$", max_length=100)] = Field(
        "", description="put before every topic name"
    )
    group: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]+$", max_length=100)] = Field(
        "loopwarden", description="consumer group of the workers, and prefix of their changelog topic"
    )
    policy_file: Path | None = Field(None, description="policy in force (JSON5); without one only the guard runs")
    store: Annotated[str, StringConstraints(pattern=r"^(memory|rocksdb)://$")] = Field(
        "memory://", description="where run states live: memory:// or rocksdb://"
    )
    data_dir: Path = Field(Path("loopwarden-data"), description="folder of the RocksDB store; one per worker")
    max_event_bytes: int = Field(1024 * 1024, gt=0, description="larger events are dead-lettered")
    commit_interval: Seconds = Field(0.5, description="seconds between commits; four times as long while few events wait")
    session_timeout: Seconds = Field(10.0, description="seconds without a heartbeat until a worker's partitions move")
    heartbeat_interval: Seconds = Field(3.0, description="seconds between heartbeats")
    run_ttl: Seconds = Field(7 * 24 * 3600.0, description="seconds of event time without events until a run is forgotten")
    idempotent_producer: bool = Field(True, description="off for brokers without InitProducerId v0 (the embedded one)")
    http_host: str = Field("127.0.0.1", min_length=1, description="address of a worker's /metrics, /livez and /readyz")
    http_port: Annotated[int, Field(ge=0, le=65535)] | None = Field(
        None, description="their port; 0 for none; without it 9464, or none where that is taken"
    )
    ready_max_lag: Seconds = Field(60.0, description="seconds that a worker may be behind its inputs and still be ready")
    log_format: Literal["auto", "console", "json"] = Field("auto", description="auto: console on a terminal, else JSON lines")

    @field_validator("sasl_username")
    @classmethod
    def _named_with_sasl(cls, username: str | None, info: ValidationInfo) -> str | None:
        protocol = info.data.get("security_protocol")
        if protocol is not None and username is None and protocol.startswith("SASL_"):
            raise PydanticCustomError("sasl", "needed with LOOPWARDEN_SECURITY_PROTOCOL={protocol}", {"protocol": protocol})
        if protocol is not None and username is not None and not protocol.startswith("SASL_"):
            # Anything else would leave somebody in the belief that the connection is authenticated.
            raise PydanticCustomError(
                "sasl",
                "not used with LOOPWARDEN_SECURITY_PROTOCOL={protocol}; that must be SASL_SSL or SASL_PLAINTEXT, or leave this",
                {"protocol": protocol},
            )
        return username

    @field_validator("sasl_password_file")
    @classmethod
    def _proved_with_sasl(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        protocol = info.data.get("security_protocol")
        if protocol is not None and protocol.startswith("SASL_") and file is None and info.data.get("sasl_password") is None:
            raise PydanticCustomError(
                "sasl",
                "this or LOOPWARDEN_SASL_PASSWORD is needed with LOOPWARDEN_SECURITY_PROTOCOL={protocol}",
                {"protocol": protocol},
            )
        return file

    @field_validator("ssl_key_file")
    @classmethod
    def _belongs_to_a_certificate(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is not None and info.data.get("ssl_cert_file") is None:
            raise PydanticCustomError("tls", "a key without LOOPWARDEN_SSL_CERT_FILE, the certificate that it belongs to")
        return file

    def read_secret(self, name: Secret) -> str | None:
        """Return a secret: its own setting, else the first line of its file; None when neither is set.

        Raises `OSError` when the file cannot be read, and `SecretFileError` when there is no secret in it.
        """
        given: SecretStr | None = getattr(self, name)
        if given is not None:
            return given.get_secret_value()
        file: Path | None = getattr(self, f"{name}_file")
        if file is None:
            return None
        try:
            secret = file.read_bytes().split(b"\n", 1)[0].rstrip(b"\r").decode()
        except UnicodeDecodeError:
            raise SecretFileError(f"LOOPWARDEN_{name.upper()}_FILE: {file} is not UTF-8 text") from None
        if not secret:
            raise SecretFileError(f"LOOPWARDEN_{name.upper()}_FILE: the first line of {file} is empty")
        return secret

    def environment(self) -> dict[str, str]:
        """Return the environment variables, secrets included, that give another process these settings."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            f"LOOPWARDEN_{name.upper()}": value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            for name, value in values.items()
            if value is not None
        }

    @property
    def topics(self) -> Topics:
        """The topic names under the configured prefix."""
        return _topics(self.topic_prefix)


@lru_cache(maxsize=64)
def _topics(prefix: str) -> Topics:
    return Topics(prefix=prefix)
