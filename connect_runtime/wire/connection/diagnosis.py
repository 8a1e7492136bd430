"""What a broken connection most likely means, in words that say what to change."""

from __future__ import annotations

import ssl

from connect_runtime.base import errors
from connect_runtime.wire.codec import failures, security_settings
from connect_runtime.wire.connection import framing

_TLS_RECORDS = {20, 21, 22, 23}
_TLS_MAJOR = 3
_CLOSED = (EOFError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""How a connection ends, without TLS, in the middle of it, or in order."""


def stage(*, connected: bool, ready: bool, pending: int) -> str:
    """What a connection was doing; `pending` requests have no answer yet."""
    if not connected:
        return "connecting"
    if not ready:
        return "opening"
    return f"waiting for {pending} answers" if pending else "idle"


def explain(
    error: Exception,
    *,
    address: str,
    stage: str,
    security: security_settings.Security,
    answered: bool,
) -> errors.ConnectError:
    """The failure for an error of a socket, of TLS or of framing; one of ours says it already.

    stage: what was going on, "connecting". answered: whether the broker ever answered more than
    the handshake; before that, a connection that just ends is often a matter of settings.
    """
    if isinstance(error, errors.ConnectError):
        return error
    if isinstance(error, framing.BadSize):
        return _explain_bytes(error, address)
    if isinstance(error, ssl.SSLCertVerificationError):
        problem = f"TLS: the broker's certificate was not accepted: {error.verify_message}"
        return failures.AuthenticationFailed(address, problem, layer=failures.Layer.TLS)
    if isinstance(error, ssl.SSLError) and not isinstance(error, _CLOSED):
        return _explain_tls(error, address)
    if isinstance(error, (ConnectionError, *_CLOSED)):
        told = isinstance(error, ConnectionError) and error.strerror
        seen = told or "closed by the broker"
        hint = "" if answered else _hint(stage, security)
        layer = failures.Layer.LISTENER if hint else failures.Layer.NETWORK
        return failures.ConnectionFailed(address, f"{seen} while {stage}{hint}", layer=layer)
    seen = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return failures.ConnectionFailed(address, f"{seen} while {stage}")


def _hint(stage: str, security: security_settings.Security) -> str:
    if stage == "connecting":
        return ""
    if stage == "opening" and not security.uses_tls:
        return f" (security.protocol is {security.protocol}: does the listener want TLS?)"
    if stage == "opening":
        return f" (security.protocol is {security.protocol}: does the listener speak TLS?)"
    if not security.uses_sasl:
        return f" (security.protocol is {security.protocol}: does the listener want SASL?)"
    return ""


def _explain_tls(error: ssl.SSLError, address: str) -> errors.ConnectError:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "wrong version number" in reason or "record layer failure" in reason:
        problem = (
            f"TLS: {reason}: the listener does not speak TLS; check security.protocol and port"
        )
        return failures.AuthenticationFailed(address, problem, layer=failures.Layer.LISTENER)
    if "alert" in reason:
        problem = f"TLS: refused by the broker: {reason}; does it want a certificate of ours?"
        return failures.AuthenticationFailed(address, problem, layer=failures.Layer.TLS)
    return failures.ConnectionFailed(address, f"TLS: {reason}", layer=failures.Layer.TLS)


def _explain_bytes(error: framing.BadSize, address: str) -> errors.ConnectError:
    raw = error.raw
    if raw[0] in _TLS_RECORDS and raw[1] == _TLS_MAJOR:
        problem = "the listener speaks TLS; set security.protocol to SSL or SASL_SSL"
        return failures.AuthenticationFailed(address, problem, layer=failures.Layer.LISTENER)
    if raw.isascii() and raw.decode("ascii").isprintable():
        problem = f"it answers {raw.decode('ascii')!r}…, which is not Kafka's protocol; wrong port?"
    else:
        problem = f"an answer of {error.size} bytes is not possible"
    return failures.ConnectionFailed(address, problem, layer=failures.Layer.LISTENER)
