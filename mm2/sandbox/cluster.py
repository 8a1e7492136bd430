"""A Kafka cluster of one or three brokers on this machine.

Every node is its own controller; those of releases before KRaft have a ZooKeeper beside them.

    with cluster.Cluster("east") as east:
        Producer({"bootstrap.servers": east.bootstrap})

The brokers die with this process, however it ends. Ports stay reserved until `close`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from mm2.sandbox import (
    artefacts,
    broker,
    class_archive,
    containers,
    failures,
    folders,
    ports,
    properties,
    releases,
    runners,
    secure,
    server,
    settling,
    storage,
    zookeeper,
)
from mm2.sandbox import jvm as java_programs

Listener = properties.Listener

_START_ATTEMPTS = 3


class Cluster:
    """Brokers with node ids 1 to `brokers`; `cluster.brokers[1]` is node 1. Not thread-safe.

    - `settings` hold for every broker, `broker_settings` (by node id) for one; both win over ours.
    - `listeners` (by node id) are further listeners, for proxies in between.
    - `users`: not None makes the cluster secure, with `admin` and these users (see `secure.py`).
    - `folder` is kept at `close`; without it a temporary one is made, and removed.
    - `port` is where node 1 listens if that port is free; node 2 at the next, and so on. A node
      whose port is in use gets any free one.
    - `kafka_version`: see `releases.py`; its jars are fetched at the first start.
    - `in_containers`: brokers run in Docker, from Apache's image of that release.
    """

    def __init__(
        self,
        name: str,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        broker_settings: Mapping[int, Mapping[str, str]] | None = None,
        listeners: Mapping[int, Sequence[Listener]] | None = None,
        users: Sequence[str] | None = None,
        folder: Path | None = None,
        port: int | None = None,
        jvm: tuple[str, ...] = java_programs.TEST_FLAGS,
        kafka_version: str = releases.NEWEST.version,
        in_containers: bool = False,
    ) -> None:
        if brokers not in {1, 3}:
            raise failures.SandboxError(f"cluster {name}: 1 or 3 brokers, not {brokers}")
        self.name = name
        self.release = releases.find(kafka_version)
        if in_containers:
            containers.image(self.release)  # that there is none is said before anything is made
        self.zookeeper: zookeeper.ZooKeeper | None = None
        self.brokers: dict[int, broker.Broker] = {}
        self.cluster_id = storage.new_cluster_id()
        self._node_ids = range(1, brokers + 1)
        self._settings = dict(settings or {})
        self._broker_settings = dict(broker_settings or {})
        self._listeners = {node: tuple(more) for node, more in (listeners or {}).items()}
        self._jvm = jvm
        self._in_containers = in_containers
        self.preferred_ports: dict[int, int] = (
            {} if port is None else {node: port + node - 1 for node in self._node_ids}
        )
        self._any_ports = False
        self._temporary: folders.Temporary | None = None
        if folder is None:
            self._temporary = folders.temporary(name)
            folder = self._temporary.path
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._reservations: list[ports.Reservation] = []
        self._addresses: dict[int, str] = {}
        self._has_users = False
        self.security: secure.Security | None = None
        if users is not None:
            self.security = secure.Security.create(self.folder / "security", users)

    @property
    def bootstrap(self) -> str:
        """`host:port,…` of the brokers' client listeners; known once started."""
        if not self._addresses:
            raise failures.SandboxError(f"cluster {self.name} has no addresses before its start")
        return ",".join(self._addresses[node] for node in self._node_ids)

    @property
    def addresses(self) -> Mapping[int, str]:
        """`host:port` of each broker's client listener, by node id; empty before the start."""
        return dict(self._addresses)

    def bootstrap_of(self, listener_name: str) -> str:
        """`host:port,…` as advertised for one of the further listeners."""
        return ",".join(
            listener.advertised
            for node in self._node_ids
            for listener in self._listeners.get(node, ())
            if listener.name == listener_name
        )

    def client_properties(
        self, user: str = secure.ADMIN, *, mechanism: str = secure.SCRAM_512
    ) -> dict[str, str]:
        """What a client needs to connect, as Java client properties.

        `user` and `mechanism` (SCRAM-SHA-512, SCRAM-SHA-256, PLAIN) matter to a secure cluster.
        """
        base = {"bootstrap.servers": self.bootstrap}
        if self.security is None:
            return base | {"security.protocol": "PLAINTEXT"}
        return base | self.security.client_properties(user, mechanism)

    @property
    def log_text(self) -> str:
        """The logs of all brokers, one after the other."""
        return "\n".join(node.log_text for node in self.brokers.values())

    def start(self, *, timeout_s: float = 60.0) -> Self:
        """Start all brokers that are down and wait until they serve."""
        start_all([self], timeout_s=timeout_s)
        return self

    def launch(self) -> None:
        """Start without waiting for brokers; `await_ready` does. The first time, make them."""
        if not self.brokers:
            self._create()
        if self.zookeeper is not None and not self.zookeeper.running:
            self.zookeeper.start()
        for node in self.brokers.values():
            if not node.running:
                node.launch()

    def await_ready(self, *, timeout_s: float = 60.0) -> None:
        """Wait until all launched brokers serve; tries other ports when a new one met a taken one.

        Raises `SandboxError` with the end of the log of a broker that does not start.
        """
        for attempt in range(1, _START_ATTEMPTS + 1):
            try:
                for node in self.brokers.values():
                    node.await_ready(timeout_s=timeout_s)
                self._settle()
            except failures.PortInUseError:
                if attempt == _START_ATTEMPTS or not self._discard_if_new():
                    raise
                self.launch()
            else:
                return

    def stop(self, *, timeout_s: float = 15.0) -> None:
        """Stop all brokers gracefully, all at once; what is there after `timeout_s` is killed."""
        for node in self.brokers.values():
            node.request_stop()
        for node in self.brokers.values():
            node.await_stopped(timeout_s=timeout_s)
        if self.zookeeper is not None:
            self.zookeeper.stop(timeout_s=timeout_s)

    def restart(self, *, timeout_s: float = 60.0) -> None:
        """Stop and start all brokers, on the same ports and data."""
        self.stop()
        self.start(timeout_s=timeout_s)

    def kill(self) -> None:
        """SIGKILL to all brokers, and to their ZooKeeper."""
        for each in self.servers():
            each.kill()

    def freeze(self) -> None:
        """SIGSTOP to all brokers, and to their ZooKeeper."""
        for each in self.servers():
            each.freeze()

    def thaw(self) -> None:
        """SIGCONT to all that `freeze` stopped."""
        for each in self.servers():
            each.thaw()

    def close(self) -> None:
        """Kill the brokers, give the ports back and remove the folder, unless it was given."""
        self.kill()
        self._release_ports()
        if self._temporary is not None:
            self._temporary.remove()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _create(self) -> None:
        preferred = {} if self._any_ports else self.preferred_ports
        client_ports = {node: self._reserve(preferred.get(node)) for node in self._node_ids}
        self._addresses = {node: f"{properties.HOST}:{port}" for node, port in client_ports.items()}
        if self.release.zookeeper:
            self._create_with_zookeeper(client_ports)
        else:
            self._create_with_controllers(client_ports)

    def _runner(self) -> runners.Runner:
        """Where brokers run; fetches what that needs."""
        if self._in_containers:
            containers.check()
            return containers.InContainers(
                image=containers.image(self.release), folder=self.folder.absolute()
            )
        jars = artefacts.jars(self.release.artefacts)
        return runners.Here(jars, archive=class_archive.flags(jars, self.release))

    def _create_with_controllers(self, client_ports: Mapping[int, int]) -> None:
        runner = self._runner()
        controller_ports = {node: self._reserve() for node in self._node_ids}
        for node in self._node_ids:
            addresses = properties.addresses(
                node,
                client_port=client_ports[node],
                controller_ports=controller_ports,
                listeners=self._listeners.get(node, ()),
                protocol=self._protocol,
            )
            self._add_broker(node, runner, addresses=addresses)
        storage.format_all(
            self.brokers.values(),
            cluster_id=self.cluster_id,
            arguments=self.security.format_arguments() if self.security else (),
        )

    def _create_with_zookeeper(self, client_ports: Mapping[int, int]) -> None:
        jars = artefacts.jars(self.release.artefacts)
        keeper = zookeeper.ZooKeeper(self.folder / "zookeeper", jars=jars, port=self._reserve())
        self.zookeeper = keeper
        for node in self._node_ids:
            addresses = properties.addresses_with_zookeeper(
                node,
                client_port=client_ports[node],
                zookeeper=keeper.address,
                session_timeout_ms=zookeeper.SESSION_TIMEOUT_MS,
                listeners=self._listeners.get(node, ()),
                protocol=self._protocol,
            )
            self._add_broker(node, runners.Here(jars), addresses=addresses)

    def _add_broker(
        self, node: int, runner: runners.Runner, *, addresses: Mapping[str, str]
    ) -> None:
        folder = self.folder / f"broker-{node}"
        settings = self._complete_settings(node, addresses)
        keeper = self.zookeeper
        spec = broker.BrokerSpec(
            node_id=node,
            folder=folder,
            runner=runner,
            settings={"log.dirs": str(folder / "data")} | settings,
            jvm=self._jvm,
            serving=self.release.serving.format(node_id=node),
            before=partial(keeper.await_forgotten, node) if keeper else lambda: None,
        )
        self.brokers[node] = broker.Broker(spec)

    def _complete_settings(self, node: int, addresses: Mapping[str, str]) -> dict[str, str]:
        settings = self.release.defaults(len(self._node_ids)) | dict(addresses)
        if self.security is not None:
            listeners = self._listeners.get(node, ())
            settings |= self.security.broker_settings(
                [properties.CLIENT_LISTENER, *(listener.name for listener in listeners)],
                controller=None if self.release.zookeeper else properties.CONTROLLER_LISTENER,
                authorizer=self.release.authorizer,
                key_in_settings=self.release.key_in_settings,
            )
        return settings | self._settings | dict(self._broker_settings.get(node, {}))

    @property
    def _protocol(self) -> str:
        return "SASL_SSL" if self.security else "PLAINTEXT"

    def servers(self) -> list[server.Server]:
        """The brokers, then their ZooKeeper if they have one."""
        keeper = [] if self.zookeeper is None else [self.zookeeper]
        return [*self.brokers.values(), *keeper]

    def _settle(self) -> None:
        """See `settling.py`: brokers that are their own controllers have nothing to wait for."""
        if self.zookeeper is None:
            return
        if self.security is not None and not self._has_users:
            access = self.client_properties(mechanism=secure.PLAIN)
            settling.await_known(access, list(self._addresses.values()))
            settling.create_scram_users(access, self.security)
            self._has_users = True
        settling.await_known(self.client_properties(), list(self._addresses.values()))

    def _reserve(self, preferred: int | None = None) -> int:
        reservation = ports.reserve(preferred=preferred)
        self._reservations.append(reservation)
        return reservation.port

    def _release_ports(self) -> None:
        for reservation in self._reservations:
            reservation.release()
        self._reservations.clear()

    def _discard_if_new(self) -> bool:
        """Forget a cluster that has never served: other ports then mean a new format."""
        if any(node.has_served for node in self.brokers.values()):
            return False
        self.kill()
        for each in self.servers():
            shutil.rmtree(each.folder, ignore_errors=True)
        self.brokers.clear()
        self.zookeeper = None
        self._has_users = False
        self._release_ports()
        self._any_ports = True
        return True


def start_all(clusters: Sequence[Cluster], *, timeout_s: float = 60.0) -> None:
    """Start several clusters at once; when one fails, all are killed and its error is raised."""
    try:
        for each in clusters:
            each.launch()
        for each in clusters:
            each.await_ready(timeout_s=timeout_s)
    except BaseException:
        for each in clusters:
            each.kill()
        raise
