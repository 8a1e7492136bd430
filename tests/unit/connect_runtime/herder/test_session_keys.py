from __future__ import annotations

import pytest

from connect_runtime.herder import session_keys
from connect_runtime.herder.session_keys import (
    ReplayGuard,
    SessionKeySettings,
    SignatureInvalid,
    SignatureValid,
    SignedUserRequest,
    UnknownSignatureAlgorithmError,
)
from connect_runtime.storage.cluster_config_state import SessionKey

KEY = SessionKey(
    key=b"0123456789abcdef0123456789abcdef", algorithm="HmacSHA256", created_ms=1_000_000
)
SETTINGS = SessionKeySettings()
BODY = b'[{"a":"1"},{"a":"2"}]'
SIGNED = "K9wTd/9wCAUEFCuD9HP/dQ4KE+q4E46XwIm7Ij5RDwc="


@pytest.mark.parametrize(
    ("body", "signature"), [(BODY, SIGNED), (b"", "eWzTB4rxRjZ1PSaztVVUIv9Vo+Jhz4R7SOlTcbm9CqI=")]
)
def test_signatures_are_javas(body, signature):
    assert session_keys.sign_request_body(KEY, body, algorithm="HmacSHA256") == signature
    assert session_keys.build_signature_headers(KEY, body, algorithm="HmacSHA256") == {
        "X-Connect-Authorization": signature,
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }


def test_without_a_key_nothing_is_signed():
    assert session_keys.build_signature_headers(None, BODY, algorithm="HmacSHA256") == {}


def verify(given, key=KEY, body=BODY):
    return session_keys.verify_signature(body, given, key=key, settings=SETTINGS)


def test_a_signature_of_the_peers_own_test_is_found_genuine():
    """InternalRequestSignatureTest's key, body and signature."""
    secret = "6d749131a219992c9d8a35bb578405305997fe3aa457433183b1d982cdcbab39"
    key = SessionKey(key=bytes.fromhex(secret), algorithm="HmacSHA256", created_ms=0)
    body = b'[{"config":"value"},{"config":"other_value"}]'
    signed = {
        "X-Connect-Authorization": "Kv1/OSsxzdVIwvZ4e30avyRIVrngDfhzVUm/kAZEKc4=",
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }
    assert session_keys.build_signature_headers(key, body, algorithm="HmacSHA256") == signed
    assert verify(signed, key, body) == SignatureValid()
    other = b'[{"different_config":"different_value"}]'
    bad = signed | {"X-Connect-Authorization": "YmFkIHNpZ25hdHVyZQ=="}
    for verdict in (verify(signed, key, other), verify(bad, key, body)):
        assert isinstance(verdict, SignatureInvalid)
        assert verdict.status == 403


def test_what_was_signed_is_genuine_whatever_the_case_of_headers():
    given = session_keys.build_signature_headers(KEY, BODY, algorithm="HmacSHA256")
    assert verify(given) == SignatureValid()
    assert verify({name.upper(): value for name, value in given.items()}) == SignatureValid()


@pytest.mark.parametrize(
    ("change", "key", "status"),
    [
        ({"X-Connect-Authorization": None}, KEY, 400),
        ({"X-Connect-Request-Signature-Algorithm": None}, KEY, 400),
        ({"X-Connect-Request-Signature-Algorithm": "HmacSHA512"}, KEY, 400),
        ({"X-Connect-Request-Signature-Algorithm": "nonsense"}, None, 400),
        ({"X-Connect-Authorization": "?"}, None, 400),
        ({}, None, 503),
        ({"X-Connect-Authorization": "AAAA"}, KEY, 403),
        ({"X-Connect-Authorization": SIGNED[:-5]}, KEY, 400),
    ],
)
def test_what_is_wrong_decides_the_status(change, key, status):
    given = session_keys.build_signature_headers(KEY, BODY, algorithm="HmacSHA256") | change
    given = {name: value for name, value in given.items() if value is not None}
    verdict = verify(given, key)
    assert isinstance(verdict, SignatureInvalid)
    assert verdict.status == status


def test_another_body_or_another_key_is_forbidden():
    given = session_keys.build_signature_headers(KEY, BODY, algorithm="HmacSHA256")
    other = SessionKey(key=b"x" * 32, algorithm="HmacSHA256", created_ms=0)
    for verdict in (verify(given, body=BODY + b" "), verify(given, key=other)):
        assert verdict == SignatureInvalid(403, "Internal request contained invalid signature.")


