from __future__ import annotations

import pathlib

import pytest

from connect_runtime.api import errors
from connect_runtime.app.settings import users

MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


def options(file: str) -> dict[str, str]:
    return {"KAFKA_OPTS": f"-Xmx1G -Djava.security.auth.login.config={file} -Da=b"}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "users.properties").write_bytes(b"anna=h\\u00fcsh\nbob=\n")
    jaas = f'KafkaConnect {{ {MODULE} required file="users.properties"; }};'
    (tmp_path / "jaas.conf").write_text(jaas)
    return tmp_path


def test_users_come_from_the_file_that_kafka_opts_leads_to(folder):
    expected = {"anna": "hüsh", "bob": ""}
    assert users.read(options("jaas.conf"), folder) == expected
    assert users.read(options(f"={folder}/jaas.conf"), folder) == expected


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "needs a JAAS file: set the environment's KAFKA_OPTS"),
        ({"KAFKA_OPTS": "-Da='b"}, "open quote"),
        (options("gone.conf"), "cannot read .*gone.conf: No such file"),
        (options("users.properties"), "no entry KafkaConnect"),
    ],
)
def test_what_is_missing_on_the_way_is_named(folder, environment, told):
    with pytest.raises(errors.ConfigError, match=told):
        users.read(environment, folder)


def test_a_broken_file_of_users_is_refused_without_its_content(folder):
    (folder / "users.properties").write_text("anna=hush\\u12\n")
    with pytest.raises(errors.ConfigError, match="line 1") as raised:
        users.read(options("jaas.conf"), folder)
    assert "hush" not in str(raised.value)
