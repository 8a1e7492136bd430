from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from connect_runtime.protocol import sasl
from connect_runtime.protocol.sasl import SaslExchangeRefused


def test_plain_sends_name_and_password_once():
    plain = sasl.create_sasl_exchange("PLAIN", "alice", password="se cret")
    assert plain.create_first_message() == b"\0alice\0se cret"
    assert plain.respond_to_challenge(b"") is None
    with pytest.raises(SaslExchangeRefused, match="challenge"):
        sasl.create_sasl_exchange("PLAIN", "a", password="b").respond_to_challenge(b"more?")


def test_scram_sha_256_matches_the_example_of_rfc_7677():
    scram = sasl.create_sasl_exchange(
        "SCRAM-SHA-256", "user", password="pencil", nonce="rOprNGfwEbeRWgbNEkqO"
    )
    assert scram.create_first_message() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = scram.respond_to_challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert scram.respond_to_challenge(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


class Server:
    """The broker's side as Kafka's ScramSaslServer has it: raw UTF-8, no preparation."""

    def __init__(self, digest: str, username: str, password: str, iterations: int = 4096) -> None:
        self.digest = digest
        self.username = username.replace("=", "=3D").replace(",", "=2C")
        self.iterations = iterations
        self.salt = b"salt-of-the-earth"
        self.salted = hashlib.pbkdf2_hmac(digest, password.encode(), self.salt, iterations)

    def mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self.digest).digest()

    def first(self, client_first: bytes) -> bytes:
        self.bare = client_first.removeprefix(b"n,,")
        name, nonce = self.bare.decode().split(",r=")
        assert name == f"n={self.username}"
        salt = base64.b64encode(self.salt).decode()
        self.server_first = f"r={nonce}XYZ,s={salt},i={self.iterations}".encode()
        return self.server_first

    def final(self, client_final: bytes) -> bytes:
        without_proof, proof = client_final.split(b",p=")
        message = b",".join((self.bare, self.server_first, without_proof))
        client_key = self.mac(self.salted, b"Client Key")
        signature = self.mac(hashlib.new(self.digest, client_key).digest(), message)
        expected = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        assert base64.b64decode(proof) == expected, "wrong password"
        return b"v=" + base64.b64encode(self.mac(self.mac(self.salted, b"Server Key"), message))


@pytest.mark.parametrize("mechanism", sasl.SCRAM_MECHANISMS)
@pytest.mark.parametrize(
    ("username", "password"),
    [
        ("alice", "secret"),
        ("a,b=c", "p,=q"),
        ("ünï", "pass\u00adword \u210c\u00a0x"),  # what SASLprep would change
        ("x", "\x07control"),  # what SASLprep would refuse
    ],
)
def test_scram_agrees_with_an_independent_server(mechanism, username, password):
    digest = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    server = Server(digest, username, password, iterations=8192)
    scram = sasl.create_sasl_exchange(mechanism, username, password=password)
    final = scram.respond_to_challenge(server.first(scram.create_first_message()))
    assert final is not None
    assert scram.respond_to_challenge(server.final(final)) is None


def test_nonces_differ():
    assert (
        len(
            {
                sasl.create_sasl_exchange("SCRAM-SHA-512", "u", password="p").create_first_message()
                for _ in range(5)
            }
        )
        == 5
    )


@pytest.mark.parametrize(
    ("iterations", "problem"),
    [
        (1024, "must not be < 4096"),
        (100_001, "requests 100001 iterations; allowed: 4,096 to 100,000"),
        (10**9, "must not be > 10000000"),
    ],
)
def test_iteration_counts_are_bounded_both_ways(iterations, problem):
    scram = sasl.create_sasl_exchange("SCRAM-SHA-256", "u", password="hunter2", nonce="abc")
    scram.create_first_message()
    with pytest.raises(SaslExchangeRefused, match=problem) as caught:
        scram.respond_to_challenge(
            b"r=abcdef,s=" + base64.b64encode(b"s" * 16) + f",i={iterations}".encode()
        )
    assert "hunter2" not in repr(caught.value) + str(caught.value.__context__)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff\xfe",
        b"e=unknown-user",
        b"r=other,s=" + base64.b64encode(b"s" * 16) + b",i=4096",
        b"r=abcdef,s=!!!,i=4096",
    ],
)
def test_malformed_or_foreign_challenges_are_refused(challenge):
    scram = sasl.create_sasl_exchange("SCRAM-SHA-256", "u", password="p", nonce="abc")
    scram.create_first_message()
    with pytest.raises(SaslExchangeRefused, match="SCRAM-SHA-256: "):
        scram.respond_to_challenge(challenge)


@pytest.mark.parametrize("forged", [b"v=" + base64.b64encode(b"x" * 32), b"e=other-error", b"v="])
def test_a_broker_that_does_not_know_the_password_is_found_out(forged):
    server = Server("sha256", "u", "p")
    scram = sasl.create_sasl_exchange("SCRAM-SHA-256", "u", password="p")
    scram.respond_to_challenge(server.first(scram.create_first_message()))
    with pytest.raises(SaslExchangeRefused):
        scram.respond_to_challenge(forged)


def test_no_repr_shows_the_password():
    for mechanism in (sasl.PLAIN, *sasl.SCRAM_MECHANISMS):
        assert "hunter2" not in repr(sasl.create_sasl_exchange(mechanism, "u", password="hunter2"))
    assert "hunter2" not in repr(sasl.create_oauthbearer_exchange("hunter2", {}))


def test_a_bearer_says_its_token_and_its_extensions_at_once():
    exchange = sasl.create_oauthbearer_exchange(
        "t0ken", {"logicalCluster": "lkc-1", "identityPoolId": "p-2"}
    )
    told = b"n,,\x01auth=Bearer t0ken\x01logicalCluster=lkc-1\x01identityPoolId=p-2\x01\x01"
    assert exchange.create_first_message() == told
    assert exchange.respond_to_challenge(b"") is None
    assert (
        sasl.create_oauthbearer_exchange("t0ken", {}).create_first_message()
        == b"n,,\x01auth=Bearer t0ken\x01\x01"
    )


def test_a_refused_bearer_asks_for_the_refusal_and_takes_no_other_answer():
    """RFC 7628, 3.2.2: the broker's JSON is followed by an empty turn of ours, then by an error."""
    exchange = sasl.create_oauthbearer_exchange("t0ken", {})
    exchange.create_first_message()
    assert exchange.respond_to_challenge(b'{"status":"invalid_token"}') == b"\x01"
    for later in (b"", b"more"):
        with pytest.raises(SaslExchangeRefused, match="another challenge after it refused"):
            exchange.respond_to_challenge(later)
