from __future__ import annotations

import pytest

from connect_runtime.base import errors
from connect_runtime.wire.codec import failures


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (
            failures.ConnectionFailed("b:1", "refused"),
            "connection to b:1: refused",
        ),
        (
            failures.RequestTimedOut("fetch", waiting_for="the answer of b:1", after_s=1.5),
            "fetch: no answer within 1.5 s, waiting for the answer of b:1",
        ),
        (
            failures.TruncatedResponse("fetch", 12, "3 bytes left over"),
            "fetch response, version 12: 3 bytes left over",
        ),
        (failures.NodeUnknown(4), "the cluster has no broker 4 at present"),
    ],
)
def test_retriable_failures_say_what_happened(failure, text):
    assert isinstance(failure, errors.RetriableError)
    assert str(failure) == text


@pytest.mark.parametrize(
    "failure",
    [
        failures.AuthenticationFailed("b:1", "wrong"),
        failures.UnsupportedVersion("fetch", ours=(1, 2), theirs=None, address="b:1"),
        failures.CoordinatorRefused("group g", error_code=30),
    ],
)
def test_what_waiting_does_not_cure_is_fatal(failure):
    assert isinstance(failure, errors.FatalError)


def test_error_codes_have_kafkas_names_as_far_as_they_are_known():
    assert failures.error_name(16) == "NOT_COORDINATOR (16)"
    assert failures.error_name(-1) == "UNKNOWN_SERVER_ERROR (-1)"
    assert failures.error_name(9999) == "error 9999"


@pytest.mark.parametrize(
    ("failure", "layer"),
    [
        (failures.ConnectionFailed("b:1", "refused"), failures.Layer.NETWORK),
        (
            failures.ConnectionFailed("b:1", "no such name", layer=failures.Layer.DNS),
            failures.Layer.DNS,
        ),
        (failures.AuthenticationFailed("b:1", "wrong"), failures.Layer.AUTH),
        (
            failures.AuthenticationFailed("b:1", "expired", layer=failures.Layer.TLS),
            failures.Layer.TLS,
        ),
        (
            failures.UnsupportedVersion("fetch", ours=(1, 2), theirs=None, address="b:1"),
            failures.Layer.PROTOCOL,
        ),
        (
            failures.RequestTimedOut("fetch", waiting_for="the answer of b:1", after_s=1.5),
            failures.Layer.NETWORK,
        ),
    ],
)
def test_a_failure_says_what_failed_on_the_way(failure, layer):
    assert failures.layer(failure) is layer
