"""FileStream connectors use no file outside of the worker's allowed paths, whatever its name."""

from __future__ import annotations

import os
import time

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.plugins import allowed_paths
from connect_runtime.plugins.allowed_paths import AllowedPaths
from connect_runtime.plugins.file_stream import FileStreamSinkConnector, FileStreamSourceConnector
from tests.fakes.plugin_contexts import Context

CONNECTORS = (
    FileStreamSourceConnector,
    FileStreamSinkConnector,
)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "allowed"
    made.mkdir()
    (made / "in.txt").write_text("fine\n")
    (tmp_path / "secret.txt").write_text("secret\n")
    (made / "link.txt").symlink_to(tmp_path / "secret.txt")
    (made / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "allowed-too").mkdir()
    (tmp_path / "allowed-too" / "x.txt").write_text("secret\n")
    return made


OUTSIDE = [
    "{0}/../secret.txt",
    "{0}/link.txt",
    "{0}/up/secret.txt",
    "{0}/up/new.txt",
    "{0}-too/x.txt",
    "/etc/passwd",
    "secret.txt",
    "/proc/self/environ",
]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("of", CONNECTORS, ids=["source", "sink"])
def test_files_outside_are_refused_by_validation_and_by_the_task(folder, monkeypatch, of, name):
    monkeypatch.chdir(folder.parent)
    file = name.format(folder)
    made = allowed_paths.restrict_plugin_to_paths(of, AllowedPaths([str(folder)]))()
    props = {"file": file, "topic": "t"}
    told = {each.name: each.error_messages for each in made.validate(props)}["file"]
    assert len(told) == 1, told
    assert "file.stream.allowed.paths" in told[0]
    task = made.task_class()()
    task.initialize(Context())

    def run():
        task.start(props)
        task.poll()

    with pytest.raises(ConfigError, match="outside the paths that this worker allows"):
        run()
    assert not (folder.parent / "new.txt").exists()


@pytest.mark.parametrize("of", CONNECTORS, ids=["source", "sink"])
def test_files_inside_are_used_by_any_of_their_names(folder, of):
    made = allowed_paths.restrict_plugin_to_paths(of, AllowedPaths([f"{folder}/up/allowed"]))()
    for file in (f"{folder}/in.txt", f"{folder}/up/allowed/in.txt", f"{folder}/./new.txt"):
        assert not [
            each for each in made.validate({"file": file, "topic": "t"}) if each.error_messages
        ]


@pytest.mark.parametrize("of", CONNECTORS, ids=["source", "sink"])
def test_the_classes_themselves_may_use_no_file(folder, of):
    told = {each.name: each.error_messages for each in of().validate({"file": "/x", "topic": "t"})}
    assert told["file"]


def test_a_folder_that_becomes_a_link_while_a_file_is_opened(folder, monkeypatch):
    allowed = AllowedPaths([str(folder)])
    inner, plain_open = folder / "inner", os.open
    inner.mkdir()
    (inner / "secret.txt").write_text("fine\n")

    def swapped(*given):
        inner.rename(folder / "other")
        inner.symlink_to(folder.parent, target_is_directory=True)
        return plain_open(*given)

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(ConfigError, match="was replaced while it was being opened"):
        allowed.open_allowed_file(str(inner / "secret.txt"), os.O_RDONLY)


@pytest.mark.parametrize("name", ["x\0y", "{0}/\0x", "{0}/\ud800"])
@pytest.mark.parametrize("of", CONNECTORS, ids=["source", "sink"])
def test_what_names_no_file_is_refused(folder, of, name):
    file = name.format(folder)
    allowed = AllowedPaths([str(folder)])
    with pytest.raises(ConfigError, match="is not a valid file name") as raised:
        allowed.resolve_allowed_path(file)
    str(raised.value).encode()
    made = allowed_paths.restrict_plugin_to_paths(of, allowed)()
    told = {each.name: each.error_messages for each in made.validate({"file": file, "topic": "t"})}
    assert told["file"]


@pytest.mark.parametrize("of", CONNECTORS, ids=["source", "sink"])
def test_a_path_that_is_too_long_is_refused_at_once(folder, of):
    made = allowed_paths.restrict_plugin_to_paths(of, AllowedPaths([str(folder)]))()
    props = {"file": f"{folder}/" + "a/" * 400_000, "topic": "t"}
    start_s = time.thread_time()
    (told,) = [each.error_messages for each in made.validate(props) if each.name == "file"]
    assert time.thread_time() - start_s < 1.0
    assert "a path has at most 4,096 characters" in told[0]
    assert len(told[0]) < 500


def test_a_pipe_is_refused_at_once(folder):
    os.mkfifo(folder / "pipe")
    allowed = AllowedPaths([str(folder)])
    for flags in (os.O_RDONLY, os.O_RDWR):
        with pytest.raises(ConfigError, match="is not a regular file"):
            allowed.open_allowed_file(str(folder / "pipe"), flags)
    with pytest.raises(OSError, match="No such device or address"):
        allowed.open_allowed_file(str(folder / "pipe"), os.O_WRONLY)


def test_of_devices_the_null_device_alone_may_be_used():
    allowed = AllowedPaths(["/dev"])
    os.close(allowed.open_allowed_file("/dev/null", os.O_RDONLY))
    with pytest.raises(ConfigError, match="is not a regular file"):
        allowed.open_allowed_file("/dev/zero", os.O_RDONLY)


def test_another_name_of_a_file_elsewhere_is_refused(folder):
    os.link(folder.parent / "secret.txt", folder / "hard.txt")
    allowed = AllowedPaths([str(folder)])
    with pytest.raises(ConfigError, match=r"has 2 hard links"):
        allowed.open_allowed_file(str(folder / "hard.txt"), os.O_RDONLY)
    (folder / "hard.txt").unlink()
    os.close(allowed.open_allowed_file(str(folder / "in.txt"), os.O_RDONLY))
