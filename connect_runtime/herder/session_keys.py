"""Session keys (KIP-507): signing, verification and replay protection of internal requests.

The group has one key, which is stored in the config topic and rotated by the leader. Requests are
signed only while every member uses the `sessioned` protocol. As in Java, the two internal requests
(task configs, zombie fencing) are signed. In addition, forwarded user requests are signed as
`SignedUserRequest`.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base.errors import FatalError
from connect_runtime.storage.cluster_config_state import SessionKey

SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"
TIMESTAMP_HEADER = "X-Connect-Request-Timestamp"
NONCE_HEADER = "X-Connect-Request-Nonce"
"""Nonce of a forwarded user request, as 32 hexadecimal digits. Not in Java."""
BODY_HEADER = "X-Connect-Body-SHA256"
"""Digest of the request body (`compute_body_digest`). Not in Java."""
RESPONSE_SIGNATURE_HEADER = "X-Connect-Response-Signature"
"""Signature of the response to a `SignedUserRequest` (`sign_response`). Not in Java."""

FORBIDDEN_STATUS = 403
KEY_CHANGE_GRACE_S = 60.0
"""Time since the first attempt of a request was due. Within this time, a rejected signature is
probably due to a new session key, so the failed attempt is retried without a log line."""

REPLAY_WINDOW_MS = 60_000
"""A forwarded request is valid for this time before and after its signing time."""
CLOCK_SKEW_MS = 2_000
"""Maximum time by which a request's signing time may precede the receiver's start, because clocks
differ."""
_CLOCK_TOLERANCE_S = 1.0
"""Additional time for which nonces are remembered, because the monotonic clock and the wall clock
run at slightly different speeds, and the wall clock is read in whole milliseconds."""
_MAX_NONCES = 10_000
_TIMESTAMP_PATTERN = re.compile(r"[0-9]{1,15}")
_NONCE_PATTERN = re.compile(r"[0-9a-f]{32}")
_REQUEST_KEY_LABEL = b"mm2 whole request"
_RESPONSE_KEY_LABEL = b"mm2 response"
_BITS_PER_BYTE = 8
_HASH_BY_ALGORITHM = {
    "hmacsha1": "sha1",
    "hmacsha224": "sha224",
    "hmacsha256": "sha256",
    "hmacsha384": "sha384",
    "hmacsha512": "sha512",
}
"""Hash function by Java's algorithm name, for key and signature algorithms. The names are in lower
case because Java ignores case."""
_KEY_BYTES_BY_HASH = {"sha1": 64, "sha224": 28, "sha256": 32, "sha384": 48, "sha512": 64}
"""Default size in bytes of the keys that Java generates, by hash function."""


class UnknownSignatureAlgorithmError(FatalError):
    """Raised if the signature algorithm is not supported. The message lists the supported
    algorithms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKeySettings:
    """The worker settings `inter.worker.*`."""

    ttl_ms: int = 3_600_000
    generation_algorithm: str = "HmacSHA256"
    key_size_bits: int | None = None
    """None selects the algorithm's default."""
    signature_algorithm: str = "HmacSHA256"
    verification_algorithms: tuple[str, ...] = ("HmacSHA256",)

    def __post_init__(self) -> None:
        used = (self.generation_algorithm, self.signature_algorithm, *self.verification_algorithms)
        for algorithm in used:
            _get_hash_name(algorithm)
        assert self.signature_algorithm in self.verification_algorithms, self

    @property
    def key_bytes(self) -> int:
        """Length of a new key in bytes."""
        if self.key_size_bits is not None:
            return (self.key_size_bits + _BITS_PER_BYTE - 1) // _BITS_PER_BYTE
        return _KEY_BYTES_BY_HASH[_get_hash_name(self.generation_algorithm)]


def _get_hash_name(algorithm: str) -> str:
    name = _HASH_BY_ALGORITHM.get(algorithm.lower())
    if name is None:
        known = "HmacSHA1, HmacSHA224, HmacSHA256, HmacSHA384, HmacSHA512"
        raise UnknownSignatureAlgorithmError(
            f"unsupported signature algorithm '{algorithm}': use one of {known}"
        )
    return name


def compute_rotation_time_ms(key: SessionKey | None, settings: SessionKeySettings) -> int:
    """Return the wall-clock time at which the leader must write a new key; 0 if it must do so
    immediately."""
    if key is None or key.algorithm != settings.generation_algorithm:
        return 0
    if len(key.key) != settings.key_bytes:
        return 0
    return key.created_ms + settings.ttl_ms


def build_session_key(settings: SessionKeySettings, *, entropy: bytes, wall_ms: int) -> SessionKey:
    """Build a session key from `entropy`, which is `key_bytes` bytes from a cryptographically
    secure source."""
    assert len(entropy) == settings.key_bytes, len(entropy)
    return SessionKey(key=entropy, algorithm=settings.generation_algorithm, created_ms=wall_ms)


