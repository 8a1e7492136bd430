"""What changed between two views of the configured cluster: for a reader that lost its place.

When the config topic was truncated, or deleted and made again, it is read anew from its beginning,
and whoever acted on the old view must hear how the new one differs.
"""

from __future__ import annotations

from collections.abc import Iterator

from connect_runtime.core.state import cluster_config, config_log


def differences(
    before: cluster_config.ClusterConfig, after: cluster_config.ClusterConfig
) -> list[config_log.Change]:
    """Changes that lead from one to the other. Requests and logger levels are not in a view."""
    found: list[config_log.Change] = []
    if after.session_key is not None and after.session_key != before.session_key:
        found.append(config_log.SessionKeyChanged(after.session_key))
    gone = [name for name in before.connectors() if not after.contains(name)]
    found += [config_log.ConnectorRemoved(name, existed=True) for name in gone]
    for name in after.connectors():
        found += _of_connector(name, before, after)
    return found


def _of_connector(
    name: str, before: cluster_config.ClusterConfig, after: cluster_config.ClusterConfig
) -> Iterator[config_log.Change]:
    created = not before.contains(name)
    if before.config(name) != after.config(name):
        yield config_log.ConnectorConfigured(name, created=created)
    if not created and before.target_state(name) is not after.target_state(name):
        yield config_log.TargetStateChanged(name)
    if _tasks(before, name) != _tasks(after, name):
        yield config_log.TasksCommitted(name, tuple(after.tasks(name)))


def _tasks(view: cluster_config.ClusterConfig, name: str) -> list[cluster_config.RawConfig | None]:
    return [view.task_config(task) for task in view.tasks(name)]
