"""A session of the client `kafka-connect-py` from PyPI; run by an interpreter that has it.

    python rest_session.py URL [USER:PASSWORD]

Everything that its library offers is asked of a worker that has no connector yet and knows
FileStreamSource; prints what each call returned, as one JSON object. Where a worker does in its own
time what it was asked, it is waited for.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import kafka_connect  # type: ignore[import-not-found]  # not ours: see above
import requests

CONFIG = {
    "connector.class": "FileStreamSource",
    "topic": "t",
    "tasks.max": "2",
    "file": "/dev/null",
}
WAIT_S = 60.0
PAUSE_S = 0.2


class Session:
    """One client, and in `told` what its calls returned, numbered."""

    def __init__(self, *given: str) -> None:
        self.told: dict[str, Any] = {}
        self._client = kafka_connect.KafkaConnect(*given)
        self._pausing = threading.Event()

    def ask(self, name: str, *given: object, **more: object) -> None:
        self.told[f"{len(self.told):02} {name}"] = self._unless_rebalancing(
            lambda: getattr(self._client, name)(*given, **more)
        )

    def _unless_rebalancing(self, call: Callable[[], Any]) -> Any:
        """409 asks to try again later."""
        for _ in range(round(WAIT_S / PAUSE_S)):
            try:
                return call()
            except requests.HTTPError as error:
                if error.response.status_code != requests.codes.CONFLICT:
                    raise
            self._pausing.wait(PAUSE_S)
        return call()

    def until(self, connector: str, state: str, *, tasks: int) -> None:
        for _ in range(round(WAIT_S / PAUSE_S)):
            with contextlib.suppress(Exception):  # it has no status yet
                told = self._client.get_connector_status(connector)
                states = [each["state"] for each in (told["connector"], *told["tasks"])]
                if states == [state] * (tasks + 1):
                    return
            self._pausing.wait(PAUSE_S)
        sys.exit(f"{connector} does not get {state} with {tasks} tasks")


def create_and_look(session: Session) -> None:
    ask, until = session.ask, session.until
    ask("get_cluster_info")
    ask("create_connector", {"name": "c", "config": CONFIG})
    ask("update_connector", "d", CONFIG)
    until("d", "RUNNING", tasks=1)
    ask("update_connector", "d", CONFIG | {"tasks.max": 1})
    for each in ("c", "d"):
        until(each, "RUNNING", tasks=1)
    ask("list_connectors")
    ask("list_connectors", expand="status", state="running")
    ask("list_connectors", expand="info", pattern="d")
    ask("get_connector", "c")
    ask("get_connector_config", "c")
    ask("get_connector_status", "c")
    ask("list_connector_tasks", "c")
    ask("get_connector_task_status", "c", 0)


def restart_and_rest(session: Session) -> None:
    ask, until = session.ask, session.until
    ask("restart_connector_task", "c", 0)
    until("c", "RUNNING", tasks=1)
    ask("restart_connector", "c")
    until("c", "RUNNING", tasks=1)
    ask("restart_connector", "c", include_tasks=True)
    until("c", "RUNNING", tasks=1)
    ask("restart_all_connectors", include_tasks=True, only_failed=True)
    ask("pause_connector", "c")
    until("c", "PAUSED", tasks=1)
    ask("get_connector_status", "c")
    ask("resume_all_connectors", state="paused")
    ask("stop_connector", "d")
    until("d", "STOPPED", tasks=0)
    ask("get_connector_status", "d")


def look_and_delete(session: Session) -> None:
    ask = session.ask
    ask("list_connector_topics", "c")
    ask("reset_connector_topics", "c")
    ask("list_connector_plugins")
    ask("validate_connector_config", "FileStreamSource", {"connector.class": "FileStreamSource"})
    ask("delete_connector", "c")
    ask("delete_all_connectors")
    ask("list_connectors")


def main() -> None:
    session = Session(*sys.argv[1:])
    for does in (create_and_look, restart_and_rest, look_and_delete):
        does(session)
    print(json.dumps(session.told))  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
