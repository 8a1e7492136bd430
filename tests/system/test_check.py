"""`mm2 check` on real brokers: a sound set-up has no findings, each broken one is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mm2.app.cli import main
from mm2.sandbox import ports
from tests.support import content, gates, kafka, mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

TOPIC = "checked"
TIMEOUT_S = "15"

Found = dict[str, dict[str, Any]]
"""Findings by their codes."""
Check = Callable[..., Found]


@pytest.fixture(scope="module")
def gate(tmp_path_factory) -> Iterator[gates.Gate]:
    with gates.opened(tmp_path_factory.mktemp("gate"), ["poor"]) as found:
        properties = found.cluster.client_properties()
        kafka.create_topic(properties, TOPIC)
        kafka.produce(properties, TOPIC, content.some(5))
        yield found


@pytest.fixture
def check(tmp_path, capsys) -> Check:
    def run(given: dict[str, Any], *, code: int, timeout: str = TIMEOUT_S) -> Found:
        file = tmp_path / "clusters.yaml"
        file.write_text(json.dumps(given))
        capsys.readouterr()
        status = main.run(["check", str(file), "--json", "--timeout", timeout])
        printed = capsys.readouterr()
        assert printed.out, printed.err
        told = json.loads(printed.out)
        assert status == code, told
        for secret in secrets_in(given):
            assert secret not in printed.out + printed.err
        return {each["code"]: each for each in told["findings"]}

    return run


def secrets_in(given: dict[str, Any]) -> list[str]:
    words = json.dumps(given).replace('\\"', '"').split('password="')[1:]
    return [each.partition('"')[0] for each in words]


def flow(source: kafka.Properties, target: kafka.Properties, **options: Any) -> dict[str, Any]:
    given = {"topics": TOPIC, "spark": {"engine": "inline"}, **options}
    return mirror.settings(source, target, **given)


def test_a_sound_set_up_has_no_findings(gate, west, check):
    given = flow(gate.cluster.client_properties(), west.client_properties())
    assert check(given, code=0) == {}


def test_a_wrong_port(gate, west, check):
    nobody = ports.reserve()
    given = flow({"bootstrap.servers": f"127.0.0.1:{nobody.port}"}, west.client_properties())
    found = check(given, code=1)
    nobody.release()
    assert set(found) == {"network"}
    assert found["network"]["subject"] == "east"
    assert found["network"]["word"] == "NETWORK"
    assert "refused" in found["network"]["text"]
    assert found["network"]["command"] == f"nc -vz 127.0.0.1 {nobody.port}"
