"""Records that are no events: each must come out on the dead-letter topic exactly as it came."""

import random
from collections.abc import Callable

from schemas.topics import partition_of
from tests.faults.workload.events import Input, RunEvents

Breaker = Callable[[random.Random, bytes], bytes | None]


def _cut(rng: random.Random, value: bytes) -> bytes:
    return value[: rng.randrange(1, len(value) - 1)]


def _broken_text(rng: random.Random, value: bytes) -> bytes:
    place = value.index(b'"specversion"')
    return value[:place] + b"\xff\xfe" + value[place:]


def _wrong_type(rng: random.Random, value: bytes) -> bytes:
    return value.replace(b"dev.loopwarden.tool-call", b"dev.loopwarden.tool-cull")


def _no_tool(rng: random.Random, value: bytes) -> bytes:
    return value.replace(b'"tool":', b'"tol":')


def _deep(rng: random.Random, value: bytes) -> bytes:
    return b"[" * 5000 + b"]" * 5000


#: each makes something invalid of a started tool call in structured mode
BREAKERS: tuple[Breaker, ...] = (
    _cut,
    _broken_text,
    _wrong_type,
    _no_tool,
    _deep,
    lambda rng, value: None,
    lambda rng, value: b"",
    lambda rng, value: rng.randbytes(rng.randint(1, 300)),
    lambda rng, value: b"null",
    lambda rng, value: value.replace(b'"1.0"', b'"2.0"'),
)


def invalid_record(rng: random.Random, partitions: int) -> Input:
    """Make one: broken bytes, or an event under another run's key, or on the wrong topic; with odd keys and headers."""
    name = f"bad-{rng.randrange(10**9)}"
    event = RunEvents(name, partitions)
    event.call("read", {"path": "x"})
    good = event.made[0].value or b""
    key: bytes | None = name.encode()
    topic = rng.choice(["calls", "calls", "compactions"])
    choice = rng.randrange(len(BREAKERS) + 2)
    if choice < len(BREAKERS):
        value = BREAKERS[choice](rng, good)
        key = rng.choice([key, None, b"", rng.randbytes(8), b"\x00\xff"])
    elif choice == len(BREAKERS):
        value, key = good, b"somebody-else"
    else:
        value, topic = good, "compactions"
    headers = tuple((f"h{number}", rng.randbytes(rng.randrange(20))) for number in range(rng.randrange(3)))
    return Input(topic, _partition_of(key, rng, partitions), key, value, headers)


def _partition_of(key: bytes | None, rng: random.Random, partitions: int) -> int:
    # Where a client would put it: a worker sends what lies elsewhere to its right place first.
    try:
        return partition_of(key.decode(), partitions) if key else rng.randrange(partitions)
    except UnicodeDecodeError:
        return murmur2_partition(key or b"", partitions)


def murmur2_partition(key: bytes, partitions: int) -> int:
    """Return the partition of a key that is no text."""
    from aiokafka.partitioner import murmur2

    return int((murmur2(key) & 0x7FFFFFFF) % partitions)
