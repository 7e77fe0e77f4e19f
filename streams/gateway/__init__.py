"""What an agent or a gateway needs: report calls, ask before each, and be refused when a run is stuck."""

from streams.gateway.gate import SyncVerdictGate, VerdictGate
from streams.gateway.guard import guard
from streams.gateway.publisher import EventPublisher, SyncEventPublisher
from streams.gateway.refusals import RunAborted, ToolCallRefused
from streams.gateway.run_scope import run_scope
from streams.gateway.verdict import Verdict

__all__ = [
    "EventPublisher",
    "RunAborted",
    "SyncEventPublisher",
    "SyncVerdictGate",
    "ToolCallRefused",
    "Verdict",
    "VerdictGate",
    "guard",
    "run_scope",
]
