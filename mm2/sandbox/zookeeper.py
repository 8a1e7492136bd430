"""The ZooKeeper server for brokers of releases before KRaft: one process per sandbox cluster.

The server runs from its brokers' jars. It does not call fsync. Data that a killed server has
written to the page cache survive. If the machine crashes, the sandbox's data are not needed any
more.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from connect_runtime.system import system_clock
from mm2.sandbox import broker_settings, java_server_process
from mm2.sandbox.java_server_process import JavaServer, LocalRunner
from mm2.sandbox.sandbox_errors import SandboxError

_READY_TEXT = "PrepRequestProcessor (sid:0) started"
_SESSIONS_HEADING = "SessionTracker dump:"
_ZOOKEEPER_TICK_MS = 1000
_DUMP_TIMEOUT_S = 5.0
_ZOOKEEPER_JVM_FLAGS = (
    "-Xmx96m",
    *java_server_process.TEST_JVM_FLAGS[1:],
    "-Dzookeeper.forceSync=no",
)

SESSION_TIMEOUT_MS = 4000
"""ZooKeeper session timeout: a killed broker remains registered for this long, and can register
again only afterwards."""


class ZooKeeper(JavaServer):
    """A ZooKeeper server that listens on `port`. Not thread-safe. Call `start` first."""

    def __init__(self, folder: Path, *, jars: Path, port: int) -> None:
        super().__init__(
            "ZooKeeper",
            folder,
            log_name="zookeeper.log",
            runner=LocalRunner(jars),
            # It serves a moment after logging that it is ready, and rejects requests until then.
            started=lambda text: (
                _READY_TEXT in text and _SESSIONS_HEADING in self._fetch_sessions()
            ),
        )
        self._jars = jars
        self._port = port

    @property
    def address(self) -> str:
        """Address that brokers connect to."""
        return f"{broker_settings.LOOPBACK_HOST}:{self._port}"

    def write_startup_files(self) -> None:
        java_server_process.write_settings_file(
            self._properties_path,
            {
                "dataDir": str(self.folder / "data"),
                "clientPort": str(self._port),
                "clientPortAddress": broker_settings.LOOPBACK_HOST,
                "tickTime": str(_ZOOKEEPER_TICK_MS),
                "maxClientCnxns": "0",
                "admin.enableServer": "false",
                "4lw.commands.whitelist": "dump",
            },
        )

    def make_start_command(self) -> list[str]:
        return java_server_process.make_java_command(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self._properties_path),
            jars=self._jars,
            flags=_ZOOKEEPER_JVM_FLAGS,
        )

    def await_broker_deregistration(self, node_id: int) -> None:
        """Wait until no broker with this id is registered. A killed broker stays registered until
        its session times out.

        A broker that starts while its id is still registered ends immediately. Raises
        `SandboxError` if the id stays registered.
        """
        if not self.is_running or not self.has_served:
            return
        timeout_s = 3 * SESSION_TIMEOUT_MS / 1000
        registration = f"/brokers/ids/{node_id}"
        if not system_clock.wait_until(
            lambda: registration not in self._fetch_sessions(), timeout_s=timeout_s
        ):
            raise SandboxError(
                f"cannot start broker {node_id}: {registration} is still registered in the "
                f"ZooKeeper server in {self.folder} after {timeout_s:.0f} s; does another process "
                "run that broker?"
            )

    def _fetch_sessions(self) -> set[str]:
        """Return the lines of ZooKeeper's `dump` response, which lists sessions and ephemeral
        nodes; empty if the server does not respond."""
        text = b""
        address = (broker_settings.LOOPBACK_HOST, self._port)
        with suppress(OSError), socket.create_connection(address, _DUMP_TIMEOUT_S) as stream:
            stream.sendall(b"dump")
            while block := stream.recv(65536):
                text += block
        return {line.strip() for line in text.decode(errors="replace").splitlines()}

    @property
    def _properties_path(self) -> Path:
        return self.folder / "zookeeper.properties"
