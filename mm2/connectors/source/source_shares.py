"""Who of a flow's tasks has which partitions: what was published last, and what the looks found.

`core/topics/handout` decides. The connector's own thread tells what was found; its worker's asks
for configurations of tasks at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.api import errors
from mm2.connectors.source import task_loads
from mm2.core import flows
from mm2.core.configs import connector_configs
from mm2.core.configs import connector_keys as keys
from mm2.core.topics import assigned, balance, handout

Configs = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What the last look found; `beginning` as in `handout`. Replaced whole."""

    looked: handout.Looked
    beginning: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    """Shares in which partitions are moved from those that were `published`."""

    published: list[handout.Share]
    shares: list[handout.Share]


class SourceShares:
    """`published` gives the configurations that the flow's tasks were given last."""

    def __init__(
        self,
        config: connector_configs.SourceConfig,
        *,
        published: Callable[[], Configs],
        loads: task_loads.TaskLoads,
    ) -> None:
        self._config = config
        self._published = published
        self._loads = loads
        self._given: Configs = ()
        self._seen: _Seen | None = None
        self._moved: _Moved | None = None
        self._uneven = balance.Uneven()

    @property
    def known(self) -> bool:
        """Has there been a look?"""
        return self._seen is not None

    def topics(self) -> frozenset[str]:
        """Those of which tasks have partitions."""
        return handout.topics(self._before())

    def found(self, looked: handout.Looked) -> None:
        """What a look found, the first one or a later one."""
        if self._config.flow.start.at is flows.StartAt.EARLIEST:
            beginning = None
        elif self._seen is not None:
            beginning = self._seen.beginning
        else:
            wanted = _wanted_before(self._configs())
            beginning = handout.from_the_beginning(looked, self._before(), wanted)
        self._seen = _Seen(looked=looked, beginning=beginning)

    def are_news(self) -> bool:
        """Would tasks be told something else than they were?"""
        return handout.differ(self._shares(self._config.flow.tasks_max), self._before())

    def are_moved(self, now_s: float) -> bool:
        """Has a task carried too much for so long that it gives something away, from now on?"""
        before = self._before()
        rates = self._loads.rates(len(before), now_s)
        if rates is None or self._seen is None:
            self._uneven = balance.Uneven()
            return False
        self._uneven, better = balance.look(
            [each.partitions for each in before],
            rates,
            tasks_max=self._config.flow.tasks_max,
            before=self._uneven,
            now_s=now_s,
        )
        if better is None:
            return False
        self._moved = _Moved(published=before, shares=handout.rearranged(before, better))
        return True

    def task_configs(self, props: Mapping[str, str], tasks_max: int) -> list[dict[str, str]]:
        """Of a connector with these properties. Raises `RetriableError` before the first look."""
        shares = self._shares(tasks_max)
        return assigned.partition_configs(
            props,
            [share.partitions for share in shares],
            added=frozenset().union(*(share.added for share in shares)),
            budgets=self._config.flow.budgets,
        )

    def _shares(self, tasks_max: int) -> list[handout.Share]:
        """What is moved stands until something else was published."""
        seen, common = self._seen, self._config.common
        if seen is None:
            raise errors.RetriableError(
                f"connector {common.name}: the topics of {common.source} are not known yet"
            )
        before, moved = self._before(), self._moved
        if moved is not None and moved.published == before:
            before = moved.shares
        return handout.shares(seen.looked, before, beginning=seen.beginning, tasks_max=tasks_max)

    def _before(self) -> list[handout.Share]:
        return handout.published(self._configs())

    def _configs(self) -> Configs:
        """While others are being written none are shown, which is no reason to begin anew."""
        self._given = self._published() or self._given
        return self._given


def _wanted_before(configs: Configs) -> Callable[[str], bool]:
    """Which topics were mirrored under the configuration that tasks were given last. Where that
    cannot be read any more, all: better one from its first record on than one with a hole."""
    props = configs[0] if configs else {}
    filters = (props.get(key, "") for key in (keys.TOPICS, keys.TOPICS_EXCLUDE))
    if any("${" in each for each in filters):
        return lambda _: True
    try:
        return connector_configs.source(props).flow.should_replicate_topic
    except errors.ConnectError:
        return lambda _: True
