from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.api.records import SinkRecord, SourceRecord
from connect_runtime.api.transformation import Predicate, Transformation


class Route(Transformation):
    deterministic = True

    def configure(self, configs):
        self.suffix = configs["suffix"]

    def apply(self, record):
        return None if record.value is None else record.new_record(topic=record.topic + self.suffix)


class Tombstone(Predicate):
    def test(self, record):
        return record.value is None


def test_a_transform_makes_new_records_or_none():
    route = Route()
    route.configure({"suffix": "-x"})
    record = SourceRecord(topic="t", value=1)
    changed = route.apply(record)
    assert changed is not None
    assert changed.topic == "t-x"
    assert record.topic == "t"
    assert route.apply(SourceRecord(topic="t")) is None
    assert Tombstone().test(SinkRecord(topic="t", kafka_offset=1))


def test_neither_is_deterministic_unless_it_says_so():
    kinds: list[Any] = [Transformation, Predicate]
    assert not any(kind.deterministic for kind in kinds)
    assert Route.deterministic
    for kind in kinds:
        with pytest.raises(TypeError, match="abstract"):
            kind()
