"""Session keys (KIP-507): signing, verification and replay protection of internal requests.

The group has one key. It is stored in the config topic, and the leader rotates it. Only the two
internal requests (task configs, zombie fencing) are signed, and only while every member uses the
`sessioned` protocol.
"""

from __future__ import annotations

import base64
import binascii
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
"""Ours: of users' requests that workers forward. The nonce is 32 hexadecimal digits."""
BODY_HEADER = "X-Connect-Body-SHA256"
"""Ours, too: `compute_body_digest` of the body that follows."""

FORBIDDEN_STATUS = 403
KEY_CHANGE_GRACE_S = 60.0
"""A request refused for its signature within so long of being made may have met a new key."""

REPLAY_WINDOW_MS = 60_000
"""A forwarded request counts so long before and after it was signed."""
CLOCK_SKEW_MS = 2_000
"""A request may be signed so long before its receiver started: the sender's clock may be behind."""
_MAX_NONCES = 10_000
_TIMESTAMP_PATTERN = re.compile(r"[0-9]{1,15}")
_NONCE_PATTERN = re.compile(r"[0-9a-f]{32}")
_BITS_PER_BYTE = 8
_HASH_BY_ALGORITHM = {
    "hmacsha1": "sha1",
    "hmacsha224": "sha224",
    "hmacsha256": "sha256",
    "hmacsha384": "sha384",
    "hmacsha512": "sha512",
}
"""Java's names of keys and of signatures (which are one here), in lower case: Java does not care.
"""
_KEY_BYTES_BY_HASH = {"sha1": 64, "sha224": 28, "sha256": 32, "sha384": 48, "sha512": 64}
"""As Java's key generators choose without a size."""