def test_a_key_is_renewed_when_missing_expired_or_of_another_kind():
    assert session_keys.compute_rotation_time_ms(None, SETTINGS) == 0
    assert session_keys.compute_rotation_time_ms(KEY, SETTINGS) == 1_000_000 + 3_600_000
    longer = SessionKeySettings(key_size_bits=512)
    assert session_keys.compute_rotation_time_ms(KEY, longer) == 0
    stronger = SessionKeySettings(generation_algorithm="HmacSHA512")
    assert session_keys.compute_rotation_time_ms(KEY, stronger) == 0


@pytest.mark.parametrize(
    ("settings", "length"),
    [
        (SETTINGS, 32),
        (SessionKeySettings(key_size_bits=129), 17),
        (SessionKeySettings(generation_algorithm="HmacSHA1"), 64),
        (SessionKeySettings(generation_algorithm="HmacSHA384"), 48),
    ],
)
def test_a_new_key_has_the_length_that_java_gives_it(settings, length):
    assert settings.key_bytes == length
    key = session_keys.build_session_key(settings, entropy=b"k" * length, wall_ms=7)
    assert (key.algorithm, key.created_ms) == (settings.generation_algorithm, 7)
    assert session_keys.compute_rotation_time_ms(key, settings) == 7 + settings.ttl_ms


def test_unknown_algorithms_are_told_at_the_start():
    with pytest.raises(
        UnknownSignatureAlgorithmError, match="unsupported signature algorithm 'Rot13'"
    ):
        SessionKeySettings(generation_algorithm="Rot13")
    with pytest.raises(AssertionError):
        SessionKeySettings(signature_algorithm="HmacSHA512")


def test_nonces_are_forgotten_once_no_clock_allows_them_and_are_bounded():
    guard = ReplayGuard("http://a:1/", started_ms=0)

    def taken(number, wall_ms, signed_ms=None, now_s=None):
        request = SignedUserRequest(
            receiver="http://a:1",
            method="GET",
            target="/",
            digest=session_keys.compute_body_digest(b""),
            signed_ms=wall_ms if signed_ms is None else signed_ms,
            nonce=f"{number:032x}",
        )
        given = request.build_headers(KEY, algorithm="HmacSHA256")
        verdict = guard.verify_request(
            "GET",
            "/",
            given,
            key=KEY,
            settings=SETTINGS,
            wall_ms=wall_ms,
            now_s=wall_ms / 1000 if now_s is None else now_s,
        )
        if isinstance(verdict, SignedUserRequest):
            return 200
        if verdict.status == 503:
            assert "within two minutes" in verdict.message
        return verdict.status

    assert taken(1, 1_000_000) == 200
    assert taken(1, 1_060_000, 1_000_000) == 403
    assert taken(2, 1_000_000, 1_060_000) == 200  # the sender's clock is ahead
    assert taken(2, 1_120_000, 1_060_000) == 403
    assert taken(3, 1_130_000) == 200
    assert taken(4, 2_000_000, now_s=1_131) == 200  # the clock jumps and is set back
    assert taken(3, 1_132_000, 1_130_000) == 403
    assert taken(1, 1_400_000) == 200  # another request by the same number
    most = session_keys._MAX_NONCES
    start = 2_000_000
    assert {taken(number, start) for number in range(most)} == {200}
    assert taken(most, start) == 503
    assert len(guard._expires_s) == most
    assert taken(most, start + 120_000) == 503
    assert taken(most, start + 121_001) == 200
    assert len(guard._expires_s) == 1


@pytest.mark.parametrize(
    ("receiver", "signed_ms", "status"),
    [
        ("http://a:1/", 1_000_000, 200),
        ("http://a:1", 998_000, 200),
        ("http://a:1/", 997_999, 503),
        ("http://b:1/", 1_000_000, 403),
        ("https://a:1/", 1_000_000, 403),
        ("", 1_000_000, 403),
    ],
)
def test_a_request_is_for_one_worker_that_ran_when_it_was_signed(receiver, signed_ms, status):
    request = SignedUserRequest(
        receiver=receiver,
        method="GET",
        target="/",
        digest=session_keys.compute_body_digest(b""),
        signed_ms=signed_ms,
        nonce="0" * 32,
    )
    guard = ReplayGuard("http://a:1/", started_ms=1_000_000)
    given = request.build_headers(KEY, algorithm="HmacSHA256")
    verdict = guard.verify_request(
        "GET", "/", given, key=KEY, settings=SETTINGS, wall_ms=1_000_001, now_s=7
    )
    found = 200 if isinstance(verdict, SignedUserRequest) else verdict.status
    assert found == status
