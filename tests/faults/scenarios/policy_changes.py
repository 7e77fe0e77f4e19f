"""Policies that change while workers are killed: what was decided must be what the markers say it was decided by."""

import asyncio
import json
import os
import random
import signal
import sys
import time

from tests.faults.catalogue import Bench, fault
from tests.faults.checking import Differences
from tests.faults.making.plan import POINTS, FaultPlan
from tests.faults.making.worker_processes import ROOT, environment_of
from tests.faults.scenarios.kills import pieces
from tests.faults.scene import PARTITIONS, Scene
from tests.faults.workload import make_workload

#: Policies that judge the same runs differently.
POLICIES = (
    {"tools": {"loopDetection": {"enabled": True, "warningThreshold": 5, "criticalThreshold": 9}}},
    {"tools": {"loopDetection": {"enabled": True}}},
    {"tools": {"loopDetection": {"enabled": False}}},
    {"tools": {"loopDetection": {"enabled": True, "historySize": 12, "warningThreshold": 4, "criticalThreshold": 8}}},
)


@fault("policy changes while workers are killed", in_pytest=("embedded", "kafka"))
async def policy_changes(bench: Bench) -> None:
    """Killed at named points and at random around changes of policy; an audit then recomputes every decision from the markers."""
    kills = bench.choose(quick=3, ci=5, long=40)
    rng = random.Random(51)
    points = [point for point in POINTS if "misrouted" not in point]
    workload = make_workload(seed=51, runs=30, calls=15 * (kills + 1), partitions=PARTITIONS)
    async with bench.scene() as scene:
        for number, part in enumerate(pieces(workload, kills + 1)):
            last = number == kills
            plan = None if last or number % 2 else FaultPlan(point=points[number % len(points)], passing=rng.randint(1, 6))
            began = time.monotonic()
            worker = scene.start_worker(plan)
            half = len(part) // 2
            await scene.publish(part[:half])
            await scene.publish_policy(POLICIES[number % len(POLICIES)])
            await scene.publish(part[half:])
            if last:
                await scene.until_committed()
                recovery = time.monotonic() - began
                await scene.until_judged(worker)
            else:
                await asyncio.sleep(rng.uniform(2.0, 4.0))  # long enough to come up, short enough to be in the middle of it
                worker.send(signal.SIGKILL)
                await scene.until_ended(worker)
                bench.tally.times += 1
        bench.tally.add(await audited(scene), recovery=recovery)


async def audited(scene: Scene) -> Differences:
    """Have `loopwarden audit verify` recompute everything, and count its findings."""
    command = [sys.executable, "-m", "streams.cli", "audit", "verify", "--json"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env={**os.environ, **environment_of(scene.settings)}, stdout=-1, stderr=-1
    )
    out, err = await process.communicate()
    if process.returncode not in (0, 1):
        raise scene.failure(f"audit verify ended with exit code {process.returncode}: {err.decode()[-2000:]}")
    found = json.loads(out.splitlines()[-1])
    if not found["equal"] or found["not_reproducible"] or found["not_yet"]:
        raise scene.failure(f"the audit shows nothing: {found}")
    return Differences(
        missing=found["missing"],
        extra=found["extra"],
        wrong=found["different"] + found["unreadable"],
        copies=found["copies"],
        examples=[line.decode() for line in out.splitlines()[:3]] if process.returncode else [],
    )
