"""One policy for all scenarios that are played side by side: each is an agent of its own."""

from collections.abc import Iterable

from schemas.policy import PolicyDocument
from streams.conformance.vectors import Json


def policy_of_agents(agents: Iterable[tuple[str, Json, str | None]]) -> Json:
    """Return a policy in which each agent, given as (name, a scenario's policy, the scenario's agent id), has its own."""
    return {
        "agents": {
            "list": [
                {
                    "id": name,
                    "tools": {"loopDetection": PolicyDocument.from_mapping(policy).for_agent(agent_id).as_loop_detection()},
                }
                for name, policy, agent_id in agents
            ]
        }
    }
