from __future__ import annotations

import pathlib

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.app import worker_settings
from connect_runtime.config import worker_config_keys
from connect_runtime.config.config_errors import SettingsError
from connect_runtime.network import keystore_files
from connect_runtime.protocol.security_settings import SecuritySettings
from connect_runtime.system import secure_file_access

PROVIDERS = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


def test_values_come_through_providers(in_group):
    found = in_group({**PROVIDERS, "group.id": "${env:GROUP}"}, GROUP="mine")
    assert found.config.group_id == "mine"
    assert found.resolve_connector_config({"x": "${env:GROUP}", "y": None}) == {
        "x": "mine",
        "y": None,
    }
    with pytest.raises(ConfigError, match="x cannot be resolved"):
        found.resolve_connector_config({"x": "${env:GONE}"})


def test_a_filled_in_value_is_never_shown(refused):
    changed = {**PROVIDERS, "session.timeout.ms": "${env:SECRET}", "listeners": "${env:SECRET}"}
    lines = refused(changed, SECRET="hunter2")
    assert len(lines) == 2
    assert "hunter2" not in "".join(lines)
    assert all("given: '${env:SECRET}'" in each for each in lines)


@pytest.mark.parametrize("key", ["key.converter", "value.converter", "header.converter"])
def test_converters_are_looked_for(refused, key):
    (told,) = refused({key: "org.example.Avro"})
    assert f" {key}: Failed to find any class that implements" in told
    assert "which name matches org.example.Avro" in told


@pytest.mark.parametrize(
    "name",
    ["JsonConverter", "org.apache.kafka.connect.converters.ByteArrayConverter", "Json"],
)
def test_converters_go_by_javas_names(in_group, name):
    assert in_group({"key.converter": name}).config.key_converter == name


def test_plugins_that_others_can_write_are_not_run(refused, tmp_path):
    folder = tmp_path / "plugins"
    folder.mkdir(mode=0o777)
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    for mode in (0o777, 0o1777):
        folder.chmod(mode)
        (told,) = refused({"plugin.path": str(folder)})
        assert (
            f"plugin.path: the worker would run the modules in {folder}, but other users can write "
            f"to {folder}; to fix this, run: chmod go-w {folder}, or mount {folder} read-only"
        ) in told
    assert not (tmp_path / "ran").exists()


def test_plugins_are_not_run_if_it_is_unknown_who_can_write_them(
    refused, in_group, tmp_path, monkeypatch
):
    def fail(_):
        raise PermissionError(13, "Permission denied")

    in_group({"plugin.path": str(tmp_path / "missing")})
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.setattr(secure_file_access, "find_untrusted_folder_writer", fail)
    (told,) = refused({"plugin.path": str(tmp_path)})
    assert (
        "plugin.path: the worker cannot determine who can write to the modules in "
        f"{tmp_path}: Permission denied; use a folder"
    ) in told
    assert not (tmp_path / "ran").exists()


def test_plugins_are_looked_for_in_the_folders_that_are_named(tmp_path):
    from connect_runtime.app import standalone_settings
    from connect_runtime.app.worker_settings import WorkerSettingsSource
    from connect_runtime.plugins import plugin_discovery

    asked: list[list[str]] = []

    def discover(folders, _):
        asked.append(list(folders))
        return plugin_discovery.discover_plugins()

    content = (
        "bootstrap.servers=a:1\nkey.converter=Json\nvalue.converter=Json\n"
        "offset.storage.file.filename=o\nplugin.path= /a , /b\n"
    )
    source = WorkerSettingsSource(file="w", folder=tmp_path, environment={}, discover=discover)
    standalone_settings.parse_settings(content, source)
    assert asked == [["/a", "/b"]]


def test_the_environment_is_not_printed(in_group):
    found = in_group({**PROVIDERS}, SECRET="hunter2")
    assert "hunter2" not in repr(found)


def test_paths_of_file_stream_connectors(refused, in_group, tmp_path):
    for given, told in (("files", "is not an absolute path"), (f"{tmp_path}/x", "does not exist")):
        (line,) = refused({"file.stream.allowed.paths": given})
        assert "file.stream.allowed.paths" in line
        assert told in line
    in_group({"file.stream.allowed.paths": str(tmp_path)})


FILES = keystore_files.create_store_files(pathlib.Path("/"))
SSL = {"ssl.keystore.location": "x", "ssl.client.auth": "required", "listeners.https.ssl.a": "b"}


