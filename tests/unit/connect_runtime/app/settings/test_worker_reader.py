from __future__ import annotations

import pytest

from connect_runtime.api import errors

PROVIDERS = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


def test_values_come_through_providers(in_group):
    found = in_group({**PROVIDERS, "group.id": "${env:GROUP}"}, GROUP="mine")
    assert found.config.group_id == "mine"
    assert found.resolve({"x": "${env:GROUP}", "y": None}) == {"x": "mine", "y": None}
    with pytest.raises(errors.ConfigError, match="x cannot be filled in"):
        found.resolve({"x": "${env:GONE}"})


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


def test_plugins_are_looked_for_in_the_folders_that_are_named(tmp_path):
    from connect_runtime.adapters.plugins import discovery
    from connect_runtime.app.settings import standalone, worker_reader

    asked: list[list[str]] = []

    def discover(folders, _):
        asked.append(list(folders))
        return discovery.discover()

    content = (
        "bootstrap.servers=a:1\nkey.converter=Json\nvalue.converter=Json\n"
        "offset.storage.file.filename=o\nplugin.path= /a , /b\n"
    )
    source = worker_reader.Source(file="w", folder=tmp_path, environment={}, discover=discover)
    standalone.parse(content, source)
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
