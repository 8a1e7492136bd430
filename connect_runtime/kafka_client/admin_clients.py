"""Admin clients of the Kafka library that may be let go anywhere.

The library resolves the futures of an admin client in a thread of that client's own, and what runs
there may let the client's last reference go: a callback, or the collection of a request that failed
and was given up, with the frames its error holds. A client freed in its own thread aborts the
process ("rd_kafka_destroy() called from librdkafka owned thread", `rd_kafka_destroy_app` of
librdkafka). So what is let go is kept until a thread of ours makes or polls another.
"""

from __future__ import annotations

import contextlib
import queue
from typing import Any

from confluent_kafka import admin as library


class AdminClient(library.AdminClient):
    """The library's, but for where it is freed: never where it was let go, always by a caller of
    `AdminClient` or `poll`. A process that goes on without either keeps it to its end."""

    # Here, not in the module, whose names are gone at the end of the interpreter.
    _let_go: queue.SimpleQueue[AdminClient] = queue.SimpleQueue()

    def __init__(self, config: dict[str, Any], **kwargs: Any) -> None:
        """As the library's; raises as it does."""
        self._free()
        super().__init__(config, **kwargs)

    def poll(self, timeout: float = -1.0) -> int:
        """As the library's; `timeout` in seconds, for ever below 0."""
        self._free()
        return super().poll(timeout)

    def __del__(self) -> None:
        """Called once; from here on the queue has the last reference. Its `put` may be called in
        the midst of anything, of itself too."""
        self._let_go.put(self)

    def _free(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._let_go.get_nowait()
