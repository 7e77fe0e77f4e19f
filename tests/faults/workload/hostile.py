"""Hostile records: bytes of good events changed at random, and things made to be expensive or odd."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from aiokafka.partitioner import murmur2

from tests.faults.workload.events import Input, RunEvents

#: Part of the events that are of one looping run, so that there are decisions.
LOOPING = 0.05

#: Pieces that break parsers.
PIECES = (
    b"\x00",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b'"',
    b"\\",
    b"\\ud800",
    b"\\u0000",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"NaN",
    b"-Infinity",
    b"1e999999",
    b"-0.0",
    b"9" * 400,
    b"0" * 100,
    b"true",
    b'"data":{}',
    b'"specversion":"1.0",',
    b'"run_id":"other",',
)


def mutated(rng: random.Random, value: bytes) -> bytes:
    """Return a value with one to eight random changes: bits, pieces put in, parts cut, doubled or moved."""
    data = bytearray(value)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 2, 8, 64)))
        match rng.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at:at] = rng.choice(PIECES)
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end]
            case 4:
                data[at:end] = rng.choice(PIECES)
            case _:
                data[at:at] = rng.randbytes(rng.randrange(1, 8))
    return bytes(data)


def _event(run_id: str, partitions: int, **data: object) -> bytes:
    run = RunEvents(run_id, partitions)
    run.call("exec", {"command": "ls"}, {"text": "a"})
    event = json.loads(run.made[1].value or b"")
    event["data"].update(data)
    return json.dumps(event).encode()  # ASCII: a lone surrogate becomes an escape


def _with_text(run_id: str, partitions: int, name: str, text: bytes) -> bytes:
    return _event(run_id, partitions, **{name: "PLACE"}).replace(b'"PLACE"', text)


Maker = Callable[[random.Random, str, int], bytes]

#: Expensive or odd values of one event; some are valid, some are not.
MONSTERS: tuple[Maker, ...] = (
    lambda rng, run, n: _with_text(run, n, "params", b"[" * 50_000 + b"]" * 50_000),
    lambda rng, run, n: _with_text(run, n, "params", b'{"a":' * 900 + b"1" + b"}" * 900),
    lambda rng, run, n: _with_text(run, n, "result", b"[" * 200 + b"1" + b"]" * 200),
    lambda rng, run, n: _with_text(run, n, "params", b"9" * 100_000),
    lambda rng, run, n: _with_text(run, n, "params", b"-1e-999999"),
    lambda rng, run, n: _with_text(run, n, "params", b"1.7976931348623159e308"),
    lambda rng, run, n: _with_text(run, n, "params", b"0." + b"1" * 100_000),
    lambda rng, run, n: _event(run, n, params="a" * 1_000_000),
    lambda rng, run, n: _event(run, n, result={"text": " " * 1_000_000}),
    lambda rng, run, n: _event(run, n, error="Tool " + "x" * 1_000_000 + " not found"),
    lambda rng, run, n: _event(run, n, error="not found " * 100_000),
    lambda rng, run, n: _event(run, n, error="0" * 500_000 + "ms"),
    lambda rng, run, n: _event(run, n, error="2027-01-15T08:00:00" * 50_000),
    lambda rng, run, n: _event(run, n, result={"text": "pid 1 (" * 100_000}),
    lambda rng, run, n: _event(run, n, result={"text": "\n" * 400_000}),
    lambda rng, run, n: _event(run, n, params={f"k{number}": number for number in range(50_000)}),
    lambda rng, run, n: _event(run, n, params=[{} for _ in range(200_000)]),
    lambda rng, run, n: _with_text(run, n, "params", b"{" + b",".join(b'"a":%d' % number for number in range(100_000)) + b"}"),
    lambda rng, run, n: _event(run, n, tool="\ud800"),
    lambda rng, run, n: _event(run, n, call_id="\udfff"),
    lambda rng, run, n: _event(run, n, session_id="\ud800\ud800"),
    lambda rng, run, n: _event(run, n, params={"\ud800": "\udc00", "ok": 1}),
    lambda rng, run, n: _event(run, n, result="\ud83d"),
    lambda rng, run, n: _event(run, n, error="Tool \ud800 not found"),
    lambda rng, run, n: _event(run, n, tool="\u0000"),
    lambda rng, run, n: _event(run, n, tool="\u0130" * 256),
    lambda rng, run, n: _event(run, n, tool=" exec "),
    lambda rng, run, n: _event(run, n, call_id="x" * 257),
    lambda rng, run, n: _event(run, n, round=10**30),
    lambda rng, run, n: _event(run, n, round=1e400),
    lambda rng, run, n: _event(run, n, outcome_hash="0" * 32, result=[1]),
    lambda rng, run, n: _event(run, n, args_hash="G" * 32),
    lambda rng, run, n: _event(run, n, args_hash="\u0660" * 32),
    lambda rng, run, n: _event(run, n).replace(b'"sequence": "', b'"sequence": "9999999999999999999'),
    lambda rng, run, n: _event(run, n).replace(b'"2025', b'"9999'),
    lambda rng, run, n: _event(run, n).replace(b'"2025-01-01T00:00:00', b'"0001-01-01T00:00:00'),
    lambda rng, run, n: _event(run, n).replace(b'000Z"', b'000+99:99"'),
    lambda rng, run, n: _event(run, n).replace(b'"specversion": "1.0"', b'"specversion": "1.0", "specversion": "0.3"'),
    lambda rng, run, n: b"\xef\xbb\xbf" + _event(run, n),
    lambda rng, run, n: _event(run, n).decode().encode("utf-16"),
    lambda rng, run, n: _event(run, n) * 2,
    lambda rng, run, n: b" " * 1_000_000 + _event(run, n)[:48_000],
    lambda rng, run, n: b"x" * (1024 * 1024 + 1),
    lambda rng, run, n: b"[]",
    lambda rng, run, n: b"0",
    lambda rng, run, n: rng.randbytes(rng.randrange(1, 4096)),
)

#: Run ids that something might take for its own.
ODD_RUN_IDS = (
    "__faust\0offset__",
    "\0",
    " ",
    "../../etc/passwd",
    "a" * 1000,
    "\U0001f4a9" * 200,
    "\u202e\u2066",
    "null",
    "*",
    "policy",
    "\u00ffpolicy",
    "%s%s%n",
    "{run_id}",
)


def hostile_records(*, seed: int, count: int, partitions: int, monsters_every: int = 500) -> Iterator[tuple[Input, bool]]:
    """Yield good events of many runs among changed ones and monsters, in the partition of their key, and whether it is good."""
    rng = random.Random(seed)
    runs = [RunEvents(f"fuzz-{number:04d}", partitions) for number in range(200)]
    runs += [RunEvents(run_id, partitions) for run_id in ODD_RUN_IDS]
    for number in range(count):
        run = runs[0] if rng.random() < LOOPING else rng.choice(runs)
        if number % monsters_every == monsters_every - 1:
            monster = MONSTERS[number // monsters_every % len(MONSTERS)]
            yield _placed(rng, monster(rng, run.run_id, partitions), run, partitions), False
            continue
        if not run.made:
            _next_events(rng, run, looping=run is runs[0])
        event = run.made.pop(0)
        if rng.random() < 0.5:  # this one as it is, the others changed
            yield event, True
        else:
            changed = _placed(rng, mutated(rng, event.value or b""), run, partitions)
            yield replace(changed, topic=rng.choice((event.topic, event.topic, "compactions"))), False


def _next_events(rng: random.Random, run: RunEvents, *, looping: bool) -> None:
    match 0 if looping else rng.randrange(4):
        case 0:
            run.call("read", {"path": "a.txt"}, "same")
        case 1:
            run.call("process", {"action": "poll", "sessionId": "p"}, {"status": "running"})
        case 2:
            run.call("serch", {"q": rng.random()}, error="Tool serch not found")
        case _:
            run.call("exec", {"command": f"ls {rng.random()}"}, {"text": str(rng.random())})


def _placed(rng: random.Random, value: bytes, run: RunEvents, partitions: int) -> Input:
    key: bytes | None = run.run_id.encode()
    if rng.random() < 0.1:
        key = rng.choice((None, b"", b"\xff\xfe", rng.randbytes(12), b"somebody-else"))
    return Input("calls", _partition(key, rng, partitions), key, value, _headers(rng))


def _headers(rng: random.Random) -> tuple[tuple[str, bytes], ...]:
    if rng.random() < 0.9:
        return ()
    choices: Sequence[tuple[str, bytes]] = (
        ("content-type", b"application/cloudevents+json"),
        ("content-type", b"application/cloudevents-batch+json"),
        ("content-type", b"\xff"),
        ("ce_specversion", b"1.0"),
        ("CE_Type", b"dev.loopwarden.tool-call.started.v1"),
        ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("", b""),
        ("x" * 1000, b"\x00" * 1000),
        ("loopwarden.error.code", b"forged"),
    )
    return tuple(rng.choice(choices) for _ in range(rng.randrange(1, 4)))


def _partition(key: bytes | None, rng: random.Random, partitions: int) -> int:
    return rng.randrange(partitions) if key is None else int((murmur2(key) & 0x7FFFFFFF) % partitions)
