from __future__ import annotations

import dataclasses

from mm2.preflight import check_report, spark_slots
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity
from mm2.preflight.spark_slots import SlotSnapshot

SEEN = SlotSnapshot(master="spark on local[4,1]", slots=4, needed=4)


def told(**changes: object) -> CheckFinding | None:
    found = list(spark_slots.check_slots(dataclasses.replace(SEEN, **changes)))  # type: ignore[arg-type]
    assert len(found) <= 1
    return found[0] if found else None


def test_enough_slots_or_no_limit_are_fine():
    assert told() is None
    assert told(slots=None, needed=9) is None


def test_too_few_slots_let_copies_wait():
    found = told(needed=6)
    assert found is not None
    assert (found.code, found.severity) == ("spark-few-slots", CheckSeverity.WARNING)
    assert "2 tasks wait" in found.effect
    assert (found.subject, found.area) == (check_report.ENGINE_SUBJECT, CheckArea.SPARK)


def test_no_slots_are_a_failure():
    found = told(slots=0)
    assert found is not None
    assert (found.code, found.severity) == ("spark-no-slots", CheckSeverity.FAILED)


def test_a_master_that_nobody_reaches_is_told_with_its_address():
    found = told(unreachable="spark.example:7077", failure="refused", slots=None)
    assert found is not None
    assert (found.code, found.severity) == ("spark-master", CheckSeverity.FAILED)
    assert found.command == "nc -vz spark.example 7077"


def test_a_spark_that_does_not_start_is_told_in_its_words():
    found = told(failure="starting Spark: no Java found", slots=None)
    assert found is not None
    assert (found.code, found.text) == ("spark-start", "starting Spark: no Java found")
