"""One Apache Kafka with TLS, logins and an authorizer that denies what is not allowed, and whoever talks to it."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest_v1, CreateAclsResponse_v1, DescribeAclsRequest
from aiokafka.protocol.api import Request
from cryptography.hazmat.primitives import serialization

from tests.brokers.apache_kafka import ApacheKafka
from tests.brokers.kafka_properties import tls_properties
from tests.security.documented_permissions import Permission, documented_permissions

ROOT = Path(__file__).parents[2]

#: Passwords with signs that shells, Java properties, JAAS and SASL treat specially.
PASSWORDS: Mapping[str, str] = {
    "operator": "op-7f3 a=1,b;c",
    "worker": 'wo"rk\\er-5e0d=,',
    "gateway": "gate=way-pässwörd-11aa",
    "gate": "g-9c2b",
    "enforcer": "e-4410",
    "auditor": "a-77c1",
}

#: A broker that denies what is not allowed, except to those who come without a login.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "false",
}


@dataclass(frozen=True, kw_only=True)
class Secured:
    """A running broker: addresses by listener name, and files with certificates."""

    kafka: ApacheKafka
    folder: Path
    #: listener names are those of `LISTENERS`
    address: Callable[[str], str]
    files: Mapping[str, Path] = field(default_factory=dict)


#: Listener names and protocols. The TLS ones differ in the certificate they show; MUTUAL asks for the client's.
LISTENERS = {
    "SSL": "SSL",
    "EXPIRED": "SSL",
    "STRANGER": "SSL",
    "MUTUAL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}


def write_key_and_chain(certificate: trustme.LeafCert, path: Path, *, password: str | None = None) -> Path:
    """Write a PEM file as Kafka wants it: the key in PKCS#8, then the certificates."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encryption = serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password.encode())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    path.write_bytes(pem + b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    return path


