from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from mm2.config import config_loader
from tests.bench import contestants
from tests.bench.contestants import Flow, Mm2Properties

FLOW = Flow(
    source="east7",
    target="west7",
    source_properties={"bootstrap.servers": "127.0.0.1:1", "security.protocol": "PLAINTEXT"},
    target_properties={"bootstrap.servers": "127.0.0.1:2", "security.protocol": "PLAINTEXT"},
    topics=("big", "trickle7"),
)


def test_java_is_told_both_clusters_and_the_flow():
    told = contestants.JAVA_DEFAULTS.properties(FLOW)
    assert told["clusters"] == "east7,west7"
    assert told["east7.bootstrap.servers"] == "127.0.0.1:1"
    assert told["west7.bootstrap.servers"] == "127.0.0.1:2"
    assert told["east7->west7.enabled"] == "true"
    assert told["east7->west7.topics"] == "big,trickle7"


def test_javas_defaults_are_defaults_but_for_replication():
    told = contestants.JAVA_DEFAULTS.properties(FLOW)
    others = [
        key
        for key in told
        if "replication.factor" not in key
        and not key.endswith(("bootstrap.servers", "security.protocol"))
    ]
    assert sorted(others) == ["clusters", "east7->west7.enabled", "east7->west7.topics"]
    assert {value for key, value in told.items() if "replication.factor" in key} == {"1"}


def test_tuning_is_spelled_with_the_runs_aliases():
    told = contestants.JAVA_TUNED.properties(FLOW)
    assert told["west7.producer.max.in.flight.requests.per.connection"] == "5"
    assert "east7.consumer.max.poll.records" in told
    assert not [key for key in told if "{" in key]
    assert any(
        line.startswith("B.producer.batch.size=") for line in (contestants.JAVA_TUNED.settings)
    )


def test_ours_is_a_file_that_the_product_accepts(tmp_path: Path):
    argv = contestants.MM2_RUN.command(FLOW, tmp_path)
    path = tmp_path / "clusters.yaml"
    assert argv[1:3] == ["run", str(path)]
    assert yaml.safe_load(path.read_text()) == json.loads(path.read_text())
    (flow,) = config_loader.load_config_file(path, environment={}).flows
    assert (flow.source, flow.target, flow.replication_factor) == ("east7", "west7", 1)


def test_ours_without_spark_differs_in_that_alone():
    with_spark, without = contestants.MM2_RUN.document(FLOW), contestants.MM2_INLINE.document(FLOW)
    assert without.pop("spark") == {"engine": "inline"}
    assert without == with_spark


@pytest.mark.parametrize("engine", ["spark", "inline"])
def test_ours_takes_the_file_of_javas(tmp_path: Path, engine: str):
    ours = Mm2Properties(like=contestants.JAVA_DEFAULTS, engine=engine)
    ours.command(FLOW, tmp_path)
    read = config_loader.load_config_file(tmp_path / "mm2.properties", environment={})
    assert [each.name for each in read.flows] == ["east7->west7"]
    assert read.spark.engine == engine
    text = (tmp_path / "mm2.properties").read_text()
    assert set(contestants.JAVA_DEFAULTS.properties(FLOW)) <= {
        line.partition("=")[0].strip() for line in text.splitlines()
    }


@pytest.mark.parametrize("contestant", contestants.ALL, ids=lambda each: each.key)
def test_everybodys_settings_are_told(contestant):
    assert contestant.settings
    assert not [line for line in contestant.settings if "{" in line]


def test_keys_are_unique():
    keys = [each.key for each in contestants.ALL]
    assert len(set(keys)) == len(keys)
