"""What operators do to a running flow: the REST API of its worker, over loopback.

Any node that runs the flow will do: what its group's leader has to write is forwarded to it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from connect_runtime.adapters.http import peers as http_peers
from connect_runtime.base import errors, ids
from connect_runtime.ports import peers
from connect_runtime.system import polling
from mm2.core.configs import dedicated, live
from mm2.core.topics import assigned

SOURCE = next(iter(dedicated.CONNECTORS))
ANSWER_S = 95.0
"""A little longer than a worker waits before it turns a request away."""


BUSY_S = 20.0
"""How long a request is repeated that a worker turns away because its group just changes."""
BUSY_AGAIN_S = 0.5
_CONFLICT = 409


class ApiError(errors.FatalError):
    """The worker refused, or did not answer; the message says what and why."""


class NoSuchTopicError(errors.FatalError):
    """No task of the flow copies the topic."""


class FlowApi:
    """One flow of one process. Every method raises `ApiError`."""

    def __init__(self, flow: str, *, url: str, user: str, password: str) -> None:
        """`url` is that of the flow: `http://127.0.0.1:port/source/target`."""
        self._flow = flow
        self._url = url
        self._peers = http_peers.HttpPeers(timeout_s=ANSWER_S)
        pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._authorization = f"Basic {pair}"

    def pause(self) -> None:
        """All of the flow's topics; checkpoints and heartbeats go on."""
        self._ask("PUT", _path("pause"))

    def resume(self) -> None:
        """All that was paused, or stopped."""
        for name in self._ask("GET", "/connectors"):
            self._ask("PUT", peers.connector_path(str(name), "resume"))

    def pause_topic(self, topic: str) -> None:
        """Raises `NoSuchTopicError`, too."""
        self._tasks_of(topic)
        config = self._config()
        self._change(config, live.pause(config, topic))

    def resume_topic(self, topic: str) -> None:
        config = self._config()
        self._change(config, live.resume(config, topic))

    def throttle(self, limit: str | None, *, topic: str | None) -> None:
        """As `live.throttle`; raises `NoSuchTopicError`, too."""
        if topic is not None and limit is not None:
            self._tasks_of(topic)
        config = self._config()
        self._change(config, live.throttle(config, limit, topic=topic))

    def restart(self) -> list[str]:
        """All its connectors with their tasks; returns their names."""
        names = [str(each) for each in self._ask("GET", "/connectors")]
        for name in names:
            flags = {"includeTasks": "true", "onlyFailed": "false"}
            self._ask("POST", peers.connector_path(name, "restart"), query=flags)
        return names

    def restart_topic(self, topic: str) -> list[int]:
        """The tasks that copy it; returns their numbers. Raises `NoSuchTopicError`, too."""
        return self._restarted(self._tasks_of(topic))

    def restart_partitions(self, partitions: Collection[ids.TopicPartition]) -> list[int]:
        """The tasks that have any of these; returns their numbers."""
        wanted = set(partitions)
        return self._restarted(self._tasks_with(lambda where: where in wanted))

    def _restarted(self, tasks: list[int]) -> list[int]:
        for number in tasks:
            self._ask("POST", _path("tasks", str(number), "restart"))
        return tasks

    def _tasks_of(self, topic: str) -> list[int]:
        found = self._tasks_with(lambda where: where.topic == topic)
        if not found:
            raise NoSuchTopicError(f"no task of {self._flow} copies a topic {topic!r}")
        return found

    def _tasks_with(self, matches: Callable[[ids.TopicPartition], bool]) -> list[int]:
        return [
            int(each["id"]["task"])
            for each in self._ask("GET", _path("tasks"))
            if any(map(matches, assigned.partitions(each["config"])))
        ]

    def _config(self) -> dict[str, str]:
        found: Mapping[str, str] = self._ask("GET", _path("config"))
        return dict(found)

    def _change(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """What else was changed meanwhile stays."""
        keys = {key for key in (*before, *after) if live.is_live(key)}
        patch = {key: after.get(key) for key in keys if before.get(key) != after.get(key)}
        if patch:
            self._ask("PATCH", _path("config"), patch)

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        call = peers.Call(
            url=self._url,
            method=method,
            path=path,
            query=query or {},
            body=None if body is None else json.dumps(body).encode(),
            authorization=self._authorization,
        )
        answer: list[Any] = []
        refused: list[peers.PeerRefused] = []

        def is_answered() -> bool:
            try:
                answer.append(self._peers.send_and_wait(call).value)
            except peers.PeerRefused as error:
                if error.status != _CONFLICT:
                    raise
                refused.append(error)
            return bool(answer)

        try:
            if not polling.until(is_answered, timeout_s=BUSY_S, interval_s=BUSY_AGAIN_S):
                raise refused[-1]
        except (peers.PeerRefused, peers.PeerFailed) as error:
            raise ApiError(f"{self._flow}: {error}") from error
        return answer[0]


def _path(*rest: str) -> str:
    return peers.connector_path(SOURCE, *rest)
