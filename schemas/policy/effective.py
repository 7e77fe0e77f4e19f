"""The policy as it holds for one agent: every setting a plain value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from schemas.policy.model import Mode

#: A state must fit into one record of the changelog (1 MiB): 1,000 calls with the longest ids take 0.8 MB.
MAX_HISTORY_SIZE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicy:
    """The settings that hold for an agent after overlay, defaults and raising.

    The field defaults are the reference's; they are what an empty policy means. `version` is that of the whole document the
    settings come from.
    """

    #: True: detectors and guard run. None (never set): only the guard runs. False: nothing runs and calls are not recorded.
    enabled: bool | None = None
    #: Calls kept per run, at most `MAX_HISTORY_SIZE`.
    history_size: int = 30
    warning_threshold: int = 10
    critical_threshold: int = 20
    global_circuit_breaker_threshold: int = 30
    unknown_tool_threshold: int = 10
    generic_repeat: bool = True
    known_poll_no_progress: bool = True
    ping_pong: bool = True
    #: Outcomes looked at after a compaction, all of which must be alike for an abort.
    guard_window: int = 3
    mode: Mode = "enforce"
    #: Detectors whose verdicts are only reported, whatever `mode` says.
    shadow_detectors: frozenset[str] = frozenset()
    version: str = ""

    @property
    def detectors_on(self) -> bool:
        """Whether the rolling detectors judge calls."""
        return self.enabled is True

    @property
    def records_calls(self) -> bool:
        """Whether started calls enter the history; outcomes do so in any case."""
        return self.enabled is not False

    @property
    def guard_on(self) -> bool:
        """Whether the post-compaction guard runs."""
        return self.enabled is not False

    def mode_of(self, detector: str) -> Mode:
        """Return whether verdicts of this detector are to be enforced or only reported."""
        return "shadow" if detector in self.shadow_detectors else self.mode

    def as_loop_detection(self) -> dict[str, Any]:
        """Return an explicit `tools.loopDetection` block that resolves to these settings again.

        An unset `enabled` is written as null, so that the block hides another one below it.
        """
        return {
            "enabled": self.enabled,
            "historySize": self.history_size,
            "warningThreshold": self.warning_threshold,
            "criticalThreshold": self.critical_threshold,
            "globalCircuitBreakerThreshold": self.global_circuit_breaker_threshold,
            "unknownToolThreshold": self.unknown_tool_threshold,
            "detectors": {
                "genericRepeat": self.generic_repeat,
                "knownPollNoProgress": self.known_poll_no_progress,
                "pingPong": self.ping_pong,
            },
            "postCompactionGuard": {"windowSize": self.guard_window},
        }

    @classmethod
    def resolve(cls, *, loop_detection: Mapping[str, Any], loopwarden: Mapping[str, Any], version: str = "") -> Self:
        """Fill in defaults and raise thresholds that are not above the one below them.

        The blocks are overlaid ones in OpenClaw's spelling, whose values are valid or null; null means the default.
        """
        detectors = loop_detection.get("detectors") or {}
        guard = loop_detection.get("postCompactionGuard") or {}
        given: dict[str, Any] = {
            "enabled": loop_detection.get("enabled"),
            "history_size": loop_detection.get("historySize"),
            "warning_threshold": loop_detection.get("warningThreshold"),
            "critical_threshold": loop_detection.get("criticalThreshold"),
            "global_circuit_breaker_threshold": loop_detection.get("globalCircuitBreakerThreshold"),
            "unknown_tool_threshold": loop_detection.get("unknownToolThreshold"),
            "generic_repeat": detectors.get("genericRepeat"),
            "known_poll_no_progress": detectors.get("knownPollNoProgress"),
            "ping_pong": detectors.get("pingPong"),
            "guard_window": guard.get("windowSize"),
            "mode": loopwarden.get("mode"),
            "shadow_detectors": frozenset(loopwarden.get("shadow") or ()),
        }
        settings = {name: value for name, value in given.items() if value is not None}
        unraised = cls(**settings, version=version)
        critical = max(unraised.critical_threshold, unraised.warning_threshold + 1)
        breaker = max(unraised.global_circuit_breaker_threshold, critical + 1)
        settings["history_size"] = min(unraised.history_size, MAX_HISTORY_SIZE)
        settings |= {"critical_threshold": critical, "global_circuit_breaker_threshold": breaker}
        return cls(**settings, version=version)
