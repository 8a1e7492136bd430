"""Calls to the RPC ports of a Spark driver by somebody who does not have its secret.

The caller is another user where this process may change its own, which takes root. Else it is the
same one, who has no more access than the other, and a test shows less: not that others can connect.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - of use to sockets, and nobody may not read this Python
import os
import pwd
import socket
import struct
import subprocess
import sys

_REQUEST = 3  # org.apache.spark.network.protocol.Message.Type.RpcRequest
_FRAME = struct.Struct(">Q")
_HEAD = struct.Struct(">BQI")
_BYTES_MAX = 65_536
_TIMEOUT_S = 20.0


def ask(port: int) -> str:
    """The answer to a call of the endpoint that finds others, whose argument is no Java object."""
    argv = [sys.executable, "-I", __file__, str(port)]
    done = subprocess.run(argv, capture_output=True, timeout=3 * _TIMEOUT_S, check=True)
    return done.stdout.decode(errors="replace")


def _become_nobody() -> None:
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)


def _call(port: int) -> bytes:
    """As `NettyRpcEnv` sends it: addresses of both sides, the endpoint, the serialized object."""
    receiver = b"\1" + _text("127.0.0.1") + struct.pack(">i", port)
    body = b"\0" + receiver + _text("endpoint-verifier") + b"no object of Java"
    head = _HEAD.pack(_REQUEST, 1, len(body))
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as connection:
            connection.sendall(_FRAME.pack(_FRAME.size + len(head) + len(body)) + head + body)
            return connection.recv(_BYTES_MAX)
    except OSError as error:
        return str(error).encode()


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


if __name__ == "__main__":
    _become_nobody()
    sys.stdout.buffer.write(_call(int(sys.argv[1])))
