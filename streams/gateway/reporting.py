"""What an agent reports about its runs, and how it becomes events: never slow, and never an error in the agent."""

import logging
import platform
from collections.abc import Callable
from typing import Any, Literal, TypedDict, Unpack

from pydantic import ValidationError

from schemas.cloudevents import describe
from schemas.fingerprints import MISSING
from schemas.settings import Settings
from streams.connection import Connection
from streams.gateway.call_identity import FingerprintedCall, fingerprint_call, run_key
from streams.gateway.delivery import Delivery
from streams.gateway.event_writer import Content, EventWriter, Outcome, WrittenEvent
from streams.gateway.json_form import NoJsonFormError
from streams.gateway.outbox import Outbox
from streams.gateway.sequence_clock import PROCESS_CLOCK

log = logging.getLogger("loopwarden.gateway")

BlockReason = Literal["loop", "policy", "approval", "other"]

#: Reasons of unfingerprintable values that are logged; each names a type, of which a program has few.
_MAX_REASONS_LOGGED = 100


class RunFacts(TypedDict, total=False):
    """What every report may say about its run."""

    session_id: str | None
    agent_id: str | None
    parent_run_id: str | None
    round: int | str | None


class RunReporter:
    """The reports of both publishers; each method returns at once, may be called from any thread and never raises.

    Every report takes `run_id`, or `session_id` alone at a gateway without run ids, and may name `agent_id`, `session_id`,
    `parent_run_id` and `round`. `tool` and `params` are what the model asked for. Events are numbered in the order of the calls.

    Without `settings` those of the environment hold; `agent_id` is the one of reports that name none. `content` is `hash`
    (nothing but fingerprints leaves the process), `preview` or `full`. `linger` is how long an event may wait for company, in
    seconds. What is reported before the start, or while Kafka is away, is kept up to `buffer_events` events and `buffer_bytes`
    bytes, then dropped, counted in `dropped` and told of by the run's next event.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        source: str | None = None,
        content: Content = "hash",
        agent_id: str | None = None,
        buffer_events: int = 10_000,
        buffer_bytes: int = 64 * 1024 * 1024,
        linger: float = 0.005,
    ) -> None:
        self.settings = Settings() if settings is None else settings
        self._agent_id = agent_id
        self._outbox = Outbox(max_events=buffer_events, max_bytes=buffer_bytes)
        self._logged: set[str] = set()
        self._closed = False
        self._writer = EventWriter(
            topics=self.settings.topics,
            source=source or f"/loopwarden/gateway/{platform.node()}",
            content=content,
            max_event_bytes=self.settings.max_event_bytes,
            clock=PROCESS_CLOCK,
            on_unknown_outcome=lambda reason: self._log_once(f"an outcome is sent as not known: {reason}"),
        )
        self._delivery = Delivery(
            self._outbox,
            connection=Connection.from_settings(self.settings),
            topics=self.settings.topics,
            idempotent=self.settings.idempotent_producer,
            max_event_bytes=self.settings.max_event_bytes,
            linger=linger,
        )

    # -- reports -----------------------------------------------------------------------------------------------------------------

    def call_started(
        self,
        run_id: str | None,
        tool: str,
        params: Any = None,
        *,
        call_id: str | None = None,
        call: FingerprintedCall | None = None,
        **facts: Unpack[RunFacts],
    ) -> None:
        """Report that a call goes ahead; `call` is its fingerprint when that is known already."""
        self._report_call(self._writer.started, run_id, tool, params, call, {"call_id": call_id, **facts})

    def call_finished(
        self,
        run_id: str | None,
        tool: str,
        params: Any = None,
        *,
        result: Any = MISSING,
        error: Any = None,
        call_id: str | None = None,
        call: FingerprintedCall | None = None,
        **facts: Unpack[RunFacts],
    ) -> None:
        """Report how a call ended: with a `result`, with an `error` (an exception or a JSON value), or not known how."""
        outcome = Outcome(result, error)

        def write(run: str, fingerprinted: FingerprintedCall, given: dict[str, Any]) -> WrittenEvent:
            return self._writer.finished(run, fingerprinted, outcome, given)

        self._report_call(write, run_id, tool, params, call, {"call_id": call_id, **facts})

    def call_blocked(
        self,
        run_id: str | None,
        tool: str,
        params: Any = None,
        *,
        reason: BlockReason = "loop",
        decision_id: str | None = None,
        call_id: str | None = None,
        call: FingerprintedCall | None = None,
        **facts: Unpack[RunFacts],
    ) -> None:
        """Report that a call was refused and did not run; `decision_id` is the verdict's when that was the reason."""
        given = {"call_id": call_id, "reason": reason, "decision_id": decision_id, **facts}
        self._report_call(self._writer.blocked, run_id, tool, params, call, given)

    def compaction(
        self,
        run_id: str | None,
        *,
        will_retry: bool,
        trigger: str | None = None,
        tokens_before: int | None = None,
        tokens_after: int | None = None,
        **facts: Unpack[RunFacts],
    ) -> None:
        """Report that the context was compacted; `will_retry` when the interrupted turn is tried again, which arms the guard."""
        given = {
            "will_retry": will_retry,
            "trigger": trigger,
            "tokens_before": tokens_before,
            "tokens_after": tokens_after,
            **facts,
        }
        self._report(lambda run, known: self._writer.compaction(run, known), run_id, given | facts)

    def run_ended(self, run_id: str | None, *, status: str | None = None, **facts: Unpack[RunFacts]) -> None:
        """Report that a run is over."""
        self._report(lambda run, known: self._writer.ended(run, known), run_id, {"status": status, **facts})

    # -- what became of them -----------------------------------------------------------------------------------------------------

    @property
    def dropped(self) -> int:
        """Events that did not and will not reach Kafka."""
        return self._outbox.dropped

    @property
    def published(self) -> int:
        """Events that the broker has acknowledged."""
        return self._outbox.published

    @property
    def pending(self) -> int:
        """Events that wait for Kafka."""
        return self._outbox.pending

    @property
    def ends(self) -> dict[tuple[str, int], int]:
        """The offset after the last event sent, by topic and partition."""
        return dict(self._delivery.ends)

    # -- inside ------------------------------------------------------------------------------------------------------------------

    def _report_call(
        self,
        write: Callable[[str, FingerprintedCall, dict[str, Any]], WrittenEvent],
        run_id: str | None,
        tool: str,
        params: Any,
        call: FingerprintedCall | None,
        facts: dict[str, Any],
    ) -> None:
        self._report(lambda run, known: write(run, call or fingerprint_call(tool, params), known), run_id, facts)

    def _report(self, write: Callable[[str, dict[str, Any]], WrittenEvent], run_id: str | None, facts: dict[str, Any]) -> None:
        run: str | None = None
        lost = 0
        try:
            run = run_key(run_id, facts.get("session_id"))
            if run is None:
                self._outbox.drop(None, "invalid")
                self._log_once("an event is not sent: it needs run_id or session_id")
                return
            if self._closed:
                self._outbox.drop(run, "closed")
                return
            if self._outbox.full:
                self._outbox.drop(run, "buffer_full")
                return
            if self._agent_id is not None and facts.get("agent_id") is None:
                facts["agent_id"] = self._agent_id
            lost = self._outbox.losses_of(run)
            if lost:
                facts["lost_events"] = lost
            self._outbox.put(write(run, facts))
            self._delivery.wake()
        except NoJsonFormError as error:
            self._outbox.drop(run, "no_json_form", before=lost)
            self._log_once(f"a call is not watched: {error}")
        except Exception as error:
            self._outbox.drop(run, "invalid", before=lost)
            self._log_once(f"an event is not sent, it cannot be written: {_without_content(error)}")

    def _log_once(self, text: str) -> None:
        if text not in self._logged and len(self._logged) < _MAX_REASONS_LOGGED:
            self._logged.add(text)
            log.warning("%s", text)


def _without_content(error: Exception) -> str:
    return describe(error, within="data") if isinstance(error, ValidationError) else type(error).__name__
