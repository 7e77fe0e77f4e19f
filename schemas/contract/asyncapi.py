"""The AsyncAPI 3.1 document: what Loopwarden receives and sends, with Kafka bindings 0.5.0.

Operations are those of workers and enforcement workers: what they receive, a gateway or an operator sends, and the reverse.
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any, Final

from schemas.contract.data_schemas import Schema
from schemas.contract.messages import MESSAGES, Channel, Message
from schemas.settings import Settings
from schemas.topics import TopicSpec

_BINDING: Final = "0.5.0"
_TOPICS: Final = Settings.model_construct().topics
_STRUCTURED: Final = "application/cloudevents+json"

_ADDRESSES: Final[Mapping[Channel, str]] = {
    "toolCalls": _TOPICS.tool_calls,
    "compactions": _TOPICS.compactions,
    "decisions": _TOPICS.decisions,
    "deliveries": _TOPICS.deliveries,
    "policies": _TOPICS.policies,
}
_CHANNEL_TEXTS: Final[Mapping[Channel, str]] = {
    "toolCalls": "Tool calls and run ends, written by gateways.",
    "compactions": "Context compactions, written by gateways.",
    "decisions": "Decisions and policy markers, written by workers.",
    "deliveries": "What became of decisions at receivers, written by enforcement workers, in the partition of the decision.",
    "policies": "Policies in force, written by operators. A null value (a tombstone) takes the policy of its key away.",
}
_DEAD_LETTERS: Final[Mapping[Channel, str]] = {
    "toolCalls": "Records of the tool-calls topic that are no events, untouched, written by workers.",
    "compactions": "Records of the compactions topic that are no events, untouched, written by workers.",
    "decisions": "Decisions that a receiver did not take, and records that are none, untouched, written by enforcement workers.",
    "policies": "Records of the policies topic that are no policies, untouched, written by one of the workers.",
}
_PARTITIONS: Final = (
    "All topics but that of the policies have the same number of partitions, each installation its own. "
    "A run has the same partition number in all: (murmur2(key) & 0x7fffffff) mod partitions, as the Java client computes it. "
    "Clients on librdkafka must be told so (`partitioner=murmur2_random`)."
)
#: Of the dead letters: header name behind `loopwarden.error.` -> what it holds.
_ERROR_HEADERS: Final = {
    "code": "What is wrong, for programs: `empty`, `too_large`, `not_json`, `not_cloudevent`, `unknown_type`, `wrong_topic`, "
    "`invalid_data` or `key_mismatch`; of a decision also what its receiver said, such as `http_400`; more may come.",
    "message": "What is wrong, for people: names the field, never its content.",
    "topic": "The topic that the record came from.",
    "partition": "Its partition, decimal.",
    "offset": "Its offset, decimal.",
    "group": "The consumer group of the worker.",
    "time": "When it was put here, RFC 3339.",
}
_ATTEMPTS: Final = "Of a decision: how often it was offered to the receiver, decimal."


def asyncapi() -> dict[str, Any]:
    """Return the whole document."""
    return {
        "asyncapi": "3.1.0",
        "id": "urn:loopwarden",
        "info": {
            "title": "Loopwarden",
            "version": version("loopwarden"),
            "description": "Watches AI-agent runs from outside the gateway: gateways publish tool calls and compactions, workers "
            f"publish decisions about the next calls.\n\n{_PARTITIONS}\n\nTopic names are given without the prefix that an "
            "installation may put before all of them. All messages are CloudEvents 1.0 in JSON; readers ignore attributes and "
            "fields that they do not know.",
            "license": {"name": "MIT"},
        },
        "defaultContentType": _STRUCTURED,
        "servers": {
            "development": {"host": "127.0.0.1:9092", "protocol": "kafka", "description": "A broker on this machine."},
        },
        "channels": dict(_channels()),
        "operations": dict(_operations()),
        "components": {"messages": dict(_messages()), "schemas": _schemas()},
    }


def _channels() -> Iterator[tuple[str, dict[str, Any]]]:
    settings = Settings.model_construct()
    # One partition is the least a topic can have; the number of the others is not part of the contract.
    specs = {spec.name: spec for spec in _TOPICS.specs(partitions=1, max_event_bytes=settings.max_event_bytes)}
    for channel, address in _ADDRESSES.items():
        names = [name for message in MESSAGES if message.channel == channel for name in _names(message)]
        yield channel, _channel(address, _CHANNEL_TEXTS[channel], names, specs[address], partitions=channel == "policies")
    for channel, text in _DEAD_LETTERS.items():
        address = _TOPICS.dead_letters(_ADDRESSES[channel])
        one = channel == "policies"
        yield f"{channel}DeadLetters", _channel(address, text, ["deadLetter"], specs[address], partitions=one)


def _channel(address: str, text: str, messages: list[str], spec: TopicSpec, *, partitions: bool) -> dict[str, Any]:
    kafka: dict[str, Any] = {"topic": address}
    if partitions:
        kafka["partitions"] = spec.partitions
    kafka["topicConfiguration"] = {
        "cleanup.policy": [spec.config["cleanup.policy"]],
        "retention.ms": int(spec.config["retention.ms"]),
        "max.message.bytes": int(spec.config["max.message.bytes"]),
    }
    return {
        "address": address,
        "description": text if partitions else f"{text} {_PARTITIONS}",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
        "bindings": {"kafka": {**kafka, "bindingVersion": _BINDING}},
    }


def _operations() -> Iterator[tuple[str, dict[str, Any]]]:
    group = {
        "groupId": {"description": "The workers of one installation share it.", "type": "string", "default": "loopwarden"},
        "bindingVersion": _BINDING,
    }
    for name, action, channel, summary, binding in (
        ("receiveToolCalls", "receive", "toolCalls", "Judge tool calls.", group),
        ("receiveCompactions", "receive", "compactions", "Arm the post-compaction guard.", group),
        ("receivePolicies", "receive", "policies", "Take policies into force; every worker reads all of them.", None),
        ("sendDecisions", "send", "decisions", "Say which next calls are to be warned about, refused or not made at all.", None),
        ("sendToolCallDeadLetters", "send", "toolCallsDeadLetters", "Put aside what is no event.", None),
        ("sendCompactionDeadLetters", "send", "compactionsDeadLetters", "Put aside what is no event.", None),
        ("sendPolicyDeadLetters", "send", "policiesDeadLetters", "Put aside what is no policy.", None),
        ("receiveDecisions", "receive", "decisions", "Hand decisions to a receiver (enforcement workers).", None),
        ("sendDeliveries", "send", "deliveries", "Note that a decision was handed over or given up.", None),
        ("sendDecisionDeadLetters", "send", "decisionsDeadLetters", "Put aside what no receiver takes.", None),
    ):
        operation: dict[str, Any] = {"action": action, "channel": {"$ref": f"#/channels/{channel}"}, "summary": summary}
        if binding is not None:
            operation["bindings"] = {"kafka": binding}
        yield name, operation


def _messages() -> Iterator[tuple[str, dict[str, Any]]]:
    for message in MESSAGES:
        structured, *binary = _names(message)
        payload = _structured_payload(message)
        shared = {"bindings": {"kafka": {"key": message.key, "bindingVersion": _BINDING}}}
        description = message.data_schema["description"]
        yield (
            structured,
            {
                "name": message.event_type,
                "title": f"{message.name}, structured mode",
                "summary": _first_sentence(description),
                "description": description,
                "contentType": _STRUCTURED,
                "headers": _headers({}, message),
                "payload": payload,
                **shared,
                "examples": [{"name": name, "payload": example} for name, example in message.examples.items()],
            },
        )
        for name in binary:
            headers = {f"ce_{attribute}": schema for attribute, schema in message.attributes.items()}
            yield (
                name,
                {
                    "name": message.event_type,
                    "title": f"{message.name}, binary mode",
                    "summary": _first_sentence(description),
                    "description": description,
                    "contentType": "application/json",
                    "headers": _headers(headers, message) | {"required": ["ce_specversion", "ce_type", "ce_source", "ce_id"]},
                    "payload": _data_ref(message),
                    **shared,
                    "examples": [
                        {"name": example, "headers": _binary_headers(whole), "payload": whole["data"]}
                        for example, whole in message.examples.items()
                    ],
                },
            )
    yield "deadLetter", _dead_letter()


def _names(message: Message) -> list[str]:
    """Return the names of a message's forms: structured mode, and for what others write also binary mode."""
    head, *rest = message.name.replace(".", "-").split("-")
    name = head + "".join(word.capitalize() for word in rest)
    return [name, f"{name}Binary"] if message.view == "read" else [name]