@pytest.mark.parametrize(
    ("protocol", "rest_uses_ssl", "kept"),
    [
        ({}, True, {"listeners.https.ssl.a"}),
        ({}, False, {"listeners.https.ssl.a", "ssl.keystore.location"}),
        (
            {"security.protocol": "sasl_ssl"},
            True,
            {"listeners.https.ssl.a", "ssl.keystore.location", "security.protocol"},
        ),
    ],
)
def test_what_is_for_the_rest_api_is_left_out(protocol, rest_uses_ssl, kept):
    assert (
        worker_settings.select_broker_properties(
            {**SSL, **protocol}, rest_uses_ssl=rest_uses_ssl
        ).keys()
        == kept
    )


def test_security_is_judged(an_account):
    values = {"security.protocol": "SSL", "ssl.cipher.suites": "x", "sasl.password": "hush"}
    account = an_account(values)
    assert worker_settings.validate_broker_security(account, values, files=FILES) is None
    with pytest.raises(SettingsError) as raised:
        account.raise_errors_or_get_warnings()
    assert "w:2: ssl.cipher.suites: it is not supported" in str(raised.value)
    assert "hush" not in str(raised.value)


def test_certificates_are_tried(an_account):
    pem = "-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----"
    values = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": pem.replace("\\n", "\n"),
    }
    account = an_account({**values, "ssl.truststore.certificates": pem})
    assert worker_settings.validate_broker_security(account, values, files=FILES) is not None
    with pytest.raises(SettingsError, match=r"w: ssl.truststore: OpenSSL reports"):
        account.raise_errors_or_get_warnings()


@pytest.mark.parametrize("kind", ["producer.", "consumer.", "admin."])
def test_tasks_clients_are_only_warned_of(an_account, kind):
    account = an_account({
        f"{kind}security.protocol": "SSL",
        f"{kind}ssl.truststore.location": "gone.jks",
        f"{kind}linger.ms": "5",
    })  # fmt: skip
    worker_settings.warn_about_client_security(account, account.values, files=FILES)
    (told,) = account.raise_errors_or_get_warnings()
    assert told.startswith(f"w:2: {kind}ssl.truststore.location: gone.jks cannot be read")


def test_an_admin_client_inherits_and_the_others_do_not(an_account):
    values = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="u" password="p";',
        "admin.sasl.mechanism": "SCRAM-SHA-256",
        "consumer.sasl.mechanism": "PLAIN",
    }
    account = an_account(values)
    worker_settings.warn_about_client_security(account, values, files=FILES)
    keys = {each.split(": ")[1] for each in account.raise_errors_or_get_warnings()}
    assert any(each.startswith("admin.sasl.jaas") for each in keys)
    assert "consumer.sasl.mechanism" in keys


def test_numbers_of_clients_are_judged(an_account):
    values = {"bootstrap.servers": "a:1", "retry.backoff.ms": "soon"}
    account = an_account(values)
    assert worker_settings.parse_broker_access(account, values, files=FILES) is None
    with pytest.raises(SettingsError, match=r"retry.backoff.ms is 'soon'"):
        account.raise_errors_or_get_warnings()


def test_connections_of_the_group():
    given = {
        "bootstrap.servers": "a:1,b:2",
        "key.converter": "k",
        "value.converter": "v",
        "group.id": "g",
        "config.storage.topic": "c",
        "offset.storage.topic": "o",
        "status.storage.topic": "s",
        "socket.connection.setup.timeout.ms": "2000",
        "reconnect.backoff.max.ms": "5000",
        "client.dns.lookup": "resolve_canonical_bootstrap_servers_only",
        "metadata.recovery.strategy": "NONE",
    }
    found = worker_config_keys.DISTRIBUTED.parse(given)
    made = worker_settings.build_connection_settings(given, found, SecuritySettings())
    assert (made.bootstrap, made.request_timeout_s) == (("a:1", "b:2"), 40)
    assert (made.connect_timeout_s, made.reconnect_backoff_max_s) == (2, 5)
    assert (made.metadata_max_age_s, made.connections_max_idle_s) == (300, 540)
    assert (made.canonical_bootstrap, made.rebootstrap) == (True, False)
    assert made.socket_buffer_bytes is None
    given["send.buffer.bytes"] = "65536"
    found = worker_config_keys.DISTRIBUTED.parse(given)
    made = worker_settings.build_connection_settings(given, found, SecuritySettings())
    assert made.socket_buffer_bytes == 65536
