"""The ZooKeeper of brokers before KRaft: one process per sandbox cluster.

It runs from the jars of its brokers. It does not sync to disk: data that a killed process has
handed to the operating system survives, and a crash of the machine ends the sandbox anyway.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from connect_runtime.system import clock
from mm2.sandbox import broker_settings, java_server
from mm2.sandbox.java_server import JavaServer, LocalRunner
from mm2.sandbox.sandbox_errors import SandboxError

_READY_TEXT = "PrepRequestProcessor (sid:0) started"
_SESSIONS_HEADING = "SessionTracker dump:"
_ZOOKEEPER_TICK_MS = 1000
_DUMP_TIMEOUT_S = 5.0
_ZOOKEEPER_JVM_FLAGS = ("-Xmx96m", *java_server.TEST_JVM_FLAGS[1:], "-Dzookeeper.forceSync=no")

SESSION_TIMEOUT_MS = 4000
"""How long ZooKeeper keeps a killed broker registered; it can register again only afterwards."""


class ZooKeeper(JavaServer):
    """A ZooKeeper that listens on `port`. Not thread-safe; call `start` first."""

    def __init__(self, folder: Path, *, jars: Path, port: int) -> None:
        super().__init__(
            "ZooKeeper",
            folder,
            log_name="zookeeper.log",
            runner=LocalRunner(jars),
            # It serves a moment after logging that it is ready, and rejects requests until then.
            started=lambda text: _READY_TEXT in text and _SESSIONS_HEADING in self._dump(),
        )
        self._jars = jars
        self._port = port

    @property
    def address(self) -> str:
        """The address for brokers."""
        return f"{broker_settings.LOOPBACK_HOST}:{self._port}"

    def prepare(self) -> None:
        java_server.write_settings_file(
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

    def command(self) -> list[str]:
        return java_server.make_java_command(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self._properties_path),
            jars=self._jars,
            flags=_ZOOKEEPER_JVM_FLAGS,
        )

    def await_forgotten(self, node_id: int) -> None:
        """Wait until no broker with this id is registered; a killed broker is until its timeout.

        A broker whose id is registered ends at once. Raises `SandboxError` if it stays registered.
        """
        if not self.running or not self.has_served:
            return
        timeout_s = 3 * SESSION_TIMEOUT_MS / 1000
        registration = f"/brokers/ids/{node_id}"
        if not clock.wait_until(lambda: registration not in self._dump(), timeout_s=timeout_s):
            raise SandboxError(
                f"starting broker {node_id}: {registration} is still registered at the ZooKeeper "
                f"in {self.folder} after {timeout_s:.0f} s; does another process run that broker?"
            )

    def _dump(self) -> set[str]:
        """Return ZooKeeper's sessions and ephemeral paths; empty if it does not answer."""
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
