"""`loopwarden worker`: watches runs and publishes decisions."""

import asyncio
import io
import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import faust
import typer

from schemas.policy import PolicyDocument, read_policy
from streams.cli.logs import configure_logs
from streams.cli.options import Bootstrap, TopicPrefix, settings_with
from streams.processor import create_app
from streams.processor.start_check import ready_topics

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_NO_POLICY = (
    "no policy: only the post-compaction guard runs. To switch the detectors on, write "
    '{"tools": {"loopDetection": {"enabled": true}}} into a file and give it with --policy'
)


@app.command(epilog="Example: loopwarden worker --bootstrap kafka:9092 --policy policy.json5")
def worker(
    bootstrap: Bootstrap = None,
    policy: Annotated[Path | None, typer.Option("--policy", help="policy file, JSON5 [env: LOOPWARDEN_POLICY_FILE]")] = None,
    topic_prefix: TopicPrefix = None,
    group: Annotated[str | None, typer.Option("--group", help="consumer group [env: LOOPWARDEN_GROUP]")] = None,
    store: Annotated[str | None, typer.Option("--store", help="memory:// or rocksdb:// [env: LOOPWARDEN_STORE]")] = None,
) -> None:
    """Read events, keep the runs, publish decisions, until SIGTERM or Ctrl-C.

    One process is one worker; start more of the same group to share the partitions. All other settings are environment
    variables LOOPWARDEN_*.
    """
    settings = settings_with(bootstrap_servers=bootstrap, policy_file=policy, topic_prefix=topic_prefix, group=group, store=store)
    configure_logs(settings.log_format)
    document = read_policy(settings.policy_file) if settings.policy_file is not None else PolicyDocument.from_mapping({})
    if settings.policy_file is None:
        logging.getLogger("loopwarden").warning(_NO_POLICY)
    partitions = asyncio.run(ready_topics(settings))
    faust_app = create_app(settings, document, partitions=partitions, on_failure=_give_up)
    faust.Worker(
        faust_app,
        override_logging=False,  # ours is set up already
        redirect_stdouts=False,
        quiet=True,
        stdout=io.StringIO(),  # Faust's spinner, which writes terminal codes into files too
    ).execute_from_commandline()


def _give_up(error: BaseException) -> None:
    # Faust may wait for ever for its consumer after a failed agent. All that counts is on the broker, in an order in which
    # nothing is lost: leave at once and let the supervisor start the worker again.
    logging.getLogger("loopwarden").critical("worker ends with exit code 1: %s", error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
