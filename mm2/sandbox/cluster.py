"""A Kafka cluster of one or three brokers on this machine (KRaft, every node also a controller).

    with Cluster("east") as east:
        Producer({"bootstrap.servers": east.bootstrap})

The brokers die with this process, however it ends. Ports stay reserved until `close`.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from mm2.sandbox import artefacts, broker, failures, ports, properties

_HOST = "127.0.0.1"
_START_ATTEMPTS = 3
_FORMAT_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One more listener of one broker: bound to `port`, known to clients as `advertised`.

    For a proxy in between: the proxy listens at `advertised` ("host:port") and forwards to `port`.
    """

    name: str
    port: int
    advertised: str


class Cluster:
    """Brokers with node ids 1 to `brokers`; `cluster.brokers[1]` is node 1. Not thread-safe.

    `settings` hold for every broker, `broker_settings` (by node id) for one; both win over ours.
    `folder` is kept at `close`; without it a temporary one is made, and removed.
    """

    def __init__(
        self,
        name: str,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        broker_settings: Mapping[int, Mapping[str, str]] | None = None,
        listeners: Mapping[int, Sequence[Listener]] | None = None,
        folder: Path | None = None,
        jvm: tuple[str, ...] = broker.TEST_JVM,
    ) -> None:
        if brokers not in {1, 3}:
            raise failures.SandboxError(f"cluster {name}: 1 or 3 brokers, not {brokers}")
        self.name = name
        self.brokers: dict[int, broker.Broker] = {}
        self._node_ids = range(1, brokers + 1)
        self._settings = dict(settings or {})
        self._broker_settings = dict(broker_settings or {})
        self._listeners = {node: tuple(more) for node, more in (listeners or {}).items()}
        self._jvm = jvm
        self._given_folder = folder
        self._reservations: list[ports.Reservation] = []
        self._addresses: dict[int, str] = {}
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.folder = folder or Path(tempfile.mkdtemp(prefix=f"mm2-{name}-"))

    @property
    def bootstrap(self) -> str:
        """`host:port,…` of the brokers' client listeners."""
        return ",".join(self._addresses[node] for node in self._node_ids)

    def bootstrap_of(self, listener_name: str) -> str:
        """`host:port,…` as advertised for one of the extra listeners."""
        return ",".join(
            listener.advertised
            for node in self._node_ids
            for listener in self._listeners.get(node, ())
            if listener.name == listener_name
        )

    def client_properties(self) -> dict[str, str]:
        """What a client needs to connect, as Java client properties."""
        return {"bootstrap.servers": self.bootstrap, "security.protocol": "PLAINTEXT"}

    def start(self, *, timeout_s: float = 60.0) -> Self:
        """Start all brokers and wait until they serve."""
        if self.brokers:
            for node in self.brokers.values():
                if not node.running:
                    node.launch()
            self._await_ready(timeout_s)
            return self
        for attempt in range(1, _START_ATTEMPTS + 1):
            try:
                self._create()
                self._await_ready(timeout_s)
                break
            except failures.PortInUseError:
                self._discard()
                if attempt == _START_ATTEMPTS:
                    raise
            except BaseException:
                self.kill()
                raise
        return self

    def stop(self, *, timeout_s: float = 15.0) -> None:
        """Stop all brokers gracefully, all at once; what is there after `timeout_s` is killed."""
        for node in self.brokers.values():
            node.request_stop()
        for node in self.brokers.values():
            node.await_stopped(timeout_s=timeout_s)

    def restart(self, *, timeout_s: float = 60.0) -> None:
        """Stop and start all brokers, on the same ports and data."""
        self.stop()
        self.start(timeout_s=timeout_s)

    def kill(self) -> None:
        """SIGKILL to all brokers."""
        for node in self.brokers.values():
            node.kill()

    def freeze(self) -> None:
        """SIGSTOP to all brokers."""
        for node in self.brokers.values():
            node.freeze()

    def thaw(self) -> None:
        """SIGCONT to all brokers."""
        for node in self.brokers.values():
            node.thaw()

    def close(self) -> None:
        """Kill the brokers, give the ports back and remove the folder, unless it was given."""
        self.kill()
        for reservation in self._reservations:
            reservation.release()
        if self._given_folder is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def log_text(self) -> str:
        """The logs of all brokers, one after the other."""
        return "\n".join(node.log_text for node in self.brokers.values())

    def _create(self) -> None:
        jars = artefacts.jars()
        client_ports = {node: self._reserve() for node in self._node_ids}
        controller_ports = {node: self._reserve() for node in self._node_ids}
        self._addresses = {node: f"{_HOST}:{port}" for node, port in client_ports.items()}
        voters = ",".join(f"{node}@{_HOST}:{port}" for node, port in controller_ports.items())
        for node in self._node_ids:
            folder = self.folder / f"broker-{node}"
            addresses = self._listener_settings(node, client_ports[node], controller_ports[node])
            settings = {
                **properties.defaults(len(self._node_ids)),
                **addresses,
                "controller.quorum.voters": voters,
                "log.dirs": str(folder / "data"),
                **self._settings,
                **self._broker_settings.get(node, {}),
            }
            self.brokers[node] = broker.Broker(
                broker.BrokerSpec(
                    node_id=node, folder=folder, jars=jars, settings=settings, jvm=self._jvm
                )
            )
        for created in self.brokers.values():
            self._format(created)
            created.launch()

    def _listener_settings(
        self, node: int, client_port: int, controller_port: int
    ) -> dict[str, str]:
        more = self._listeners.get(node, ())
        bound = {properties.CLIENT_LISTENER: f"{_HOST}:{client_port}"}
        bound |= {listener.name: f"{_HOST}:{listener.port}" for listener in more}
        advertised = bound | {listener.name: listener.advertised for listener in more}
        controller = {properties.CONTROLLER_LISTENER: f"{_HOST}:{controller_port}"}
        return {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "listeners": _joined(bound | controller),
            "advertised.listeners": _joined(advertised),
            "controller.listener.names": properties.CONTROLLER_LISTENER,
            "inter.broker.listener.name": properties.CLIENT_LISTENER,
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in (bound | controller)
            ),
        }

    def _format(self, node: broker.Broker) -> None:
        node.prepare()
        argv = node.java_tool(
            "kafka.tools.StorageTool",
            *("format", "--cluster-id", self.cluster_id),
            *("--config", str(node.folder / "server.properties")),
        )
        try:
            done = subprocess.run(  # noqa: S603 - java, with our own arguments
                argv, capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise failures.SandboxError(
                f"formatting the storage of broker {node.node_id} took over {_FORMAT_TIMEOUT_S} s"
            ) from error
        if done.returncode:
            raise failures.SandboxError(
                f"formatting the storage of broker {node.node_id} in {node.folder}: {done.stderr}"
            )

    def _reserve(self) -> int:
        reservation = ports.reserve()
        self._reservations.append(reservation)
        return reservation.port

    def _await_ready(self, timeout_s: float) -> None:
        for node in self.brokers.values():
            node.await_ready(timeout_s=timeout_s)

    def _discard(self) -> None:
        """Forget a first start that met a taken port: other ports mean a new format."""
        self.kill()
        for node in self.brokers.values():
            shutil.rmtree(node.folder, ignore_errors=True)
        self.brokers.clear()


def _joined(addresses: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())


def start_all(clusters: Sequence[Cluster], *, timeout_s: float = 60.0) -> None:
    """Start several clusters; raises what the first that fails raises."""
    for each in clusters:
        each.start(timeout_s=timeout_s)
