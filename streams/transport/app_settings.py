"""The Faust settings that the batch transport wants."""

from pathlib import Path
from typing import Any

from mode import CrashingSupervisor

from streams.transport.producer import IDEMPOTENCE
from streams.transport.table import BatchTable
from streams.transport.table_manager import PromptTableManager

#: Seconds until a broker that does not answer makes a write fail. Long enough for a broker to be restarted under a
#: running worker; also the longest time after which a write that was begun under a lease can still arrive.
PRODUCER_TIMEOUT = 60.0


def batch_app_settings(
    *,
    bootstrap_servers: str,
    session_timeout: float = 10.0,
    heartbeat_interval: float = 3.0,
    commit_interval: float = 0.5,
    idempotence: bool = True,
    store: str = "memory://",
    data_dir: Path | str | None = None,
    max_record_bytes: int = 1024 * 1024,
    max_batch_bytes: int = 512 * 1024,
    broker_credentials: Any = None,
) -> dict[str, Any]:
    """Return keyword arguments for `faust.App`; times in seconds, sizes in bytes.

    `bootstrap_servers` is the usual `host:port,host:port`. `idempotence` must be off for brokers without InitProducerId
    v0 (the embedded one). `max_batch_bytes` must not exceed the smallest `max.message.bytes` of the topics written to.
    `broker_credentials` are Faust's (`faust.SSLCredentials`, `faust.SASLCredentials`, ...), passed on untouched.
    """
    query = f"?{IDEMPOTENCE}=on" if idempotence else ""
    servers = [server.strip() for server in bootstrap_servers.split(",") if server.strip()]
    settings: dict[str, Any] = {
        "broker": [f"batch://{server}{query}" for server in servers],
        "broker_credentials": broker_credentials,
        "broker_session_timeout": session_timeout,
        "broker_heartbeat_interval": heartbeat_interval,
        # A member that does not come back in time is left out; its partitions wait meanwhile.
        "broker_rebalance_timeout": max(30.0, session_timeout),
        # Faust insists that it is not shorter than the session.
        "broker_request_timeout": max(30.0, session_timeout),
        # A worker whose agent is stuck on full batches that long gives its partitions to others (Kafka's own default).
        "broker_max_poll_interval": 300.0,
        "broker_commit_interval": commit_interval,
        "broker_commit_every": None,
        # The most that a partition with a backlog puts before the others at a time; larger is not measurably faster.
        "broker_max_poll_records": 10_000,
        "consumer_max_fetch_size": 4 * 1024 * 1024,
        # A topic or changelog partition without a position is read from its start: anything else loses records.
        "consumer_auto_offset_reset": "earliest",
        "producer_request_timeout": PRODUCER_TIMEOUT,
        "producer_linger": 0.0,
        "producer_max_batch_size": max_batch_bytes,
        "producer_max_request_size": max_record_bytes,
        # Counts batches here. The consumer keeps few of them under way; a full queue would stall Faust for up to a
        # second.
        "stream_buffer_maxsize": 1024,
        # On revocation and stop, agents finish their batch first.
        "stream_wait_empty": True,
        # An agent that raised leaves a batch that is never done, so its partition would stop committing: end the
        # worker.
        "agent_supervisor": CrashingSupervisor,
        "store": store,
        "Table": BatchTable,
        "TableManager": PromptTableManager,
        # Standbys read every other partition's changelog; a bulk recovery makes up for them.
        "table_standby_replicas": 0,
        "topic_disable_leader": True,
        # It listens on all interfaces, without authentication.
        "web_enabled": False,
    }
    if data_dir is not None:
        settings["datadir"] = str(data_dir)
    return settings
