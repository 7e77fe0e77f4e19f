"""One module per kind of fault; importing this puts them all into the catalogue."""

from tests.faults.scenarios import broker_outages, fuzzing, kills, membership, pauses, start_up, states

__all__ = ["broker_outages", "fuzzing", "kills", "membership", "pauses", "start_up", "states"]
