"""A flow between brokers of a later release, whose responses hold tagged fields that mm2 does not
know."""

from __future__ import annotations

import json
import subprocess

import pytest

from connect_runtime.protocol import api_versions
from tests.support import content, kafka, mirror, newer_broker

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(300)]


def test_unknown_tagged_fields_change_nothing(tmp_path, east, west, topic):
    plain = east.client_properties()
    name = kafka.create_topic(plain, topic("tagged"))
    kafka.produce(plain, name, content.some(300))
    with (
        newer_broker.in_front_of(east.bootstrap) as source,
        newer_broker.in_front_of(west.bootstrap) as target,
    ):
        given = mirror.settings(
            {**plain, "bootstrap.servers": source.address},
            {**west.client_properties(), "bootstrap.servers": target.address},
            topics=[name],
            spark={"engine": "inline"},
        )
        path = tmp_path / "check.yaml"
        path.write_text(json.dumps(given))
        path.chmod(0o600)
        checked = subprocess.run(
            [*mirror.COMMAND, "check", str(path)],
            capture_output=True,
            text=True,
            timeout=90,
            cwd=mirror.ROOT,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr
        status, log = mirror.run_to_end(tmp_path, given, "--until-caught-up")
        assert status == 0, log
        for side in (source, target):
            assert side.tagged[api_versions.API_VERSIONS_KEY]
            assert side.tagged[api_versions.API_KEYS["metadata"]]
        assert source.tagged[api_versions.FETCH_KEY]
        assert target.tagged[api_versions.PRODUCE_KEY]
    content.assert_mirrored(plain, west.client_properties(), name)
