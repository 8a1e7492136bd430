"""An OIDC issuer on this machine: signs tokens for the clients it knows, publishes its key."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import ssl
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.supervised_threads import StoppableThread
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import java_server_process, port_reservation
from mm2.sandbox.sandbox_cluster import ClusterListener

CLIENT, SECRET = "mm2", "s3cret+/of=mm2"
AUDIENCE = "kafka"
LISTENER = "OAUTH"
_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_CLOCK = SystemClock()


@dataclass(kw_only=True)
class Issuer:
    """`life_s` of tokens, and `audience` in them, may be changed; `status` not 200: it refuses;
    `silent_s`: it thinks for so long.

    `asked` counts requests for tokens; `scopes` are those that were asked for.
    """

    port: int
    tls: CertificateAuthority | None = None
    secrets: dict[str, str] = field(default_factory=lambda: {CLIENT: SECRET})
    life_s: float = 3600.0
    audience: str = AUDIENCE
    status: int = 200
    silent_s: float = 0.0
    asked: int = 0
    scopes: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    _key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )

    @property
    def address(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def client_properties(self, **changed: str) -> dict[str, str]:
        """SASL as Java spells it; `changed` are clientId, clientSecret and further options."""
        options = {"clientId": CLIENT, "clientSecret": SECRET, "scope": "kafka", **changed}
        words = " ".join(f'{name}="{value}"' for name, value in options.items())
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": f"{self.address}/token",
            "sasl.jaas.config": f"{_MODULE} required {words};",
        }

    def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        if path == "/jwks":
            return 200, {"keys": [self._jwk()]}
        self.asked += 1
        if self.silent_s:
            threading.Event().wait(self.silent_s)
        if self.status != 200:
            return self.status, {"error": "server_error", "error_description": "out of order"}
        credentials = base64.b64decode(headers.get("Authorization", "").removeprefix("Basic "))
        client, _, secret = credentials.decode().partition(":")
        if self.secrets.get(client) != secret:
            return 401, {"error": "invalid_client", "error_description": f"got {secret}"}
        asked = urllib.parse.parse_qs(body.decode())
        assert asked["grant_type"] == ["client_credentials"], asked
        self.scopes += asked.get("scope", [])
        expires_s = int(_CLOCK.wall_ms() / 1000 + self.life_s)
        self.tokens.append(self._token(client, expires_s))
        life_s = expires_s - _CLOCK.wall_ms() / 1000
        return 200, {"access_token": self.tokens[-1], "expires_in": life_s}

    def _token(self, client: str, expires_s: int) -> str:
        claims = {
            "sub": client,
            "aud": self.audience,
            "scope": "kafka",
            "iat": _CLOCK.wall_ms() // 1000,
            "exp": expires_s,
            "jti": str(self.asked),
        }
        head = {"alg": "RS256", "typ": "JWT", "kid": "test"}
        signed = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"

    def _jwk(self) -> dict[str, str]:
        numbers = self._key.public_key().public_numbers()
        parts = {"n": numbers.n, "e": numbers.e}
        encoded = {
            name: _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))
            for name, value in parts.items()
        }
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "test", **encoded}


@contextlib.contextmanager
def running(*, tls: CertificateAuthority | None = None) -> Iterator[Issuer]:
    """With `tls` it speaks HTTPS, with a certificate of that authority."""
    reserved = port_reservation.reserve_port()
    found = Issuer(port=reserved.port, tls=tls)
    server = _Server(("127.0.0.1", found.port), _handler(found))
    if tls is not None:
        server.socket = _context(tls).wrap_socket(server.socket, server_side=True)

    def serve(stop: threading.Event) -> None:
        server.serve_forever(poll_interval=0.05)

    thread = StoppableThread("issuer", serve, on_unexpected_end=lambda end: None)
    try:
        yield found
    finally:
        server.shutdown()
        thread.stop.set()
        thread.join(5.0)
        server.server_close()
        reserved.release()


def trusting(issuer: Issuer, **settings: str) -> dict[str, Any]:
    """Options of a sandbox cluster whose clients show this issuer's tokens."""
    prefix = "listener.name.client"
    jwks = f"{issuer.address}/jwks"
    return {
        "settings": {
            "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
            ",INNER:PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": jwks,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{_MODULE} required;",
            "inter.broker.listener.name": "INNER",
            **settings,
        },
        "jvm": (
            *java_server_process.TEST_JVM_FLAGS,
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks}",
        ),
    }


def plain_listener(port: int) -> ClusterListener:
    """For the broker itself, and for tests that need no token."""
    return ClusterListener(name="INNER", port=port, advertised=f"127.0.0.1:{port}")


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that were killed, or waited long enough, are no news; all else is printed."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _handler(issuer: Issuer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, body: bytes) -> None:
            status, found = issuer.answer(self.path, dict(self.headers), body)
            text = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return Handler


def _context(authority: CertificateAuthority) -> ssl.SSLContext:
    leaf = authority.issue_certificate("issuer", hosts=["127.0.0.1"], wall_ms=_CLOCK.wall_ms())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("wb", suffix=".pem") as file:
        file.write(leaf.key_pem + leaf.certificate_pem)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
