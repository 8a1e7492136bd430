"""What clients one flow works with: its clusters' settings, and the flow's own on top of them.

The flow's keys are those of MirrorMaker 2's connectors: `source.consumer.` for reading,
`producer.override.` for writing, `source.admin.` and `target.admin.` for administering.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mm2.app.settings import clusters, reader, settings

CONSUMER = "source.consumer."
PRODUCER = "producer.override."
SOURCE_ADMIN = "source.admin."
TARGET_ADMIN = "target.admin."
PREFIXES = (CONSUMER, PRODUCER, SOURCE_ADMIN, TARGET_ADMIN)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Client properties that stand in a flow, or in its defaults, with the flow's own last."""

    path: str
    given: Mapping[str, tuple[clusters.Given, ...]]


def take(found: reader.SectionReader) -> Overrides:
    """The section's entries with one of `PREFIXES`."""
    given: dict[str, list[clusters.Given]] = {prefix: [] for prefix in PREFIXES}
    for path, entry in found.family(PREFIXES):
        prefix = next(each for each in PREFIXES if entry.key.startswith(each))
        own = dataclasses.replace(entry, key=entry.key.removeprefix(prefix))
        given[prefix].append(clusters.Given(key=f"{path}.{entry.key}", entry=own))
    return Overrides(path=found.path, given={prefix: tuple(each) for prefix, each in given.items()})


def resolve(
    account: reader.Account,
    overrides: Overrides,
    *,
    source: clusters.Cluster,
    target: clusters.Cluster,
) -> tuple[settings.FlowClients | None, Mapping[str, str]]:
    """The clients, and the overrides for people; None after mistakes, which are noted."""
    shown: dict[str, str] = {}

    def client(
        cluster: clusters.Cluster, role: settings.Role, prefix: str
    ) -> settings.ClusterSettings | None:
        own, base = overrides.given[prefix], cluster.roles.get(role)
        if not own or base is None:
            return base
        given = (*cluster.given[None], *cluster.given[role], *own)
        made = clusters.client(account, given, path=overrides.path, line=cluster.line)
        if made is not None:
            texts = made.properties.shown()
            shown.update({prefix + each.entry.key: texts[each.entry.key] for each in own})
        return made

    consumer = client(source, settings.Role.CONSUMER, CONSUMER)
    producer = client(target, settings.Role.PRODUCER, PRODUCER)
    source_admin = client(source, settings.Role.ADMIN, SOURCE_ADMIN)
    target_admin = client(target, settings.Role.ADMIN, TARGET_ADMIN)
    if consumer is None or producer is None or source_admin is None or target_admin is None:
        return None, shown
    found = settings.FlowClients(
        consumer=consumer,
        producer=producer,
        source_admin=source_admin,
        target_admin=target_admin,
    )
    return found, shown
