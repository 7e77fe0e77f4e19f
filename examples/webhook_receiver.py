"""A webhook receiver for `loopwarden enforce webhook`: checks signatures, drops copies, prints what it got.

    export LOOPWARDEN_WEBHOOK_SECRET="whsec_$(openssl rand -base64 32)"
    python examples/webhook_receiver.py --port 8099 &
    loopwarden enforce webhook --url http://127.0.0.1:8099/

It is meant to be read and changed: a real one would cancel the run where `react` prints it. Needs aiohttp and standardwebhooks,
which Loopwarden brings along.
"""

import argparse
import asyncio
import json
import os
import sys
from typing import Any

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

#: Ids of late. One that was answered may come again when the sender was killed before it could record the answer.
REMEMBERED = 10_000


class Receiver:
    """Takes decisions over HTTP."""

    def __init__(self, secret: str) -> None:
        self._webhook = Webhook(secret)
        self._seen: dict[str, None] = {}

    async def receive(self, request: web.Request) -> web.Response:
        """Answer 401 to what is not signed with our secret or too old, else 204 once the decision is dealt with."""
        body = await request.read()
        try:
            event = self._webhook.verify(body, dict(request.headers))
        except (WebhookVerificationError, ValueError):  # ValueError: headers or a body that the package cannot even read
            return web.Response(status=401)
        webhook_id = request.headers["webhook-id"]
        if webhook_id not in self._seen:
            react(event["data"])
            # Only now: had it failed, the sender would come again.
            self._seen[webhook_id] = None
            if len(self._seen) > REMEMBERED:
                del self._seen[next(iter(self._seen))]
        return web.Response(status=204)


def react(decision: dict[str, Any]) -> None:
    """Print a decision on one line; this is where a gateway would act."""
    said = {name: decision.get(name) for name in ("action", "run_id", "agent_id", "detector", "count", "message")}
    print(json.dumps(said), flush=True)


async def serve(receiver: Receiver, *, host: str, port: int) -> None:
    """Serve until cancelled; any path will do."""
    application = web.Application(client_max_size=4 * 1024 * 1024)
    application.router.add_post("/{path:.*}", receiver.receive)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        address, bound = runner.addresses[0][:2]
        print(f"listening on http://{address}:{bound}/", file=sys.stderr, flush=True)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def main() -> None:
    """Read the options and serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Print the decisions that `loopwarden enforce webhook` sends.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8099)
    options = parser.parse_args()
    secret = os.environ.get("LOOPWARDEN_WEBHOOK_SECRET")
    if not secret:
        parser.error("set LOOPWARDEN_WEBHOOK_SECRET to the secret that the worker signs with")
    try:
        asyncio.run(serve(Receiver(secret.split()[0]), host=options.host, port=options.port))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
