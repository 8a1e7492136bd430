"""What operators change while a flow runs: keys of its source connector that no file has.

Whoever leads writes the connector's configuration from its file, and keeps these keys as they
stand in the group's own topic; a Java worker that leads drops them. All functions are pure: from
one configuration to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mm2.core import filters, flows
from mm2.core import holds as holding
from mm2.core.configs import own_keys, own_values

Props = Mapping[str, str]


def kept(ours: Props, stored: Props | None) -> dict[str, str]:
    """What the file makes of the connector, with what operators have set."""
    live = {key: stored[key] for key in own_keys.LIVE if key in stored} if stored else {}
    return {**ours, **live}


def without(config: Props) -> dict[str, str]:
    """What the file alone makes of it."""
    return {key: value for key, value in config.items() if key not in own_keys.LIVE}


def paused(config: Props) -> tuple[str, ...]:
    """Topics of the source that are paused, by name."""
    return tuple(_listed(config, own_keys.LIVE_PAUSED_TOPICS))


def pause(config: Props, topic: str) -> dict[str, str]:
    return _with(config, own_keys.LIVE_PAUSED_TOPICS, sorted({*paused(config), topic}))


def resume(config: Props, topic: str) -> dict[str, str]:
    return _with(config, own_keys.LIVE_PAUSED_TOPICS, sorted({*paused(config)} - {topic}))


def throttle(config: Props, limit: str | None, *, topic: str | None = None) -> dict[str, str]:
    """The whole flow, or one topic, gets this limit (`own_values.read_limit`); None: the file's."""
    if topic is None:
        return _with(config, own_keys.LIVE_THROTTLE, [] if limit is None else [limit])
    listed = _listed(config, own_keys.LIVE_TOPIC_THROTTLES)
    others = [each for each in listed if own_values.read_topic_limit(each)[0] != topic]
    own = [] if limit is None else [f"{topic}={limit}"]
    return _with(config, own_keys.LIVE_TOPIC_THROTTLES, sorted(others + own))


def budgets(values: Mapping[str, Any]) -> flows.Budgets:
    """In force, of parsed values: the first that matches a topic counts, so an operator's stand
    before the file's."""
    given, live = values[own_keys.THROTTLE], values[own_keys.LIVE_THROTTLE]
    whole = own_values.read_rate(given) if given else 0
    limits = map(own_values.read_topic_limit, values[own_keys.LIVE_TOPIC_THROTTLES])
    return flows.Budgets(
        flow=whole if live is None else own_values.read_limit(live),
        topics=(
            *(flows.TopicBudget(filters.literally(topic), rate) for topic, rate in limits),
            *map(own_values.read_topic_budget, values[own_keys.TOPIC_THROTTLES]),
        ),
    )


def holds(config: Props, *, is_paused: bool) -> holding.Holds:
    """What holds a flow with this configuration back. Raises `ConfigError`."""
    values = own_keys.OWN.parse({key: config[key] for key in own_keys.OWN.keys if key in config})
    return holding.Holds(
        paused=is_paused, paused_topics=frozenset(paused(config)), budgets=budgets(values)
    )


def _listed(config: Props, key: str) -> list[str]:
    return [each.strip() for each in config.get(key, "").split(",") if each.strip()]


def _with(config: Props, key: str, values: list[str]) -> dict[str, str]:
    """Nothing at all stands for an empty list: then the file's counts."""
    found = {name: value for name, value in config.items() if name != key}
    return {**found, key: ",".join(values)} if values else found
