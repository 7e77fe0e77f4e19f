"""Audits: replay what was judged, compare it with what was published, explain it, and try other policies on it.

`Replayer` is the pure core, also for tests and notebooks: feed it the events of a partition, it gives the decisions.
"""

from streams.audit.inputs import Input, InputReader, InputRecord
from streams.audit.policy_timeline import Era, timeline
from streams.audit.replayer import Recomputed, Replayer

__all__ = ["Era", "Input", "InputReader", "InputRecord", "Recomputed", "Replayer", "timeline"]
