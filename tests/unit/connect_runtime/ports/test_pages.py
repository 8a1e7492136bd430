from __future__ import annotations

import pytest

from connect_runtime.ports import pages


def echo(asked: pages.Asked) -> pages.Page:
    return pages.Page(body=asked.path.encode())


def test_a_page_is_for_people_unless_it_says_for_whom():
    assert pages.lane(echo) is pages.Lane.PEOPLE


@pytest.mark.parametrize("lane", list(pages.Lane))
def test_a_page_in_a_lane_is_still_that_page(lane):
    made = pages.In(lane, echo)
    assert pages.lane(made) is lane
    assert made(pages.Asked(path="/some")).body == b"/some"
