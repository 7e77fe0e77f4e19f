"""The `server.properties` of a one-node Apache Kafka for tests."""

import hashlib
import secrets
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

HOST = "127.0.0.1"

#: Name and security protocol of the listener that every broker here has.
PLAINTEXT = "PLAINTEXT"
_CONTROLLER = "CONTROLLER"

#: The fewest that Kafka accepts for SCRAM.
_SCRAM_ITERATIONS = 4096

_BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": _CONTROLLER,
    "inter.broker.listener.name": PLAINTEXT,
    # One node holds all copies.
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Fewer files to make and to recover than the 50 partitions as shipped.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    # A test has all its members at once, and sessions that are worth waiting for.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # A killed broker may only register again when its session is over: 9 s as shipped.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # As in production: a misspelt topic is an error.
    "auto.create.topics.enable": "false",
    # Deleted topics and segments free their files soon.
    "log.segment.delete.delay.ms": "1000",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    # A dead letter of the largest size comes in one request.
    "socket.request.max.bytes": str(128 * 1024 * 1024),
}


def server_properties(
    *,
    ports: Mapping[str, int],
    listeners: Mapping[str, str],
    data: Path,
    users: Mapping[str, str],
    extra: Mapping[str, str],
) -> dict[str, str]:
    """Return the properties of a broker.

    `listeners` maps listener names to security protocols, without PLAINTEXT, which is always there; `ports` has a port for
    each of them, PLAINTEXT and CONTROLLER. `users` are names and passwords of the SASL listeners (PLAIN and SCRAM). `extra` wins.
    """
    protocols = {PLAINTEXT: "PLAINTEXT", **listeners, _CONTROLLER: "PLAINTEXT"}
    properties = {
        **_BASE,
        "listeners": ",".join(f"{name}://{HOST}:{ports[name]}" for name in protocols),
        "advertised.listeners": ",".join(f"{name}://{HOST}:{ports[name]}" for name in protocols if name != _CONTROLLER),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "controller.quorum.voters": f"1@{HOST}:{ports[_CONTROLLER]}",
        "log.dirs": str(data),
    }
    for name, protocol in listeners.items():
        if protocol.startswith("SASL"):
            properties |= _sasl(name.lower(), users)
    return {**properties, **extra}


def listener_names(listeners: Mapping[str, str]) -> list[str]:
    """Return all names that need a port."""
    return [PLAINTEXT, *listeners, _CONTROLLER]


def tls_properties(*, key_and_chain: Path, trusted: Path, listener: str | None = None) -> dict[str, str]:
    """Return the TLS properties from PEM files, of one listener or of all; give them as `extra`."""
    prefix = "" if listener is None else f"listener.name.{listener.lower()}."
    return {
        f"{prefix}ssl.keystore.type": "PEM",
        f"{prefix}ssl.keystore.location": str(key_and_chain),
        f"{prefix}ssl.truststore.type": "PEM",
        f"{prefix}ssl.truststore.location": str(trusted),
    }


def scram_credential(mechanism: str, name: str, password: str) -> str:
    """Return what `StorageTool format --add-scram` takes: the salted password, since it cannot read commas in a plain one."""
    digest = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, _SCRAM_ITERATIONS)
    texts = {"name": name, "salt": b64encode(salt).decode(), "saltedpassword": b64encode(salted).decode()}
    quoted = ",".join(f'{key}="{text}"' for key, text in texts.items())
    return f"{mechanism}=[{quoted},iterations={_SCRAM_ITERATIONS}]"


def written(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def _sasl(listener: str, users: Mapping[str, str]) -> dict[str, str]:
    known = " ".join(f'user_{name}="{_quoted(password)}"' for name, password in users.items())
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    return {
        f"listener.name.{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"listener.name.{listener}.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"
        ),
        f"listener.name.{listener}.scram-sha-256.sasl.jaas.config": scram,
        f"listener.name.{listener}.scram-sha-512.sasl.jaas.config": scram,
    }


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _escaped(text: str) -> str:
    return "".join({"\\": "\\\\", "\n": "\\n", "\r": "\\r"}.get(sign, sign if sign.isascii() else _units(sign)) for sign in text)


def _units(sign: str) -> str:
    raw = sign.encode("utf-16-be")
    return "".join(f"\\u{raw[at : at + 2].hex()}" for at in range(0, len(raw), 2))
