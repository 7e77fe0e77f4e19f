from streams.operations.health import Check, Health

GOOD = Check("member", True, "of the group")
BAD = Check("lag", False, "75.0 s, bound 60 s")


def test_all_checks_have_to_pass() -> None:
    assert Health([GOOD]).ok
    assert Health([]).ok
    assert not Health([GOOD, BAD]).ok
    assert Health([GOOD, BAD]).faults == "lag: 75.0 s, bound 60 s"


def test_what_is_well_is_told_in_a_word() -> None:
    assert Health([GOOD]).text("readyz", verbose=False) == "ok\n"


def test_what_failed_is_told_without_being_asked() -> None:
    assert Health([GOOD, BAD]).text("readyz", verbose=False) == "[-]lag failed: 75.0 s, bound 60 s\nreadyz check failed\n"


def test_verbose_tells_every_check() -> None:
    text = Health([GOOD, BAD]).text("readyz", verbose=True)
    assert text.splitlines() == ["[+]member ok: of the group", "[-]lag failed: 75.0 s, bound 60 s", "readyz check failed"]
    assert Health([GOOD]).text("readyz", verbose=True).splitlines()[-1] == "readyz check passed"
