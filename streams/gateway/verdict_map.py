"""The standing verdicts of runs, folded from their decisions: what a gate answers from."""

from schemas.decisions import Decision

Target = tuple[str | None, str | None]


class VerdictMap:
    """Per run, what the next calls with a target would be told.

    Decisions are folded in the order of their partition. Copies after a crash repeat the same course and end at the same answers;
    on the way a warning that was given may stand once more.
    """

    def __init__(self) -> None:
        self._runs: dict[str, dict[Target, Decision]] = {}

    def fold(self, decision: Decision) -> None:
        """Take in the next decision."""
        target = (decision.target.tool, decision.target.args_hash)
        verdicts = self._runs.setdefault(decision.run_id, {})
        if decision.action == "release":
            verdicts.pop(target, None)
            if not verdicts:
                del self._runs[decision.run_id]
        else:
            verdicts[target] = decision

    def lookup(self, run_id: str, tool: str, args_hash: str) -> Decision | None:
        """Return the decision that answers for a call: about the run, else its tool, else its signature.

        `tool` is the normalised name (`schemas.fingerprints.normalize_tool`).
        """
        verdicts = self._runs.get(run_id)
        if verdicts is None:
            return None
        return verdicts.get((None, None)) or verdicts.get((tool, None)) or verdicts.get((tool, args_hash))

    def take_warning(self, run_id: str, decision: Decision) -> None:
        """Forget a warning that was given: it is given once."""
        verdicts = self._runs.get(run_id, {})
        target = (decision.target.tool, decision.target.args_hash)
        if verdicts.get(target) == decision:
            del verdicts[target]

    def forget(self, run_id: str) -> None:
        """Forget a run."""
        self._runs.pop(run_id, None)
