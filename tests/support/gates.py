"""A cluster with many doors: one broker with a listener of every kind, sound and spoiled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import cluster_security, port_reservation
from mm2.sandbox.sandbox_cluster import ClusterListener, SandboxCluster

PLAIN, LOST, SASL = "PLAIN", "LOST", "OPENSASL"
TLS, EXPIRED, SOON, ELSEWHERE, MUTUAL = "TLS", "EXPIRED", "SOON", "ELSEWHERE", "MUTUAL"
_PROTOCOLS = {
    "CLIENT": "SASL_SSL",
    "CONTROLLER": "SASL_SSL",
    PLAIN: "PLAINTEXT",
    TLS: "SSL",
    EXPIRED: "SSL",
    SOON: "SSL",
    ELSEWHERE: "SSL",
    MUTUAL: "SSL",
    LOST: "PLAINTEXT",
    SASL: "SASL_PLAINTEXT",
}
_DAY_MS = 86_400_000
_OTHER_HOST = "kafka.elsewhere.example"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """`authority` is the file with the certificate of who signed for the listeners with TLS.

    That of SOON ends in ten days. MUTUAL wants certificates of clients, SASL takes PLAIN alone.
    LOST advertises `lost`, where nobody listens. `port_reservation` say where listeners are bound.
    """

    cluster: SandboxCluster
    authority: Path
    ports: Mapping[str, int]
    lost: str

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"


@contextlib.contextmanager
def opened(folder: Path, users: Sequence[str]) -> Iterator[Gate]:
    """One broker; `users` have passwords and no rights yet."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = _certificates(folder)
    own = [name for name in _PROTOCOLS if name not in ("CLIENT", "CONTROLLER")]
    with contextlib.ExitStack() as stack:
        bound = {name: _port(stack) for name in own}
        lost = f"127.0.0.1:{_port(stack)}"
        listeners = [
            ClusterListener(
                name=name,
                port=bound[name],
                advertised=lost if name == LOST else f"127.0.0.1:{bound[name]}",
            )
            for name in own
        ]
        settings = {
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in _PROTOCOLS.items()
            ),
            f"listener.name.{SASL.lower()}.sasl.enabled.mechanisms": cluster_security.PLAIN,
            f"listener.name.{MUTUAL.lower()}.ssl.client.auth": "required",
            **{
                f"listener.name.{name.lower()}.ssl.keystore.{key}": value
                for name, file in keys.items()
                for key, value in (("type", "PEM"), ("location", str(file)))
            },
        }
        running = stack.enter_context(
            SandboxCluster("gate", users=users, settings=settings, listeners={1: listeners})
        )
        yield Gate(cluster=running, authority=folder / "authority.pem", ports=bound, lost=lost)


def _port(stack: contextlib.ExitStack) -> int:
    reserved = port_reservation.reserve_port()
    stack.callback(reserved.release)
    return reserved.port


def _certificates(folder: Path) -> dict[str, Path]:
    """Key and certificate of each listener that has its own."""
    now_ms = SystemClock().wall_ms()
    long_ago_ms = now_ms - 30 * _DAY_MS
    authority = CertificateAuthority.create("test", wall_ms=long_ago_ms)
    (folder / "authority.pem").write_bytes(authority.certificate_pem)
    sound = authority.issue_certificate("broker", hosts=["127.0.0.1"], wall_ms=now_ms)
    leaves = {
        TLS: sound,
        MUTUAL: sound,
        EXPIRED: authority.issue_certificate(
            "broker", hosts=["127.0.0.1"], wall_ms=long_ago_ms, valid_days=1
        ),
        SOON: authority.issue_certificate(
            "broker", hosts=["127.0.0.1"], wall_ms=now_ms, valid_days=10
        ),
        ELSEWHERE: authority.issue_certificate("broker", hosts=[_OTHER_HOST], wall_ms=now_ms),
    }
    files = {name: folder / f"{name.lower()}.pem" for name in leaves}
    for name, leaf in leaves.items():
        files[name].write_bytes(leaf.key_pem + leaf.certificate_pem)
    return files
