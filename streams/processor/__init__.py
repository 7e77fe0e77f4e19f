"""The worker: reads events, keeps the runs, publishes decisions."""
