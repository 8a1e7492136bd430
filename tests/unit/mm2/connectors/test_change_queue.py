"""Changes on their way to a running flow: their order, and how many may wait."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect_runtime.base import errors
from mm2.connectors import change_queue, flow_changes
from mm2.core import flows

ONE, TWO, THREE = (
    flow_changes.Rebudget(budgets=flows.Budgets(flow=bytes_s)) for bytes_s in (1, 2, 3)
)


def filled(*changes):
    made = change_queue.ChangeQueue()
    for each in changes:
        made.put(each)
    return made


def test_they_come_in_order_and_then_there_is_none():
    changes = filled(ONE, TWO)
    assert [changes.take(), changes.take(), changes.take()] == [ONE, TWO, None]


def test_what_is_postponed_comes_before_all_that_was_put_after_it():
    """An older configuration must not overwrite a newer one."""
    changes = filled(ONE, TWO)
    changes.postpone(cast(Any, changes.take()))
    changes.put(THREE)
    assert [changes.take(), changes.take(), changes.take()] == [ONE, TWO, THREE]


def test_something_postponed_is_still_under_way():
    changes = filled(ONE)
    taken = cast(Any, changes.take())
    assert changes.empty
    changes.postpone(taken)
    assert not changes.empty


def test_more_than_anybody_makes_are_refused_and_those_that_wait_are_kept():
    changes = filled(*[ONE] * change_queue.CHANGES_MAX)
    with pytest.raises(errors.RetriableError, match="earlier changes"):
        changes.put(TWO)
    assert [changes.take() for _ in range(change_queue.CHANGES_MAX)] == [
        ONE
    ] * change_queue.CHANGES_MAX


def test_connectors_of_what_nobody_takes_are_closed():
    closed: list[int] = []

    def adopt(number: int) -> flow_changes.Adopt:
        connector = SimpleNamespace(close=lambda: closed.append(number))
        return flow_changes.Adopt(
            flow=cast(Any, None), connector=cast(Any, connector), plan=cast(Any, None)
        )

    changes = filled(adopt(1), ONE, adopt(2))
    changes.postpone(cast(Any, changes.take()))
    changes.close()
    assert (closed, changes.empty) == ([1, 2], True)
