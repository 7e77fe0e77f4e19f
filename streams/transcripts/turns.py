"""What a log leaves open about turns: whether a compaction was followed by a retry, and where a run ends."""

from collections.abc import Iterable, Iterator

from streams.transcripts.items import (
    CallFinished,
    Compacted,
    Copied,
    Item,
    NotUnderstood,
    PromptGiven,
    RunFinished,
    RunItem,
    RunRef,
)


def settle_retries(items: Iterable[Item]) -> Iterator[Item]:
    """Say of each compaction that does not say it whether the turn went on by itself.

    It did when the run's next item is the agent's and no prompt, the end or another compaction. Outcomes of calls made before say
    nothing; they wait with the compaction. Items of other runs are not held up.
    """
    waiting: dict[str, list[RunItem]] = {}
    for item in items:
        if isinstance(item, NotUnderstood | Copied):
            yield item
            continue
        held = waiting.get(item.run.run_id)
        if held is not None:
            if isinstance(item, CallFinished):
                held.append(item)
                continue
            del waiting[item.run.run_id]
            goes_on = not isinstance(item, PromptGiven | Compacted | RunFinished)
            yield from _settled(held, will_retry=goes_on)
        if isinstance(item, Compacted) and item.will_retry is None:
            waiting[item.run.run_id] = [item]
        else:
            yield item
    for held in waiting.values():
        yield from _settled(held, will_retry=False)


def _settled(held: list[RunItem], *, will_retry: bool) -> Iterator[RunItem]:
    for item in held:
        yield item._replace(will_retry=will_retry) if isinstance(item, Compacted) else item


def split_turns(items: Iterable[Item]) -> Iterator[Item]:
    """Make each turn a run of its own, `<run>#<number>`: what was asked for before does not count against it.

    A prompt without anything of the agent before it does not begin another turn.
    """
    turns: dict[str, tuple[int, bool]] = {}
    for item in items:
        if isinstance(item, NotUnderstood | Copied):
            yield item
            continue
        run = item.run
        number, used = turns.get(run.run_id, (1, False))
        if isinstance(item, PromptGiven):
            number, used = (number + 1, False) if used else (number, False)
        else:
            used = True
        turns[run.run_id] = (number, used)
        part = RunRef(f"{run.run_id}#{number}", run.session_id or run.run_id, run.agent_id, run.parent_run_id)
        yield item._replace(run=part)
