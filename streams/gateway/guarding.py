"""One tool call from the question to the report: ask the gate, report the start, make the call, report its end."""

import logging
import uuid
from typing import Any

from schemas.fingerprints import MISSING
from streams.gateway.call_identity import FingerprintedCall, fingerprint_call
from streams.gateway.checking import RunChecker
from streams.gateway.json_form import NoJsonFormError
from streams.gateway.refusals import RunAborted, ToolCallRefused
from streams.gateway.reporting import BlockReason, RunReporter
from streams.gateway.run_scope import RunIdentity
from streams.gateway.verdict import Verdict

log = logging.getLogger("loopwarden.gateway")


class GuardedCall:
    """A call that is about to be made, or has been.

    `begin` says whether it may be, `end` how it went; adapters call these, `guard` calls them by itself. Set `result` in a `with`
    block: an outcome that is not known cannot show that a run is stuck.
    """

    def __init__(
        self,
        gate: RunChecker,
        publisher: RunReporter,
        *,
        run: RunIdentity,
        tool: str,
        params: Any = None,
        call_id: str | None = None,
    ) -> None:
        self._gate = gate
        self._publisher = publisher
        self._run = run
        self._facts = run.facts()
        self._call_id = call_id or f"call-{uuid.uuid4().hex[:16]}"
        self.tool = tool
        self.params = params
        self.result: Any = MISSING
        self.verdict: Verdict | None = None
        self._call: FingerprintedCall | None = None
        self._ended = False

    def begin(self) -> Verdict:
        """Ask the gate and report the call as started or blocked; return the verdict."""
        run_id = self._run.run_id
        try:
            self._call = fingerprint_call(self.tool, self.params)
        except NoJsonFormError:
            pass  # the publisher says so; what is known of the run and the tool counts all the same
        except Exception:
            log.exception("a call could not be fingerprinted")
        self.verdict = self._gate.check(run_id, self.tool, self.params, call=self._call, session_id=self._run.session_id)
        if self.verdict.refused:
            decision_id = self.verdict.decision_id
            reason: BlockReason = "loop" if decision_id is not None else "other"
            self._publisher.call_blocked(
                run_id,
                self.tool,
                self.params,
                reason=reason,
                decision_id=decision_id,
                call_id=self._call_id,
                call=self._call,
                **self._facts,
            )
        else:
            self._publisher.call_started(run_id, self.tool, self.params, call_id=self._call_id, call=self._call, **self._facts)
        return self.verdict

    def ensure_allowed(self) -> Verdict:
        """Begin, and raise `RunAborted` or `ToolCallRefused` when the call must not be made."""
        verdict = self.begin()
        if verdict.action == "abort":
            raise RunAborted(verdict)
        if verdict.refused:
            raise ToolCallRefused(verdict)
        return verdict

    def end(self, *, result: Any = MISSING, error: Any = None) -> None:
        """Report how the call went; the first time counts. An interruption is no outcome."""
        if self._ended or self.verdict is None or self.verdict.refused:
            return
        self._ended = True
        if isinstance(error, BaseException) and not isinstance(error, Exception):
            result, error = MISSING, None
        self._publisher.call_finished(
            self._run.run_id,
            self.tool,
            self.params,
            result=result,
            error=error,
            call_id=self._call_id,
            call=self._call,
            **self._facts,
        )
