"""Kafka client properties: how Java's clients define them, and which mm2 supports or refuses.

The names are those of the producer, consumer and admin clients of Kafka 4.3. Plain keys of a
cluster (`source.cluster.X`) reach its clients only if they are in `CLIENT_KEYS`
(`MirrorClientConfig`). A property is supported if something here acts on it; the others are
refused by name instead of being ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api import config_def
from connect_runtime.api.config_def import ConfigDef, Importance
from connect_runtime.api.config_validators import (
    CaseInsensitiveValidString,
    Range,
    Validator,
    ValidList,
)
from connect_runtime.protocol import security_settings
from mm2.config import java_classes, value_types
from mm2.config.value_types import ValueType

Type = config_def.Type
HIGH, MEDIUM, LOW = Importance
UNIQUE_NAMES = ValidList()
"""No item twice, none empty."""

BOOTSTRAP_SERVERS = "bootstrap.servers"
SECURITY_PROTOCOL = "security.protocol"
SECURITY_PROTOCOLS = ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")
"""In the order in which Java names them."""

_OAUTH_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_between = Range
_Row = tuple[str, Type, Any, Importance, str]

_SSL_ROWS: tuple[_Row, ...] = (
    ("protocol", Type.STRING, "TLSv1.3", MEDIUM, "Which TLS to begin with."),
    ("provider", Type.STRING, None, MEDIUM, "Java's security provider."),
    ("cipher.suites", Type.LIST, [], LOW, "Allowed ciphers; none named: all."),
    ("enabled.protocols", Type.LIST, ["TLSv1.2", "TLSv1.3"], MEDIUM, "Allowed TLS versions."),
    ("keystore.type", Type.STRING, "JKS", MEDIUM, "Format of the key store: JKS, PKCS12, PEM."),
    ("keystore.location", Type.STRING, None, HIGH, "File with the client's key."),
    ("keystore.password", Type.PASSWORD, None, HIGH, "Opens the key store."),
    ("key.password", Type.PASSWORD, None, HIGH, "Opens the key in it."),
    ("keystore.key", Type.PASSWORD, None, HIGH, "The key itself, as PEM text."),
    ("keystore.certificate.chain", Type.PASSWORD, None, HIGH, "Its certificates, as PEM text."),
    ("truststore.certificates", Type.PASSWORD, None, HIGH, "Who is trusted, as PEM text."),
    ("truststore.type", Type.STRING, "JKS", MEDIUM, "Format of the trust store."),
    ("truststore.location", Type.STRING, None, HIGH, "File with who is trusted."),
    ("truststore.password", Type.PASSWORD, None, HIGH, "Opens the trust store."),
    ("keymanager.algorithm", Type.STRING, "SunX509", LOW, "How Java picks its key."),
    ("trustmanager.algorithm", Type.STRING, "PKIX", LOW, "How Java checks certificates."),
    (
        "endpoint.identification.algorithm",
        Type.STRING,
        "https",
        LOW,
        "https: the certificate must be for the host; empty: for any.",
    ),
    ("secure.random.implementation", Type.STRING, None, LOW, "Java's source of chance."),
    ("engine.factory.class", Type.CLASS, None, LOW, "A Java class that makes TLS engines."),
)
_SASL_ROWS: tuple[_Row, ...] = (
    ("kerberos.service.name", Type.STRING, None, MEDIUM, "The brokers' name in Kerberos."),
    ("kerberos.kinit.cmd", Type.STRING, "/usr/bin/kinit", LOW, "What fetches tickets."),
    (
        "kerberos.ticket.renew.window.factor",
        Type.DOUBLE,
        0.8,
        LOW,
        "Part of its life after which a ticket is renewed.",
    ),
    ("kerberos.ticket.renew.jitter", Type.DOUBLE, 0.05, LOW, "By chance so much earlier."),
    ("kerberos.min.time.before.relogin", Type.LONG, 60_000, LOW, "Milliseconds between logins."),
    (
        "login.refresh.window.factor",
        Type.DOUBLE,
        0.8,
        LOW,
        "Part of its life that a token is used.",
    ),
    ("login.refresh.window.jitter", Type.DOUBLE, 0.05, LOW, "By chance so much earlier."),
    ("login.refresh.min.period.seconds", Type.SHORT, 60, LOW, "A token is kept so long at least."),
    ("login.refresh.buffer.seconds", Type.SHORT, 300, LOW, "And renewed so long before its end."),
    ("mechanism", Type.STRING, "GSSAPI", MEDIUM, "How the client proves who it is."),
    ("jaas.config", Type.PASSWORD, None, MEDIUM, "Login module with its options."),
    ("client.callback.handler.class", Type.CLASS, None, MEDIUM, "A Java class, asked by SASL."),
    ("login.callback.handler.class", Type.CLASS, None, MEDIUM, "A Java class, asked at login."),
    ("login.class", Type.CLASS, None, MEDIUM, "A Java class that logs in."),
    ("login.connect.timeout.ms", Type.INT, None, LOW, "For the token endpoint."),
    ("login.read.timeout.ms", Type.INT, None, LOW, "For the token endpoint."),
    ("login.retry.backoff.max.ms", Type.LONG, 10_000, LOW, "The longest wait between tries."),
    ("login.retry.backoff.ms", Type.LONG, 100, LOW, "The first wait between tries."),
)
_BEARER_ROWS: tuple[_Row, ...] = (
    (
        "jwt.retriever.class",
        Type.CLASS,
        java_classes.get_java_class(f"{_OAUTH_PACKAGE}DefaultJwtRetriever"),
        MEDIUM,
        "A Java class that fetches tokens.",
    ),
    (
        "jwt.validator.class",
        Type.CLASS,
        java_classes.get_java_class(f"{_OAUTH_PACKAGE}DefaultJwtValidator"),
        MEDIUM,
        "A Java class that checks them.",
    ),
    ("scope", Type.STRING, None, MEDIUM, "What the token is asked for."),
    ("client.credentials.client.id", Type.STRING, None, MEDIUM, "Who asks for it."),
    ("client.credentials.client.secret", Type.PASSWORD, None, MEDIUM, "The secret of who asks."),
    ("assertion.algorithm", Type.STRING, "RS256", MEDIUM, "How an assertion is signed."),
    ("assertion.claim.aud", Type.STRING, None, MEDIUM, "For whom it is."),
    ("assertion.claim.exp.seconds", Type.INT, 300, LOW, "How long it holds."),
    ("assertion.claim.iss", Type.STRING, None, MEDIUM, "Who issued it."),
    ("assertion.claim.jti.include", Type.BOOLEAN, False, MEDIUM, "Whether it gets an id."),
    ("assertion.claim.nbf.seconds", Type.INT, 60, LOW, "How long ago it begins to hold."),
    ("assertion.claim.sub", Type.STRING, None, MEDIUM, "Whom it is about."),
    ("assertion.file", Type.STRING, None, MEDIUM, "A file that has one ready."),
    ("assertion.private.key.file", Type.STRING, None, MEDIUM, "The key that signs it."),
    ("assertion.private.key.passphrase", Type.PASSWORD, None, MEDIUM, "Opens that key."),
    ("assertion.template.file", Type.STRING, None, MEDIUM, "Further claims and headers."),
    ("scope.claim.name", Type.STRING, "scope", LOW, "Where the token names its scope."),
    ("sub.claim.name", Type.STRING, "sub", LOW, "Where it names its subject."),
    ("token.endpoint.url", Type.STRING, None, MEDIUM, "Where tokens are fetched."),
    ("jwks.endpoint.url", Type.STRING, None, MEDIUM, "Where keys that check them are."),
    ("jwks.endpoint.refresh.ms", Type.LONG, 3_600_000, LOW, "How often those are fetched."),
    ("jwks.endpoint.retry.backoff.max.ms", Type.LONG, 10_000, LOW, "The longest wait for them."),
    ("jwks.endpoint.retry.backoff.ms", Type.LONG, 100, LOW, "The first wait for them."),
    ("clock.skew.seconds", Type.INT, 30, LOW, "How far clocks may differ."),
    ("expected.audience", Type.LIST, [], HIGH, "For whom tokens must be."),
    ("expected.issuer", Type.STRING, None, HIGH, "Who must have issued them."),
    ("header.urlencode", Type.BOOLEAN, False, LOW, "Whether credentials are URL-encoded first."),
)
_VALIDATORS: dict[str, Validator] = {
    "sasl.login.refresh.window.factor": _between(at_least=0.5, at_most=1.0),
    "sasl.login.refresh.window.jitter": _between(at_least=0.0, at_most=0.25),
    "sasl.login.refresh.min.period.seconds": _between(at_least=0, at_most=900),
    "sasl.login.refresh.buffer.seconds": _between(at_least=0, at_most=3600),
    "sasl.oauthbearer.assertion.algorithm": CaseInsensitiveValidString("ES256", "RS256"),
    "sasl.oauthbearer.assertion.claim.exp.seconds": _between(at_least=0, at_most=86_400),
    "sasl.oauthbearer.assertion.claim.nbf.seconds": _between(at_least=0, at_most=3600),
}


def define_security_keys(into: ConfigDef) -> ConfigDef:
    """All keys but the servers, in Java's order."""
    into.define(
        SECURITY_PROTOCOL,
        Type.STRING,
        "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        default="PLAINTEXT",
        validator=CaseInsensitiveValidString(*SECURITY_PROTOCOLS),
        importance=MEDIUM,
    )
    into.define(
        "config.providers",
        Type.LIST,
        "Names of the providers that fill ${…} in.",
        default=[],
        validator=UNIQUE_NAMES,
        importance=LOW,
    )
    families = (("ssl.", _SSL_ROWS), ("sasl.", _SASL_ROWS), ("sasl.oauthbearer.", _BEARER_ROWS))
    for prefix, rows in families:
        for name, of, default, importance, text in rows:
            key = prefix + name
            default_validator = UNIQUE_NAMES if of is Type.LIST else None
            into.define(
                key,
                of,
                text,
                default=default,
                validator=_VALIDATORS.get(key, default_validator),
                importance=importance,
            )
    return into


