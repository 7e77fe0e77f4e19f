"""Hostile input: through the decoding layer in this process, and through a real worker."""

import time
from collections import Counter

from schemas.cloudevents import InvalidEventError
from schemas.policy import PolicyDocument
from schemas.settings import Settings
from streams.detection import state_codec
from streams.detection.engine import apply
from streams.detection.run_state import RunState
from streams.processor.dead_letters import dead_letter
from streams.processor.intake import read_record
from streams.transport import DeliveredRecord
from tests.faults.catalogue import Bench, fault
from tests.faults.checking.comparison import differing_fields
from tests.faults.scene import PARTITIONS, POLICY, FaultError
from tests.faults.workload.events import RunEvents
from tests.faults.workload.hostile import hostile_records

#: Seconds that one record of at most 1 MiB may take, on a busy machine: a partition that waits longer counts as stopped.
LONGEST = 5.0

#: A state must fit into one record of the changelog.
LARGEST_STATE = 1024 * 1024

#: MiB that a worker may hold while it reads hostile records: the interpreter, batches under way, decoded runs.
LARGEST_WORKER = 600


@fault("fuzz, decoding and engine", brokers=["embedded"], in_pytest=("embedded",))
async def fuzz_in_process(bench: Bench) -> None:
    """Every record is applied or refused with a reason, nothing else; states and decisions can always be written."""
    count = bench.choose(quick=6_000, ci=40_000, long=900_000)
    settings, policy = Settings(), PolicyDocument.from_mapping(dict(POLICY))
    states: dict[tuple[int, str], RunState] = {}
    offsets: Counter[tuple[str, int]] = Counter()
    applied, refused, slowest = 0, Counter[str](), 0.0
    names = {"calls": settings.topics.tool_calls, "compactions": settings.topics.compactions}
    for made, good in hostile_records(seed=31, count=count, partitions=PARTITIONS):
        place = (names[made.topic], made.partition)
        record = DeliveredRecord(*place, offsets[place], 0, made.key, made.value, made.headers)
        offsets[place] += 1
        began = time.perf_counter()
        try:
            run_id, facts = read_record(record, settings=settings)
        except InvalidEventError as error:
            refused[error.code] += 1
            if good:
                raise FaultError(f"a good event was refused: {error}") from None
            letter = dead_letter(record, error, group="g")
            if (letter.key, letter.value, tuple(letter.headers[: len(made.headers)])) != (made.key, made.value, made.headers):
                raise FaultError(f"dead letter of {place} is not the record") from None
        else:
            applied += 1
            state = states.setdefault((made.partition, run_id), RunState(run_id))
            outcome = apply(state, facts, policy)
            stored = state_codec.encode(state)
            again = state_codec.encode(state_codec.decode(run_id, stored))
            if len(stored) > LARGEST_STATE or differing_fields((0, run_id), stored, again):
                raise FaultError(f"state of {run_id!r}: {len(stored)} bytes, or not the same after it was read")
            for decision in outcome.decisions:
                decision.to_record(source="s")
        slowest = max(slowest, time.perf_counter() - began)
    if slowest > LONGEST:
        raise FaultError(f"a record took {slowest:.1f} s")
    bench.tally.times += count
    codes = ", ".join(f"{code} {number}" for code, number in refused.most_common())
    bench.tally.note(f"{applied} applied; refused: {codes}; slowest record {slowest * 1000:.0f} ms")


@fault("fuzz, through a worker", in_pytest=("kafka",))
async def fuzz_through_a_worker(bench: Bench) -> None:
    """A real worker on RocksDB: every valid event applied, every other record dead-lettered as it came, memory bounded."""
    count = bench.choose(quick=3_000, ci=10_000, long=100_000)
    async with bench.scene(settings={"store": "rocksdb://"}) as scene:
        worker = scene.start_worker()
        hostile = hostile_records(seed=32, count=count, partitions=PARTITIONS, monsters_every=50)
        records = [record for record, _ in hostile]
        began = time.monotonic()
        for start in range(0, count, 2000):
            await scene.publish(records[start : start + 2000])
        await scene.until_committed(patience=600)
        held = worker.peak_resident_bytes / 2**20
        bench.tally.note(f"{time.monotonic() - began:.0f} s, worker {held:.0f} MiB")
        bench.tally.add(await scene.verdict(), times=count)
        if held > LARGEST_WORKER:
            raise FaultError(f"the worker held {held:.0f} MiB")


@fault("many runs of one producer")
async def many_runs(bench: Bench) -> None:
    """100,000 runs with two events each: the decoded ones stay few."""
    runs = bench.choose(quick=10_000, ci=100_000, long=100_000)
    async with bench.scene() as scene:
        worker = scene.start_worker()
        began = time.monotonic()
        for start in range(0, runs, 5000):
            records = []
            for number in range(start, start + 5000):
                run = RunEvents(f"run-{number:06d}", PARTITIONS)
                run.call("read", {"n": number}, "ok")
                records += run.made
            if start == 0:  # without any decision there is nothing to compare
                for number in range(3):
                    run = RunEvents(f"loop-{number}", PARTITIONS)
                    for _ in range(15):
                        run.call("read", {"path": "a"}, "same")
                    records += run.made
            await scene.publish(records)
        await scene.until_committed(patience=600)
        held = worker.peak_resident_bytes / 2**20
        bench.tally.note(f"{time.monotonic() - began:.0f} s, worker {held:.0f} MiB")
        bench.tally.add(await scene.verdict(), times=runs)
        if held > LARGEST_WORKER:
            raise FaultError(f"the worker held {held:.0f} MiB")
