"""A group of one, for workers that are no members of any: `ports.group` without brokers."""

from __future__ import annotations

import math
from collections.abc import Callable

from connect_runtime.base import clock as base_clock
from connect_runtime.core.herder import alone, events, instructions
from connect_runtime.core.state import cluster_config
from connect_runtime.ports import group as port


class AloneGroup:
    """Implements `ports.group.Group`; for the herder's thread alone."""

    session_timeout_s = math.inf
    """Nobody else is ever given a task, however silent this worker is."""

    def __init__(
        self,
        url: str,
        config: Callable[[], cluster_config.ClusterConfig],
        *,
        clock: base_clock.Clock,
    ) -> None:
        """`url` is where this worker answers, `config` the newest view."""
        self._clock = clock
        self._alone = alone.Alone(url=url)
        self._config = config
        self._news: list[port.News] = []
        self._on_news: port.OnNews | None = None

    @property
    def member_id(self) -> str:
        """See `ports.group.Group`; so for all below."""
        return ""

    def start(self, on_news: port.OnNews, configured: port.Configured) -> None:
        del configured  # its own view has more
        self._on_news = on_news
        self._hear(self._alone.begin())

    def take(self) -> list[port.News]:
        taken, self._news = self._news, []
        return taken

    def ticked(self) -> None:
        """Nobody waits for that."""

    def prepared(self) -> None:
        self._obey(instructions.Prepared())

    def rejoin(self, reason: str) -> None:
        self._obey(instructions.Rejoin(reason))

    def leave(self, reason: str) -> None:
        self._obey(instructions.Leave(reason))

    def give_up_work(self) -> None:
        self._obey(instructions.GiveUpWork())

    def close(self, timeout_s: float) -> None:
        del timeout_s  # there is nothing to wait for
        self._obey(instructions.Close())
        self._news.clear()

    def confirmed_at_s(self) -> float:
        return self._clock.now_s()

    def confirm_soon(self) -> None:
        """It is."""

    def _obey(self, order: instructions.Order) -> None:
        if self._on_news is not None:
            self._hear(self._alone.obey(order, self._config()))

    def _hear(self, told: list[events.Event]) -> None:
        for each in told:
            assert isinstance(each, events.JoinAsked | events.RoundCompleted), each
            self._news.append(each)
        if told and self._on_news is not None:
            self._on_news()  # the herder would find it, but only when it next comes round