SECURITY_KEYS = define_security_keys(ConfigDef())
CLIENT_KEYS: frozenset[str] = (frozenset(SECURITY_KEYS.keys) | {BOOTSTRAP_SERVERS}) - {
    "config.providers"
}
"""What plain properties of a cluster may hand on to its clients."""


_INT_MAX = 2_147_483_647
_DURATION_MS = value_types.integer(0, _INT_MAX)
_SIZE_BYTES = value_types.integer(1, _INT_MAX)
_SOCKET_BYTES = value_types.integer(0, _INT_MAX, or_minus_one=True)

# What shapes connections and requests, with the type of its value.
SUPPORTED_PROPERTIES: Mapping[str, ValueType[object]] = {
    "bootstrap.servers": value_types.text("host:port, several separated by commas"),
    "client.dns.lookup": value_types.choice(
        "use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"
    ),
    "client.rack": value_types.text("the rack, or availability zone, that mm2 runs in"),
    "connections.max.idle.ms": value_types.integer(0, _INT_MAX, or_minus_one=True),
    "fetch.max.bytes": _SIZE_BYTES,
    "fetch.max.wait.ms": _DURATION_MS,
    "fetch.min.bytes": value_types.integer(0, _INT_MAX),
    "max.partition.fetch.bytes": _SIZE_BYTES,
    "metadata.max.age.ms": _DURATION_MS,
    "metadata.recovery.strategy": value_types.choice("rebootstrap", "none"),
    "receive.buffer.bytes": _SOCKET_BYTES,
    "reconnect.backoff.max.ms": _DURATION_MS,
    "reconnect.backoff.ms": _DURATION_MS,
    "request.timeout.ms": value_types.integer(1, _INT_MAX),
    "retry.backoff.max.ms": _DURATION_MS,
    "retry.backoff.ms": _DURATION_MS,
    "send.buffer.bytes": _SOCKET_BYTES,
    "socket.connection.setup.timeout.ms": _DURATION_MS,
}

