from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile

import click
import pytest

from connect_runtime.base.errors import ConnectError, RetriableError
from mm2.cli import library_log_redirection


def test_what_libraries_log_is_kept_where_it_is_asked_for(caplog):
    with library_log_redirection.redirect_library_logs() as made:
        logging.getLogger("librdkafka").warning("broker gone")
        assert caplog.messages == []
        made.keep = True
    assert "broker gone" in made.path.read_text()
    shutil.rmtree(made.path.parent)


@pytest.mark.parametrize(
    "failure", [RetriableError("west does not respond"), click.UsageError("no"), None]
)
def test_a_command_that_fails_leaves_nothing_behind(failure):
    with (
        contextlib.suppress(ConnectError, click.UsageError),
        library_log_redirection.redirect_library_logs() as made,
    ):
        logging.getLogger("librdkafka").warning("broker gone")
        if failure is not None:
            raise failure
    assert not made.path.parent.exists()


def test_after_a_crash_it_is_there(caplog):
    caplog.set_level("INFO")
    with (
        contextlib.suppress(ZeroDivisionError),
        library_log_redirection.redirect_library_logs() as made,
    ):
        logging.getLogger("librdkafka").warning("broker gone")
        raise ZeroDivisionError
    assert f"log of the Kafka and Spark libraries: {made.path}" in caplog.text
    shutil.rmtree(made.path.parent)


def test_with_debug_messages_it_is_kept():
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.DEBUG)
    try:
        with library_log_redirection.redirect_library_logs() as made:
            logging.getLogger("librdkafka").warning("broker gone")
    finally:
        root.setLevel(before)
    assert made.path.exists()
    shutil.rmtree(made.path.parent)


def test_what_is_logged_as_nobody_is_noise_too(caplog):
    with library_log_redirection.redirect_library_logs() as made:
        logging.getLogger().error("Exception while sending command")
        logging.getLogger("mm2").error("ours")
        assert caplog.messages == ["ours"]
        assert "Exception while sending command" in made.path.read_text()


def test_afterwards_libraries_are_heard_again(caplog):
    with library_log_redirection.redirect_library_logs() as made:
        made.keep = False
    logging.getLogger("librdkafka").warning("again")
    assert caplog.messages == ["again"]


def test_noise_goes_to_the_newest_file_alone(caplog, tmp_path):
    noisy = logging.getLogger("librdkafka")
    try:
        library_log_redirection.attach_library_log(tmp_path / "first.log")
        library_log_redirection.attach_library_log(tmp_path / "noise.log")
        noisy.error("broker gone")
    finally:
        for name in library_log_redirection.NOISY_LOGGERS:
            logger = logging.getLogger(name)
            for handler in list(logger.handlers):
                logger.removeHandler(handler)
                handler.close()
            logger.propagate = True
    assert caplog.messages == []
    assert "broker gone" in (tmp_path / "noise.log").read_text()
    assert (tmp_path / "first.log").read_text() == ""


def test_no_more_than_a_few_logs_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(2 * library_log_redirection.MAX_KEPT_LOGS):
        with library_log_redirection.redirect_library_logs() as made:
            logging.getLogger("librdkafka").warning("broker gone")
            made.keep = True
    assert made.path.exists()
    assert len(list(tmp_path.iterdir())) == library_log_redirection.MAX_KEPT_LOGS + 1
