"""`mm2 drill`: the story on two clusters of its own, with the user's settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

GIVEN = {
    "clusters": {
        "east": {"bootstrap.servers": "nowhere:1", "security.protocol": "SSL"},
        "west": {"bootstrap.servers": "nowhere:2"},
    },
    "defaults": {"replication.factor": 3},
    "flows": [{"from": "east", "to": "west", "topics": ["orders.*"]}],
    "spark": {"engine": "inline"},
    "hooks": {"stop-producers": {"command": ["/no/such/command"]}},
}


@pytest.mark.full
@pytest.mark.parametrize("planned", [False, True])
def test_a_drill_measures_and_touches_nothing_of_the_users(tmp_path: Path, planned: bool):
    path = tmp_path / "clusters.yaml"
    path.write_text(json.dumps(GIVEN))
    more = ["--planned"] if planned else []
    done = mirror.mm2(
        "drill",
        "--from",
        "east",
        "--to",
        "west",
        "--config",
        path,
        "--json",
        *more,
        timeout_s=350.0,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["kind"], found["version"]) == ("switch-over" if planned else "failover", 1)
    assert found["before"] >= 500
    assert 0 < found["rto_s"] <= found["all_s"]
    assert [each["group"] for each in found["report"]["moved"]] == ["drill-group"]
    assert found["failures"] == []
    assert found["reread"] <= found["reread_max"]
    if not planned:
        assert found["report"]["reread"].startswith("unknown, at most ")
    if planned:
        assert (found["lost"], found["reread"]) == (0, 0)
        assert found["sent"] == found["before"] + found["after"]
