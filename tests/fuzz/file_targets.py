"""What operators write: configuration files, and what their values mean."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

from connect_runtime.config import java_properties, yaml_parser
from connect_runtime.config.config_errors import SettingsError
from connect_runtime.protocol import cluster_metadata, jaas, security_settings
from connect_runtime.protocol.jaas import JaasConfigError
from connect_runtime.protocol.tls_settings import KeyStoreContent, KeyStoreFileReader
from mm2.config import config_loader
from tests.fuzz import targets

SECRET = "S3CR3T-MARK"
NOWHERE = pathlib.Path("/nonexistent")
ENVIRONMENT = {"A": "1"}
LOGIN = f'x.y.PlainLoginModule required username="u" password="{SECRET}";'
CLUSTERS = f"""clusters:
  a:
    bootstrap.servers: h:9092
    security.protocol: SASL_SSL
    sasl.mechanism: PLAIN
    sasl.jaas.config: org.apache.kafka.common.security.plain.{LOGIN[4:]}
  b:
    bootstrap.servers: h:9093
flows:
  - from: a
    to: b
    topics: [x, 'y.*']
    throttle: 5MB
spark:
  conf:
    spark.a: b
"""
PROPERTIES = f"""clusters=a,b
a.bootstrap.servers=h:1
b.bootstrap.servers=h:2
a->b.enabled=true
a->b.topics=x.*
a.sasl.jaas.config=org.apache.kafka.common.security.plain.{LOGIN[4:]}
a.sasl.mechanism=PLAIN
a.security.protocol=SASL_SSL
replication.factor=1
"""


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode("utf-8", "replace"))


YAML = (
    CLUSTERS.encode(),
    b"a: &x [1,2]\nb: *x\n",
    b"? [a]\n: b\n",
    b"a: |\n  text\n  more\nb: >-\n  folded\nc: {d: 'e', \"f\": !g h}\n# end\n",
)


def _security(text: str) -> None:
    def no_text(_: object) -> str:
        raise OSError(2, "no such file")

    def no_store(*_: object) -> KeyStoreContent:
        raise ValueError("no store")

    lines = (line.partition("=") for line in text.split("\n"))
    properties = {key: value for key, _, value in lines if key}
    files = KeyStoreFileReader(read_text=no_text, read_store=no_store)
    for error in security_settings.parse_security_settings(properties, files=files).errors:
        str(error)


SECURITY = (
    "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
    f"sasl.jaas.config={LOGIN}\nssl.truststore.type=PEM\nssl.truststore.location=/x",
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
    "sasl.oauthbearer.token.endpoint.url=https://h:99/x\n"
    'sasl.jaas.config=x.OAuthBearerLoginModule required clientId="a" clientSecret="b";\n'
    "sasl.login.retry.backoff.ms=5",
    "security.protocol=SSL\nssl.truststore.certificates=-----BEGIN CERTIFICATE-----\n"
    "ssl.endpoint.identification.algorithm=",
)
targets.register("yaml", _text(yaml_parser.parse_yaml), seeds=YAML, text=True)
targets.register(
    "properties",
    lambda data: java_properties.parse_properties(data.decode("latin-1")),
    seeds=[b"a=b\\\n c\nk\\ 1:\\u00e9\n!x\n#y\n", b"mm2 = 1\n", PROPERTIES.encode()],
    allowed=(ValueError,),
    text=True,
)
targets.register(
    "clusters-yaml",
    _text(
        lambda text: config_loader.parse_clusters_yaml(
            text, file="f", folder=NOWHERE, environment=ENVIRONMENT
        )
    ),
    seeds=[CLUSTERS.encode()],
    allowed=(SettingsError,),
    text=True,
)
targets.register(
    "mm2-properties",
    _text(
        lambda text: config_loader.parse_mm2_properties(
            text, file="f", folder=NOWHERE, environment=ENVIRONMENT
        )
    ),
    seeds=[PROPERTIES.encode()],
    allowed=(SettingsError,),
    text=True,
)
targets.register(
    "jaas",
    _text(jaas.parse_jaas_config),
    seeds=[
        LOGIN.encode(),
        b'org.apache.kafka.common.security.plain.PlainLoginModule required a="b\\"c";',
        b"x.y.ScramLoginModule sufficient a=b c='d;' ;",
        b"",
    ],
    allowed=(JaasConfigError,),
    text=True,
)
targets.register(
    "security-settings", _text(_security), seeds=[each.encode() for each in SECURITY], text=True
)
targets.register(
    "address",
    _text(cluster_metadata.parse_address),
    seeds=[b"host:9092", b"[::1]:1", b"h:99999", b"[fe80::1%eth0]:9"],
    allowed=(ValueError,),
    text=True,
)
