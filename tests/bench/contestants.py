"""Who is measured, and with which settings. All are started as a user would start them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mm2.sandbox import broker_settings, java_server_process, kafka_jars

_MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"

# What Kafka's own start scripts give MirrorMaker (kafka-run-class.sh, connect-mirror-maker.sh).
_JAVA_FLAGS = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# Clusters of one broker, as sources are here, cannot keep to the defaults of these.
_REPLICATION = (
    "replication.factor",
    "checkpoints.topic.replication.factor",
    "{target}.config.storage.replication.factor",
    "{target}.offset.storage.replication.factor",
    "{target}.status.storage.replication.factor",
)
_AT_THE_SOURCE = (
    # Java heartbeats both ways.
    "heartbeats.topic.replication.factor",
    "offset-syncs.topic.replication.factor",
    "{source}.config.storage.replication.factor",
    "{source}.offset.storage.replication.factor",
    "{source}.status.storage.replication.factor",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What a contestant is asked to mirror. Aliases are new for each run: no state is found.

    `replication` is that of everything on the target; the source has a single broker.
    """

    source: str
    target: str
    source_properties: Mapping[str, str]
    target_properties: Mapping[str, str]
    topics: tuple[str, ...]
    replication: int = 1

    def mirrored(self, topic: str) -> str:
        """The topic's name on the target, by the default policy."""
        return f"{self.source}.{topic}"


class Contestant(Protocol):
    """`key` for options and files, `title` for tables, `settings` as they are printed."""

    @property
    def key(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def settings(self) -> tuple[str, ...]: ...

    def command(self, flow: Flow, folder: Path) -> list[str]:
        """Write the settings file into `folder` and say what to run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaMirrorMaker:
    """Dedicated mode. `tuning` has `{source}` and `{target}` where aliases belong."""

    key: str
    title: str
    tuning: Mapping[str, str]
    flags: tuple[str, ...] = _JAVA_FLAGS

    @property
    def settings(self) -> tuple[str, ...]:
        told = {_spelled(key, "A", "B"): value for key, value in self.tuning.items()}
        lines = [f"{key}={value}" for key, value in told.items()]
        return (*(lines or ["(none)"]), f"JVM: {' '.join(self.flags)}")

    def command(self, flow: Flow, folder: Path) -> list[str]:
        path = folder / "mm2.properties"
        path.write_text(broker_settings.render_properties(self.properties(flow)))
        return java_server_process.make_java_command(
            _MIRROR_MAKER, str(path), jars=kafka_jars.ensure_jars(), flags=self.flags
        )

    def properties(self, flow: Flow) -> dict[str, str]:
        """All of the `mm2.properties`."""
        given = {"clusters": f"{flow.source},{flow.target}"}
        for alias, client in (
            (flow.source, flow.source_properties),
            (flow.target, flow.target_properties),
        ):
            given |= {f"{alias}.{key}": value for key, value in client.items()}
        given[f"{flow.source}->{flow.target}.enabled"] = "true"
        given[f"{flow.source}->{flow.target}.topics"] = ",".join(map(re.escape, flow.topics))
        for keys, copies in ((_AT_THE_SOURCE, 1), (_REPLICATION, flow.replication)):
            given |= {_spelled(key, flow.source, flow.target): str(copies) for key in keys}
        return given | {
            _spelled(key, flow.source, flow.target): value for key, value in self.tuning.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Mm2Run:
    """This product, by its command line, on Spark as it comes or without."""

    key: str = "mm2"
    title: str = "mm2 run"
    flow_settings: Mapping[str, object]
    engine: str = "spark"

    @property
    def settings(self) -> tuple[str, ...]:
        lines = [f"{key}: {value}" for key, value in self.flow_settings.items()]
        return tuple(lines) or ("(none)",)

    def command(self, flow: Flow, folder: Path) -> list[str]:
        path = folder / "clusters.yaml"  # JSON is YAML
        path.write_text(json.dumps(self.document(flow), indent=1))
        return _mm2_run(path)

    def document(self, flow: Flow) -> dict[str, object]:
        """All of the `clusters.yaml`."""
        return {
            "clusters": {
                flow.source: dict(flow.source_properties),
                flow.target: dict(flow.target_properties),
            },
            "flows": [
                {
                    "from": flow.source,
                    "to": flow.target,
                    "topics": [re.escape(topic) for topic in flow.topics],
                    "replication.factor": flow.replication,
                    "offset-syncs.topic.replication.factor": 1,  # they are at the source
                    **self.flow_settings,
                }
            ],
            **({} if self.engine == "spark" else {"spark": {"engine": self.engine}}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Mm2Properties:
    """This product with the very `mm2.properties` of one of Java's."""

    like: JavaMirrorMaker
    engine: str = "spark"

    @property
    def key(self) -> str:
        return "mm2" if self.engine == "spark" else f"mm2-{self.engine}"

    @property
    def title(self) -> str:
        return MM2_RUN.title if self.engine == "spark" else MM2_INLINE.title

    @property
    def settings(self) -> tuple[str, ...]:
        return self.like.settings

    def command(self, flow: Flow, folder: Path) -> list[str]:
        path = folder / "mm2.properties"
        own = {"mm2.spark.engine": self.engine}
        path.write_text(broker_settings.render_properties(self.like.properties(flow) | own))
        return _mm2_run(path)


def _mm2_run(path: Path) -> list[str]:
    program = Path(sys.executable).with_name("mm2")
    return [str(program), "run", str(path), "--no-table", "--metrics-port", "0"]


def _spelled(key: str, source: str, target: str) -> str:
    return key.replace("{source}", source).replace("{target}", target)


JAVA_DEFAULTS = JavaMirrorMaker(key="java", title="Java MirrorMaker 2, defaults", tuning={})
JAVA_TUNED = JavaMirrorMaker(
    key="java-tuned",
    title="Java MirrorMaker 2, tuned",
    tuning={
        "tasks.max": "2",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "{target}.plugin.discovery": "service_load",
        "{source}.consumer.max.poll.records": "10000",
        "{source}.consumer.max.partition.fetch.bytes": "8388608",
        "{source}.consumer.fetch.max.bytes": "33554432",
        "{source}.consumer.receive.buffer.bytes": "1048576",
        "{source}.consumer.check.crcs": "false",
        "{target}.producer.batch.size": "524288",
        "{target}.producer.linger.ms": "0",
        "{target}.producer.buffer.memory": "134217728",
        "{target}.producer.max.request.size": "1048576",
        "{target}.producer.max.in.flight.requests.per.connection": "5",
        "{target}.producer.compression.type": "none",
        "{target}.producer.send.buffer.bytes": "1048576",
    },
)
MM2_RUN = Mm2Run(flow_settings={"tasks.max": 2})
MM2_INLINE = Mm2Run(
    key="mm2-inline",
    title="mm2 run, inline",
    flow_settings={"tasks.max": 2},
    engine="inline",
)

ALL: tuple[Contestant, ...] = (JAVA_DEFAULTS, JAVA_TUNED, MM2_RUN)
