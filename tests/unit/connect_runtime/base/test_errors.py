from __future__ import annotations

import pytest

from connect_runtime.base import errors


@pytest.mark.parametrize("kind", [errors.RetriableError, errors.FatalError])
def test_every_operating_error_can_be_caught_as_one(kind):
    with pytest.raises(errors.ConnectError, match="reading orders-7: no answer"):
        raise kind("reading orders-7: no answer")


def test_an_error_goes_away_by_waiting_or_it_does_not():
    assert not issubclass(errors.RetriableError, errors.FatalError)
    assert not issubclass(errors.FatalError, errors.RetriableError)


@pytest.mark.parametrize("delay_ms", [None, 0, 250])
def test_the_least_wait_comes_along_when_it_is_known(delay_ms):
    assert errors.RetriableError("busy", delay_ms=delay_ms).delay_ms == delay_ms


def test_no_wait_is_named_by_default():
    assert errors.RetriableError("busy").delay_ms is None
