"""A session of the client `kafka-connect-py` from PyPI; run by an interpreter that has it.

    python rest_session.py URL [USER:PASSWORD]

Everything that its library offers is asked of a worker that has no connector yet and knows
FileStreamSource; prints what each call returned, as one JSON object.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import kafka_connect  # type: ignore[import-not-found]  # not ours: see above

CONFIG = {
    "connector.class": "FileStreamSource",
    "topic": "t",
    "tasks.max": "2",
    "file": "/dev/null",
}


def main() -> None:
    client = kafka_connect.KafkaConnect(sys.argv[1], *sys.argv[2:])
    told: dict[str, Any] = {}

    def ask(name: str, *given: object, **more: object) -> None:
        told[f"{len(told):02} {name}"] = getattr(client, name)(*given, **more)

    ask("get_cluster_info")
    ask("create_connector", {"name": "c", "config": CONFIG})
    ask("update_connector", "d", CONFIG)
    ask("update_connector", "d", CONFIG | {"tasks.max": 1})
    ask("list_connectors")
    ask("list_connectors", expand="status", state="running")
    ask("list_connectors", expand="info", pattern="d")
    ask("get_connector", "c")
    ask("get_connector_config", "c")
    ask("get_connector_status", "c")
    ask("list_connector_tasks", "c")
    ask("get_connector_task_status", "c", 1)
    ask("restart_connector_task", "c", 1)
    ask("restart_connector", "c")
    ask("restart_connector", "c", include_tasks=True)
    ask("restart_all_connectors", include_tasks=True, only_failed=True)
    ask("pause_connector", "c")
    ask("get_connector_status", "c")
    ask("resume_all_connectors", state="paused")
    ask("stop_connector", "d")
    ask("get_connector_status", "d")
    ask("list_connector_topics", "c")
    ask("reset_connector_topics", "c")
    ask("list_connector_plugins")
    ask("validate_connector_config", "FileStreamSource", {"connector.class": "FileStreamSource"})
    ask("delete_connector", "c")
    ask("delete_all_connectors")
    ask("list_connectors")
    print(json.dumps(told))  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