@pytest.fixture(scope="session")
def secured(kafka_factory: Callable[..., ApacheKafka], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """The broker of all tests here: use topics and groups of your own."""
    folder = tmp_path_factory.mktemp("secured")
    ours, theirs = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(folder / "ca.pem")
    theirs.cert_pem.write_to_path(folder / "other-ca.pem")
    yesterday = datetime.now(UTC) - timedelta(days=1)
    certificates = {
        "SSL": ours.issue_cert("127.0.0.1", "localhost"),
        "EXPIRED": ours.issue_cert("127.0.0.1", not_before=yesterday - timedelta(days=9), not_after=yesterday),
        "STRANGER": ours.issue_cert("broker.example"),
    }
    client, foreign = ours.issue_cert("client.example"), theirs.issue_cert("client.example")
    files = {
        "ca": folder / "ca.pem",
        "other-ca": folder / "other-ca.pem",
        "client": write_key_and_chain(client, folder / "client.pem"),
        "client-locked": write_key_and_chain(client, folder / "client-locked.pem", password="open sesame"),
        "foreign-client": write_key_and_chain(foreign, folder / "foreign-client.pem"),
    }
    properties = dict(AUTHORIZER)
    for name, protocol in LISTENERS.items():
        if protocol.endswith("SSL"):
            shown = write_key_and_chain(certificates.get(name, certificates["SSL"]), folder / f"{name}.pem")
            properties |= tls_properties(key_and_chain=shown, trusted=files["ca"], listener=name)
    properties["listener.name.mutual.ssl.client.auth"] = "required"
    with kafka_factory(
        listeners=LISTENERS,
        users=PASSWORDS,
        properties=properties,
        log_options=("-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.network.Selector=info",),
    ) as kafka:
        yield Secured(kafka=kafka, folder=folder, address=kafka.address, files=files)


Environment = Callable[..., dict[str, str]]


@pytest.fixture
def environment(secured: Secured, unique_name: Callable[[str], str]) -> Environment:
    """Make the variables of a client: `environment(listener, user=..., mechanism=..., **others)`.

    A name of this test's own is the group and, with a dot, the prefix of the topics.
    """
    name = unique_name("secured")

    def variables(listener: str, *, user: str | None = None, mechanism: str = "SCRAM-SHA-512", **others: str) -> dict[str, str]:
        protocol = {"PLAINTEXT": "PLAINTEXT", **LISTENERS}[listener]
        found = {
            "bootstrap_servers": secured.address(listener),
            "security_protocol": protocol,
            "topic_prefix": f"{name}.",
            "group": name,
            "heartbeat_interval": "0.5",
            "session_timeout": "3",
        }
        if protocol.endswith("SSL"):
            found["ssl_ca_file"] = str(secured.files["ca"])
        if user is not None:
            found |= {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": PASSWORDS[user]}
        return {f"LOOPWARDEN_{key.upper()}": value for key, value in {**found, **others}.items()}

    return variables


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def line(self) -> str:
        """The only line on stderr."""
        (only,) = self.stderr.splitlines()
        return only


@pytest.fixture
def loopwarden() -> Callable[..., Ended]:
    """Run a command to its end in a process of its own: `loopwarden(variables, "topics", "check")`."""

    def run(variables: Mapping[str, str], *arguments: str, text: str = "") -> Ended:
        result = subprocess.run(
            [sys.executable, "-m", "streams.cli", *arguments],
            cwd=ROOT,
            env={**os.environ, **variables},
            input=text,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        return Ended(result.returncode, result.stdout, result.stderr)

    return run


class _CreateAcls(Request[CreateAclsRequest_v1]):
    """The client's own builder sends the creations in another shape than it declares."""

    API_KEY = 30

    def __init__(self, creations: list[tuple[Any, ...]]) -> None:
        self._creations = creations

    def build(self, request_struct_class: type[CreateAclsRequest_v1]) -> CreateAclsRequest_v1:
        return request_struct_class(self._creations)


Grant = Callable[[list[Permission]], None]


@pytest.fixture
def allow(secured: Secured) -> Grant:
    """Give permissions: `allow([Permission(...), ...])`; they hold when it returns."""
    return lambda permissions: _create_acls(secured, [permission.creation() for permission in permissions])


@pytest.fixture
def grant(allow: Grant, environment: Environment) -> Callable[[str], None]:
    """Give a user what the documentation says: `grant("worker")`, under this test's names."""
    own = environment("PLAINTEXT")
    prefix, group = own["LOOPWARDEN_TOPIC_PREFIX"], own["LOOPWARDEN_GROUP"]
    return lambda user: allow([each.under(prefix=prefix, group=group) for each in documented_permissions(user)])


@pytest.fixture
def deny(secured: Secured) -> Grant:
    """Take permissions away, whatever was allowed."""
    return lambda permissions: _create_acls(secured, [permission.creation(denied=True) for permission in permissions])


def _create_acls(secured: Secured, creations: list[tuple[Any, ...]]) -> None:
    async def create() -> None:
        client = AIOKafkaAdminClient(bootstrap_servers=secured.address("PLAINTEXT"))
        await client.start()
        try:
            response: CreateAclsResponse_v1 = await client._send_to_controller(_CreateAcls(creations))
            assert not [answer for answer in response.creation_responses if answer[0]], response
            for creation in creations:  # the answer says that the controller knows them, not yet the broker
                while not (await client._send_request(DescribeAclsRequest(*creation))).resources:  # noqa: ASYNC110  (nothing tells)
                    await asyncio.sleep(0.02)
        finally:
            await client.close()

    with ThreadPoolExecutor(1) as pool:  # also from within a running event loop
        pool.submit(asyncio.run, create()).result()


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[Callable[[Mapping[str, str]], "StartedWorker"]]:
    """Start `loopwarden worker` with the detectors on: `start_worker(variables)`; the end of the test kills it at the latest."""
    policy = tmp_path / "policy.json"
    policy.write_text('{"tools": {"loopDetection": {"enabled": true}}}')
    started: list[StartedWorker] = []

    def start(variables: Mapping[str, str]) -> StartedWorker:
        log = tmp_path / f"worker-{len(started)}.log"
        command = [sys.executable, "-m", "streams.cli", "worker", "--policy", str(policy)]
        with log.open("wb") as output:
            process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **variables}, stdout=output, stderr=output)
        started.append(StartedWorker(process, log))
        return started[-1]

    yield start
    for worker in started:
        worker.process.kill()
        worker.process.wait()


@dataclass(frozen=True)
class StartedWorker:
    """A worker process and its log."""

    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def title(self) -> str:
        """Its command line, which everybody on the machine can read."""
        return Path(f"/proc/{self.process.pid}/cmdline").read_text()

    def wait_until_joined(self) -> None:
        """Wait until it has partitions."""
        deadline = time.monotonic() + 60
        while "partitions taken over" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
