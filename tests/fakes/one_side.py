"""One cluster of a flow in memory: implements `looks.sides.OneSide`."""

from __future__ import annotations

from dataclasses import dataclass, field

from mm2.cluster import map_reader
from tests.fakes import admin, groups, logs, state_topics


@dataclass
class FakeSide:
    alias: str
    cluster: admin.FakeCluster = field(default_factory=admin.FakeCluster)
    group_cluster: groups.FakeGroupCluster = field(default_factory=groups.FakeGroupCluster)
    logs: logs.FakeLogs = field(default_factory=lambda: logs.FakeLogs({}))
    topics: state_topics.FakeStateTopics = field(default_factory=state_topics.FakeStateTopics)

    @property
    def admin(self) -> admin.FakeAdmin:
        return admin.FakeAdmin(self.cluster)

    @property
    def groups(self) -> groups.FakeGroups:
        return groups.FakeGroups(self.group_cluster)

    def map_reader(self, source_alias: str) -> map_reader.MapReader:
        raise NotImplementedError(source_alias)
