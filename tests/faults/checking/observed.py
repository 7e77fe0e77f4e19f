"""What came out: read back from the topics, the changelog and the committed offsets."""

from aiokafka.structs import ConsumerRecord

from schemas.cloudevents import InvalidEventError
from schemas.decisions import Decision
from schemas.settings import Settings
from streams.detection import state_codec
from streams.processor.partition_policy import POLICY_KEY
from tests.faults.checking.expected import payload, standing
from tests.faults.checking.log_reader import LogReader
from tests.faults.checking.outcome import Outcome

#: Headers that say why a record is a dead letter: how their names begin, and their number.
_REASON = "loopwarden.error."
_REASONS = 7


async def observe(reader: LogReader, *, settings: Settings, partitions: int) -> Outcome:
    """Read everything that the group of the settings has left behind."""
    outcome = Outcome()
    topics = settings.topics
    for records in await reader.read(topics.decisions, partitions):
        _take_decisions(records, outcome)
    for topic in topics.inputs:
        for records in await reader.read(topics.dead_letters(topic), partitions):
            _take_dead_letters(records, outcome)
    for number, records in enumerate(await reader.read(topics.changelog(settings.group), partitions)):
        _take_states(number, records, outcome)
    for topic in topics.inputs:
        for number in range(partitions):
            outcome.offsets[topic, number] = await reader.committed(topic, number)
    return outcome


def _take_decisions(records: list[ConsumerRecord], outcome: Outcome) -> None:
    decisions = []
    for record in records:
        try:
            decision = Decision.from_record(record.value or b"", record.headers)
        except InvalidEventError as error:
            if error.code != "unknown_type":
                outcome.contradictions.append(f"{record.topic}[{record.partition}]@{record.offset}: no decision: {error}")
            continue
        decisions.append(decision)
        said = payload(decision)
        if outcome.decisions.setdefault(decision.decision_id, said) != said:
            outcome.contradictions.append(f"decision {decision.decision_id} has two payloads")
    outcome.written += len(decisions)
    # As section 7 has it: who reads decisions drops the copies, by their id.
    first = {decision.decision_id: decision for decision in reversed(decisions)}
    kept = [decision for decision in decisions if first[decision.decision_id] is decision]
    outcome.standing.update(standing(kept))
    outcome.standing_with_copies.update(standing(decisions))


def _take_dead_letters(records: list[ConsumerRecord], outcome: Outcome) -> None:
    for record in records:
        # Ours are the last ones; what came may have had headers of these names too.
        came, ours = record.headers[:-_REASONS], record.headers[-_REASONS:]
        reasons = {name.removeprefix(_REASON): value.decode() for name, value in ours}
        place = (reasons["topic"], int(reasons["partition"]), int(reasons["offset"]))
        letter = (record.key, record.value, tuple(came))
        if outcome.dead_letters.setdefault(place, letter) != letter:
            outcome.contradictions.append(f"dead letter of {place} came twice, differently")


def _take_states(number: int, records: list[ConsumerRecord], outcome: Outcome) -> None:
    """Fold a changelog as a recovery does: the later record wins unless it holds less."""
    found: dict[bytes, bytes] = {}
    for record in records:
        if record.key == POLICY_KEY:
            continue
        if record.value is None:
            found.pop(record.key, None)
        elif record.key not in found or state_codec.is_newer(found[record.key], record.value):
            found[record.key] = record.value
    for key, value in found.items():
        run_id = key.decode()
        if state_codec.decode(run_id, value).ended:
            outcome.ended.add((number, run_id))
        else:
            outcome.states[number, run_id] = value
