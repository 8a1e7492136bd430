"""Flows whose policy or filters are classes of the user's, as their connectors make them.

Such a class is given its connector's whole configuration, which is known only once the file is flat
properties. So flows are read with shipped classes in their place, and get their own here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from mm2.app.settings import flow_options as options
from mm2.app.settings import flow_reader, settings
from mm2.core import filters, flows
from mm2.core.configs import connector_configs, dedicated

_SOURCE, _, _CHECKPOINT = dedicated.CONNECTORS


def taken_up(
    found: Iterable[flow_reader.FlowRead], flat: settings.Flat
) -> list[flow_reader.FlowRead]:
    """The flows with their own classes. `flat` was judged: its connectors can be made."""
    return [_taken_up(each, flat) if each.custom and each.enabled else each for each in found]


def _taken_up(item: flow_reader.FlowRead, flat: settings.Flat) -> flow_reader.FlowRead:
    before = item.flow
    assert before is not None, "only files without mistakes become properties"
    ends = dedicated.Ends(before.source, before.target)
    source = _configuration(flat, ends, _SOURCE)
    made = connector_configs.source(source).flow
    after = dataclasses.replace(
        before,
        policy=made.policy,
        topics=made.topics,
        properties=made.properties,
        target_topics=made.target_topics,
        groups=_groups(before, _configuration(flat, ends, _CHECKPOINT)),
    )
    shown = {**item.effective, options.TARGET_TOPICS_NAME: after.target_topics.value}
    return dataclasses.replace(item, flow=after, effective=shown)


def _groups(before: flows.Flow, config: dedicated.Props) -> filters.Names:
    if not dedicated.can_run(_CHECKPOINT, config):
        return before.groups
    return connector_configs.checkpoint(config).flow.groups


def _configuration(flat: settings.Flat, ends: dedicated.Ends, name: str) -> dedicated.Props:
    return flat.resolve(dedicated.connector(flat.props, ends, name))
