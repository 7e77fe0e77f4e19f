"""Hands decisions to receivers outside: each decision once, however often it is on the topic and workers come and go.

`EnforcementWorker` reads the decisions of a consumer group, `WebhookReceiver` and `CommandReceiver` hand one over. How copies are
kept from a receiver is in `delivery_log.py`, order and concurrency in `partition_work.py`, retries in `retrying.py`.
"""
