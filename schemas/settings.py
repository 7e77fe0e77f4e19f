"""Settings of every Loopwarden process, from environment variables `LOOPWARDEN_*`."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, StringConstraints, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.topics import Topics

Seconds = Annotated[float, Field(gt=0)]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class Settings(BaseSettings):
    """What a process needs to know about its cluster, its topics and its limits.

    Each field is the environment variable `LOOPWARDEN_<FIELD>`; arguments of the command line win over it. Times are seconds,
    sizes bytes. Raises `pydantic.ValidationError` naming the variable when a value is out of range.
    """

    model_config = SettingsConfigDict(env_prefix="LOOPWARDEN_", extra="ignore", frozen=True)

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
    commit_interval: Seconds = Field(0.5, description="seconds between commits of states and offsets")
    session_timeout: Seconds = Field(10.0, description="seconds without a heartbeat until a worker's partitions move")
    heartbeat_interval: Seconds = Field(3.0, description="seconds between heartbeats")
    run_ttl: Seconds = Field(7 * 24 * 3600.0, description="seconds of event time without events until a run is forgotten")
    idempotent_producer: bool = Field(True, description="off for brokers without InitProducerId v0 (the embedded one)")
    log_format: Literal["auto", "console", "json"] = Field("auto", description="auto: console on a terminal, else JSON lines")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.security_protocol.startswith("SASL_"):
            if not self.sasl_username:
                raise ValueError(f"sasl_username: needed with security_protocol {self.security_protocol}")
            if self.sasl_password is None and self.sasl_password_file is None:
                raise ValueError("sasl_password or sasl_password_file: needed with security_protocol " + self.security_protocol)
        return self

    def read_secret(self, name: Literal["sasl_password", "ssl_key_password"]) -> str | None:
        """Return a secret: its own setting, else the first line of its file; raises `OSError` when that cannot be read."""
        given: SecretStr | None = getattr(self, name)
        if given is not None:
            return given.get_secret_value()
        file: Path | None = getattr(self, f"{name}_file")
        return None if file is None else file.read_text(encoding="utf-8").split("\n", 1)[0].rstrip("\r")

    @property
    def topics(self) -> Topics:
        """The topic names under the configured prefix."""
        return Topics(prefix=self.topic_prefix)
