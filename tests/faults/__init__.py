"""Faults made to real workers on real brokers, and what must come out all the same: `python -m tests.faults`."""
