"""Items as the engine takes them in.

The facts are those that `streams.detection.facts.facts_of` finds in the item's event (a test compares the two on every sample);
without the event in between this takes a third of the time.
"""

from schemas.fingerprints import MISSING, args_hash, is_poll, normalize_tool, outcome_fingerprint
from streams.detection.facts import OUTCOME_DIGEST_BYTES, Facts, RunPartition
from streams.transcripts.items import CallBlocked, CallFinished, CallStarted, Compacted, RunFinished

#: Stands for the topic in decisions about logs.
LOG = RunPartition("log", 0)


def item_facts(
    item: CallStarted | CallFinished | CallBlocked | Compacted | RunFinished, *, sequence: int, offset: int, time: int
) -> Facts:
    """Return the facts of an item.

    `sequence` and `offset` are its places in its run and among all items; `time` stands in for a missing one. Raises `TypeError`
    and `ValueError` for content that cannot be hashed.
    """
    run = item.run
    session_id, agent_id = run.session_id and _whole(run.session_id), run.agent_id and _whole(run.agent_id)
    moment = item.time if item.time is not None else time
    if isinstance(item, Compacted):
        arms = item.will_retry is True
        return Facts("compaction", LOG, offset, moment, sequence, session_id, agent_id, arms=arms)
    if isinstance(item, RunFinished):
        return Facts("ended", LOG, offset, moment, sequence, session_id, agent_id)
    tool, call_id = _whole(normalize_tool(item.tool)), item.call_id and _whole(item.call_id)
    key = (tool, bytes.fromhex(item.args_hash or args_hash(item.params)))
    poll = bool(item.poll) if item.poll is not None or item.params is MISSING else is_poll(tool, item.params)
    if not isinstance(item, CallFinished):
        kind = "started" if isinstance(item, CallStarted) else "blocked"
        return Facts(
            kind,  # type: ignore[arg-type]  # mypy takes the two literals for a str
            LOG,
            offset,
            moment,
            sequence,
            session_id,
            agent_id,
            call_id,
            key,
            poll,
        )
    outcome, missing = _outcome(item)
    unknown_tool = missing and _whole(missing)
    return Facts("finished", LOG, offset, moment, sequence, session_id, agent_id, call_id, key, poll, outcome, unknown_tool)


def _whole(name: str) -> str:
    # Logs may cut a name in the middle of a character: a lone surrogate, which decisions and states cannot hold.
    return name if name.isascii() else name.encode(errors="replace").decode()


def _outcome(item: CallFinished) -> tuple[bytes | None, str | None]:
    known, unknown_tool = item.outcome_hash, item.unknown_tool
    if known is None:
        params = None if item.params is MISSING else item.params
        found = outcome_fingerprint(item.tool, params, result=item.result, error=item.error)
        # The reader knows how its system says that a tool does not exist; the fingerprint knows only the reference's words.
        known, unknown_tool = found.outcome_hash, found.unknown_tool or item.unknown_tool
    if known is None:
        return None, None
    return bytes.fromhex(known)[:OUTCOME_DIGEST_BYTES], unknown_tool.lower() if unknown_tool else None
