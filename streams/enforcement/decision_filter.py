"""Which decisions are handed over."""

from dataclasses import dataclass

from schemas.decisions import Action, Decision
from schemas.policy.model import Mode

#: A release asks for nothing to be done, so it is sent only when it is asked for.
DEFAULT_ACTIONS: frozenset[Action] = frozenset({"block", "warn", "abort"})


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionFilter:
    """Lets decisions through by action, mode, detector and agent; None means all of them.

    A decision without an agent is no agent's, so naming agents leaves it out.
    """

    actions: frozenset[Action] = DEFAULT_ACTIONS
    modes: frozenset[Mode] = frozenset({"enforce"})
    detectors: frozenset[str] | None = None
    agents: frozenset[str] | None = None

    def lets_through(self, decision: Decision) -> bool:
        """Return whether a decision is to be handed over."""
        return (
            decision.action in self.actions
            and decision.mode in self.modes
            and (self.detectors is None or decision.detector in self.detectors)
            and (self.agents is None or decision.agent_id in self.agents)
        )
