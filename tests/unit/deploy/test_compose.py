"""The compose file fits the image, the repository and the settings that it mounts."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from mm2.config import config_loader
from tests.support.deployed import compose, image

FILE = image.DEPLOY / "compose.yaml"
OURS = compose.read(FILE)
MADE = image.ours()


def wrong(document: dict[str, Any]) -> list[str]:
    return compose.wrong(document, folder=image.DEPLOY, made=MADE)


def mounted(service: str, target: str) -> Any:
    """The YAML file that a service sees there."""
    (source,) = (
        source for source, at, _ in compose.mounts(OURS["services"][service]) if at == target
    )
    return yaml.safe_load((image.DEPLOY / source).read_text())


def test_ours_is_right():
    assert wrong(OURS) == []


def changing(service: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["services"][service].update(values)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (changing("mm2", user="0"), "runs as 0"),
        (changing("mm2", read_only=False), "may write everywhere"),
        (changing("mm2", cap_drop=[]), "rights of root's"),
        (changing("mm2", tmpfs=["/tmp", "/run"]), "may write to"),
        (changing("mm2", tmpfs=[]), "may write to"),
        (changing("mm2", ports=["127.0.0.1:8090:8090"]), "serves [8090]"),
        (changing("mm2", ports=["9464:9464"]), "to everybody"),
        (changing("mm2", volumes=["mm2:/var/lib/mm2"]), "has no /etc/mm2/clusters.yaml"),
        (changing("mm2", volumes=["./nowhere:/etc/mm2/clusters.yaml:ro"]), "not there"),
        (changing("mm2", volumes=["other:/var/lib/mm2"]), "not declared"),
        (changing("mm2", command=["run", "--quick"]), "No such option"),
        (changing("mm2", depends_on={"north": {}}), "depends on north"),
        (changing("grafana", image="grafana/grafana"), "another one tomorrow"),
        (changing("west", environment=OURS["services"]["east"]["environment"]), "told apart"),
    ],
)
def test_what_is_wrong_is_seen(change, told):
    document = copy.deepcopy(OURS)
    change(document)
    assert any(told in each for each in wrong(document)), wrong(document)


def test_the_clusters_of_the_settings_are_services_of_the_file():
    found = config_loader.load_config_file(
        image.DEPLOY / "compose" / "clusters.yaml", environment={}
    )
    assert sorted(flow.name for flow in found.flows) == ["east->west", "west->east"]
    for alias, cluster in found.clusters.items():
        (server,) = cluster.bootstrap_servers
        name, _, port = server.partition(":")
        assert name == alias
        listeners = OURS["services"][name]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
        assert f"//{name}:{port}," in listeners
    assert found.metrics.host == "0.0.0.0"
    assert found.metrics.port == image.METRICS_PORT
    rest = json.loads(json.dumps(found.effective["rest"]))
    assert rest["listeners"] == f"http://0.0.0.0:{image.REST_PORT}"
    assert rest["rest.advertised.host.name"] in OURS["services"]


def test_prometheus_scrapes_what_runs_and_has_all_rules():
    there = mounted("prometheus", "/etc/prometheus/prometheus.yml")
    ours = yaml.safe_load((image.DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (job,) = there["scrape_configs"]
    assert job == {
        "job_name": ours["scrape_configs"][0]["job_name"],
        "static_configs": [{"targets": [f"{compose.MM2}:{image.METRICS_PORT}"]}],
    }
    assert {key: value for key, value in there.items() if key != "scrape_configs"} == {
        key: value for key, value in ours.items() if key != "scrape_configs"
    }
    rules = [at for _, at, _ in compose.mounts(OURS["services"]["prometheus"]) if "rules" in at]
    assert rules == ["/etc/prometheus/rules"]


def test_grafana_finds_prometheus_and_the_dashboards():
    sources = mounted("grafana", "/etc/grafana/provisioning/datasources/mm2.yaml")
    (source,) = sources["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"] is True
    providers = mounted("grafana", "/etc/grafana/provisioning/dashboards/mm2.yaml")
    (provider,) = providers["providers"]
    folders = {at: where for where, at, _ in compose.mounts(OURS["services"]["grafana"])}
    assert folders[provider["options"]["path"]] == "../grafana/dashboards"
