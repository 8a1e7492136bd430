"""Whether task configurations must be published, and when to try again.

Every set that is published costs the group a rebalance and the connector's tasks a restart, so a
set that changes nothing is not. Compared is what is written: `${…}` may stand for something else
from one moment to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from connect_runtime.base import ids, placeholders
from connect_runtime.core.state import cluster_config

RETRY_FIRST_S = 0.25
RETRY_MAX_S = 60.0
_DOUBLINGS_MAX = 16
"""Beyond it only the bound speaks."""


def changed(
    view: cluster_config.ClusterConfig,
    connector: str,
    configs: Sequence[cluster_config.RawConfig],
    *,
    config_applied: bool,
) -> bool:
    """Do the tasks of `connector` have to be told these `configs`, and be restarted?

    `config_applied`: with the tasks' last configs, the connector's own counted as it does now,
    everything in it resolved. If not, converters, transforms or clients may have changed, which
    task configs do not show (KAFKA-9228).
    """
    if view.task_count(connector) != len(configs):
        return True
    for number, config in enumerate(configs):
        known = view.task_config(ids.ConnectorTaskId(connector, number))
        if known is None or dict(known) != dict(config):
            return True
    return not config_applied


def published(view: cluster_config.ClusterConfig, connector: str) -> list[dict[str, str]]:
    """The connector's task configs as they were committed last, in order; none where they are not
    complete. What is null is left out."""
    known = [view.task_config(task) or {} for task in view.tasks(connector)]
    return [{name: value for name, value in each.items() if value is not None} for each in known]


def referring(config: cluster_config.RawConfig) -> dict[str, str]:
    """The properties that refer to providers, as they are written."""
    return {
        name: value
        for name, value in config.items()
        if value is not None and any(placeholders.find(value))
    }


def keep_references(
    configs: Iterable[Mapping[str, str | None]], config: cluster_config.RawConfig
) -> list[cluster_config.RawConfig]:
    """Task configs as they are written: where the connector's own `config` refers to a provider,
    so do they, and no secret gets into the config topic that was not there before."""
    references = referring(config)
    return [{name: references.get(name, value) for name, value in each.items()} for each in configs]


def retry_delay_s(attempts: int) -> float:
    """The wait before the next try, after so many failed ones (1 and up); without jitter."""
    assert attempts >= 1, attempts
    return min(RETRY_FIRST_S * 2.0 ** min(attempts - 1, _DOUBLINGS_MAX), RETRY_MAX_S)
