"""Logs of other systems: finding out what they are, reading them into one stream of run items, judging and importing these."""
