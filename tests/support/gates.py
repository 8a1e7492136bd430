"""A cluster with many doors: one broker with a listener of every kind, sound and spoiled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.system import certificates, clock
from mm2.sandbox import cluster, ports

PLAIN, TLS, EXPIRED, ELSEWHERE, LOST, OPEN_SASL = (
    *("PLAIN", "TLS", "EXPIRED", "ELSEWHERE", "LOST"),
    "OPENSASL",
)
_PROTOCOLS = {
    "CLIENT": "SASL_SSL",
    "CONTROLLER": "SASL_SSL",
    PLAIN: "PLAINTEXT",
    TLS: "SSL",
    EXPIRED: "SSL",
    ELSEWHERE: "SSL",
    LOST: "PLAINTEXT",
    OPEN_SASL: "SASL_PLAINTEXT",
}
_DAY_MS = 86_400_000
_OTHER_HOST = "kafka.elsewhere.example"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """`authority` is the file with the certificate of who signed for EXPIRED, ELSEWHERE, TLS.

    LOST advertises `lost`, where nobody listens.
    """

    cluster: cluster.Cluster
    authority: Path
    lost: str

    def at(self, listener: str) -> str:
        """host:port where it is bound, which is what it advertises but for LOST."""
        return self.cluster.bootstrap_of(listener)


@contextlib.contextmanager
def opened(folder: Path, users: Sequence[str]) -> Iterator[Gate]:
    """One broker; `users` have passwords and no rights yet."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = _certificates(folder)
    with contextlib.ExitStack() as stack:
        names = (PLAIN, TLS, EXPIRED, ELSEWHERE, OPEN_SASL)
        bound = {name: _port(stack) for name in (*names, LOST, "nobody")}
        listeners = [
            cluster.Listener(name=name, port=bound[name], advertised=f"127.0.0.1:{bound[name]}")
            for name in names
        ]
        lost = f"127.0.0.1:{bound['nobody']}"
        listeners.append(cluster.Listener(name=LOST, port=bound[LOST], advertised=lost))
        settings = {
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in _PROTOCOLS.items()
            ),
            **{
                f"listener.name.{name.lower()}.ssl.keystore.{key}": value
                for name, file in keys.items()
                for key, value in (("type", "PEM"), ("location", str(file)))
            },
        }
        running = stack.enter_context(
            cluster.Cluster("gate", users=users, settings=settings, listeners={1: listeners})
        )
        yield Gate(cluster=running, authority=folder / "authority.pem", lost=lost)


def lost_door(gate: Gate) -> str:
    """Where LOST really listens."""
    settings = gate.cluster.brokers[1].folder / "server.properties"
    (line,) = [each for each in settings.read_text().splitlines() if each.startswith("listeners=")]
    (found,) = [each for each in line.split(",") if LOST in each]
    return found.rpartition("//")[2]


def _port(stack: contextlib.ExitStack) -> int:
    reserved = ports.reserve()
    stack.callback(reserved.release)
    return reserved.port


def _certificates(folder: Path) -> dict[str, Path]:
    """Key and certificate of each listener that has its own."""
    now_ms = clock.SystemClock().wall_ms()
    long_ago_ms = now_ms - 30 * _DAY_MS
    authority = certificates.Authority.create("test", wall_ms=long_ago_ms)
    (folder / "authority.pem").write_bytes(authority.certificate_pem)
    leaves = {
        TLS: authority.issue("broker", hosts=["127.0.0.1"], wall_ms=now_ms),
        EXPIRED: authority.issue("broker", hosts=["127.0.0.1"], wall_ms=long_ago_ms, valid_days=1),
        ELSEWHERE: authority.issue("broker", hosts=[_OTHER_HOST], wall_ms=now_ms),
    }
    files = {name: folder / f"{name.lower()}.pem" for name in leaves}
    for name, leaf in leaves.items():
        files[name].write_bytes(leaf.key_pem + leaf.certificate_pem)
    return files
