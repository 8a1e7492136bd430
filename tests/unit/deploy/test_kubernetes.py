"""The manifests fit the image and each other, and mm2 takes the settings that they hold."""

from __future__ import annotations

import copy
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock
from mm2.config import config_loader, flow_connector_configs
from tests.support import debian_tools, rules
from tests.support.deployed import image, kubernetes

FOLDER = image.DEPLOY / "kubernetes"
OURS = kubernetes.read(FOLDER)
MADE = image.ours()


def test_ours_are_right():
    assert kubernetes.wrong(OURS, made=MADE) == []


def changing(kind: str, *path: Any, to: Any) -> Callable[[list[dict[str, Any]]], None]:
    """Set what is at a path below `spec` of a manifest, or below itself where it has none."""

    def change(manifests: list[dict[str, Any]]) -> None:
        place = kubernetes.one(manifests, kind)
        place = place.get("spec", place)
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


POD = ("template", "spec")
BOX = (*POD, "containers", 0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (changing("Deployment", "replicas", to=1), "nobody to take over"),
        (changing("Deployment", "strategy", to={"type": "Recreate"}), "before its successor"),
        (changing("Deployment", "minReadySeconds", to=0), "minReadySeconds"),
        (changing("PodDisruptionBudget", "maxUnavailable", to=0), "disruption budget"),
        (changing("PodDisruptionBudget", "maxUnavailable", to=2), "disruption budget"),
        (changing("Service", "selector", to={"app": "other"}), "Service chooses other pods"),
        (changing("Deployment", *POD, "securityContext", "runAsUser", to=0), "never as root"),
        (changing("Deployment", *POD, "securityContext", "seccompProfile", to={}), "seccomp"),
        (
            changing("Deployment", *BOX, "securityContext", "readOnlyRootFilesystem", to=False),
            "write everywhere",
        ),
        (changing("Deployment", *BOX, "securityContext", "capabilities", to={}), "rights of root"),
        (changing("Deployment", *POD, "automountServiceAccountToken", to=True), "a token"),
        (changing("Deployment", *BOX, "resources", to={}), "no resources"),
        (
            changing("Deployment", *BOX, "livenessProbe", "httpGet", "path", to="/health/ready"),
            "livenessProbe asks",
        ),
        (
            changing("Deployment", *BOX, "readinessProbe", "httpGet", "port", to="rest"),
            "where nobody answers",
        ),
        (changing("Deployment", *BOX, "volumeMounts", 2, "mountPath", to="/scratch"), "may write"),
        (changing("Deployment", *BOX, "volumeMounts", 0, "mountPath", to="/x"), "no ConfigMap in"),
        (changing("Deployment", *BOX, "volumeMounts", 1, "mountPath", to="/x"), "where the Secret"),
        (changing("Deployment", *BOX, "volumeMounts", 1, "name", to="x"), "is no volume"),
        (changing("Deployment", *BOX, "env", to=[]), "POD_IP is not set"),
        (changing("Deployment", *BOX, "args", to=["run", "--x"]), "No such option"),
        (changing("Deployment", *BOX, "ports", 0, "containerPort", to=80), "serves [80, 9464]"),
        (changing("Service", "ports", 1, "targetPort", to="rest"), "leads metrics to rest"),
        (changing("ServiceMonitor", "endpoints", 0, "path", to="/"), "no metrics are"),
        (changing("NetworkPolicy", "ingress", 0, "from", to=[]), "for pods of mm2 alone"),
        (changing("NetworkPolicy", "ingress", 1, "from", to=[]), "namespace of Prometheus alone"),
        (changing("NetworkPolicy", "policyTypes", to=["Ingress"]), "no egress policy"),
        (changing("NetworkPolicy", "egress", 2, "ports", to=[]), "from port 9093"),
        (changing("NetworkPolicy", "egress", 1, "ports", to=[]), "from port 53"),
        (changing("NetworkPolicy", "egress", 0, "to", to=[]), "only each other"),
        (changing("Secret", "stringData", "east-password", to="hunter2"), "no placeholder"),
        (changing("Secret", "stringData", to={}), "has no east-password"),
        (changing("Deployment", *POD, "terminationGracePeriodSeconds", to=5), "in flight"),
    ],
)
def test_what_is_wrong_is_seen(change, told):
    manifests = copy.deepcopy(OURS)
    change(manifests)
    found = kubernetes.wrong(manifests, made=MADE)
    assert any(told in each for each in found), found


