from __future__ import annotations

import errno
import os
import ssl

import pytest

from connect_runtime.wire.codec import failures, security_settings
from connect_runtime.wire.connection import diagnosis, framing

PLAINTEXT = security_settings.Security()
SSL = security_settings.Security(protocol="SSL")
SASL_SSL = security_settings.Security(protocol="SASL_SSL")


def tls_error(kind: type[ssl.SSLError], reason: str) -> ssl.SSLError:
    error = kind(1, f"[SSL: {reason}] x")
    error.reason = reason
    return error


def verification(message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_message = message
    return error


def explain(error: Exception, *, stage="opening", security=PLAINTEXT, answered=False):
    return diagnosis.explain(
        error, address="b:1", stage=stage, security=security, answered=answered
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
            "while opening (security.protocol is PLAINTEXT: does the listener want TLS?)",
        ),
        (
            ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
            {"security": SSL},
            "Connection reset by peer while opening (security.protocol is SSL: does the listener "
            "speak TLS?)",
        ),
        (
            EOFError(),
            {"stage": "waiting for 1 answers"},
            "closed by the broker while waiting for 1 answers (security.protocol is PLAINTEXT: "
            "does the listener want SASL?)",
        ),
        (
            EOFError(),
            {"stage": "waiting for 1 answers", "security": SASL_SSL},
            "connection to b:1: closed by the broker while waiting for 1 answers",
        ),
        (
            EOFError(),
            {"stage": "idle", "answered": True},
            "connection to b:1: closed by the broker while idle",
        ),
        (framing.BadSize(b"HTTP", 0x48545450), {}, "it answers 'HTTP'…, which is not Kafka's"),
        (framing.BadSize(b"\xff\xff\xff\xff", -1), {}, "an answer of -1 bytes is not possible"),
        (tls_error(ssl.SSLError, "INTERNAL_ERROR"), {"security": SSL}, "TLS: internal error"),
    ],
)
def test_what_may_pass_is_retriable_and_hints_at_settings_only_before_the_first_answer(
    error, options, text
):
    failure = explain(error, **options)
    assert isinstance(failure, failures.ConnectionFailed)
    assert str(failure).endswith(text) or text in str(failure)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (verification("self-signed certificate in chain"), "not accepted: self-signed certificate"),
        (tls_error(ssl.SSLError, "WRONG_VERSION_NUMBER"), "the listener does not speak TLS"),
        (
            tls_error(ssl.SSLError, "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
            "refused by the broker: tlsv13 alert certificate required",
        ),
        (framing.BadSize(b"\x15\x03\x03\x00", 352518912), "the listener speaks TLS"),
    ],
)
def test_what_only_settings_cure_is_fatal(error, text):
    failure = explain(error)
    assert isinstance(failure, failures.AuthenticationFailed)
    assert text in str(failure)


@pytest.mark.parametrize(
    ("error", "options", "layer"),
    [
        (OSError(errno.ECONNREFUSED, "x"), {"stage": "connecting"}, failures.Layer.NETWORK),
        (EOFError(), {}, failures.Layer.LISTENER),
        (EOFError(), {"answered": True}, failures.Layer.NETWORK),
        (EOFError(), {"stage": "waiting for 1 answers"}, failures.Layer.LISTENER),
        (ssl.SSLEOFError(8, "x"), {"security": SSL}, failures.Layer.LISTENER),
        (ssl.SSLZeroReturnError(6, "x"), {"security": SSL}, failures.Layer.LISTENER),
        (verification("certificate has expired"), {"security": SSL}, failures.Layer.TLS),
        (
            tls_error(ssl.SSLError, "WRONG_VERSION_NUMBER"),
            {"security": SSL},
            failures.Layer.LISTENER,
        ),
        (
            tls_error(ssl.SSLError, "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
            {"security": SSL},
            failures.Layer.TLS,
        ),
        (tls_error(ssl.SSLError, "UNSUPPORTED_PROTOCOL"), {"security": SSL}, failures.Layer.TLS),
        (framing.BadSize(b"\x15\x03\x03\x00", 352518912), {}, failures.Layer.LISTENER),
        (framing.BadSize(b"HTTP", 1213486160), {}, failures.Layer.LISTENER),
    ],
)
def test_what_failed_on_the_way_is_known(error, options, layer):
    assert failures.layer(explain(error, **options)) is layer
