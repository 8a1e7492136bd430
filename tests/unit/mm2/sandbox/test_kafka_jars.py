from __future__ import annotations

import hashlib
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mm2.sandbox import kafka_jars
from mm2.sandbox.kafka_jars import IvyProgress, JarSet
from mm2.sandbox.sandbox_errors import SandboxError


def test_every_module_is_asked_for_with_its_dependencies():
    root = ElementTree.fromstring(kafka_jars.make_ivy_descriptor(["org.a:b_2.13:1.0", "c:d:2"]))

    found = [dict(dependency.attrib) for dependency in root.iter("dependency")]

    assert found == [
        {"org": "org.a", "name": "b_2.13", "rev": "1.0", "conf": "default->default(*)"},
        {"org": "c", "name": "d", "rev": "2", "conf": "default->default(*)"},
    ]


def test_progress_is_told_every_twenty_and_at_the_end():
    told: list[str] = []
    progress = IvyProgress(45, told.append)

    for number in range(45):
        progress.feed(f"\tfound org#module-{number};1 in public\n")
        progress.feed("downloading https://example.org/x.jar ...\n")
    for number in range(45):
        progress.feed(f"\t[SUCCESSFUL ] org#module-{number};1!x.jar (3ms)\n")

    assert told == [
        "  modules looked up: 20 of 45",
        "  modules looked up: 40 of 45",
        "  modules looked up: 45 of 45",
        "  jars downloaded: 20 of 45",
        "  jars downloaded: 40 of 45",
        "  jars downloaded: 45 of 45",
    ]


_CONTENT = {"a.jar": b"one", "b.jar": b"two"}
_DIGESTS = {name: hashlib.sha256(data).hexdigest() for name, data in _CONTENT.items()}


class _Listed(JarSet):
    """A set whose list is `_DIGESTS`."""

    def digests(self):
        return _DIGESTS


_SET = _Listed(name="small-1.0", modules=("g:a:1.0",))


class _Repository:
    """Stands for `kafka_jars.retrieve_jars`: serves `content`, or fails."""

    def __init__(self, content=None):
        self.content = content
        self.asked = 0

    def __call__(self, modules, into, *, work, expected, report):
        self.asked += 1
        if self.content is None:
            raise SandboxError("the repository is down")
        assert (modules, expected, work.parent) == (_SET.modules, 2, into.parent.parent)
        _fill(into, self.content)


def _fill(folder: Path, content=None) -> Path:
    folder.mkdir()
    for name, data in (_CONTENT if content is None else content).items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def serve(monkeypatch):
    def serve(content=None):
        repository = _Repository(content)
        monkeypatch.setattr(kafka_jars, "retrieve_jars", repository)
        return repository

    return serve


def _jars(cache):
    said: list[str] = []
    return kafka_jars.ensure_jars(_SET, cache=cache, report=said.append), said


def test_the_shipped_list_names_what_the_shipped_set_is_made_of():
    digests = kafka_jars.KAFKA_JARS.digests()

    assert len(digests) == 95
    assert all(len(digest) == 64 for digest in digests.values())
    for module in kafka_jars.KAFKA_JARS.modules:
        _, artifact, version = module.split(":")
        assert f"{artifact}-{version}.jar" in digests
    assert any(name.startswith("snappy-java") for name in digests), "a bundle, not a jar, to Ivy"


@pytest.mark.parametrize(
    ("artefact_set", "count"), [(kafka_jars.KAFKA_2_8_JARS, 37), (kafka_jars.KAFKA_3_9_JARS, 56)]
)
def test_the_lists_of_old_releases_hold_what_their_brokers_need(artefact_set, count):
    digests = artefact_set.digests()

    assert len(digests) == count
    for module in artefact_set.modules:
        _, artifact, version = module.split(":")
        assert f"{artifact}-{version}.jar" in digests
    for start in ("snappy-java", "zstd-jni", "lz4-java", "scala-library"):
        assert any(name.startswith(start) for name in digests), start


