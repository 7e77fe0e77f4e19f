"""Answers whether a call may go ahead, from the decisions read so far: synchronous, from memory, never an error in the agent."""

import asyncio
import inspect
import logging
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, cast

from aiokafka.structs import ConsumerRecord

from schemas.cloudevents import InvalidEventError
from schemas.decisions import Decision
from schemas.fingerprints import normalize_tool
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.connection import Connection
from streams.gateway import metrics
from streams.gateway.call_identity import FingerprintedCall, fingerprint_call, run_key, tool_name
from streams.gateway.decision_feed import DecisionFeed
from streams.gateway.json_form import NoJsonFormError
from streams.gateway.verdict import ALLOW, ALLOW_STALE, Verdict, verdict_of
from streams.gateway.verdict_map import RUN, RunVerdicts, Standing, VerdictMap

log = logging.getLogger("loopwarden.gateway")

AbortCallback = Callable[[str, Verdict], object]

#: Seconds between two looks at the age of what is known, and at idle runs.
_WATCH_INTERVAL = 1.0


class RunChecker:
    """The memory and the answers of both gates.

    Without `settings` those of the environment hold. `fail` says what happens to calls once decisions could not be read for
    `max_lag` seconds (or not yet): `open` lets them through, `closed` refuses them; either way refusals that are known stay in
    force, the answer is marked `stale` and the log says so once. `look_back` (seconds) reads only decisions of that age at most;
    verdicts that were decided before it are then not known. `on_abort(run_id, verdict)` is called once for each abort, also for
    those that stand when the gate has first read everything; it may be a coroutine function. A run is forgotten `idle_after`
    seconds after its last decision or refusal (default: the settings' `run_ttl` and a day), and at most `max_runs` are kept.
    `fetch_wait` is how long the broker may keep an empty answer back, in seconds: the resolution of `lag_seconds`.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        fail: Literal["open", "closed"] = "open",
        max_lag: float = 30.0,
        look_back: float | None = None,
        on_abort: AbortCallback | None = None,
        max_runs: int = 100_000,
        idle_after: float | None = None,
        fetch_wait: float = 0.1,
    ) -> None:
        if fail not in ("open", "closed"):
            raise ValueError(f'fail: must be "open" or "closed", not {fail!r}')
        self.settings = Settings() if settings is None else settings
        self.on_abort = on_abort
        self._closed_on_failure = fail == "closed"
        self._max_lag = max_lag
        # Workers release what stands when a run has been idle for run_ttl; the day lets that arrive first.
        self._idle_after = self.settings.run_ttl + 86_400.0 if idle_after is None else idle_after
        self._map = VerdictMap(max_runs=max_runs, on_evicted=self._evicted)
        self._runs = self._map.runs
        self._read_once: set[int] = set()
        self._callbacks: set[asyncio.Task[Any]] = set()
        self._watcher: asyncio.Task[None] | None = None
        self._told_stale = False
        self._told_evicted = False
        self._told_failure = False
        #: decisions that could not be read, by a version that is newer or by nobody
        self.unreadable = 0
        self._feed = DecisionFeed(
            connection=Connection.from_settings(self.settings),
            topic=self.settings.topics.decisions,
            look_back=look_back,
            fetch_wait=fetch_wait,
            on_records=self._take,
            on_gap=self._map.forget_partition,
            on_caught_up=self._caught_up,
        )

    # -- answers ---------------------------------------------------------------------------------------------------------------

    def check(
        self,
        run_id: str | None,
        tool: str,
        params: Any = None,
        *,
        call: FingerprintedCall | None = None,
        session_id: str | None = None,
    ) -> Verdict:
        """Say whether a call may go ahead; may be called from any thread.

        `call` is the call's fingerprint when that is known already (else it is made when it is needed). A warning is given once:
        ask once per call, right before it.
        """
        stale = time.monotonic() - self._feed.fresh_at > self._max_lag
        refuses = stale and self._closed_on_failure
        try:
            run = self._runs.get(run_id)  # type: ignore[arg-type]  # anything else is not found
            if run is None:
                run_id = run_key(run_id, session_id)
                run = None if run_id is None else self._runs.get(run_id)
            if run is not None and run.standing:
                found, shadow = _standing(run, *_signature(run, tool, params, call), warnings=not refuses)
                if found is not None or shadow is not None:
                    self._map.heard(run_id or "", time.time())
                    return self._verdict(found, shadow, stale=stale, refuses=refuses)
        except Exception as error:
            if not self._told_failure:
                self._told_failure = True
                log.exception("a call could not be checked, and goes ahead as one that is not known: %s", type(error).__name__)
        if refuses:
            return self._refusal_when_stale()
        return ALLOW_STALE if stale else ALLOW

    def aborted(self, run_id: str) -> Verdict | None:
        """Return the verdict that ends a run, if there is one."""
        run = self._runs.get(run_id)
        found = None if run is None else run.standing.get(RUN)
        return verdict_of(found) if found is not None and found.mode == "enforce" else None

    def forget(self, run_id: str | None, *, session_id: str | None = None) -> None:
        """Forget a run that has ended: its memory is free at once."""
        self._map.forget(run_key(run_id, session_id) or "")

    @property
    def lag_seconds(self) -> float:
        """How old the gate's knowledge is; about `fetch_wait` when all is well, infinite before everything was read once."""
        return time.monotonic() - self._feed.fresh_at

    @property
    def runs(self) -> int:
        """The number of runs that the gate remembers something about."""
        return len(self._runs)

    def _verdict(self, found: Standing | None, shadow: Standing | None, *, stale: bool, refuses: bool) -> Verdict:
        said = None if shadow is None else verdict_of(shadow)
        if said is not None:
            metrics.ANSWERED[said.action, "shadow"].inc()
        if found is not None:
            metrics.ANSWERED[found.action, "enforce"].inc()
            return verdict_of(found, shadow=said, stale=stale)
        return self._refusal_when_stale() if refuses else Verdict(action="allow", shadow=said, stale=stale)

    def _refusal_when_stale(self) -> Verdict:
        metrics.ANSWERED["block", "fail_closed"].inc()
        lag = self.lag_seconds
        age = "have not been read yet" if math.isinf(lag) else f"could not be read for {lag:.0f} seconds"
        reason = f"Verdicts about this run {age}, and calls are not allowed without them; try again later."
        return Verdict(action="block", reason=reason, level="critical", stale=True)

    # -- decisions -------------------------------------------------------------------------------------------------------------

    def _take(self, partition: int, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            if not record.value:
                continue
            try:
                decision = Decision.from_record(record.value, record.headers)
            except InvalidEventError as error:
                if error.code != "unknown_type":
                    self._tell_of_invalid(record, error)
                continue
            self._fold(decision, partition, heard_at=record.timestamp / 1000)

    def _tell_of_invalid(self, record: ConsumerRecord, error: InvalidEventError) -> None:
        metrics.INVALID.inc()
        self.unreadable += 1
        if self.unreadable == 1:
            place = f"{record.topic}[{record.partition}]@{record.offset}"
            log.warning("%s: not a decision that this version reads, skipped as all like it: %s", place, error)

    def _fold(self, decision: Decision, partition: int, *, heard_at: float) -> None:
        known = self._runs.get(decision.run_id)
        if known is not None and known.partition != decision.as_of.partition:
            # Partitions were added: the run began afresh in the partition that it belongs to now.
            if partition_of(decision.run_id, max(1, self._feed.partitions)) != partition:
                return
            self._map.forget(decision.run_id)
        news = self._map.fold(decision, heard_at=heard_at)
        if news and decision.action == "abort" and decision.mode == "enforce" and partition in self._read_once:
            self._tell_of_abort(decision.run_id, verdict_of(Standing.of(decision)))

    def _caught_up(self, partition: int) -> None:
        """Tell of the aborts that stand; before, they may be decisions that were taken back long ago."""
        self._read_once.add(partition)
        for run_id, run in list(self._runs.items()):
            found = run.standing.get(RUN)
            if run.partition == partition and found is not None and found.mode == "enforce":
                self._tell_of_abort(run_id, verdict_of(found))

    def _tell_of_abort(self, run_id: str, verdict: Verdict) -> None:
        if self.on_abort is None:
            return
        try:
            returned = self.on_abort(run_id, verdict)
        except Exception:
            log.exception("on_abort failed")
            return
        if inspect.iscoroutine(returned):
            task = asyncio.get_running_loop().create_task(cast(Coroutine[Any, Any, object], returned))
            self._callbacks.add(task)
            task.add_done_callback(self._callback_ended)

    def _callback_ended(self, task: asyncio.Task[Any]) -> None:
        self._callbacks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("on_abort failed", exc_info=error)

    # -- watching over itself --------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        if self._watcher is None:
            await self._feed.start()
            self._watcher = asyncio.create_task(self._watch(), name="loopwarden gate watch")

    async def _end(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
        await self._feed.stop()

    async def _caught_up_within(self, timeout: float | None) -> bool:  # noqa: ASYNC109  (a limit, not a failure)
        try:
            async with asyncio.timeout(timeout):
                await self._feed.wait_until_caught_up()
        except TimeoutError:
            return False
        return True

    async def _watch(self) -> None:
        started = time.monotonic()
        while True:
            lag = self.lag_seconds
            metrics.LAG.set(lag)
            metrics.RUNS.set(len(self._runs))
            self._map.forget_idle(time.time() - self._idle_after)
            stale = lag > self._max_lag
            if stale and not self._told_stale and time.monotonic() - started > self._max_lag:
                does = "calls are refused (fail closed)" if self._closed_on_failure else "calls go ahead (fail open)"
                log.warning("decisions could not be read for more than %g s: %s, known refusals hold", self._max_lag, does)
                self._told_stale = True
            elif not stale and self._told_stale:
                log.warning("decisions are read again")
                self._told_stale = False
            await asyncio.sleep(_WATCH_INTERVAL)

    def _evicted(self, run_id: str) -> None:
        metrics.EVICTED.inc()
        if not self._told_evicted:
            self._told_evicted = True
            log.warning("more than max_runs runs have standing verdicts: the gate forgets those not heard of for longest")


def _standing(
    run: RunVerdicts, tool_key: str, args_hash: str | None, *, warnings: bool
) -> tuple[Standing | None, Standing | None]:
    """Return what is enforced about a call, and what is only in shadow mode; a warning that is returned is thereby given."""
    shadow: Standing | None = None
    for standing in run.answers(tool_key, args_hash):
        if standing.action == "warn" and not (warnings and run.take_warning(standing)):
            continue
        if standing.mode == "enforce":
            return standing, shadow
        shadow = shadow or standing
    return None, shadow


def _signature(run: RunVerdicts, tool: str, params: Any, call: FingerprintedCall | None) -> tuple[str, str | None]:
    """Return the normalised tool and the args hash; no hash when nothing depends on it, or when there is none."""
    if call is not None:
        return call.tool_key, call.args_hash
    key = normalize_tool(tool_name(tool))
    if not run.is_about(key):
        return key, None
    try:
        return key, fingerprint_call(tool, params).args_hash
    except NoJsonFormError:
        return key, None
