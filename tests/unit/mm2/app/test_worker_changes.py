"""What becomes of a node's workers when its file is another."""

from __future__ import annotations

import pytest

from mm2.app import worker_changes

A, B = {"group.id": "a"}, {"group.id": "b"}
Changes = worker_changes.WorkerChanges


@pytest.mark.parametrize(
    ("running", "wanted", "expected"),
    [
        ({}, {}, Changes()),
        ({}, {"a->b": A}, Changes(begins=("a->b",))),
        ({"a->b": A}, {}, Changes(ends=("a->b",))),
        ({"a->b": A}, {"a->b": dict(A)}, Changes(goes_on=("a->b",))),
        ({"a->b": A}, {"a->b": B}, Changes(ends=("a->b",), begins=("a->b",))),
        (
            {"a->b": A, "b->a": A, "c->a": A},
            {"b->a": B, "d->a": B, "a->b": A},
            Changes(goes_on=("a->b",), ends=("b->a", "c->a"), begins=("b->a", "d->a")),
        ),
    ],
)
def test_who_goes_on_who_ends_and_who_begins(running, wanted, expected):
    assert worker_changes.plan(running, wanted) == expected
