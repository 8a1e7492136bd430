"""REST client for operator actions on a running flow, over the loopback interface.

Any node that runs the flow can be used, because it forwards requests to the group's leader.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.herder import requests_to_other_workers
from connect_runtime.herder.requests_to_other_workers import (
    PeerRefusedError,
    PeerRequest,
    PeerUnavailableError,
)
from connect_runtime.rest.rest_client import RestClient
from connect_runtime.system import system_clock
from mm2.config import dedicated_mode, pause_and_throttle_overrides
from mm2.topics import task_assignment

SOURCE_CONNECTOR = next(iter(dedicated_mode.CONNECTORS))
RESPONSE_TIMEOUT_S = 95.0
"""Timeout for a response, slightly longer than a worker's own request timeout."""


CONFLICT_TIMEOUT_S = 20.0
"""Maximum time for which requests that a worker rejects during a rebalance (409) are retried."""
CONFLICT_RETRY_DELAY_S = 0.5
_CONFLICT = 409


class FlowRestError(FatalError):
    """The worker rejected the request or did not respond. The message contains the reason."""


class NoSuchTopicError(FatalError):
    """No task of the flow replicates the topic."""


class FlowRestClient:
    """Client for one flow of one process. Every method raises `FlowRestError` on failure."""

    def __init__(self, flow: str, *, url: str, user: str, password: str) -> None:
        """Create a client. `url` is the flow's base URL: `http://127.0.0.1:port/source/target`."""
        self._flow = flow
        self._url = url
        self._peers = RestClient(timeout_s=RESPONSE_TIMEOUT_S)
        pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._authorization = f"Basic {pair}"

    def pause(self) -> None:
        """Pause all topics of the flow. Checkpoints and heartbeats continue."""
        self._send_request("PUT", _build_path("pause"))

    def resume(self) -> None:
        """Resume all paused or stopped connectors."""
        for name in self._send_request("GET", "/connectors"):
            self._send_request(
                "PUT", requests_to_other_workers.build_connector_path(str(name), "resume")
            )

    def pause_topic(self, topic: str) -> None:
        """Pause one topic. Also raises `NoSuchTopicError`."""
        self._find_topic_tasks(topic)
        config = self._read_connector_config()
        self._patch_config(config, pause_and_throttle_overrides.pause_topic(config, topic))

    def resume_topic(self, topic: str) -> None:
        """Resume one topic."""
        config = self._read_connector_config()
        self._patch_config(config, pause_and_throttle_overrides.resume_topic(config, topic))

    def set_throttle(self, limit: str | None, *, topic: str | None) -> None:
        """Set or remove a rate limit (see `pause_and_throttle_overrides.set_throttle`). Also raises
        `NoSuchTopicError`."""
        if topic is not None and limit is not None:
            self._find_topic_tasks(topic)
        config = self._read_connector_config()
        self._patch_config(
            config, pause_and_throttle_overrides.set_throttle(config, limit, topic=topic)
        )

    def restart(self) -> list[str]:
        """Restart all connectors and their tasks. Returns the connectors' names."""
        names = [str(each) for each in self._send_request("GET", "/connectors")]
        for name in names:
            flags = {"includeTasks": "true", "onlyFailed": "false"}
            self._send_request(
                "POST", requests_to_other_workers.build_connector_path(name, "restart"), query=flags
            )
        return names

    def restart_topic(self, topic: str) -> list[int]:
        """Restart the tasks that replicate the topic. Returns the task numbers. Also raises
        `NoSuchTopicError`."""
        return self._restart_tasks(self._find_topic_tasks(topic))

    def restart_partitions(self, partitions: Collection[TopicPartition]) -> list[int]:
        """Restart the tasks to which any of these partitions is assigned. Returns the task
        numbers."""
        wanted = set(partitions)
        return self._restart_tasks(self._find_tasks_of_partitions(lambda where: where in wanted))

    def _restart_tasks(self, tasks: list[int]) -> list[int]:
        for number in tasks:
            self._send_request("POST", _build_path("tasks", str(number), "restart"))
        return tasks

    def _find_topic_tasks(self, topic: str) -> list[int]:
        found = self._find_tasks_of_partitions(lambda where: where.topic == topic)
        if not found:
            raise NoSuchTopicError(f"no task of {self._flow} replicates topic {topic!r}")
        return found

    def _find_tasks_of_partitions(self, matches: Callable[[TopicPartition], bool]) -> list[int]:
        return [
            int(each["id"]["task"])
            for each in self._send_request("GET", _build_path("tasks"))
            if any(map(matches, task_assignment.parse_partitions(each["config"])))
        ]

    def _read_connector_config(self) -> dict[str, str]:
        found: Mapping[str, str] = self._send_request("GET", _build_path("config"))
        return dict(found)

    def _patch_config(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Update the operator override keys that differ between the configurations `before` and
        `after`. Concurrent changes to other keys of the connector's configuration are preserved."""
        keys = {
            key for key in (*before, *after) if pause_and_throttle_overrides.is_override_key(key)
        }
        patch = {key: after.get(key) for key in keys if before.get(key) != after.get(key)}
        if patch:
            self._send_request("PATCH", _build_path("config"), patch)

    def _send_request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        call = PeerRequest(
            url=self._url,
            method=method,
            path=path,
            query=query or {},
            body=None if body is None else json.dumps(body).encode(),
            authorization=self._authorization,
        )
        answer: list[Any] = []
        refused: list[PeerRefusedError] = []

        def has_response() -> bool:
            try:
                answer.append(self._peers.send_and_wait(call).value)
            except PeerRefusedError as error:
                if error.status != _CONFLICT:
                    raise
                refused.append(error)
            return bool(answer)

        try:
            if not system_clock.wait_until(
                has_response, timeout_s=CONFLICT_TIMEOUT_S, interval_s=CONFLICT_RETRY_DELAY_S
            ):
                raise refused[-1]
        except (PeerRefusedError, PeerUnavailableError) as error:
            raise FlowRestError(f"{self._flow}: {error}") from error
        return answer[0]


def _build_path(*rest: str) -> str:
    return requests_to_other_workers.build_connector_path(SOURCE_CONNECTOR, *rest)
