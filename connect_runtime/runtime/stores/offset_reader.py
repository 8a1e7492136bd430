"""What a source plugin sees of its offsets."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.runtime.stores import offset_store

WARN_S = 60.0
_LOG = logging.getLogger(__name__)
_SLICE_S = 2.0


class StoredOffsets:
    """Implements `api.context.OffsetReader`. `given_up` is set when the task was: nobody waits for
    an answer that would be used no more."""

    def __init__(
        self,
        connector: str,
        *,
        offsets: offset_store.Offsets,
        given_up: threading.Event,
        clock: base_clock.Clock,
    ) -> None:
        self._connector = connector
        self._offsets = offsets
        self._given_up = given_up
        self._clock = clock

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """See `OffsetReader`."""
        return self.offsets([partition])[0]

    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> Sequence[Mapping[str, Any] | None]:
        """See `OffsetReader`. Who waits in vain is told of once a minute, and waits until he is
        given up: a task that failed for it would have to be restarted by somebody."""
        begun_s = warned_s = self._clock.now_s()
        while True:
            if self._given_up.is_set():
                raise errors.FatalError(
                    f"reading offsets of {self._connector}: the task was stopped meanwhile"
                )
            try:
                return self._offsets.read(self._connector, partitions, _SLICE_S)
            except errors.RetriableError as error:
                now_s = self._clock.now_s()
                if now_s - warned_s >= WARN_S:
                    warned_s = now_s
                    _LOG.warning(
                        "connector %s has waited %.0f s for its offsets: %s",
                        self._connector,
                        now_s - begun_s,
                        error,
                    )
