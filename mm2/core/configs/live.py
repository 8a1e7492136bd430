"""What operators change while a flow runs: keys of its source connector that no file has.

Whoever leads writes the connector's configuration from its file, and keeps these keys as they
stand in the group's own topic; a Java worker that leads drops them. All functions are pure: from
one configuration to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api import errors
from mm2.core import filters, flows
from mm2.core import holds as holding
from mm2.core.configs import own_keys, own_values

Props = Mapping[str, str]
_YES = "true"


def is_live(key: str) -> bool:
    return key.startswith(own_keys.LIVE)


def kept(ours: Props, stored: Props | None) -> dict[str, str]:
    """What the file makes of the connector, with what operators have set."""
    return {**ours, **only(stored or {})}


def only(config: Props) -> dict[str, str]:
    """What operators have set, and nothing else."""
    return {key: value for key, value in config.items() if is_live(key)}


def without(config: Props) -> dict[str, str]:
    """What the file alone makes of it."""
    return {key: value for key, value in config.items() if not is_live(key)}


def paused(config: Props) -> tuple[str, ...]:
    """Topics of the source that are paused, by name."""
    found = _by_topic(config, own_keys.LIVE_PAUSED_TOPIC).items()
    return tuple(topic for topic, value in found if value.strip().lower() == _YES)


def pause(config: Props, topic: str) -> dict[str, str]:
    return {**config, own_keys.LIVE_PAUSED_TOPIC + topic: _YES}


def resume(config: Props, topic: str) -> dict[str, str]:
    return _with(config, own_keys.LIVE_PAUSED_TOPIC + topic, None)


def throttle(config: Props, limit: str | None, *, topic: str | None = None) -> dict[str, str]:
    """The whole flow, or one topic, gets this limit (`own_values.read_limit`); None: the file's."""
    key = own_keys.LIVE_THROTTLE if topic is None else own_keys.LIVE_TOPIC_THROTTLE + topic
    return _with(config, key, limit)


def mistakes(config: Props) -> dict[str, str]:
    """What is wrong with keys of single topics, by key."""
    found: dict[str, str] = {}
    for topic, value in _by_topic(config, own_keys.LIVE_TOPIC_THROTTLE).items():
        try:
            own_values.read_limit(value)
        except ValueError:
            key = own_keys.LIVE_TOPIC_THROTTLE + topic
            found[key] = f"{key} is {value}: allowed: {own_values.LIMIT_ALLOWED}"
    return found


def budgets(values: Mapping[str, Any], config: Props) -> flows.Budgets:
    """In force, of parsed values and the configuration without `mistakes`: the first that matches
    a topic counts, so an operator's stand before the file's."""
    given, live = values[own_keys.THROTTLE], values[own_keys.LIVE_THROTTLE]
    whole = own_values.read_rate(given) if given else 0
    limits = _by_topic(config, own_keys.LIVE_TOPIC_THROTTLE).items()
    return flows.Budgets(
        flow=whole if live is None else own_values.read_limit(live),
        topics=(
            *(
                flows.TopicBudget(filters.literally(topic), own_values.read_limit(rate))
                for topic, rate in limits
            ),
            *map(own_values.read_topic_budget, values[own_keys.TOPIC_THROTTLES]),
        ),
    )


def holds(config: Props, *, is_paused: bool) -> holding.Holds:
    """What holds a flow with this configuration back. Raises `ConfigError`."""
    wrong = mistakes(config)
    if wrong:
        raise errors.ConfigError("; ".join(wrong.values()))
    values = own_keys.OWN.parse({key: config[key] for key in own_keys.OWN.keys if key in config})
    return holding.Holds(
        paused=is_paused,
        paused_topics=frozenset(paused(config)),
        budgets=budgets(values, config),
    )


def _by_topic(config: Props, prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): config[key] for key in sorted(config) if key.startswith(prefix)
    }


def _with(config: Props, key: str, value: str | None) -> dict[str, str]:
    """None: without it, then the file's counts."""
    found = {name: each for name, each in config.items() if name != key}
    return found if value is None else {**found, key: value}
