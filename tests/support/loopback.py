"""The loopback interface of a network namespace of our own, which begins without one."""

from __future__ import annotations

import shlex
import sys

_CODE = (
    "import fcntl, socket, struct\n"
    "up_and_running = 0x1 | 0x40\n"
    "asked = struct.pack('16sh22x', b'lo', up_and_running)\n"
    "fcntl.ioctl(socket.socket(), 0x8914, asked)"
)
UP = shlex.join([sys.executable, "-I", "-S", "-c", _CODE])
"""A shell command: `ip link set lo up`, where there may be no `ip`. Needs root's right there."""
