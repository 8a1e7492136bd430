from __future__ import annotations

import os

import pytest

from mm2.pipeline.spark import slots


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", 1),
        ("local[4]", 4),
        ("local[512,1]", 512),
        ("local[2, 1]", 2),
        ("local[*]", os.cpu_count()),
    ],
)
def test_slots_of_a_local_master(master, expected):
    assert slots.of_local_master(master) == expected


class Summary:
    def __init__(self, name, tasks):
        self.id = lambda: name
        self.maxTasks = lambda: tasks


class Context:
    """The few calls into the JVM that are made."""

    def __init__(self, *executors):
        self.size = lambda: len(executors)
        self.apply = lambda index: executors[index]
        self._jsc = self

    def sc(self):
        return self

    def statusStore(self):
        return self

    def executorList(self, active):
        assert active
        return self


def test_slots_of_executors_leave_the_driver_out():
    context = Context(Summary("driver", 0), Summary("0", 2), Summary("1", 3))
    assert slots.of_executors(context) == 5
    assert slots.of_executors(Context()) == 0
