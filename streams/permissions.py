"""What the broker lets this user do: asked for in one question, before anything is read or written.

Kafka tells for each topic and group which operations the asking user may do (KIP-430). A broker without an authorizer allows all;
one that does not tell (the embedded one) is taken to allow all: what it refuses shows when it is done.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from aiokafka import errors
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import DescribeGroupsRequest_v3, DescribeGroupsResponse_v3
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

#: What stands for the operations when the broker does not tell them.
_NOT_TOLD = -(2**31)

#: Seconds between two questions for a coordinator that is not there yet, and how often it is asked for: on a new cluster the
#: first question makes the offsets topic.
_COORDINATOR_INTERVAL = 0.2
_COORDINATOR_ATTEMPTS = 50


class Operation(IntEnum):
    """Operations as Kafka numbers them, as far as they matter here."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10

    @property
    def label(self) -> str:
        """The name as `kafka-acls --operation` takes it."""
        return "".join(part.capitalize() for part in self.name.split("_"))


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicDescription:
    """A topic as the broker describes it to this user."""

    name: str
    #: 0 when it is missing or may not be described
    partitions: int
    replication_factor: int
    #: whether this user may see it at all; a broker does not say whether a hidden topic exists
    visible: bool
    #: None when the broker does not tell
    operations: frozenset[int] | None

    def lacks(self, wanted: Iterable[Operation]) -> list[Operation]:
        """Return the operations of `wanted` that this user may not do."""
        if not self.visible:
            return list(wanted)
        return [] if self.operations is None else [operation for operation in wanted if operation not in self.operations]


async def describe_topics(client: AIOKafkaAdminClient, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Describe topics by name; nothing is created, also where `auto.create.topics.enable` is on."""
    wanted = list(names)
    try:
        response = await client._send_request(_DescribeTopics(wanted))
    except NotImplementedError:  # an older broker than 2.3
        response = await client._get_cluster_metadata()  # all: asking by name could create them
    found: dict[str, TopicDescription] = {}
    for topic in response.to_object()["topics"]:
        name, code = topic["topic"], topic["error_code"]
        if code not in (0, errors.UnknownTopicOrPartitionError.errno, errors.TopicAuthorizationFailedError.errno):
            raise errors.for_code(code)(name)
        found[name] = TopicDescription(
            name=name,
            partitions=len(topic["partitions"]),
            replication_factor=max((len(partition["replicas"]) for partition in topic["partitions"]), default=0),
            visible=code != errors.TopicAuthorizationFailedError.errno,
            operations=_operations(topic.get("authorized_operations", _NOT_TOLD)),
        )
    absent = {"partitions": 0, "replication_factor": 0, "visible": True, "operations": None}
    return {name: found.get(name) or TopicDescription(name=name, **absent) for name in wanted}  # type: ignore[arg-type]  # as above


async def may_join(client: AIOKafkaAdminClient, group: str) -> bool:
    """Return whether this user may be a member of a consumer group (the operation Read)."""
    try:
        coordinator = await _coordinator(client, group)
        response = await client._send_request(_DescribeGroup(group), coordinator)
    except errors.GroupAuthorizationFailedError:
        return False
    except NotImplementedError:
        return True
    (answer,) = response.to_object()["groups"]
    if answer["error_code"] == errors.GroupAuthorizationFailedError.errno:
        return False
    operations = _operations(answer["authorized_operations"])
    return operations is None or Operation.READ in operations


def missing_permissions(
    topics: Mapping[str, TopicDescription], wanted: Mapping[str, Iterable[Operation]], *, user: str
) -> list[str]:
    """Return one line for each topic on which `user` may not do what is wanted."""
    return [
        f"{name}: {user} may not {' or '.join(operation.label for operation in lacking)} this topic"
        + ("" if topics[name].visible else " (nor see whether it exists)")
        for name, operations in wanted.items()
        if (lacking := topics[name].lacks(operations))
    ]


def _operations(bits: int) -> frozenset[int] | None:
    return None if bits == _NOT_TOLD else frozenset(number for number in range(31) if bits >> number & 1)


async def _coordinator(client: AIOKafkaAdminClient, group: str) -> int:
    for _ in range(_COORDINATOR_ATTEMPTS):
        try:
            return int(await client.find_coordinator(group))
        except (errors.GroupCoordinatorNotAvailableError, errors.GroupLoadInProgressError):
            await asyncio.sleep(_COORDINATOR_INTERVAL)
    return int(await client.find_coordinator(group))


class _TopicsResponse(Response):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", String("utf-8")), ("port", Int32), ("rack", String("utf-8")))),
        ("cluster_id", String("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", String("utf-8")),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
        ("cluster_authorized_operations", Int32),
    )


class _TopicsRequest(RequestStruct):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _TopicsResponse
    SCHEMA = Schema(
        ("topics", Array(String("utf-8"))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class _DescribeTopics(Request[_TopicsRequest]):  # type: ignore[misc]  # aiokafka is untyped
    """Metadata version 8, which the client itself does not speak."""

    API_KEY = 3

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def build(self, request_struct_class: type[_TopicsRequest]) -> _TopicsRequest:
        return request_struct_class(self._names, False, False, True)


class _GroupRequest(RequestStruct):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 15
    API_VERSION = 3
    RESPONSE_TYPE = DescribeGroupsResponse_v3  # the client's own class has the response of version 2 here
    SCHEMA = DescribeGroupsRequest_v3.SCHEMA


class _DescribeGroup(Request[_GroupRequest]):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 15

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: type[_GroupRequest]) -> _GroupRequest:
        return request_struct_class([self._group], True)
