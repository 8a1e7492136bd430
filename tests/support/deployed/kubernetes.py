"""What is wrong with our manifests, held against the image and against each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import yaml

from tests.support.deployed import image
from tests.support.deployed.image import Image

Manifest = Mapping[str, Any]
PLACEHOLDER = "CHANGE-ME"


def read(folder: Path) -> list[dict[str, Any]]:
    """All manifests of a folder; what kustomize is told is none."""
    return [
        document
        for path in sorted(folder.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        if document["kind"] != "Kustomization"
    ]


def one(manifests: Sequence[Manifest], kind: str) -> Any:
    (found,) = (each for each in manifests if each["kind"] == kind)
    return found


def wrong(manifests: Sequence[Manifest], *, made: Image) -> list[str]:
    """In words."""
    deployment = one(manifests, "Deployment")["spec"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    return [
        *_of_rollout(deployment, one(manifests, "PodDisruptionBudget")),
        *_of_labels(manifests, deployment),
        *_of_security(pod, container, made),
        *_of_probes(container),
        *_of_files(manifests, pod, container, made),
        *_of_ports(manifests, container, made),
        *image.not_a_command([made.command[0], *container["args"]]),
        *_of_stopping(pod, container),
    ]


def environment(container: Manifest) -> dict[str, str]:
    """Its variables, with something for those that the platform fills in."""
    return {each["name"]: each.get("value", "10.1.2.3") for each in container["env"]}


def _of_rollout(deployment: Manifest, budget: Manifest) -> Iterator[str]:
    if deployment["replicas"] < 2:
        yield "one pod alone leaves nobody to take over"
    rolling = deployment["strategy"].get("rollingUpdate", {})
    if rolling.get("maxUnavailable") != 0 or not rolling.get("maxSurge"):
        yield "a pod goes before its successor works: maxUnavailable 0, maxSurge 1"
    if not deployment.get("minReadySeconds"):
        yield "the next pod goes at once: minReadySeconds"
    allowed = budget["spec"].get("maxUnavailable")
    if not isinstance(allowed, int) or not 0 < allowed < deployment["replicas"]:
        yield "the disruption budget has to let a pod go, and keep one"


def _of_labels(manifests: Sequence[Manifest], deployment: Manifest) -> Iterator[str]:
    labels = deployment["template"]["metadata"]["labels"].items()
    chosen = {
        "Deployment": deployment["selector"]["matchLabels"],
        "Service": one(manifests, "Service")["spec"]["selector"],
        "PodDisruptionBudget": one(manifests, "PodDisruptionBudget")["spec"]["selector"][
            "matchLabels"
        ],
        "NetworkPolicy": one(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    }
    for kind, selector in chosen.items():
        if not selector or not selector.items() <= labels:
            yield f"{kind} chooses other pods: {selector}"
    monitored = one(manifests, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    if not monitored.items() <= one(manifests, "Service")["metadata"]["labels"].items():
        yield f"ServiceMonitor chooses another Service: {monitored}"


def _of_security(pod: Manifest, container: Manifest, made: Image) -> Iterator[str]:
    context = pod["securityContext"]
    if context.get("runAsNonRoot") is not True or context.get("runAsUser") != made.uid:
        yield f"has to run as {made.uid}, and never as root"
    if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "may make every system call: seccompProfile"
    own = container["securityContext"]
    if own.get("readOnlyRootFilesystem") is not True:
        yield "may write everywhere: readOnlyRootFilesystem"
    if own.get("allowPrivilegeEscalation") is not False or own.get("capabilities") != {
        "drop": ["ALL"]
    }:
        yield "keeps rights of root's"
    if pod.get("automountServiceAccountToken") is not False:
        yield "has a token for the cluster that it does not need"
    resources = container["resources"]
    if not resources.get("requests") or "memory" not in resources.get("limits", {}):
        yield "asks for no resources"


def _of_probes(container: Manifest) -> Iterator[str]:
    wanted = {
        "startupProbe": image.LIVE,
        "livenessProbe": image.LIVE,
        "readinessProbe": image.READY,
    }
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    for name, path in wanted.items():
        asked = container.get(name, {}).get("httpGet", {})
        if asked.get("path") != path:
            yield f"{name} asks {asked.get('path')}, not {path}"
        if ports.get(asked.get("port")) != image.METRICS_PORT:
            yield f"{name} asks a port where nobody answers"


def _of_files(
    manifests: Sequence[Manifest], pod: Manifest, container: Manifest, made: Image
) -> Iterator[str]:
    volumes = {each["name"]: each for each in pod["volumes"]}
    mounts = [each for each in container["volumeMounts"] if each["name"] in volumes]
    lost = [each["name"] for each in container["volumeMounts"] if each not in mounts]
    yield from (f"mounts {each}, which is no volume" for each in lost)
    writable = {each["mountPath"] for each in mounts if not each.get("readOnly")}
    if writable != {image.SCRATCH, made.state}:
        yield f"may write to {sorted(writable)}, not to {image.SCRATCH} and {made.state}"
    at = {each["mountPath"]: volumes[each["name"]] for each in mounts}
    config, secret = one(manifests, "ConfigMap"), one(manifests, "Secret")
    if at.get(made.at, {}).get("configMap", {}).get("name") != config["metadata"]["name"]:
        yield f"has no ConfigMap in {made.at}"
    name = secret["metadata"]["name"]
    secrets = {
        path for path, each in at.items() if each.get("secret", {}).get("secretName") == name
    }
    yield from _of_values(config, secret, container, secrets=secrets)


def _of_values(
    config: Manifest, secret: Manifest, container: Manifest, *, secrets: Set[str]
) -> Iterator[str]:
    """`secrets` are the folders where the Secret is."""
    text = config["data"]["clusters.yaml"]
    for folder, key in re.findall(r"\$\{dir:([^:}]+):([^}]+)\}", text):
        if folder not in secrets:
            yield f"{folder} is not where the Secret is"
        if key not in secret["stringData"]:
            yield f"the Secret has no {key}"
    for name in re.findall(r"\$\{env:([^}]+)\}", text):
        if name not in environment(container):
            yield f"the variable {name} is not set"
    for key, value in secret["stringData"].items():
        if value != PLACEHOLDER:
            yield f"{key} of the Secret is no placeholder"


def _of_ports(manifests: Sequence[Manifest], container: Manifest, made: Image) -> Iterator[str]:
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    if set(ports.values()) != made.ports:
        yield f"serves {sorted(ports.values())}, the image {sorted(made.ports)}"
    service = {each["name"]: each for each in one(manifests, "Service")["spec"]["ports"]}
    for name, each in service.items():
        if ports.get(each["targetPort"]) != each["port"]:
            yield f"the Service leads {name} to {each['targetPort']}"
    (endpoint,) = one(manifests, "ServiceMonitor")["spec"]["endpoints"]
    if endpoint["port"] not in service or endpoint["path"] != "/metrics":
        yield "the ServiceMonitor looks where no metrics are"
    yield from _of_network(one(manifests, "NetworkPolicy")["spec"], manifests)


def _of_network(policy: Manifest, manifests: Sequence[Manifest]) -> Iterator[str]:
    """Nobody reaches the pods but who has to, and they reach brokers, names and each other."""
    own = [{"podSelector": policy["podSelector"]}]
    let_in = {
        port["port"]: rule.get("from") for rule in policy["ingress"] for port in rule["ports"]
    }
    if let_in.get(image.REST_PORT) != own:
        yield "the REST API is for pods of mm2 alone"
    scraping = let_in.get(image.METRICS_PORT) or [{}]
    if not all(each.get("namespaceSelector", {}).get("matchLabels") for each in scraping):
        yield "the metrics, and the status page, are for the namespace of Prometheus alone"
    if set(policy["policyTypes"]) != {"Ingress", "Egress"}:
        yield "pods may reach everything: no egress policy"
    reached = {port["port"]: rule.get("to") for rule in policy["egress"] for port in rule["ports"]}
    clusters = yaml.safe_load(one(manifests, "ConfigMap")["data"]["clusters.yaml"])["clusters"]
    brokers = {
        int(each.rpartition(":")[2])
        for cluster in clusters.values()
        for each in cluster["bootstrap.servers"].split(",")
    }
    for port in sorted({53, image.REST_PORT, *brokers} - reached.keys()):
        yield f"the egress policy keeps pods from port {port}"
    if reached.get(image.REST_PORT) != own:
        yield "at the REST port pods have only each other to reach"


def _of_stopping(pod: Manifest, container: Manifest) -> Iterator[str]:
    if pod.get("terminationGracePeriodSeconds", 30) < 30:
        yield "is ended before what is in flight is acknowledged"
    if container.get("lifecycle"):
        yield "needs no hook to stop in order"