def relabelling() -> dict[str, Any]:
    """What the comment at the annotations of pods tells to add."""
    text = (FOLDER / "deployment.yaml").read_text().partition("      annotations:\n")[0]
    lines = [line.removeprefix("      #   ") for line in text.splitlines()]
    first = next(place for place, line in enumerate(lines) if line.startswith("- source_labels"))
    told: dict[str, Any]
    (told,) = yaml.safe_load("\n".join(lines[first:]))
    return told


def test_pods_found_by_annotations_get_the_job_that_rules_look_for():
    told = relabelling()
    labels = kubernetes.one(OURS, "Deployment")["spec"]["template"]["metadata"]["labels"]
    found = {
        f"__meta_kubernetes_pod_label_{re.sub(r'[^a-zA-Z0-9_]', '_', name)}": value
        for name, value in labels.items()
    }
    (source,) = told["source_labels"]
    assert re.fullmatch(told["regex"], found[source])
    assert told["target_label"] == "job"
    asked = "".join(rule.expr for rule in rules.read())
    assert set(re.findall(r'job="(\w+)"', asked)) == {told["replacement"]}


def test_promtool_takes_that_relabelling(tmp_path: Path):
    file = tmp_path / "prometheus.yml"
    job = {"job_name": "kubernetes-pods", "relabel_configs": [relabelling()]}
    file.write_text(yaml.safe_dump({"scrape_configs": [job]}))
    command = [debian_tools.path("promtool"), "check", "config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mm2_takes_the_settings_of_the_config_map(tmp_path: Path):
    authority = CertificateAuthority.create("ca", wall_ms=SystemClock().wall_ms())
    for key in kubernetes.one(OURS, "Secret")["stringData"]:
        content = authority.certificate_pem if key.endswith(".pem") else b"secret-of-a-test"
        (tmp_path / key).write_bytes(content)
    text = kubernetes.one(OURS, "ConfigMap")["data"]["clusters.yaml"]
    file = tmp_path / "clusters.yaml"
    file.write_text(text.replace("/etc/mm2-secrets", str(tmp_path)))
    pod = kubernetes.one(OURS, "Deployment")["spec"]["template"]["spec"]
    found = config_loader.load_config_file(
        file, environment=kubernetes.environment(pod["containers"][0])
    )
    assert not found.warnings
    assert [flow.name for flow in found.flows] == ["east->west", "west->east"]
    assert found.clusters["east"].security.password == "secret-of-a-test"
    assert (found.metrics.host, found.metrics.port) == ("0.0.0.0", image.METRICS_PORT)
    resolved = found.flat.resolve(found.flat.props)
    assert resolved["rest.advertised.host.name"] == "10.1.2.3"
    assert resolved["listeners"] == f"http://0.0.0.0:{image.REST_PORT}"
    hosts = flow_connector_configs.derive_allowed_hosts(
        found.flat,
        flow_connector_configs.create_worker_settings_source(str(file), environment={}),
    )
    service = kubernetes.one(OURS, "Service")["metadata"]["name"]
    namespace = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["namespace"]
    assert hosts.allows_reading(f"{service}.{namespace}.svc:{image.REST_PORT}")
    assert hosts.allows_reading("10.1.2.3:8090")
    assert not hosts.allows_reading("evil.example")


def test_kustomize_has_every_manifest_once():
    told = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    offered = {each.name for each in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert {*told["resources"], "servicemonitor.yaml"} == offered
    assert len(told["resources"]) == len(set(told["resources"]))
    (name,) = {each["name"] for each in told["images"]}
    (container,) = kubernetes.one(OURS, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == name
