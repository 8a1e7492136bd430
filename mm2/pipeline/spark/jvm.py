"""The JVM of Spark's driver: started by us, so that it inherits and prints nothing it should not.

pyspark would start it with every property in its arguments and our whole environment inherited.
Here properties travel in a file of mode 0600, variables that configuration values were read from
are left out, output goes to a file. The JVM ends when we do, however we end: it reads a pipe whose
other end only we hold. It has a session of its own, so that a Ctrl-C in the terminal reaches us
alone and copies can finish what is in flight.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import signal
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

from connect_runtime.system import java, polling, private_folder
from mm2.pipeline import run_directory
from mm2.pipeline.spark import class_archive, failures, logs
from mm2.pipeline.spark import settings as spark_settings

START_S = 120.0
_POLL_S = 0.02
_ANSWER = "gateway"
_PROPERTIES = "spark.properties"
_OUTPUT_TAIL_BYTES = 20_000
_OPTIONS_OF_USERS = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_LENGTH = struct.Struct(">i")


class Jvm:
    """A running (or ended) driver JVM with its private directory. `archive`: of a local one."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        home: run_directory.RunDirectory,
        log: Path,
        output: Path,
        archive: class_archive.ClassArchive | None = None,
    ) -> None:
        self.process = process
        self.home = home.path
        self._directory = home
        self.log = log
        self._output = output
        self.archive = archive
        self.port = 0
        self.secret = ""

    def alive(self) -> bool:
        return self.process.poll() is None

    def output_tail(self) -> str:
        """The end of what the JVM printed."""
        with suppress(OSError), self._output.open("rb") as output:
            output.seek(max(0, output.seek(0, os.SEEK_END) - _OUTPUT_TAIL_BYTES))
            return output.read().decode(errors="replace")
        return ""

    def kill(self) -> None:
        """At once; whoever waits for an answer from it gets an error."""
        if self.alive():
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def end(self, timeout_s: float, *, keep_logs: bool) -> None:
        """Let it end in order within `timeout_s`, else kill it; then remove its directory.

        With `keep_logs` the directory stays for a look into it, without what is secret in it, until
        the next run.
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
            for secret in (_PROPERTIES, _ANSWER):
                (self.home / secret).unlink(missing_ok=True)
            self._directory.leave()
        else:
            self._directory.remove()


def spark_home() -> Path:
    """The Spark that belongs to the pyspark we import: another one could not talk to it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise failures.StartError("starting Spark: the package pyspark is not installed")
    return Path(found.origin).parent


def launch(settings: spark_settings.SparkSettings) -> Jvm:
    """Begin to start the JVM; `await_answer` says when it listens. Raises failures.StartError."""
    run = run_directory.make("mm2-spark-run-")
    directory = settings.directory or run.path
    directory.mkdir(parents=True, exist_ok=True)
    log, output_path = directory / "spark.log", directory / "spark.out"
    archive = _archive(settings) if settings.local else None
    with output_path.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - Spark's own launcher, no shell
            _command(settings, home=run.path, log=log, archive=archive),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=_environment(settings, answer=run.path / _ANSWER),
            start_new_session=True,
        )
    return Jvm(process, home=run, log=log, output=output_path, archive=archive)


def _archive(settings: spark_settings.SparkSettings) -> class_archive.ClassArchive | None:
    """None where the user has one, without a cache of this user alone, and without a Java: Spark's
    launcher says so better."""
    given = [settings.conf.get("spark.driver.extraJavaOptions", "")]
    given += [os.environ.get(name, "") for name in _OPTIONS_OF_USERS]
    if class_archive.OPTION in " ".join(given):
        return None
    with suppress(java.JavaMissingError, private_folder.ForeignFolderError):
        return class_archive.ClassArchive(java.find().banner, spark_home())
    return None


def await_answer(jvm: Jvm, settings: spark_settings.SparkSettings) -> None:
    """Wait until the JVM listens for us. Raises failures.StartError; then the JVM has ended."""
    answer = jvm.home / _ANSWER
    answered = polling.until(
        lambda: answer.exists() or not jvm.alive(), timeout_s=START_S, interval_s=_POLL_S
    )
    if not answer.exists():
        told = jvm.output_tail() if answered else f"its JVM gave no answer in {START_S:.0f} s"
        jvm.kill()
        jvm.end(START_S, keep_logs=True)
        raise failures.StartError(failures.of_start(told, master=settings.master))
    jvm.port, jvm.secret = _read_answer(answer.read_bytes())
    answer.unlink()
    (jvm.home / _PROPERTIES).unlink()  # read, and of no further use


def _command(
    settings: spark_settings.SparkSettings,
    *,
    home: Path,
    log: Path,
    archive: class_archive.ClassArchive | None,
) -> list[str]:
    logging_file = home / "log4j2.properties"
    logging_file.write_text(logs.log4j2_properties(log), encoding="utf-8")
    properties = spark_settings.properties(settings, scratch=home)
    properties["spark.driver.extraJavaOptions"] = spark_settings.java_options(
        settings,
        scratch=home,
        logging=logging_file,
        nameless=not _has_name(),
        more="" if archive is None else archive.options,
    )
    properties_file = home / _PROPERTIES
    properties_file.touch(mode=0o600)
    properties_file.write_text(logs.properties_file(properties), encoding="utf-8")
    defaults = [] if settings.local else ["--load-spark-defaults"]
    submit = spark_home() / "bin" / "spark-submit"
    return [str(submit), "--properties-file", str(properties_file), *defaults, "pyspark-shell"]


def _environment(settings: spark_settings.SparkSettings, *, answer: Path) -> dict[str, str]:
    environment = {
        name: value for name, value in os.environ.items() if name not in settings.hidden_environment
    }
    users_home = environment.get("SPARK_HOME")
    if users_home:
        environment.setdefault("SPARK_CONF_DIR", os.path.join(users_home, "conf"))
    environment |= {
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
    }
    if settings.local:
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"  # works where the host's name has no address
    if not _has_name():
        environment.setdefault("SPARK_USER", settings.app_name)  # Hadoop finds none, and gives up
    return environment


def _has_name() -> bool:
    """Does the system know whose process this is? Containers may run under any user id."""
    try:
        return bool(pwd.getpwuid(os.geteuid()))
    except KeyError:
        return False


def _read_answer(answer: bytes) -> tuple[int, str]:
    """What the JVM wrote: int32 port, int32 length, secret; big-endian."""
    (port,) = _LENGTH.unpack_from(answer)
    (length,) = _LENGTH.unpack_from(answer, _LENGTH.size)
    return port, answer[2 * _LENGTH.size :][:length].decode()
