"""Stores on disk that are not of the changelog: they are discarded before a recovery, which then reads all of it."""

import logging
from collections.abc import Mapping
from typing import Any

from faust.types import TP

from streams.transport.table import BatchTable

log = logging.getLogger(__name__)


def discard_foreign_stores(recovery: Any, ends: Mapping[TP, int | None], *, cluster: str) -> None:
    """Have the stores of changelog partitions checked, and Faust's `recovery` begin at the start where one was discarded.

    A data directory may come from another group or cluster, or be older than a changelog that was made anew: its states hold
    offsets of other records, by which new events would be taken for old ones. A changelog that was deleted and made again on the
    same cluster is only told by its being shorter: delete the data directories with it.
    """
    for tp, end in ends.items():
        table = recovery.tp_to_table.get(tp)
        if not isinstance(table, BatchTable):
            continue
        reason = table.partitioned.discard_foreign(tp.partition, f"{cluster}/{tp.topic}", end or 0)
        if reason is not None:
            recovery.active_offsets[tp] = None
            log.warning("store of partition %d discarded, its states are read again: %s", tp.partition, reason)
