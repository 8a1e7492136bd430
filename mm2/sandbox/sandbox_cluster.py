"""A Kafka cluster of one or three brokers on this machine.

Each broker is also a KRaft controller; brokers of releases before KRaft use ZooKeeper.

    with SandboxCluster("east") as east:
        Producer({"bootstrap.servers": east.bootstrap})

The brokers end when this process ends, even if it is killed. Ports stay reserved until `close`.

With ZooKeeper, each broker learns about the other brokers shortly after its start. SCRAM users
(KIP-554) can be created only after that: before KRaft, no tool can add users before the brokers
start.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self

import confluent_kafka
from confluent_kafka import admin as kafka_admin

from connect_runtime.base import plurals
from connect_runtime.base.errors import ConnectError
from connect_runtime.system import system_clock
from mm2.sandbox import (
    broker_process,
    broker_settings,
    cluster_security,
    containers,
    java_class_archive,
    java_server_process,
    kafka_jars,
    kafka_releases,
    port_reservation,
    sandbox_clients,
    temporary_directories,
    zookeeper,
)
from mm2.sandbox.broker_process import BrokerSpec, KafkaBroker
from mm2.sandbox.broker_settings import ExtraListener
from mm2.sandbox.cluster_security import ClusterSecurity
from mm2.sandbox.containers import ContainerRunner
from mm2.sandbox.java_server_process import JavaServer, LocalRunner, ProgramRunner
from mm2.sandbox.port_reservation import PortReservation
from mm2.sandbox.sandbox_clients import ClientProperties, SandboxClients
from mm2.sandbox.sandbox_errors import PortInUseError, SandboxError
from mm2.sandbox.temporary_directories import TemporaryFolder
from mm2.sandbox.zookeeper import ZooKeeper

_SETUP_CLIENT_ID = "mm2-sandbox"
_METADATA_TIMEOUT_S = 5.0
_SCRAM_ALTER_TIMEOUT_S = 30.0
_SCRAM_MECHANISMS = (
    kafka_admin.ScramMechanism.SCRAM_SHA_256,
    kafka_admin.ScramMechanism.SCRAM_SHA_512,
)


def create_scram_users(access: ClientProperties, security: ClusterSecurity) -> None:
    """Create SCRAM credentials for all users in `security`. `access` contains client properties
    that connect as `admin` with PLAIN.

    Raises `SandboxError` if the cluster rejects the request.
    """
    made = SandboxClients(access, alias="sandbox")
    admin = made.create_admin_client(_SETUP_CLIENT_ID)
    doing = "creating the SCRAM users"

    def alter_user_credentials(mechanism: kafka_admin.ScramMechanism) -> None:
        info = kafka_admin.ScramCredentialInfo(mechanism, cluster_security.SCRAM_ITERATIONS)
        alterations: list[kafka_admin.UserScramCredentialAlteration] = [
            kafka_admin.UserScramCredentialUpsertion(name, info, password.encode())
            for name, password in security.passwords.items()
        ]
        for future in admin.alter_user_scram_credentials(alterations).values():
            future.result(timeout=_SCRAM_ALTER_TIMEOUT_S)

    def alter_all_credentials() -> None:
        try:
            for mechanism in _SCRAM_MECHANISMS:  # KRaft alters a user once in a request
                alter_user_credentials(mechanism)
        except TimeoutError:
            raise made.create_timeout_error(doing) from None
        except confluent_kafka.KafkaException as error:
            raise made.create_error(error.args[0], doing) from None

    try:
        sandbox_clients.retry_transient_errors(alter_all_credentials)
    except ConnectError as error:
        raise SandboxError(str(error)) from error


def await_full_metadata(
    access: ClientProperties, addresses: Sequence[str], *, timeout_s: float = 30.0
) -> None:
    """Wait until every broker reports all brokers of the cluster in its metadata.

    `access` must be the client properties of an authorized user. Raises `SandboxError` after
    `timeout_s`.
    """
    for address in addresses:
        admin = SandboxClients(
            {**access, "bootstrap.servers": address}, alias="sandbox"
        ).create_admin_client(_SETUP_CLIENT_ID)

        def knows_all_brokers(admin: kafka_admin.AdminClient = admin) -> bool:
            try:
                known = admin.list_topics(timeout=_METADATA_TIMEOUT_S)
            except confluent_kafka.KafkaException:
                return False  # the broker does not know this user yet
            return known.controller_id > 0 and len(known.brokers) == len(addresses)

        if not system_clock.wait_until(knows_all_brokers, timeout_s=timeout_s):
            raise SandboxError(
                f"the broker at {address} did not know all "
                f"{plurals.format_count(len(addresses), 'broker')} of the cluster after "
                f"{timeout_s:.0f} s"
            )


ClusterListener = ExtraListener

_CLUSTER_START_ATTEMPTS = 3


class SandboxCluster:
    """A cluster of brokers with node ids 1 to `brokers`; `cluster.brokers[1]` is node 1.

    Not thread-safe.

    - `settings` apply to every broker, `broker_settings` (by node id) to a single broker. Both
      override the defaults.
    - `listeners` (by node id) are additional listeners, for proxies.
    - `users`: if not None, the cluster is secure and has `admin` and these users.
    - `uses_tls`: whether a secure cluster encrypts its connections.
    - `folder` is kept at `close`. If it is omitted, a temporary directory is created and removed.
    - `port` is node 1's preferred port; node 2 prefers the next port, and so on. A node whose
      preferred port is in use gets any free port.
    - `kafka_version`: see `kafka_releases`. Its jars are downloaded at the first start.
    - `in_containers`: run the brokers in Docker, using Apache's image of that release.
    """

    def __init__(
        self,
        name: str,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        broker_settings: Mapping[int, Mapping[str, str]] | None = None,
        listeners: Mapping[int, Sequence[ClusterListener]] | None = None,
        users: Sequence[str] | None = None,
        uses_tls: bool = True,
        folder: Path | None = None,
        port: int | None = None,
        jvm: tuple[str, ...] = java_server_process.TEST_JVM_FLAGS,
        kafka_version: str = kafka_releases.NEWEST_RELEASE.version,
        in_containers: bool = False,
    ) -> None:
        if brokers not in {1, 3}:
            raise SandboxError(f"cluster {name}: a cluster has 1 or 3 brokers, not {brokers}")
        self.name = name
        self.release = kafka_releases.find_release(kafka_version)
        if in_containers:
            containers.find_image(self.release)  # report a missing image before anything is created
        self.zookeeper: ZooKeeper | None = None
        self.brokers: dict[int, KafkaBroker] = {}
        self.cluster_id = broker_process.make_cluster_id()
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
        self._temporary: TemporaryFolder | None = None
        if folder is None:
            self._temporary = temporary_directories.make_temporary_folder(name)
            folder = self._temporary.path
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._reservations: list[PortReservation] = []
        self._addresses: dict[int, str] = {}
        self._has_users = False
        self.security: ClusterSecurity | None = None
        if users is not None:
            self.security = ClusterSecurity.create(
                self.folder / "security", users, uses_tls=uses_tls
            )

    @property
    def bootstrap(self) -> str:
        """Bootstrap servers (`host:port,…`) of the brokers' client listeners. Valid after
        `start`."""
        if not self._addresses:
            raise SandboxError(f"cluster {self.name} has no addresses until it is started")
        return ",".join(self._addresses[node] for node in self._node_ids)

    @property
    def addresses(self) -> Mapping[int, str]:
        """Client listener address (`host:port`) of each broker, by node id; empty before the
        start."""
        return dict(self._addresses)

    def get_listener_bootstrap(self, listener_name: str) -> str:
        """Return the bootstrap servers (`host:port,…`) advertised by one of the additional
        listeners."""
        return ",".join(
            listener.advertised
            for node in self._node_ids
            for listener in self._listeners.get(node, ())
            if listener.name == listener_name
        )

    def client_properties(
        self,
        user: str = cluster_security.ADMIN_USER,
        *,
        mechanism: str = cluster_security.SCRAM_512,
    ) -> dict[str, str]:
        """Return the Java client properties for connecting to the cluster.

        `user` and `mechanism` (SCRAM-SHA-512, SCRAM-SHA-256, PLAIN) apply to secure clusters only.
        """
        base = {"bootstrap.servers": self.bootstrap}
        if self.security is None:
            return base | {"security.protocol": "PLAINTEXT"}
        return base | self.security.client_properties(user, mechanism)

    @property
    def log_text(self) -> str:
        """Return the logs of all brokers, concatenated."""
        return "\n".join(node.log_text for node in self.brokers.values())

    def start(self, *, timeout_s: float = 60.0) -> Self:
        """Start all brokers that are not running, and wait until they accept requests."""
        start_clusters([self], timeout_s=timeout_s)
        return self

    def launch(self) -> None:
        """Start all brokers without waiting until they accept requests (see `await_ready`). Creates
        the brokers on the first call."""
        if not self.brokers:
            self._create_cluster()
        if self.zookeeper is not None and not self.zookeeper.is_running:
            self.zookeeper.start()
        for node in self.brokers.values():
            if not node.is_running:
                node.launch()

    def await_ready(self, *, timeout_s: float = 60.0) -> None:
        """Wait until all launched brokers accept requests. If a port of a new cluster is in use,
        retry with other ports.

        Raises `SandboxError` with the end of the log of a broker that does not start.
        """
        for attempt in range(1, _CLUSTER_START_ATTEMPTS + 1):
            try:
                for node in self.brokers.values():
                    node.await_ready(timeout_s=timeout_s)
                self._await_cluster_metadata()
            except PortInUseError:
                if attempt == _CLUSTER_START_ATTEMPTS or not self._discard_never_started_brokers():
                    raise
                self.launch()
            else:
                return

    def stop(self, *, timeout_s: float = 15.0) -> None:
        """Stop all brokers gracefully and concurrently. Kill brokers that are still running after
        `timeout_s`."""
        for node in self.brokers.values():
            node.request_stop()
        for node in self.brokers.values():
            node.await_stopped(timeout_s=timeout_s)
        if self.zookeeper is not None:
            self.zookeeper.stop(timeout_s=timeout_s)

    def restart(self, *, timeout_s: float = 60.0) -> None:
        """Stop all brokers and start them again with the same ports and data."""
        self.stop()
        self.start(timeout_s=timeout_s)

    def kill(self) -> None:
        """Send SIGKILL to all brokers and to their ZooKeeper."""
        for each in self.list_servers():
            each.kill()

    def freeze(self) -> None:
        """Send SIGSTOP to all brokers and to their ZooKeeper."""
        for each in self.list_servers():
            each.freeze()

    def unfreeze(self) -> None:
        """Send SIGCONT to all processes that `freeze` stopped."""
        for each in self.list_servers():
            each.unfreeze()

    def close(self) -> None:
        """Kill the brokers, release the ports, and remove the directory unless the caller provided
        it."""
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

    def _create_cluster(self) -> None:
        preferred = {} if self._any_ports else self.preferred_ports
        client_ports = {node: self._reserve_port(preferred.get(node)) for node in self._node_ids}
        self._addresses = {
            node: f"{broker_settings.LOOPBACK_HOST}:{port}" for node, port in client_ports.items()
        }
        if self.release.zookeeper:
            self._create_brokers_with_zookeeper(client_ports)
        else:
            self._create_brokers_with_kraft(client_ports)

    def _prepare_program_runner(self) -> ProgramRunner:
        """Return the `ProgramRunner` that starts the brokers, after ensuring that the jars are
        downloaded or that Docker is available."""
        if self._in_containers:
            containers.check_docker_daemon()
            return ContainerRunner(
                image=containers.find_image(self.release), folder=self.folder.absolute()
            )
        jars = kafka_jars.ensure_jars(self.release.jars)
        return LocalRunner(
            jars, archive=java_class_archive.ensure_class_archive(jars, self.release)
        )

    def _create_brokers_with_kraft(self, client_ports: Mapping[int, int]) -> None:
        runner = self._prepare_program_runner()
        controller_ports = {node: self._reserve_port() for node in self._node_ids}
        for node in self._node_ids:
            addresses = broker_settings.make_kraft_addresses(
                node,
                client_port=client_ports[node],
                controller_ports=controller_ports,
                listeners=self._listeners.get(node, ()),
                protocol=self._get_security_protocol,
            )
            self._add_broker(node, runner, addresses=addresses)
        broker_process.format_storage(self.brokers.values(), cluster_id=self.cluster_id)

    def _create_brokers_with_zookeeper(self, client_ports: Mapping[int, int]) -> None:
        jars = kafka_jars.ensure_jars(self.release.jars)
        keeper = ZooKeeper(self.folder / "zookeeper", jars=jars, port=self._reserve_port())
        self.zookeeper = keeper
        for node in self._node_ids:
            addresses = broker_settings.make_zookeeper_addresses(
                node,
                client_port=client_ports[node],
                zookeeper=keeper.address,
                session_timeout_ms=zookeeper.SESSION_TIMEOUT_MS,
                listeners=self._listeners.get(node, ()),
                protocol=self._get_security_protocol,
            )
            self._add_broker(node, LocalRunner(jars), addresses=addresses)

    def _add_broker(
        self, node: int, runner: ProgramRunner, *, addresses: Mapping[str, str]
    ) -> None:
        folder = self.folder / f"broker-{node}"
        settings = self._complete_settings(node, addresses)
        keeper = self.zookeeper
        spec = BrokerSpec(
            node_id=node,
            folder=folder,
            runner=runner,
            settings={"log.dirs": str(folder / "data")} | settings,
            jvm=self._jvm,
            ready_text=self.release.ready_text.format(node_id=node),
            before_start=partial(keeper.await_broker_deregistration, node)
            if keeper
            else lambda: None,
        )
        self.brokers[node] = KafkaBroker(spec)

    def _complete_settings(self, node: int, addresses: Mapping[str, str]) -> dict[str, str]:
        settings = self.release.make_default_settings(len(self._node_ids)) | dict(addresses)
        if self.security is not None:
            listeners = self._listeners.get(node, ())
            settings |= self.security.make_broker_settings(
                [broker_settings.CLIENT_LISTENER, *(listener.name for listener in listeners)],
                controller=None if self.release.zookeeper else broker_settings.CONTROLLER_LISTENER,
                authorizer=self.release.authorizer,
                key_in_settings=self.release.key_in_settings,
            )
        return settings | self._settings | dict(self._broker_settings.get(node, {}))

    @property
    def _get_security_protocol(self) -> str:
        return self.security.protocol if self.security else "PLAINTEXT"

    def list_servers(self) -> list[JavaServer]:
        """Return all brokers, followed by the ZooKeeper server if the cluster uses one."""
        keeper = [] if self.zookeeper is None else [self.zookeeper]
        return [*self.brokers.values(), *keeper]

    def _await_cluster_metadata(self) -> None:
        """Wait until the brokers of a ZooKeeper cluster know each other, and create the users of a
        new secure cluster. Does nothing for KRaft clusters without security.

        Users are created over a client connection, not with the storage tool. The tool takes their
        credentials as command-line arguments, and every user of the machine can read the arguments
        of a process.
        """
        needs_users = self.security is not None and not self._has_users
        if self.zookeeper is None and not needs_users:
            return
        if self.security is not None and needs_users:
            access = self.client_properties(mechanism=cluster_security.PLAIN)
            await_full_metadata(access, list(self._addresses.values()))
            create_scram_users(access, self.security)
            self._has_users = True
        await_full_metadata(self.client_properties(), list(self._addresses.values()))

    def _reserve_port(self, preferred: int | None = None) -> int:
        reservation = port_reservation.reserve_port(preferred=preferred)
        self._reservations.append(reservation)
        return reservation.port

    def _release_ports(self) -> None:
        for reservation in self._reservations:
            reservation.release()
        self._reservations.clear()

    def _discard_never_started_brokers(self) -> bool:
        """Discard the brokers of a cluster that has never started. The next start creates new
        brokers with other ports and newly formatted storage. Return False, without discarding
        brokers, if any broker of the cluster has ever accepted requests."""
        if any(node.has_served for node in self.brokers.values()):
            return False
        self.kill()
        for each in self.list_servers():
            shutil.rmtree(each.folder, ignore_errors=True)
        self.brokers.clear()
        self.zookeeper = None
        self._has_users = False
        self._release_ports()
        self._any_ports = True
        return True


def start_clusters(clusters: Sequence[SandboxCluster], *, timeout_s: float = 60.0) -> None:
    """Start clusters concurrently. If a cluster fails to start, kill all clusters and raise that
    cluster's error."""
    try:
        for each in clusters:
            each.launch()
        for each in clusters:
            each.await_ready(timeout_s=timeout_s)
    except BaseException:
        for each in clusters:
            each.kill()
        raise