def _headers(properties: Schema, message: Message) -> Schema:
    properties = dict(properties)
    properties["content-type"] = {"description": "Media type of the value; may be missing.", "type": "string"}
    if message.sequenced:
        properties["loopwarden.misrouted"] = {
            "description": "Set by a worker that found the record in another partition than its key's and wrote it again: "
            "where it was, `topic[partition]@offset`.",
            "type": "string",
        }
    return {"type": "object", "properties": properties}


def _binary_headers(event: Mapping[str, Any]) -> dict[str, Any]:
    outside = {"data", "datacontenttype"}
    return {f"ce_{name}": value for name, value in event.items() if name not in outside} | {"content-type": "application/json"}


def _dead_letter() -> dict[str, Any]:
    required = {f"loopwarden.error.{name}": {"description": text, "type": "string"} for name, text in _ERROR_HEADERS.items()}
    properties = {**required, "loopwarden.error.attempts": {"description": _ATTEMPTS, "type": "string"}}
    return {
        "name": "dead letter",
        "title": "dead letter",
        "summary": "A record that is no event.",
        "description": "Key, value and headers as they came; the reason stands in further headers. A record that was put back "
        "and failed again has several of each: the last one counts.",
        "contentType": "application/octet-stream",
        "headers": {"type": "object", "required": list(required), "properties": properties},
        "payload": {"description": "The value as it came: any bytes, or none."},
        "bindings": {"kafka": {"key": {"description": "The key as it came: any bytes, or none."}, "bindingVersion": _BINDING}},
        "examples": [
            {
                "name": "notJson",
                "headers": {
                    "loopwarden.error.code": "not_json",
                    "loopwarden.error.message": "not JSON: Expecting value at character 0",
                    "loopwarden.error.topic": _TOPICS.tool_calls,
                    "loopwarden.error.partition": "3",
                    "loopwarden.error.offset": "1041",
                    "loopwarden.error.group": "loopwarden",
                    "loopwarden.error.time": "2026-11-30T12:00:01.000Z",
                },
                "payload": "hello",
            }
        ],
    }


def _structured_payload(message: Message) -> Schema:
    schema = {
        key: value for key, value in message.schema.items() if key not in {"$schema", "$id", "$defs", "examples", "description"}
    }
    schema["properties"] = {**schema["properties"], "data": _data_ref(message)}
    return schema


def _data_ref(message: Message) -> Schema:
    return {"$ref": f"#/components/schemas/{message.data_schema['title']}"}


def _schemas() -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for message in MESSAGES:
        schema = message.data_schema
        for name, definition in {schema["title"]: schema, **schema.get("$defs", {})}.items():
            moved = _moved({key: value for key, value in definition.items() if key != "$defs"})
            if found.setdefault(name, moved) != moved:
                raise ValueError(f"two models named {name} have different schemas: rename one")
    return dict(sorted(found.items()))


def _moved(schema: Any) -> Any:
    """Point references to where definitions stand in this document."""
    if isinstance(schema, dict):
        return {
            key: value.replace("#/$defs/", "#/components/schemas/") if key == "$ref" else _moved(value)
            for key, value in schema.items()
        }
    return [_moved(item) for item in schema] if isinstance(schema, list) else schema


def _first_sentence(text: str) -> str:
    return text.split("\n\n", 1)[0]
