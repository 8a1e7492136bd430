"""Starts the JVM of the Spark driver without exposing secrets.

pyspark itself would pass every property as a command-line argument, and would pass the complete
environment to the JVM. This module writes the properties to a file of mode 0600, removes
environment variables from which configuration values were read, and redirects output to a file of
bounded size. The JVM ends with this process, even if this process is killed, because it reads a
pipe whose other end is open only in this process. The JVM has a separate session, so that Ctrl-C in
the terminal reaches only this process, and copy processes can finish their in-flight batches.

A class-data archive halves the CPU time of starting Spark. An archive is valid for one Java and one
Spark version. A driver that has run for a while therefore writes its loaded classes once to the
user's cache (70 MB). A JVM ignores an archive that does not match.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import struct
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from connect_runtime.system import java_installation, secure_file_access, system_clock
from connect_runtime.system.java_installation import JavaMissingError
from connect_runtime.system.secure_file_access import DirectoryNotPrivateError
from mm2.copier import process_private_directory
from mm2.copier.process_private_directory import RunDirectory
from mm2.copier.spark import settings as spark_settings
from mm2.copier.spark import spark_errors
from mm2.copier.spark.settings import SparkSettings
from mm2.copier.spark.spark_errors import SparkStartError


def format_properties_file(properties: dict[str, str]) -> str:
    """Format a Java properties file (UTF-8). Values may contain line breaks."""
    return "".join(
        f"{_escape_property(key, blank=True)}={_escape_property(value, blank=False)}\n"
        for key, value in sorted(properties.items())
    )


def _escape_property(text: str, *, blank: bool) -> str:
    """Escape a key or value of a Java properties file. If `blank` is True, escape every blank, as
    keys require because an unescaped blank ends a key; otherwise escape only leading blanks."""
    escaped = (
        text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )
    for character in "=:#!":
        escaped = escaped.replace(character, "\\" + character)
    if blank:
        return escaped.replace(" ", "\\ ")
    stripped = escaped.lstrip(" ")
    return "\\ " * (len(escaped) - len(stripped)) + stripped


_WRITABLE_BY_OTHERS = 0o022
SHARED_ARCHIVE_OPTION = "-XX:SharedArchiveFile="
_RECORD_CLASSES_OPTION = "-XX:+RecordDynamicDumpInfo"


MAX_CLASS_ARCHIVES = 4
"""Number of class-data archives to keep. Each Java or Spark version needs a separate archive."""


class ClassArchive:
    """Class-data archive for one Java version (identified by its version `banner`) and one Spark
    installation (`home`)."""

    def __init__(self, banner: str, home: Path, *, folder: Path | None = None) -> None:
        self._folder = folder or secure_file_access.find_user_cache_directory()
        identity = f"{banner}\n{home.resolve()}\n{_read_modified_ns(home / 'jars')}"
        key = hashlib.sha256(identity.encode()).hexdigest()[:16]
        self._path = self._folder / f"spark.{key}.jsa"

    @property
    def jvm_options(self) -> str:
        """JVM options that use the archive, or that prepare the JVM to write one.

        Returns "" if the archive file is empty (this JVM cannot write archives), if other users may
        have written the archive, or if its path would need quoting.
        """
        if spark_settings.UNSUPPORTED_PATH_CHARACTERS.search(str(self._path)):
            return ""
        try:
            if not self._is_private_to_user(self._folder.stat()):
                return ""
            stat = self._path.stat()
        except FileNotFoundError:
            return _RECORD_CLASSES_OPTION
        except OSError:
            return ""
        if stat.st_size and self._is_private_to_user(stat):
            return f"{SHARED_ARCHIVE_OPTION}{self._path}"
        return ""

    @property
    def needs_creation(self) -> bool:
        """True if the class-data archive is missing and can be created."""
        return self.jvm_options == _RECORD_CLASSES_OPTION

    def store_archive(self, written: Path) -> None:
        """Store the archive that a JVM wrote to the file `written`, or an empty file if the JVM
        could not write an archive. Raises `OSError` if the archive cannot be stored, or if other
        users can write to the cache directory."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._is_private_to_user(self._folder.stat()):
            raise DirectoryNotPrivateError(f"other users can write to {self._folder}")
        # A new file: another user may have prepared a link at a name that can be guessed.
        opened, name = tempfile.mkstemp(dir=self._folder, prefix=f".{self._path.stem}-")
        unfinished = Path(name)
        try:
            with os.fdopen(opened, "wb") as stream:
                if written.exists():
                    with written.open("rb") as source:
                        shutil.copyfileobj(source, stream)
            unfinished.replace(self._path)
            for old in sorted(self._folder.glob("spark.*.jsa"), key=_read_modified_ns)[
                :-MAX_CLASS_ARCHIVES
            ]:
                old.unlink(missing_ok=True)
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)

    @staticmethod
    def _is_private_to_user(found: os.stat_result) -> bool:
        return found.st_uid == os.geteuid() and not found.st_mode & _WRITABLE_BY_OTHERS


