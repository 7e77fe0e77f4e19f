"""One module per kind of fault; importing this puts them all into the catalogue."""

from tests.faults.scenarios import kills

__all__ = ["kills"]
