"""What a policy may say: OpenClaw's `tools.loopDetection` with per-agent overrides, and our own `loopwarden` block."""

from schemas.policy.document import PolicyDocument
from schemas.policy.effective import EffectivePolicy
from schemas.policy.problems import PolicyError, PolicyProblem
from schemas.policy.reading import parse_policy, read_policy

__all__ = ["EffectivePolicy", "PolicyDocument", "PolicyError", "PolicyProblem", "parse_policy", "read_policy"]
