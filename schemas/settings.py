"""Settings of every Loopwarden process, from environment variables `LOOPWARDEN_*`."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.topics import Topics

Seconds = Annotated[float, Field(gt=0)]


class Settings(BaseSettings):
    """What a process needs to know about its cluster, its topics and its limits.

    Each field is the environment variable `LOOPWARDEN_<FIELD>`; arguments of the command line win over it. Times are seconds,
    sizes bytes. Raises `pydantic.ValidationError` naming the variable when a value is out of range.
    """

    model_config = SettingsConfigDict(env_prefix="LOOPWARDEN_", extra="ignore", frozen=True)

    bootstrap_servers: str = Field("127.0.0.1:9092", description="Kafka brokers, comma-separated host:port")
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
    idempotent_producer: bool = Field(True, description="off for brokers without InitProducerId v0 (the embedded one)")
    log_format: Literal["auto", "console", "json"] = Field("auto", description="auto: console on a terminal, else JSON lines")

    @property
    def topics(self) -> Topics:
        """The topic names under the configured prefix."""
        return Topics(prefix=self.topic_prefix)