def sign_request_body(key: SessionKey, body: bytes, *, algorithm: str) -> str:
    """Sign a request body and return the value of the signature header. A missing body counts as
    empty.

    Raises `UnknownSignatureAlgorithmError`.
    """
    return base64.b64encode(_compute_hmac(key, body, algorithm=algorithm)).decode()


def _compute_hmac(key: SessionKey, body: bytes, *, algorithm: str) -> bytes:
    return hmac.digest(key.key, body, _get_hash_name(algorithm))


def build_signature_headers(
    key: SessionKey | None, body: bytes, *, algorithm: str
) -> dict[str, str]:
    """Build the signature headers of an internal request.

    Returns no headers if there is no session key. The receiver then refuses the request.
    """
    if key is None:
        return {}
    return {
        SIGNATURE_HEADER: sign_request_body(key, body, algorithm=algorithm),
        ALGORITHM_HEADER: algorithm,
    }


def compute_body_digest(body: bytes) -> str:
    """Return the digest of a request body, as the value of `BODY_HEADER`."""
    return hashlib.sha256(body).hexdigest()


def _derive_request_key(key: SessionKey | None) -> SessionKey | None:
    """Derive the key that signs each `SignedUserRequest` from the session key.

    The session key itself signs only request bodies, as in Java. If one key were used for both, the
    signed bytes of a recorded request would be accepted as a signed body.
    """
    if key is None:
        return None
    return dataclasses.replace(key, key=hmac.digest(key.key, _REQUEST_KEY_LABEL, "sha256"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedUserRequest:
    """A user request that one worker forwards to another, with everything that the signature
    covers.

    The method, path, receiver, time and a nonce are signed, so that a recorded request cannot be
    replayed to any worker. The digest of the body is signed instead of the body, so that the
    headers can be verified before the body is read. (Java signs only two internal requests, and
    only their bodies.)
    """

    receiver: str
    """URL that the receiver advertises."""
    method: str
    target: str
    """Path and query string."""
    digest: str
    """Digest of the body (`compute_body_digest`)."""
    signed_ms: int
    """Signing time in milliseconds since the epoch."""
    nonce: str

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that the signature covers."""
        when = f"{self.signed_ms} {self.nonce}"
        receiver = self.receiver.rstrip("/")
        return f"{receiver}\n{self.method} {self.target}\n{when}\n{self.digest}".encode()

    def build_headers(self, key: SessionKey | None, *, algorithm: str) -> dict[str, str]:
        """Build the signature headers with time, nonce and body digest; empty if there is no
        session key."""
        signature = build_signature_headers(
            _derive_request_key(key), self.signed_bytes, algorithm=algorithm
        )
        return signature and {
            **signature,
            TIMESTAMP_HEADER: str(self.signed_ms),
            NONCE_HEADER: self.nonce,
            BODY_HEADER: self.digest,
        }


def sign_response(key: SessionKey, *, nonce: str, status: int, body: bytes) -> str:
    """Sign the response to the `SignedUserRequest` with this nonce, and return the value of
    `RESPONSE_SIGNATURE_HEADER`.

    The nonce is used once, so a recorded response is not accepted for another request.
    """
    response_key = hmac.digest(key.key, _RESPONSE_KEY_LABEL, "sha256")
    signed = f"{nonce} {status} {compute_body_digest(body)}".encode()
    return hmac.digest(response_key, signed, "sha256").hex()


@dataclass(frozen=True, slots=True)
class SignatureValid:
    """Verification result: the request comes from a worker of the group."""


@dataclass(frozen=True, slots=True)
class SignatureInvalid:
    """Verification result: the request must be refused with this HTTP status."""

    status: int
    message: str


SignatureCheck: TypeAlias = SignatureValid | SignatureInvalid

REQUEST_SIGNATURE_HEADERS = (
    SIGNATURE_HEADER,
    ALGORITHM_HEADER,
    TIMESTAMP_HEADER,
    NONCE_HEADER,
    BODY_HEADER,
)
"""Headers of a `SignedUserRequest`. Each must occur exactly once. If a header had two values, the
receiver might verify one value and use the other."""


class ReplayGuard:
    """Accepts each `SignedUserRequest` to this worker only once, and only within the replay window.

    Not thread-safe. Nonces are lost when the worker ends, so requests that were signed before the
    worker started are refused. Because clocks differ, a request can be accepted a second time after
    a restart if it was signed up to `CLOCK_SKEW_MS` before the start, or by a sender with a clock
    that is ahead. A request can also be accepted a second time if the wall clock is set back by
    more than the replay window.
    """

    def __init__(self, receiver: str, *, started_ms: int) -> None:
        """Create the guard. `receiver` is the URL that this worker advertises, `started_ms` the
        start time in milliseconds since the epoch."""
        self._receiver = receiver
        self._started_ms = started_ms
        self._expires_s: dict[str, float] = {}
        """Expiry time by nonce, in order of arrival. On the monotonic clock, because the wall clock
        may jump."""

    def verify_request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        *,
        key: SessionKey | None,
        settings: SessionKeySettings,
        wall_ms: int,
        now_s: float,
    ) -> SignedUserRequest | SignatureInvalid:
        """Verify the headers of a `SignedUserRequest`, and return the request.

        `headers` must not contain a header more than once. The caller must also compare the body
        with the request's digest. `wall_ms` is compared with the signing time, and `now_s` is
        monotonic time in seconds.
        """
        by_name = {name.lower(): value for name, value in headers.items()}
        signed_at = by_name.get(TIMESTAMP_HEADER.lower(), "")
        nonce = by_name.get(NONCE_HEADER.lower(), "")
        if not _TIMESTAMP_PATTERN.fullmatch(signed_at) or not _NONCE_PATTERN.fullmatch(nonce):
            return SignatureInvalid(
                400,
                f"Forwarded request must have valid headers {TIMESTAMP_HEADER} and {NONCE_HEADER}",
            )
        request = SignedUserRequest(
            receiver=self._receiver,
            method=method,
            target=target,
            digest=by_name.get(BODY_HEADER.lower(), ""),
            signed_ms=int(signed_at),
            nonce=nonce,
        )
        result = verify_signature(
            request.signed_bytes, headers, key=_derive_request_key(key), settings=settings
        )
        if isinstance(result, SignatureValid):
            result = self._check_replay(request, wall_ms=wall_ms, now_s=now_s)
        return request if isinstance(result, SignatureValid) else result

    def _check_replay(
        self, request: SignedUserRequest, *, wall_ms: int, now_s: float
    ) -> SignatureCheck:
        while self._expires_s and next(iter(self._expires_s.values())) < now_s:
            del self._expires_s[next(iter(self._expires_s))]
        apart_ms = abs(wall_ms - request.signed_ms)
        if apart_ms > REPLAY_WINDOW_MS:
            return SignatureInvalid(
                FORBIDDEN_STATUS,
                "Forwarded request's timestamp differs from this worker's clock by"
                f" {apart_ms // 1000} s; at most {REPLAY_WINDOW_MS // 1000} s are allowed:"
                " synchronize all nodes with NTP",
            )
        if request.signed_ms < self._started_ms - CLOCK_SKEW_MS:
            return SignatureInvalid(
                503, "This worker started after the request was signed; try again"
            )
        if request.nonce in self._expires_s:
            return SignatureInvalid(
                FORBIDDEN_STATUS,
                "Forwarded request was rejected as a replay: its nonce was already used",
            )
        if len(self._expires_s) >= _MAX_NONCES:
            return SignatureInvalid(
                503, "Too many forwarded requests within two minutes; try again soon"
            )
        self._expires_s[request.nonce] = now_s + 2 * REPLAY_WINDOW_MS / 1000 + _CLOCK_TOLERANCE_S
        return SignatureValid()


def verify_signature(
    body: bytes,
    headers: Mapping[str, str],
    *,
    key: SessionKey | None,
    settings: SessionKeySettings,
) -> SignatureCheck:
    """Verify the signature of a request body. Header names are case-insensitive.

    Call only while the group uses the `sessioned` protocol, because requests are not signed
    otherwise.
    """
    by_name = {name.lower(): value for name, value in headers.items()}
    signature = by_name.get(SIGNATURE_HEADER.lower())
    algorithm = by_name.get(ALGORITHM_HEADER.lower())
    if signature is None or algorithm is None:
        return SignatureInvalid(400, "Internal request missing required signature")
    if algorithm not in settings.verification_algorithms:
        allowed = ", ".join(settings.verification_algorithms)
        return SignatureInvalid(
            400,
            f"This worker does not accept requests signed with '{algorithm}', only with {allowed};"
            " all workers must be configured with the same inter.worker.verification.algorithms",
        )
    try:
        decoded = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return SignatureInvalid(400, f"The header {SIGNATURE_HEADER} is not valid base64")
    if key is None:
        return SignatureInvalid(
            503,
            "This worker has not read a session key from the config topic yet; try again soon",
        )
    if not hmac.compare_digest(_compute_hmac(key, body, algorithm=algorithm), decoded):
        return SignatureInvalid(FORBIDDEN_STATUS, "Internal request contained invalid signature.")
    return SignatureValid()
