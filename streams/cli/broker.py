"""`loopwarden broker`: the embedded development broker in the foreground."""

import threading
from typing import Annotated

import typer

from streams.broker import BrokerError, EmbeddedBroker

app = typer.Typer(add_completion=False, rich_markup_mode=None)

#: Seconds between two looks whether the broker still runs.
_LOOK_INTERVAL = 0.5


@app.command(epilog="Example: loopwarden broker --port 9092")
def broker(
    port: Annotated[int, typer.Option(min=0, max=65535, help="port on 127.0.0.1; 0 chooses a free one")] = 9092,
) -> None:
    """Run a Kafka-compatible broker in memory until Ctrl-C, for development.

    Prints its address on the first line. Everything in it is gone when it stops.
    """
    with EmbeddedBroker(port=port) as running:
        typer.echo(running.bootstrap_servers)
        typer.echo("Running until Ctrl-C. The worker needs LOOPWARDEN_IDEMPOTENT_PRODUCER=false here.", err=True)
        forever = threading.Event()
        while not forever.wait(_LOOK_INTERVAL):
            if not running.alive:
                raise BrokerError("the embedded broker has died")
