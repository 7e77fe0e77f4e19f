"""A broker that is away is mentioned now and then, not ten times a second."""

import logging

from streams.transport.log_limit import RepeatFilter, limit_repetitions


def record(message: str, *arguments: object, level: int = logging.ERROR) -> logging.LogRecord:
    return logging.LogRecord("aiokafka", level, __file__, 1, message, arguments, None)


def test_repetitions_are_left_out_and_counted() -> None:
    time = [0.0]
    limit = RepeatFilter(interval=10.0, clock=lambda: time[0])
    assert limit.filter(record("cannot connect to %s", "a:1"))
    assert not limit.filter(record("cannot connect to %s", "b:2"))
    assert not limit.filter(record("cannot connect to %s", "a:1"))
    time[0] = 10.0
    again = record("cannot connect to %s", "a:1")
    assert limit.filter(again)
    assert again.getMessage() == "cannot connect to a:1 (2 like this left out)"


def test_other_messages_and_levels_pass() -> None:
    limit = RepeatFilter(clock=lambda: 0.0)
    assert limit.filter(record("one"))
    assert limit.filter(record("two"))
    assert limit.filter(record("one", level=logging.WARNING))


def test_debug_messages_always_pass() -> None:
    limit = RepeatFilter(clock=lambda: 0.0)
    assert limit.filter(record("one", level=logging.DEBUG))
    assert limit.filter(record("one", level=logging.DEBUG))


def test_a_percent_sign_in_the_message_survives() -> None:
    time = [0.0]
    limit = RepeatFilter(interval=1.0, clock=lambda: time[0])
    for _ in range(2):
        limit.filter(record("100 %"))
    time[0] = 2.0
    again = record("100 %")
    assert limit.filter(again)
    assert again.getMessage() == "100 % (1 like this left out)"


def test_is_put_on_the_clients_loggers_once() -> None:
    limit_repetitions()
    limit_repetitions()
    found = [present for present in logging.getLogger("aiokafka.conn").filters if isinstance(present, RepeatFilter)]
    assert len(found) == 1
