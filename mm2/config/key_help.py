"""Help sentences of the keys of `clusters.yaml`, from which the reference is generated.

By section, in the order of the reference. A key's type and default are in its declaration; a
test checks that every declared key is here, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.base import request_origin

FLOW_HELP: Mapping[str, str] = {
    "from": "Alias of the source cluster.",
    "to": "Alias of the target cluster, near which mm2 best runs.",
    "enabled": "Whether this direction is mirrored. One that is not may still write heartbeats.",
    "topics": "Topics to mirror: expressions that match the whole name.",
    "topics.exclude": "Topics that are not mirrored, whatever `topics` says.",
    "groups": "Consumer groups whose offsets are translated: expressions of the whole id.",
    "groups.exclude": "Groups that are left alone, whatever `groups` says.",
    "start": "Where a topic begins that has no progress at all; later partitions begin at their "
    "first record.",
    "delivery": "`auto`: exactly once without transactions, in them for old records; "
    "`transactional`: always in transactions; `at-least-once`: nobody is fenced.",
    "on.source.gap": "When the source deleted records before they were copied: go on behind them "
    "with an incident, or stop the partition.",
    "target.topics": "`exclusive`: mirror topics are this flow's alone, and what others wrote "
    "stops it; `shared`: local producers write there, too. `shared` under "
    "IdentityReplicationPolicy.",
    "tasks.max": "How many copies share the flow's partitions: about the cores they may use.",
    "throttle": "At most so many bytes per second of the whole flow.",
    "throttle.topics": "At most so many bytes per second of topics that match.",
    "buffer.memory": "Most bytes that one copy process buffers between source and target, and the "
    "largest size that one batch may decompress to if it must be decoded. Decoding such a batch "
    "can briefly take four times as much memory.",
    "offset.map.bytes": "Bytes of the offset map that are kept of each partition; what is beyond "
    "is thinned out, and answers earlier offsets.",
    "unreachable.after.seconds": "A broker that has not answered for this long is unreachable: "
    "the lag of its partitions is unknown, and the flow is unhealthy.",
    "replication.policy.class": "How mirror topics are named.",
    "replication.policy.separator": "Between alias and topic in a mirror topic's name.",
    "replication.policy.internal.topic.separator.enabled": "Whether the separator is used in names "
    "of internal topics, too; else a dot is.",
    "topic.filter.class": "What picks topics.",
    "group.filter.class": "What picks groups.",
    "config.property.filter.class": "What picks settings of topics.",
    "replication.factor": "Replicas of mirror topics, and of all internal topics that have no "
    "number of their own; -1: `default.replication.factor` of the brokers, which have to be of "
    "Kafka 2.4 or newer.",
    "refresh.topics.enabled": "Whether new topics and partitions are looked for.",
    "refresh.topics.interval.seconds": "How often they are.",
    "sync.topic.configs.enabled": "Whether settings of mirror topics follow the source's.",
    "sync.topic.configs.interval.seconds": "How often they are compared.",
    "config.properties.exclude": "Settings of topics that do not follow.",
    "use.defaults.from": "Which cluster's defaults hold for settings that the source's topic does "
    "not say.",
    "sync.topic.acls.enabled": "Whether ACLs of mirror topics follow the source's.",
    "sync.topic.acls.interval.seconds": "How often they are compared.",
    "admin.timeout.ms": "How long one administrative request may take.",
    "emit.checkpoints.enabled": "Whether translated offsets of groups are published.",
    "emit.checkpoints.interval.seconds": "How often groups are looked at.",
    "checkpoints.topic.replication.factor": "Replicas of the topic of checkpoints.",
    "sync.group.offsets.enabled": "Whether idle groups on the target are given these offsets.",
    "sync.group.offsets.interval.seconds": "How often they are.",
    "refresh.groups.enabled": "Whether new groups are looked for.",
    "refresh.groups.interval.seconds": "How often they are.",
    "emit.offset-syncs.enabled": "Whether offset syncs are written, for readers made for "
    "MirrorMaker 2.",
    "offset.lag.max": "After how many records one is written at last.",
    "offset-syncs.topic.location": "Which cluster has their topic.",
    "offset-syncs.topic.replication.factor": "Replicas of it.",
    "emit.heartbeats.enabled": "Whether heartbeats are written to the target; a flow that leads "
    "away from it mirrors them.",
    "emit.heartbeats.interval.seconds": "How often one is.",
    "heartbeats.topic.replication.factor": "Replicas of the topic of heartbeats.",
    "heartbeats.replication.enabled": "Whether topics of heartbeats are mirrored even if `topics` "
    "does not name them.",
    "metric.names.formats": "Which of MirrorMaker 2's two ways of naming its metrics is served at "
    "`/metrics/java`.",
    "transforms": "Aliases of what is done to records on their way; each is configured by "
    "`transforms.<alias>.type` and more.",
    "predicates": "Aliases of conditions for transforms: `predicates.<alias>.type` and more.",
}
"""Of a flow, and of `defaults`, which hold for all of them."""

SPARK_HELP: Mapping[str, str] = {
    "engine": "What runs the copies: processes of Spark, or threads of mm2's own process.",
    "master": "Which Spark: on this machine, or a cluster.",
    "app.name": "What it is called there.",
    "ui": "Whether Spark serves its web UI. It has no login; on a cluster it listens on every "
    "interface unless the environment variable `SPARK_LOCAL_IP` names an address.",
    "control.host": "Name or address under which executors reach mm2.",
    "control.port": "At which port; 0: any free one.",
    "python": "Interpreter of the executors.",
    "allow.insecure.spark": "Whether Spark may run without authentication and, on a cluster, "
    "without encryption.",
    "driver.host": "Name or address under which executors reach Spark's driver.",
    "driver.bindAddress": "Where the driver listens.",
    "driver.port": "At which port; left out: any free one.",
    "driver.blockManager.port": "The same of its block manager.",
    "conf": "Settings of Spark, as Spark calls them.",
}

METRICS_HELP: Mapping[str, str] = {
    "enabled": "Whether metrics, health and the status page are served at this port.",
    "host": "Name or address to listen on.",
    "port": "Which port; 0: any free one.",
    "required": "Whether mm2 refuses to start when the port is in use; else it runs without "
    "metrics, `/health` and the status page at this port, and says so in a warning.",
    "by": "`partition`: lags are told of single partitions, too. Ten thousand of them are twenty "
    "thousand series more.",
}

HEALTH_HELP: Mapping[str, str] = {
    "replicating.within.seconds": "Longest time that a healthy flow may go without replicating a "
    "batch while its source may have records left: for `mm2 status` and `/health/replicating`.",
}

DRILL_HELP: Mapping[str, str] = {
    "report": "File that `mm2 drill` notes its results in, and of which "
    "`mm2_last_drill_timestamp_seconds` is made. Without it nobody is reminded of drills.",
}

HOOKS_HELP: Mapping[str, str] = {
    "command": "Program and arguments, which no shell reads.",
    "timeout.ms": "How long it may take.",
}

REST_HELP: Mapping[str, str] = {
    "listeners": "Where the nodes of a flow's group reach each other.",
    "admin.listeners": "Where logger levels are served.",
    "rest.advertised.host.name": "Under which name others are told to reach this node.",
    "rest.advertised.port": "At which port.",
    "rest.advertised.listener": "By which protocol.",
    request_origin.ALLOWED_HOST_NAMES_KEY: "Host names, besides the node's own, that requests "
    "to the status "
    "page and the REST API may use: `*.example.org` allows every name below example.org, `*` any "
    "name. Addresses, `localhost` and names without a dot are always allowed; metrics and health "
    "answer under any name.",
    "access.control.allow.origin": "Pages of which origins may read answers.",
    "access.control.allow.methods": "By which methods.",
    "response.http.headers.config": "Headers that answers bear besides.",
    "rest.extension.classes": "Whether users have to log in.",
    "ssl.client.auth": "Whether others have to show a certificate.",
    "dedicated.mode.enable.internal.rest": "Whether nodes serve each other at all.",
}

WORKER_HELP: Mapping[str, str] = {
    "config.storage.replication.factor": "Replicas of the worker's topic of configurations.",
    "offset.storage.replication.factor": "Replicas of its topic of offsets.",
    "status.storage.replication.factor": "Replicas of its topic of statuses.",
    "task.restart.max": "How often in a row something that fails is started again; -1: always.",
    "scheduled.rebalance.max.delay.ms": "How long the work of a lost node waits for it to come "
    "back.",
    "session.timeout.ms": "After how long without a word a node counts as lost.",
    "heartbeat.interval.ms": "How often a node says that it is there.",
    "rebalance.timeout.ms": "How long a node may take to give work back.",
    "connect.protocol": "Rebalance protocol of the group. `clusters.yaml` allows only `sessioned`: "
    "older protocols do not sign requests between nodes. `mm2.properties` accepts them with a "
    "warning.",
    "offset.flush.interval.ms": "How often Connect's own offsets are stored.",
    "offset.flush.timeout.ms": "How long that may take.",
    "inter.worker.key.generation.algorithm": "Of the keys that nodes sign requests with.",
    "inter.worker.key.size": "Size in bits of the keys that nodes sign requests with, at least "
    "128; not set: the algorithm's usual size.",
    "inter.worker.key.ttl.ms": "How long one is used.",
    "inter.worker.signature.algorithm": "How requests are signed.",
    "inter.worker.verification.algorithms": "Which signatures count.",
    "connector.client.config.override.policy": "What connectors may set of their clients.",
    "exactly.once.source.support": "Of other source connectors; how mm2 delivers `delivery` says.",
    "plugin.path": "Folders of Python plugins.",
    "plugin.discovery": "Of Java's class loading: of no effect here.",
    "topic.creation.enable": "Whether topics of other source connectors are created.",
    "topic.tracking.enable": "Whether it is noted which topics connectors use.",
    "topic.tracking.allow.reset": "Whether that may be forgotten on request.",
}
