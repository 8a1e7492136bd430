"""Descriptions of the keys of `clusters.yaml`, for the configuration reference.

Descriptions are grouped by section, in the order of the reference. A key's type and default are in
its declaration. A test checks that exactly the declared keys have a description.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.base import host_and_origin_rules
from mm2.config import mm2_only_keys

FLOW_HELP: Mapping[str, str] = {
    "from": "Alias of the source cluster.",
    "to": "Alias of the target cluster. Run mm2 near this cluster.",
    "enabled": "Whether the flow replicates topics. A disabled flow can still emit heartbeats.",
    "topics": "Topics to replicate: regular expressions that match the whole name.",
    "topics.exclude": "Topics not to replicate, even if `topics` matches them.",
    "groups": (
        "Consumer groups whose offsets are translated: regular expressions that match the whole "
        "group id."
    ),
    "groups.exclude": "Consumer groups to ignore, even if `groups` matches them.",
    **{each.name: each.help for each in mm2_only_keys.ALL},
    "tasks.max": (
        "Maximum number of tasks (copy processes) that share the flow's partitions; about the "
        "number of CPU cores to use."
    ),
    "replication.policy.class": "Class that derives mirror topic names.",
    "replication.policy.separator": (
        "Separator between the cluster alias and the topic in a mirror topic name."
    ),
    "replication.policy.internal.topic.separator.enabled": (
        "Whether the separator is also used in names of internal topics; otherwise a dot is used."
    ),
    "topic.filter.class": "Class that selects topics.",
    "group.filter.class": "Class that selects consumer groups.",
    "config.property.filter.class": "Class that selects the topic configs to sync.",
    "replication.factor": (
        "Replication factor of mirror topics, and of internal topics that have no replication "
        "factor key. -1: use `default.replication.factor` of the brokers, which must run Kafka "
        "2.4 or newer."
    ),
    "refresh.topics.enabled": "Whether to detect new topics and partitions while the flow is "
    "running.",
    "refresh.topics.interval.seconds": "Seconds between checks for new topics and partitions.",
    "sync.topic.configs.enabled": (
        "Whether configs of mirror topics are kept in sync with the source topics."
    ),
    "sync.topic.configs.interval.seconds": "Seconds between syncs of topic configs.",
    "config.properties.exclude": "Topic configs not to sync: regular expressions.",
    "use.defaults.from": (
        "Cluster whose defaults apply to configs that the source topic does not set."
    ),
    "sync.topic.acls.enabled": (
        "Whether ACLs of source topics that allow or deny READ or DESCRIBE are copied to the "
        "mirror topics; ALL is copied as READ. ACLs of all topics (*) and ACLs of other operations "
        "are never copied."
    ),
    "sync.topic.acls.interval.seconds": "Seconds between syncs of topic ACLs.",
    "admin.timeout.ms": "Timeout of one administrative request.",
    "emit.checkpoints.enabled": (
        "Whether checkpoints (translated consumer group offsets) are written."
    ),
    "emit.checkpoints.interval.seconds": "Seconds between checkpoints of consumer groups.",
    "checkpoints.topic.replication.factor": "Replication factor of the checkpoints topic.",
    "sync.group.offsets.enabled": (
        "Whether translated offsets are committed to idle consumer groups on the target."
    ),
    "sync.group.offsets.interval.seconds": "Seconds between commits of translated group offsets.",
    "refresh.groups.enabled": "Whether to detect new consumer groups.",
    "refresh.groups.interval.seconds": "Seconds between checks for new consumer groups.",
    "emit.offset-syncs.enabled": (
        "Whether offset syncs are written for clients that rely on MirrorMaker 2's offset "
        "translation."
    ),
    "offset.lag.max": "Maximum number of records between two offset syncs of a partition.",
    "offset-syncs.topic.location": "Cluster that contains the offset-syncs topic.",
    "offset-syncs.topic.replication.factor": "Replication factor of the offset-syncs topic.",
    "emit.heartbeats.enabled": (
        "Whether heartbeats are written to the target. Flows from the target to other clusters "
        "replicate them."
    ),
    "emit.heartbeats.interval.seconds": "Seconds between heartbeats.",
    "heartbeats.topic.replication.factor": "Replication factor of the heartbeats topic.",
    "heartbeats.replication.enabled": (
        "Whether heartbeats topics are replicated even if `topics` does not match them."
    ),
    "metric.names.formats": ("MirrorMaker 2 metric name formats that `/metrics/java` serves."),
    "transforms": (
        "Aliases of the transformations that are applied to records. Configure each "
        "transformation with `transforms.<alias>.type` and its other keys."
    ),
    "predicates": (
        "Aliases of predicates for transformations. Configure each predicate with "
        "`predicates.<alias>.type` and its other keys."
    ),
}
"""Descriptions of the flow keys. The same keys in section `defaults` apply to all flows."""

SPARK_HELP: Mapping[str, str] = {
    "engine": (
        "`spark`: copy processes are Spark tasks. `inline`: they are threads of mm2's own process."
    ),
    "master": "Spark master: local, or the URL of a cluster.",
    "app.name": "Name of the Spark application.",
    "ui": (
        "Whether Spark serves its web UI. The UI has no authentication; on a cluster it listens on "
        "every interface unless the environment variable `SPARK_LOCAL_IP` is set."
    ),
    "control.host": "Host name or address at which executors connect to mm2.",
    "control.port": "Port on which mm2 accepts connections from executors; 0: any free port.",
    "python": "Path of the executors' Python interpreter.",
    "allow.insecure.spark": (
        "Whether Spark may run without authentication and, on a cluster, without encryption."
    ),
    "driver.host": "Host name or address at which executors connect to the Spark driver.",
    "driver.bindAddress": "Address that the Spark driver listens on.",
    "driver.port": "Port of the Spark driver; default: any free port.",
    "driver.blockManager.port": "Port of the driver's block manager; default: any free port.",
    "conf": "Spark properties, by their Spark names.",
}

METRICS_HELP: Mapping[str, str] = {
    "enabled": "Whether metrics, health checks and the status page are served.",
    "host": "Host name or address to listen on.",
    "port": "Port to listen on; 0: any free port.",
    "required": (
        "Whether mm2 refuses to start if the port is in use. If false, it logs a warning and runs "
        "without metrics, `/health` and the status page."
    ),
    "by": (
        "`partition`: also export the lag of each partition, which adds two time series per "
        "partition."
    ),
}

HEALTH_HELP: Mapping[str, str] = {
    "replicating.within.seconds": (
        "Maximum seconds since the last replicated batch for a flow to count as healthy, if its "
        "source may have unreplicated records. Used by `mm2 status` and `/health/replicating`."
    ),
}

DRILL_HELP: Mapping[str, str] = {
    "report": (
        "File to which `mm2 drill` writes its results, and from which "
        "`mm2_last_drill_timestamp_seconds` is derived. Without this file, no alert is raised for "
        "overdue drills."
    ),
}

HOOKS_HELP: Mapping[str, str] = {
    "command": "Program and arguments of the hook. The program is run without a shell.",
    "timeout.ms": "Timeout of the command.",
}

REST_HELP: Mapping[str, str] = {
    "listeners": "URLs on which the nodes of a flow's group listen for requests from each other.",
    "admin.listeners": "URLs of the admin API (log levels).",
    "rest.advertised.host.name": "Host name at which other nodes connect to this node.",
    "rest.advertised.port": "Port at which other nodes connect to this node.",
    "rest.advertised.listener": "Protocol with which other nodes connect to this node.",
    host_and_origin_rules.ALLOWED_HOST_NAMES_KEY: (
        "Additional host names that the status page and the REST API accept in the Host header of "
        "requests. `*.example.org` allows every name below example.org, and `*` allows any name. "
        "Addresses, `localhost` and names without a dot are always allowed. Metrics and health "
        "endpoints accept any name."
    ),
    "access.control.allow.origin": (
        "Origins from which browsers may send cross-origin requests (CORS)."
    ),
    "access.control.allow.methods": "HTTP methods that cross-origin requests may use.",
    "response.http.headers.config": "Additional HTTP response headers.",
    "rest.extension.classes": "Connect REST extensions. Only basic authentication is supported.",
    "ssl.client.auth": "Whether HTTPS clients must present a certificate.",
    "dedicated.mode.enable.internal.rest": (
        "Whether nodes of a flow's group communicate over REST."
    ),
}

WORKER_HELP: Mapping[str, str] = {
    "config.storage.replication.factor": "Replication factor of the worker's config storage topic.",
    "offset.storage.replication.factor": "Replication factor of the worker's offset storage topic.",
    "status.storage.replication.factor": "Replication factor of the worker's status storage topic.",
    "task.restart.max": (
        "Maximum number of consecutive automatic restarts of a failed connector or task; -1: "
        "unlimited."
    ),
    "scheduled.rebalance.max.delay.ms": (
        "How long tasks of a lost node remain unassigned while the group waits for the node to "
        "return."
    ),
    "session.timeout.ms": "Time without heartbeats after which a node counts as lost.",
    "heartbeat.interval.ms": "Interval between a node's heartbeats to the group coordinator.",
    "rebalance.timeout.ms": "Maximum time for a node to rejoin the group during a rebalance.",
    "connect.protocol": (
        "Rebalance protocol of the group. `clusters.yaml` allows only `sessioned`: older protocols "
        "do not sign requests between nodes. `mm2.properties` accepts them with a warning."
    ),
    "offset.flush.interval.ms": "Interval between commits of Connect source offsets.",
    "offset.flush.timeout.ms": "Timeout of a commit of Connect source offsets.",
    "inter.worker.key.generation.algorithm": (
        "Algorithm that generates the keys for signing requests between nodes."
    ),
    "inter.worker.key.size": (
        "Size in bits, at least 128, of the keys for signing requests between nodes; default: the "
        "default size of the algorithm."
    ),
    "inter.worker.key.ttl.ms": (
        "Time after which a key for signing requests between nodes is replaced."
    ),
    "inter.worker.signature.algorithm": "Algorithm for signing requests between nodes.",
    "inter.worker.verification.algorithms": "Signature algorithms accepted from other nodes.",
    "connector.client.config.override.policy": ("Client properties that connectors may override."),
    "exactly.once.source.support": (
        "Exactly-once support for other source connectors. For mm2's flows, `delivery` sets the "
        "delivery guarantee."
    ),
    "plugin.path": "Directories of Python plugins.",
    "plugin.discovery": "No effect: it controls Java class loading.",
    "topic.creation.enable": "Whether topics of other source connectors are created.",
    "topic.tracking.enable": "Whether the topics that each connector uses are tracked.",
    "topic.tracking.allow.reset": "Whether tracked topics can be reset over REST.",
}
