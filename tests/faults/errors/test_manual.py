"""The manual's table of troubles: each row is tried, and each trouble that is tried has a row."""

from faults.errors import cases, damage, manual

TABLES = (cases.UNDER_LOAD, cases.AT_CHECKPOINTS, cases.AT_START, cases.AT_NODES)


def test_each_row_of_the_manual_is_tried_and_each_trial_has_a_row() -> None:
    tried = {
        name
        for module in (cases, damage)
        for word, name in vars(module).items()
        if word.isupper() and isinstance(name, str) and word not in ("ALL", "SOME")
    }
    used = {case.row for table in TABLES for case in table}
    used |= {case.row for case in damage.CASES} | {cases.STALL, cases.FILES, cases.MEMORY}
    used |= {cases.LEFT_DAMAGED, cases.EMBEDDED, cases.READ_ONLY}
    assert tried == used == set(manual.rows())


def test_each_row_says_what_to_do() -> None:
    assert all(row.do for row in manual.rows().values())