def _read_modified_ns(path: Path) -> int:
    """Return the modification time of a path in nanoseconds; 0 if the path does not exist."""
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


JVM_START_TIMEOUT_S = 120.0
_POLL_INTERVAL_S = 0.02
_GATEWAY_FILE = "gateway"
_PROPERTIES_FILE = "spark.properties"
_OUTPUT_TAIL_BYTES = 20_000
_USER_JVM_OPTION_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_LENGTH = struct.Struct(">i")


class DriverJvm:
    """A started driver JVM with its private directory. `archive` is None on a cluster or if no
    class-data archive is used."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        home: RunDirectory,
        log: Path,
        output: Path,
        archive: ClassArchive | None = None,
    ) -> None:
        self.process = process
        self.home = home.path
        self._directory = home
        self.log = log
        self._output = output
        self.archive = archive
        self.port = 0
        self.secret = ""

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def read_output_tail(self) -> str:
        """Read the last 20 kB of the JVM's output."""
        with suppress(OSError), self._output.open("rb") as output:
            output.seek(max(0, output.seek(0, os.SEEK_END) - _OUTPUT_TAIL_BYTES))
            return output.read().decode(errors="replace")
        return ""

    def kill(self) -> None:
        """Kill the JVM. Pending calls to the JVM raise an error."""
        if self.is_alive():
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def stop_and_remove_files(self, timeout_s: float, *, keep_logs: bool) -> None:
        """Wait up to `timeout_s` for the JVM to exit, kill it after this time, and remove its
        directory.

        If `keep_logs` is True, only the files with secrets are removed, and the directory is kept
        for inspection until the next run.
        """
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        if keep_logs:
            for secret in (_PROPERTIES_FILE, _GATEWAY_FILE):
                (self.home / secret).unlink(missing_ok=True)
            self._directory.keep_for_inspection()
        else:
            self._directory.remove_directory()


