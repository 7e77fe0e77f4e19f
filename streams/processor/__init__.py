"""The worker: reads events, keeps the runs, publishes decisions."""

from streams.processor.vital_signs import VitalSigns
from streams.processor.worker_app import create_app

__all__ = ["VitalSigns", "create_app"]
