"""Batch delivery for Faust: slices of a partition as one event, offsets that move over done batches only."""

from streams.transport.app_settings import batch_app_settings
from streams.transport.batch import Batch, StaleBatch
from streams.transport.producer import ProducerRecord, RecordTooLargeError, SendError, Written, send_batches
from streams.transport.records import BareRecord, DeliveredRecord, Record, RecordSlice, delivered
from streams.transport.table import BatchTable
from streams.transport.topic import BatchTopic

__all__ = [
    "BareRecord",
    "Batch",
    "BatchTable",
    "BatchTopic",
    "DeliveredRecord",
    "ProducerRecord",
    "Record",
    "RecordSlice",
    "RecordTooLargeError",
    "SendError",
    "StaleBatch",
    "Written",
    "batch_app_settings",
    "delivered",
    "send_batches",
]
