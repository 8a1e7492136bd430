"""Storage that was formatted from what Kafka's tool wrote before, beside the tool's own."""

from __future__ import annotations

from pathlib import Path

from mm2.sandbox import broker_process, broker_settings, kafka_jars, kafka_releases
from mm2.sandbox.broker_process import BrokerSpec, KafkaBroker
from mm2.sandbox.java_server_process import LocalRunner, ProgramRunner


def _node(folder: Path, runner: ProgramRunner) -> KafkaBroker:
    settings = kafka_releases.NEWEST_RELEASE.make_default_settings(
        1
    ) | broker_settings.make_kraft_addresses(1, client_port=19092, controller_ports={1: 19093})
    return KafkaBroker(
        BrokerSpec(
            node_id=1,
            folder=folder,
            runner=runner,
            settings=settings | {"log.dirs": str(folder / "data")},
        )
    )


def _names(node: KafkaBroker) -> dict[str, str]:
    lines = (node.data_directory / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def test_the_second_broker_is_formatted_as_the_tool_formats_the_first(tmp_path: Path):
    jars = tmp_path / "jars"
    jars.symlink_to(kafka_jars.ensure_jars(kafka_releases.NEWEST_RELEASE.jars))
    runner = LocalRunner(jars)
    first, second = (_node(tmp_path / name, runner) for name in ("first", "second"))

    broker_process.format_storage([first], cluster_id="AAAAAAAAAAAAAAAAAAAAAA")
    broker_process.format_storage([second], cluster_id="BBBBBBBBBBBBBBBBBBBBBA")

    assert (first.folder / "format.log").exists()
    assert not (second.folder / "format.log").exists()
    by_tool, by_us = _names(first), _names(second)
    assert by_tool.keys() == by_us.keys()
    assert by_tool["directory.id"] != by_us["directory.id"]
    assert (by_us["cluster.id"], by_us["node.id"], by_us["version"]) == (
        "BBBBBBBBBBBBBBBBBBBBBA",
        by_tool["node.id"],
        by_tool["version"],
    )
    files = [
        sorted(path.name for path in each.data_directory.iterdir()) for each in (first, second)
    ]
    assert files[0] == files[1]
    kept = "bootstrap.checkpoint"
    assert (second.data_directory / kept).read_bytes() == (first.data_directory / kept).read_bytes()
