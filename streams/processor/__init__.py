"""The worker: reads events, keeps the runs, publishes decisions."""

from streams.processor.worker_app import create_app

__all__ = ["create_app"]
