"""How often Python's garbage collector looks through a worker's objects.

Run states, facts and decisions go by their reference counts; garbage in cycles comes only from the event loop and the Kafka
client. With Python's own thresholds the collector takes a third of a busy worker's time.
"""

import gc

#: New objects, net, until the young ones are looked through: some MB of garbage at most. 700 is Python's default.
YOUNG = 20_000

#: Collections of a generation until the next older one is looked through too; Python's default is 10.
OLDER = 20


def spare_long_lived_objects() -> None:
    """Leave what was made so far (modules, models) to the end of the process, and look through the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, OLDER)