def find_spark_home() -> Path:
    """Return the Spark installation of the pyspark package, because another version would be
    incompatible."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise SparkStartError("starting Spark: the package pyspark is not installed")
    return Path(found.origin).parent


def launch_jvm(settings: SparkSettings) -> DriverJvm:
    """Start the JVM without waiting until it accepts connections (see `wait_for_gateway`).

    Raises `SparkStartError`.
    """
    run = process_private_directory.create_run_directory("mm2-spark-run-")
    directory = settings.directory or run.path
    directory.mkdir(parents=True, exist_ok=True)
    log, output_path = directory / "spark.log", directory / "spark.out"
    archive = _open_class_archive(settings) if settings.is_local else None
    with output_path.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - Spark's own launcher, no shell
            _build_command(settings, home=run.path, log=log, archive=archive),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=_build_environment(settings, gateway_file=run.path / _GATEWAY_FILE),
            start_new_session=True,
        )
    return DriverJvm(process, home=run, log=log, output=output_path, archive=archive)


def _open_class_archive(settings: SparkSettings) -> ClassArchive | None:
    """Open the class-data archive to use.

    Return None if the user's JVM options already name an archive, if other users can write to the
    cache directory, or if Java is missing (Spark's launcher reports this error in more detail).
    """
    java_options = [settings.conf.get("spark.driver.extraJavaOptions", "")]
    java_options += [os.environ.get(name, "") for name in _USER_JVM_OPTION_VARIABLES]
    if SHARED_ARCHIVE_OPTION in " ".join(java_options):
        return None
    with suppress(JavaMissingError, DirectoryNotPrivateError):
        return ClassArchive(java_installation.find_java().banner, find_spark_home())
    return None


def wait_for_gateway(jvm: DriverJvm, settings: SparkSettings) -> None:
    """Wait until the JVM accepts connections. If it exits or does not accept connections in time,
    kill the JVM and raise `SparkStartError`."""
    gateway_file = jvm.home / _GATEWAY_FILE
    is_finished = system_clock.wait_until(
        lambda: gateway_file.exists() or not jvm.is_alive(),
        timeout_s=JVM_START_TIMEOUT_S,
        interval_s=_POLL_INTERVAL_S,
    )
    if not gateway_file.exists():
        output = (
            jvm.read_output_tail()
            if is_finished
            else f"the JVM did not start within {JVM_START_TIMEOUT_S:.0f} s"
        )
        jvm.kill()
        jvm.stop_and_remove_files(JVM_START_TIMEOUT_S, keep_logs=True)
        raise SparkStartError(spark_errors.explain_start_failure(output, master=settings.master))
    jvm.port, jvm.secret = _parse_gateway_file(gateway_file.read_bytes())
    gateway_file.unlink()
    (jvm.home / _PROPERTIES_FILE).unlink()  # the JVM has read it


def _build_command(
    settings: SparkSettings,
    *,
    home: Path,
    log: Path,
    archive: ClassArchive | None,
) -> list[str]:
    logging_file = home / "log4j2.properties"
    logging_file.write_text(spark_settings.format_log4j2_properties(log), encoding="utf-8")
    properties = spark_settings.build_spark_properties(settings, scratch=home)
    properties["spark.driver.extraJavaOptions"] = spark_settings.build_java_options(
        settings,
        scratch=home,
        logging=logging_file,
        nameless=not _has_user_account(),
        more="" if archive is None else archive.jvm_options,
    )
    properties_file = home / _PROPERTIES_FILE
    properties_file.touch(mode=0o600)
    properties_file.write_text(format_properties_file(properties), encoding="utf-8")
    defaults = [] if settings.is_local else ["--load-spark-defaults"]
    submit = find_spark_home() / "bin" / "spark-submit"
    return [str(submit), "--properties-file", str(properties_file), *defaults, "pyspark-shell"]


def _build_environment(settings: SparkSettings, *, gateway_file: Path) -> dict[str, str]:
    environment = {
        name: value for name, value in os.environ.items() if name not in settings.hidden_environment
    }
    configured_home = environment.get("SPARK_HOME")
    if configured_home:
        environment.setdefault("SPARK_CONF_DIR", os.path.join(configured_home, "conf"))
    environment |= {
        "SPARK_HOME": str(find_spark_home()),
        "SPARK_CONNECT_MODE": "0",
        # Local copy processes begin as `python -m …`: without this, Python would first search the
        # working directory for modules, and other users may be able to write to it.
        "PYTHONSAFEPATH": "1",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(gateway_file),
    }
    if settings.is_local:
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"  # works if the host name does not resolve
    if not _has_user_account():
        environment.setdefault("SPARK_USER", settings.app_name)  # without a user name Hadoop fails
    return environment


def _has_user_account() -> bool:
    """Return True if the user id has an account. Containers may run with any user id."""
    try:
        return bool(pwd.getpwuid(os.geteuid()))
    except KeyError:
        return False


def _parse_gateway_file(content: bytes) -> tuple[int, str]:
    """Parse the file written by the JVM: int32 port, int32 length, secret; big-endian."""
    (port,) = _LENGTH.unpack_from(content)
    (length,) = _LENGTH.unpack_from(content, _LENGTH.size)
    return port, content[2 * _LENGTH.size :][:length].decode()
