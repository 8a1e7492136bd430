"""What this worker has begun, with which configurations, and what became of it.

The status topic tells the same later, and not of which configuration: who decides whether a
failure is one of what is configured now needs this. Any thread may look.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.core.state import cluster_config, status_records


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A connector or task, as it was begun last. `config` is its own, as written; `times`: how
    often it was begun here. `state` None: it has said nothing yet; `trace` is a failure's."""

    config: cluster_config.RawConfig = field(repr=False)
    times: int = 1
    state: status_records.State | None = None
    trace: str | None = None


class Beginnings:
    """Written on the worker's thread, but for `said`; invariant: the lock guards the table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[status_records.Subject, Begun] = {}

    def begin(self, subject: status_records.Subject, config: cluster_config.RawConfig) -> None:
        """It is begun, or it is tried."""
        with self._lock:
            before = self._found.get(subject)
            times = 1 if before is None else before.times + 1
            self._found[subject] = Begun(config=config, times=times)

    def renew(self, subject: status_records.Subject, config: cluster_config.RawConfig) -> None:
        """It goes on with this one."""
        with self._lock:
            self._found[subject] = dataclasses.replace(self._found[subject], config=config)

    def said(
        self, subject: status_records.Subject, state: status_records.State, trace: str | None
    ) -> None:
        with self._lock:
            self._found[subject] = dataclasses.replace(
                self._found[subject], state=state, trace=trace
            )

    def seen(self) -> Mapping[status_records.Subject, Begun]:
        """As of now; what has stopped here says UNASSIGNED."""
        with self._lock:
            return dict(self._found)