def test_jars_are_fetched_once_checked_and_kept(tmp_path, serve):
    repository = serve(_CONTENT)

    folder, said = _jars(tmp_path / "cache")
    again, said_again = _jars(tmp_path / "cache")

    assert folder == again == tmp_path / "cache" / "small-1.0"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == _CONTENT
    assert repository.asked == 1
    assert "small-1.0" in said[0]
    assert said_again == []
    leftovers = {path.name for path in folder.parent.iterdir()} - {"small-1.0"}
    assert leftovers == {"small-1.0.verified", "small-1.0.lock"}


def test_a_folder_filled_by_hand_is_taken_as_it_is(tmp_path, serve):
    repository = serve()
    _fill(tmp_path / "small-1.0")

    assert _jars(tmp_path)[0] == tmp_path / "small-1.0"
    assert repository.asked == 0


@pytest.mark.parametrize(
    "fault", ["missing: a.jar", "not in the sha256 list: c.jar", "altered: b.jar"]
)
def test_a_damaged_folder_is_named_and_replaced(tmp_path, serve, fault):
    repository = serve(_CONTENT)
    folder, _ = _jars(tmp_path)
    if fault.startswith("missing"):
        (folder / "a.jar").unlink()
    elif fault.startswith("altered"):
        (folder / "b.jar").write_bytes(b"2wo")
    else:
        (folder / "c.jar").write_bytes(b"three")

    _, said = _jars(tmp_path)

    assert repository.asked == 2
    assert fault in said[0]
    assert kafka_jars.verify_jars(folder, _DIGESTS) == []


def test_other_bytes_than_ours_are_refused_and_not_kept(tmp_path, serve):
    serve({"a.jar": b"one", "b.jar": b"evil"})

    with pytest.raises(SandboxError, match=r"altered: b\.jar"):
        _jars(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["small-1.0.lock"]


def test_a_failed_download_says_how_to_do_without(tmp_path, serve):
    serve(None)

    with pytest.raises(
        SandboxError, match=r"is down\n.*provide the jars yourself: .*small-1\.0"
    ) as e:
        _jars(tmp_path)

    assert "small-1.0.sha256" in str(e.value)
    assert [path.name for path in tmp_path.iterdir()] == ["small-1.0.lock"]


def test_the_stamp_saves_reading_but_not_looking(tmp_path, serve):
    """Same size and time: believed. Another time: read again, and found equal."""
    repository = serve(_CONTENT)
    folder, _ = _jars(tmp_path)
    os.utime(folder / "a.jar", ns=(1, 1))

    _jars(tmp_path)

    assert repository.asked == 1


@pytest.mark.parametrize("what", ["cache", "folder", "jar"])
def test_a_cache_that_others_can_write_to_is_refused(tmp_path, serve, what):
    repository = serve(_CONTENT)
    folder, _ = _jars(tmp_path)
    path = {"cache": tmp_path, "folder": folder, "jar": folder / "a.jar"}[what]
    path.chmod(0o777)
    with pytest.raises(SandboxError) as raised:
        _jars(tmp_path)
    assert str(raised.value) == (
        f"cannot run programs from the cache {tmp_path}: other users can write to {path}: set "
        "MM2_CACHE to a directory that belongs to this user, or run chmod -R go-w "
        f"{tmp_path}"
    )
    path.chmod(0o755)
    assert _jars(tmp_path)[0] == folder
    assert repository.asked == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_cache_of_another_user_is_refused(tmp_path, serve):
    serve(_CONTENT)
    os.chown(tmp_path, 4242, -1)
    told = f"{tmp_path} belongs to user id 4242: set MM2_CACHE to a directory"
    with pytest.raises(SandboxError, match=told):
        _jars(tmp_path)


def test_what_is_downloaded_only_this_user_can_write_to_whatever_the_umask(tmp_path, serve):
    serve(_CONTENT)
    before = os.umask(0)
    try:
        folder, _ = _jars(tmp_path / "cache")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o022 for path in (folder, *folder.iterdir())} == {0}
    assert folder.parent.stat().st_mode & 0o777 == 0o755
