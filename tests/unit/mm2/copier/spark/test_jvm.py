from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from connect_runtime.system.secure_file_access import DirectoryNotPrivateError
from mm2.copier.spark import jvm
from mm2.copier.spark import settings as spark_settings
from mm2.copier.spark.jvm import ClassArchive
from mm2.copier.spark.settings import SparkSettings

BANNER = 'openjdk version "17.0.15"'
WRITE = "-XX:+RecordDynamicDumpInfo"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def archive(folder: Path, banner: str = BANNER, home: str = "/spark") -> ClassArchive:
    return ClassArchive(banner, Path(home), folder=folder)


def kept(folder: Path, text: str) -> ClassArchive:
    written = folder.parent / "classes.jsa"
    written.write_text(text)
    one = archive(folder)
    one.store_archive(written)
    return one


def test_the_first_jvm_may_write_one_and_the_next_begin_with_it(folder):
    assert archive(folder).jvm_options == WRITE
    assert archive(folder).needs_creation
    one = kept(folder, "classes")
    option, _, path = one.jvm_options.partition("=")
    assert option == "-XX:SharedArchiveFile"
    assert Path(path).read_text() == "classes"
    assert not one.needs_creation
    assert list(folder.iterdir()) == [Path(path)]


def test_each_java_and_each_spark_has_its_own(folder):
    kept(folder, "classes")
    assert archive(folder, banner='openjdk version "21"').needs_creation
    assert archive(folder, home="/other").needs_creation


def test_a_spark_that_was_installed_anew_has_another(folder, tmp_path):
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    before = archive(folder, home=str(jars.parent))
    before.store_archive(tmp_path / "not-there")
    assert not archive(folder, home=str(jars.parent)).needs_creation
    os.utime(jars, ns=(1, 1))
    assert archive(folder, home=str(jars.parent)).needs_creation


def test_old_ones_go(folder, tmp_path):
    for number in range(jvm.MAX_CLASS_ARCHIVES + 2):
        written = tmp_path / "written"
        written.write_text(str(number))
        archive(folder, banner=f"java {number}").store_archive(written)
        for each in folder.iterdir():
            os.utime(each, ns=(int(each.read_text()), int(each.read_text())))
    kept_now = sorted(each.read_text() for each in folder.iterdir())
    assert kept_now == ["2", "3", "4", "5"]


def test_where_none_could_be_made_none_is_tried_again(folder):
    one = archive(folder)
    one.store_archive(folder.parent / "not-there")
    assert (one.jvm_options, one.needs_creation) == ("", False)


def test_a_folder_that_an_option_cannot_name_is_not_used(tmp_path):
    one = archive(tmp_path / "my cache")
    assert (one.jvm_options, one.needs_creation) == ("", False)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_others_may_have_written_is_not_used(folder, what):
    one = kept(folder, "classes")
    (folder if what == "folder" else next(folder.iterdir())).chmod(0o777)
    assert (one.jvm_options, one.needs_creation) == ("", False)


def test_a_folder_that_others_can_write_gets_no_archive(folder, tmp_path):
    folder.mkdir()
    folder.chmod(0o777)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    one = archive(folder)
    one._path.with_suffix(f".{os.getpid()}").symlink_to(victim)
    assert (one.jvm_options, one.needs_creation) == ("", False)
    written = tmp_path / "classes.jsa"
    written.write_text("classes")
    with pytest.raises(DirectoryNotPrivateError, match="other users can write to"):
        one.store_archive(written)
    folder.chmod(0o700)
    one.store_archive(written)
    assert victim.read_text() == "precious"
    assert Path(one.jvm_options.partition("=")[2]).read_text() == "classes"


def test_one_that_cannot_be_looked_at_is_left_alone(folder):
    one = kept(folder, "classes")
    (path,) = folder.iterdir()
    path.unlink()
    path.symlink_to(path)
    assert (one.jvm_options, one.needs_creation) == ("", False)


def test_python_processes_of_spark_load_no_module_of_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "contextlib.py").write_text("raise SystemExit('a foreign module runs')")
    monkeypatch.chdir(tmp_path)
    for settings in (SparkSettings(), SparkSettings(master="spark://host:7077")):
        given = jvm._build_environment(settings, gateway_file=tmp_path / "gateway")
        subprocess.run([sys.executable, "-m", "timeit", "-n1", "0"], env=given, check=True)


def test_the_log_is_bounded_and_where_it_was_asked_for():
    text = spark_settings.format_log4j2_properties(Path("/var/log/mm2/spark.log"))
    assert "appender.file.fileName = /var/log/mm2/spark.log\n" in text
    assert "appender.file.policies.size.size = 10MB\n" in text
    assert "appender.file.strategy.max = 3\n" in text
    assert "console" not in text.lower()


def test_every_value_survives_the_properties_file():
    text = jvm.format_properties_file(
        {"a.b": "c:\\d\n=e", "k ey": "  two blanks", "url": "x://h:1#f!"}
    )
    assert text == ("a.b=c\\:\\\\d\\n\\=e\nk\\ ey=\\ \\ two blanks\nurl=x\\://h\\:1\\#f\\!\n")
