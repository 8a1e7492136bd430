"""Reads small files whole: a size that was not meant is no reason to run out of memory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read(file: Path, *, most: int, regular: bool = False) -> bytes:
    """All of it. Raises `OSError`, also for more than `most` bytes, which are whole MiB.

    `regular`: what may hold a reader up, or never end, such as a pipe or a device, raises, too.
    """
    opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if regular else 0))
    try:
        if regular and not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        with os.fdopen(opened, "rb", closefd=False) as stream:
            data = stream.read(most + 1)
    finally:
        os.close(opened)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MB")
    return data
