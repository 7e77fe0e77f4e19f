"""Handled offsets in any order."""

from hypothesis import given
from hypothesis import strategies as st

from streams.enforcement.offset_ledger import OffsetLedger


@given(st.data())
def test_the_position_is_the_first_unhandled_offset_whatever_the_order(data: st.DataObject) -> None:
    """Gaps between offsets count as handled, and nothing below the position is ever unhandled."""
    offsets = sorted(data.draw(st.sets(st.integers(0, 200), min_size=1, max_size=40)))
    done = data.draw(st.permutations(offsets))[: data.draw(st.integers(0, len(offsets)))]
    ledger = OffsetLedger()
    assert ledger.position is None
    for offset in offsets:
        ledger.read(offset)
    for offset in done:
        ledger.done(offset)
    left = [offset for offset in offsets if offset not in done]
    assert ledger.position == (left[0] if left else offsets[-1] + 1)
    assert ledger.unhandled == len(left)
    assert ledger.ahead == (sum(offset > left[0] for offset in done) if left else 0)


def test_a_topic_that_was_made_anew_starts_from_its_own_offsets() -> None:
    ledger = OffsetLedger()
    ledger.read(1000)
    ledger.read(0)
    assert (ledger.position, ledger.unhandled) == (0, 1)
    ledger.done(0)
    assert ledger.position == 1
