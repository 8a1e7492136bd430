from __future__ import annotations

import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError


@pytest.mark.parametrize("kind", [RetriableError, FatalError])
def test_every_operating_error_can_be_caught_as_one(kind):
    with pytest.raises(ConnectError, match="reading orders-7: no response"):
        raise kind("reading orders-7: no response")


def test_an_error_goes_away_by_waiting_or_it_does_not():
    assert not issubclass(RetriableError, FatalError)
    assert not issubclass(FatalError, RetriableError)


@pytest.mark.parametrize("delay_ms", [None, 0, 250])
def test_the_least_wait_comes_along_when_it_is_known(delay_ms):
    assert RetriableError("busy", delay_ms=delay_ms).delay_ms == delay_ms


def test_no_wait_is_named_by_default():
    assert RetriableError("busy").delay_ms is None
