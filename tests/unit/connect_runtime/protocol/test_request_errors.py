from __future__ import annotations

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.protocol import request_errors
from connect_runtime.protocol.request_errors import (
    AuthenticationFailed,
    ConnectionFailed,
    CoordinatorLookupRefused,
    MalformedResponseError,
    RequestFailureLayer,
    RequestTimedOut,
    UnknownBroker,
    UnsupportedVersion,
)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (
            ConnectionFailed("b:1", "refused"),
            "connection to b:1: refused",
        ),
        (
            RequestTimedOut("fetch", waiting_for="the answer of b:1", after_s=1.5),
            "fetch: no response within 1.5 s, waiting for the answer of b:1",
        ),
        (
            MalformedResponseError("fetch", 12, "3 unexpected bytes at the end"),
            "fetch response, version 12: 3 unexpected bytes at the end",
        ),
        (UnknownBroker(4), "broker 4 is currently not in the cluster metadata"),
    ],
)
def test_retriable_failures_say_what_happened(failure, text):
    assert isinstance(failure, RetriableError)
    assert str(failure) == text


@pytest.mark.parametrize(
    "failure",
    [
        AuthenticationFailed("b:1", "wrong"),
        UnsupportedVersion("fetch", client_versions=(1, 2), broker_versions=None, address="b:1"),
        CoordinatorLookupRefused("group g", error_code=30),
    ],
)
def test_what_waiting_does_not_cure_is_fatal(failure):
    assert isinstance(failure, FatalError)


def test_error_codes_have_kafkas_names_as_far_as_they_are_known():
    assert request_errors.format_error_code(16) == "NOT_COORDINATOR (16)"
    assert request_errors.format_error_code(-1) == "UNKNOWN_SERVER_ERROR (-1)"
    assert request_errors.format_error_code(9999) == "error 9999"


@pytest.mark.parametrize(
    ("failure", "layer"),
    [
        (ConnectionFailed("b:1", "refused"), RequestFailureLayer.NETWORK),
        (
            ConnectionFailed("b:1", "no such name", layer=RequestFailureLayer.DNS),
            RequestFailureLayer.DNS,
        ),
        (AuthenticationFailed("b:1", "wrong"), RequestFailureLayer.AUTH),
        (
            AuthenticationFailed("b:1", "expired", layer=RequestFailureLayer.TLS),
            RequestFailureLayer.TLS,
        ),
        (
            UnsupportedVersion(
                "fetch", client_versions=(1, 2), broker_versions=None, address="b:1"
            ),
            RequestFailureLayer.PROTOCOL,
        ),
        (
            RequestTimedOut("fetch", waiting_for="the answer of b:1", after_s=1.5),
            RequestFailureLayer.NETWORK,
        ),
    ],
)
def test_a_failure_says_what_failed_on_the_way(failure, layer):
    assert request_errors.find_request_failure_layer(failure) is layer