# Keys that begin so are judged as a whole by `security_settings`, unknown ones too.
SECURITY_PREFIXES = ("security.", "sasl.", "ssl.")

_SET_BY_MM2 = "cannot be set: copying depends on it, mm2 sets it itself"
_IGNORED_FOR_BATCHES = "has no meaning here: record batches are passed on as the source has them"
_NO_MEANING_GROUP = "has no meaning here: mm2 reads without a consumer group of its own"
_JAVA_ONLY = "is not supported: it names Java classes or Java's own metrics"

_NOT_SUPPORTED_YET = "is not supported yet: take it away"

REFUSED_PROPERTIES: Mapping[str, str] = {
    **dict.fromkeys(
        ("socket.connection.setup.timeout.max.ms",),
        _NOT_SUPPORTED_YET,
    ),
    **dict.fromkeys(
        (
            "acks",
            "allow.auto.create.topics",
            "check.crcs",
            "enable.idempotence",
            "isolation.level",
            "max.in.flight.requests.per.connection",
            "transaction.timeout.ms",
            "transaction.two.phase.commit.enable",
            "transactional.id",
        ),
        _SET_BY_MM2,
    ),
    **dict.fromkeys(
        (
            "batch.size",
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.type",
            "compression.zstd.level",
            "linger.ms",
            "max.request.size",
            "partitioner.adaptive.partitioning.enable",
            "partitioner.availability.timeout.ms",
            "partitioner.ignore.keys",
        ),
        _IGNORED_FOR_BATCHES,
    ),
    **dict.fromkeys(
        (
            "auto.commit.interval.ms",
            "enable.auto.commit",
            "exclude.internal.topics",
            "group.id",
            "group.instance.id",
            "group.protocol",
            "group.remote.assignor",
            "heartbeat.interval.ms",
            "max.poll.interval.ms",
            "max.poll.records",
            "session.timeout.ms",
            "share.acknowledgement.mode",
            "share.acquire.mode",
        ),
        _NO_MEANING_GROUP,
    ),
    **dict.fromkeys(
        (
            "interceptor.classes",
            "key.deserializer",
            "key.serializer",
            "metric.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "partition.assignment.strategy",
            "partitioner.class",
            "value.deserializer",
            "value.serializer",
        ),
        _JAVA_ONLY,
    ),
    "auto.offset.reset": "is not set on a cluster: write start: earliest or latest in the flow",
    "client.id": "cannot be set: mm2 names its clients by flow and task (mm2-east->west-0)",
    "default.api.timeout.ms": "is not set on a cluster: write admin.timeout.ms in the flow",
    "enable.metrics.push": "has no meaning here: mm2 pushes no client metrics to brokers",
    "bootstrap.controllers": "is not supported: mm2 talks to brokers, write bootstrap.servers",
    "buffer.memory": "is not set on a cluster: write buffer.memory in the flow",
    "config.providers": "is not needed: ${env:…}, ${file:…:…} and ${dir:…:…} always work",
    "delivery.timeout.ms": (
        "cannot be set: mm2 tries for as long as the flow runs; of a MirrorMaker 2 of Java it says "
        "how long that is waited for where it did not end in order"
    ),
    "max.block.ms": "cannot be set: mm2 tries for as long as the flow runs",
    "metadata.recovery.rebootstrap.trigger.ms": (
        "has no meaning here: bootstrap.servers are asked as soon as no known broker answers"
    ),
    "metadata.max.idle.ms": "has no meaning here: mm2 keeps the metadata of what it copies",
}

KNOWN_PROPERTIES = (
    frozenset(SUPPORTED_PROPERTIES)
    | security_settings.SUPPORTED_KEYS
    | frozenset(REFUSED_PROPERTIES)
)
