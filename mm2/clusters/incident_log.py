"""Reads the incident records of a flow from their topic on the target cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from mm2.clusters.flow_cluster_pair import FlowSide
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, MalformedIncidentError
from mm2.kafka.kafka_client_interfaces import TopicRecord
from mm2.topics import replication_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableIncident:
    """A record in the incident topic that this release cannot read. It may report data loss."""

    topic: str
    offset: int
    reason: str


@dataclass(slots=True, kw_only=True)
class IncidentLog:
    """Incident records of a flow."""

    incidents: list[Incident] = field(default_factory=list)
    """Incidents, oldest first. An incident that was recorded repeatedly is listed once, with its
    latest content."""
    unreadable: list[UnreadableIncident] = field(default_factory=list)
    """Incident records that this release cannot read, in topic order."""


def read_incidents(side: FlowSide, source: str, *, timeout_s: float) -> IncidentLog:
    """Read the incidents of the flow whose source cluster is `source`; `side` is its target. Raises
    `RetriableError` or `FatalError` if the target cannot be read."""
    topic = replication_policy.format_incidents_topic(source)
    found: dict[bytes, Incident | UnreadableIncident] = {}

    def apply_record(record: TopicRecord) -> None:
        if record.key is None:
            return
        found.pop(record.key, None)
        if record.value is None:
            return
        try:
            found[record.key] = incident_records.decode_incident(record.key, record.value)
        except MalformedIncidentError as error:
            found[record.key] = UnreadableIncident(
                topic=topic, offset=record.offset, reason=str(error)
            )

    if topic in side.topics.list_topics(timeout_s):  # reading a missing topic would wait for it
        side.topics.read_topic(topic, timeout_s, apply_record)
    stated = [each for each in found.values() if isinstance(each, Incident)]
    return IncidentLog(
        incidents=sorted(stated, key=lambda each: each.at_ms),
        unreadable=[each for each in found.values() if isinstance(each, UnreadableIncident)],
    )
