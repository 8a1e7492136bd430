"""A cluster of brokers, as whoever looks at one asks it; `kafka_cluster` implements it."""

from __future__ import annotations

from typing import Protocol

from mm2.cluster import groups, logs, state_topics


class Cluster(Protocol):
    """What all ask. One thread at a time."""

    @property
    def groups(self) -> groups.Groups: ...

    @property
    def logs(self) -> logs.Logs: ...

    @property
    def topics(self) -> state_topics.StateTopics: ...
