"""What operators do to a running flow: the REST API of its worker, over loopback.

Any node that runs the flow will do: what its group's leader has to write is forwarded to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from connect_runtime.base import errors
from mm2.core.configs import dedicated, live, own_keys
from mm2.core.topics import assigned

SOURCE = next(iter(dedicated.CONNECTORS))
ANSWER_S = 95.0
"""A little longer than a worker waits before it turns a request away."""


class ApiError(errors.FatalError):
    """The worker refused, or did not answer; the message says what and why."""


class NoSuchTopicError(errors.FatalError):
    """No task of the flow copies the topic."""


class FlowApi:
    """One flow of one process. Every method raises `ApiError`."""

    def __init__(self, flow: str, *, url: str, user: str, password: str) -> None:
        """`url` is that of the flow: `http://127.0.0.1:port/source/target`."""
        self._flow = flow
        # Proxies of the environment are for the world outside.
        self._client = httpx.Client(
            base_url=url, auth=(user, password), timeout=ANSWER_S, trust_env=False
        )

    def close(self) -> None:
        self._client.close()

    def pause(self) -> None:
        """All of the flow's topics; checkpoints and heartbeats go on."""
        self._ask("PUT", f"connectors/{SOURCE}/pause")

    def resume(self) -> None:
        self._ask("PUT", f"connectors/{SOURCE}/resume")

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
        names = [str(each) for each in self._ask("GET", "connectors")]
        for name in names:
            self._ask("POST", f"connectors/{name}/restart?includeTasks=true&onlyFailed=false")
        return names

    def restart_topic(self, topic: str) -> list[int]:
        """The tasks that copy it; returns their numbers. Raises `NoSuchTopicError`, too."""
        tasks = self._tasks_of(topic)
        for number in tasks:
            self._ask("POST", f"connectors/{SOURCE}/tasks/{number}/restart")
        return tasks

    def _tasks_of(self, topic: str) -> list[int]:
        tasks = self._ask("GET", f"connectors/{SOURCE}/tasks")
        found = [
            int(each["id"]["task"])
            for each in tasks
            if topic in {where.topic for where in assigned.partitions(each["config"])}
        ]
        if not found:
            raise NoSuchTopicError(f"no task of {self._flow} copies a topic {topic!r}")
        return found

    def _config(self) -> dict[str, str]:
        found: Mapping[str, str] = self._ask("GET", f"connectors/{SOURCE}/config")
        return dict(found)

    def _change(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """What else was changed meanwhile stays."""
        patch = {key: after.get(key) for key in own_keys.LIVE if before.get(key) != after.get(key)}
        if patch:
            self._ask("PATCH", f"connectors/{SOURCE}/config", patch)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            answer = self._client.request(method, f"/{path}", json=body)
        except httpx.HTTPError as error:
            raise ApiError(f"{self._flow}: its worker does not answer: {error}") from error
        if answer.is_success:
            return answer.json() if answer.content else None
        raise ApiError(f"{self._flow}: {_message(answer)}")


def _message(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return f"its worker answered with status {answer.status_code}"
