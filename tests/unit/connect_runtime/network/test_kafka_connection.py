from __future__ import annotations

import errno
import os
import ssl

import pytest

from connect_runtime.network import kafka_connection
from connect_runtime.network.tcp_and_tls_transport import InvalidFrameSize
from connect_runtime.protocol import request_errors
from connect_runtime.protocol.request_errors import (
    AuthenticationFailed,
    ConnectionFailed,
    RequestFailureLayer,
)
from connect_runtime.protocol.security_settings import SecuritySettings

PLAINTEXT = SecuritySettings()
SSL = SecuritySettings(protocol="SSL")
SASL_SSL = SecuritySettings(protocol="SASL_SSL")


def tls_error(kind: type[ssl.SSLError], reason: str) -> ssl.SSLError:
    error = kind(1, f"[SSL: {reason}] x")
    error.reason = reason
    return error


def verification(message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_message = message
    return error


def explain(error: Exception, *, stage="opening", security=PLAINTEXT, answered=False):
    return kafka_connection.explain_connection_failure(
        error, address="b:1", stage=stage, security=security, has_responded=answered
    )


@pytest.mark.parametrize(
    ("error", "options", "text"),
    [
        (
            OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)),
            {"stage": "connecting"},
            "connection to b:1: Connection refused while connecting",
        ),
        (
            TimeoutError("no connection in time"),
            {"stage": "connecting"},
            "connection to b:1: no connection in time while connecting",
        ),
        (
            EOFError(),
            {},
            "while opening (security.protocol is PLAINTEXT; check whether the listener requires "
            "TLS)",
        ),
        (
            ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
            {"security": SSL},
            "Connection reset by peer while opening (security.protocol is SSL; check whether the "
            "listener supports TLS)",
        ),
        (
            EOFError(),
            {"stage": "waiting for 1 responses"},
            "closed by the broker while waiting for 1 responses (security.protocol is PLAINTEXT; "
            "check whether the listener requires SASL)",
        ),
        (
            EOFError(),
            {"stage": "waiting for 1 responses", "security": SASL_SSL},
            "connection to b:1: closed by the broker while waiting for 1 responses",
        ),
        (
            EOFError(),
            {"stage": "idle", "answered": True},
            "connection to b:1: closed by the broker while idle",
        ),
        (
            InvalidFrameSize(b"HTTP", 0x48545450),
            {},
            "the server responds 'HTTP'…; this is not Kafka's",
        ),
        (InvalidFrameSize(b"\xff\xff\xff\xff", -1), {}, "the response size of -1 bytes is invalid"),
        (tls_error(ssl.SSLError, "INTERNAL_ERROR"), {"security": SSL}, "TLS: internal error"),
    ],
)
def test_what_may_pass_is_retriable_and_hints_at_settings_only_before_the_first_answer(
    error, options, text
):
    failure = explain(error, **options)
    assert isinstance(failure, ConnectionFailed)
    assert str(failure).endswith(text) or text in str(failure)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (verification("self-signed certificate in chain"), "rejected: self-signed certificate"),
        (tls_error(ssl.SSLError, "WRONG_VERSION_NUMBER"), "the listener does not use TLS"),
        (
            tls_error(ssl.SSLError, "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
            "rejected by the broker: tlsv13 alert certificate required",
        ),
        (InvalidFrameSize(b"\x15\x03\x03\x00", 352518912), "the listener uses TLS"),
    ],
)
def test_what_only_settings_cure_is_fatal(error, text):
    failure = explain(error)
    assert isinstance(failure, AuthenticationFailed)
    assert text in str(failure)


@pytest.mark.parametrize(
    ("error", "options", "layer"),
    [
        (OSError(errno.ECONNREFUSED, "x"), {"stage": "connecting"}, RequestFailureLayer.NETWORK),
        (EOFError(), {}, RequestFailureLayer.LISTENER),
        (EOFError(), {"answered": True}, RequestFailureLayer.NETWORK),
        (EOFError(), {"stage": "waiting for 1 responses"}, RequestFailureLayer.LISTENER),
        (ssl.SSLEOFError(8, "x"), {"security": SSL}, RequestFailureLayer.LISTENER),
        (ssl.SSLZeroReturnError(6, "x"), {"security": SSL}, RequestFailureLayer.LISTENER),
        (verification("certificate has expired"), {"security": SSL}, RequestFailureLayer.TLS),
        (
            tls_error(ssl.SSLError, "WRONG_VERSION_NUMBER"),
            {"security": SSL},
            RequestFailureLayer.LISTENER,
        ),
        (
            tls_error(ssl.SSLError, "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
            {"security": SSL},
            RequestFailureLayer.TLS,
        ),
        (
            tls_error(ssl.SSLError, "UNSUPPORTED_PROTOCOL"),
            {"security": SSL},
            RequestFailureLayer.TLS,
        ),
        (InvalidFrameSize(b"\x15\x03\x03\x00", 352518912), {}, RequestFailureLayer.LISTENER),
        (InvalidFrameSize(b"HTTP", 1213486160), {}, RequestFailureLayer.LISTENER),
    ],
)
def test_what_failed_on_the_way_is_known(error, options, layer):
    assert request_errors.find_request_failure_layer(explain(error, **options)) is layer