class UnknownSignatureAlgorithmError(FatalError):
    """No such signature; the message names those there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKeySettings:
    """The worker's settings `inter.worker.*`; `size_bits` None is the algorithm's own."""

    ttl_ms: int = 3_600_000
    generation_algorithm: str = "HmacSHA256"
    size_bits: int | None = None
    signature_algorithm: str = "HmacSHA256"
    verification_algorithms: tuple[str, ...] = ("HmacSHA256",)

    def __post_init__(self) -> None:
        used = (self.generation_algorithm, self.signature_algorithm, *self.verification_algorithms)
        for algorithm in used:
            _get_hash_name(algorithm)
        assert self.signature_algorithm in self.verification_algorithms, self

    @property
    def key_bytes(self) -> int:
        """Length of a new key."""
        if self.size_bits is not None:
            return (self.size_bits + _BITS_PER_BYTE - 1) // _BITS_PER_BYTE
        return _KEY_BYTES_BY_HASH[_get_hash_name(self.generation_algorithm)]


def _get_hash_name(algorithm: str) -> str:
    name = _HASH_BY_ALGORITHM.get(algorithm.lower())
    if name is None:
        known = "HmacSHA1, HmacSHA224, HmacSHA256, HmacSHA384, HmacSHA512"
        raise UnknownSignatureAlgorithmError(f"'{algorithm}' signs nothing here; there are {known}")
    return name


def compute_rotation_time_ms(key: SessionKey | None, settings: SessionKeySettings) -> int:
    """The wall time at which the leader must write another key; in the past: at once."""
    if key is None or key.algorithm != settings.generation_algorithm:
        return 0
    if len(key.key) != settings.key_bytes:
        return 0
    return key.created_ms + settings.ttl_ms


def generate_key(settings: SessionKeySettings, *, entropy: bytes, wall_ms: int) -> SessionKey:
    """A key of `entropy`: that many bytes as `key_bytes` says, from a source fit for secrets."""
    assert len(entropy) == settings.key_bytes, len(entropy)
    return SessionKey(key=entropy, algorithm=settings.generation_algorithm, created_ms=wall_ms)


def sign_body(key: SessionKey, body: bytes, *, algorithm: str) -> str:
    """The signature as its header carries it; a request without body signs none.

    Raises `UnknownSignatureAlgorithmError`.
    """
    return base64.b64encode(_compute_hmac(key, body, algorithm=algorithm)).decode()


def _compute_hmac(key: SessionKey, body: bytes, *, algorithm: str) -> bytes:
    return hmac.digest(key.key, body, _get_hash_name(algorithm))


def build_headers(key: SessionKey | None, body: bytes, *, algorithm: str) -> dict[str, str]:
    """What to send along. Without a key nothing: who receives it answers that it waits for one."""
    if key is None:
        return {}
    return {
        SIGNATURE_HEADER: sign_body(key, body, algorithm=algorithm),
        ALGORITHM_HEADER: algorithm,
    }


def compute_body_digest(body: bytes) -> str:
    """As `BODY_HEADER` carries it."""
    return hashlib.sha256(body).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedUserRequest:
    """A request of one worker to another of which all is signed: method, path, receiver, time and a
    nonce, so that a recorded request can be sent again neither to the same nor to another worker;
    and its body by `compute_body_digest`, so that the head can be verified before the body is read.
    (Java signs two requests of its own, and of these the body alone.)

    `receiver`: the URL that the receiver advertises. `target`: path and query. `signed_ms`: wall
    time.
    """

    receiver: str
    method: str
    target: str
    digest: str
    signed_ms: int
    nonce: str

    @property
    def signed(self) -> bytes:
        """The bytes that the signature is of."""
        when = f"{self.signed_ms} {self.nonce}"
        receiver = self.receiver.rstrip("/")
        return f"{receiver}\n{self.method} {self.target}\n{when}\n{self.digest}".encode()

    def headers(self, key: SessionKey | None, *, algorithm: str) -> dict[str, str]:
        """As the function `build_headers`, and what the receiver needs besides."""
        found = build_headers(key, self.signed, algorithm=algorithm)
        return found and {
            **found,
            TIMESTAMP_HEADER: str(self.signed_ms),
            NONCE_HEADER: self.nonce,
            BODY_HEADER: self.digest,
        }


@dataclass(frozen=True, slots=True)
class SignatureValid:
    """The request comes from a worker of the group."""


@dataclass(frozen=True, slots=True)
class SignatureInvalid:
    """The request is to be refused with this HTTP status."""

    status: int
    message: str


SignatureCheck: TypeAlias = SignatureValid | SignatureInvalid


class ReplayGuard:
    """Accepts each `SignedUserRequest` to one worker once, and soon after it was signed. Not
    thread-safe.

    Nonces are forgotten when the process ends, so requests signed before are refused.
    """

    def __init__(self, receiver: str, *, started_ms: int) -> None:
        """`receiver`: the URL that this worker advertises. `started_ms`: wall time."""
        self._receiver = receiver
        self._started_ms = started_ms
        self._expires_ms: dict[str, int] = {}  # by nonce, in the order in which they came

    def verify(
        self,
        method: str,
        target: str,
        given: Mapping[str, str],
        *,
        key: SessionKey | None,
        settings: SessionKeySettings,
        wall_ms: int,
    ) -> SignatureCheck:
        """As the function `verify_signature`, of what a `SignedUserRequest` says in its headers:
        all but the body itself, whose digest the caller compares with that of `BODY_HEADER`."""
        by_name = {name.lower(): value for name, value in given.items()}
        signed_at = by_name.get(TIMESTAMP_HEADER.lower(), "")
        nonce = by_name.get(NONCE_HEADER.lower(), "")
        if not _TIMESTAMP_PATTERN.fullmatch(signed_at) or not _NONCE_PATTERN.fullmatch(nonce):
            return SignatureInvalid(
                400, f"Forwarded request needs the headers {TIMESTAMP_HEADER} and {NONCE_HEADER}"
            )
        request = SignedUserRequest(
            receiver=self._receiver,
            method=method,
            target=target,
            digest=by_name.get(BODY_HEADER.lower(), ""),
            signed_ms=int(signed_at),
            nonce=nonce,
        )
        verdict = verify_signature(request.signed, given, key=key, settings=settings)
        if isinstance(verdict, SignatureInvalid):
            return verdict
        return self._take(request, wall_ms)

    def _take(self, request: SignedUserRequest, wall_ms: int) -> SignatureCheck:
        while self._expires_ms and next(iter(self._expires_ms.values())) <= wall_ms:
            del self._expires_ms[next(iter(self._expires_ms))]
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
        if request.nonce in self._expires_ms:
            return SignatureInvalid(
                FORBIDDEN_STATUS,
                "Forwarded request was rejected as a replay: its nonce was already used",
            )
        if len(self._expires_ms) >= _MAX_NONCES:
            return SignatureInvalid(
                503, "Too many forwarded requests within a minute; try again soon"
            )
        self._expires_ms[request.nonce] = wall_ms + 2 * REPLAY_WINDOW_MS
        return SignatureValid()


def verify_signature(
    body: bytes,
    given: Mapping[str, str],
    *,
    key: SessionKey | None,
    settings: SessionKeySettings,
) -> SignatureCheck:
    """Judge a request by its body, as received, and its headers (names in any case).

    Not to be asked while the group speaks an older protocol: nothing is signed then.
    """
    by_name = {name.lower(): value for name, value in given.items()}
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
        return SignatureInvalid(400, f"The header {SIGNATURE_HEADER} is not base64")
    if key is None:
        return SignatureInvalid(
            503,
            "This worker has not read a session key from the config topic yet; try again soon",
        )
    if not hmac.compare_digest(_compute_hmac(key, body, algorithm=algorithm), decoded):
        return SignatureInvalid(FORBIDDEN_STATUS, "Internal request contained invalid signature.")
    return SignatureValid()
