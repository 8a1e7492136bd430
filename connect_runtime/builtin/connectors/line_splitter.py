"""Lines out of chunks of bytes, as Java's readers end them: \\n, \\r\\n or \\r."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_END = re.compile(rb"\r\n|\n|\r")


@dataclass(slots=True)
class LineSplitter:
    """Bytes that were put and make no whole line yet wait for the rest."""

    _waiting: bytearray = field(default_factory=bytearray)
    _seen: int = 0

    def put(self, chunk: bytes) -> None:
        self._waiting += chunk

    def next_line(self) -> tuple[bytes, int] | None:
        """The next line without its end, and how many bytes it took with it.

        A \\r at the end of what there is may be half of a \\r\\n: it waits, too.
        """
        found = _END.search(self._waiting, self._seen)
        if found is None or (found.group() == b"\r" and found.end() == len(self._waiting)):
            self._seen = len(self._waiting) if found is None else found.start()
            return None
        line = bytes(self._waiting[: found.start()])
        del self._waiting[: found.end()]
        self._seen = 0
        return line, found.end()
