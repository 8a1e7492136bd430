from __future__ import annotations

import logging

from mm2.app import noise


def test_what_libraries_say_is_kept_when_it_may_help(caplog):
    with noise.to_file() as made:
        logging.getLogger("librdkafka").warning("broker gone")
        assert caplog.messages == []
    assert "broker gone" in made.path.read_text()
    made.path.unlink()
    made.path.parent.rmdir()


def test_it_is_gone_when_it_is_of_no_use():
    with noise.to_file() as made:
        logging.getLogger("librdkafka").warning("broker gone")
        made.keep = False
    assert not made.path.parent.exists()
    with noise.to_file() as made:
        pass
    assert not made.path.parent.exists()


def test_what_is_logged_as_nobody_is_noise_too(caplog):
    with noise.to_file() as made:
        logging.getLogger().error("Exception while sending command")
        logging.getLogger("mm2").error("ours")
    assert caplog.messages == ["ours"]
    assert "Exception while sending command" in made.path.read_text()
    made.path.unlink()
    made.path.parent.rmdir()


def test_afterwards_libraries_are_heard_again(caplog):
    with noise.to_file() as made:
        made.keep = False
    logging.getLogger("librdkafka").warning("again")
    assert caplog.messages == ["again"]


def test_noise_goes_to_the_newest_file_alone(caplog, tmp_path):
    noisy = logging.getLogger("librdkafka")
    try:
        noise.send_noise_to(tmp_path / "first.log")
        noise.send_noise_to(tmp_path / "noise.log")
        noisy.error("broker gone")
    finally:
        for name in noise.NOISY_LOGGERS:
            logger = logging.getLogger(name)
            for handler in list(logger.handlers):
                logger.removeHandler(handler)
                handler.close()
            logger.propagate = True
    assert caplog.messages == []
    assert "broker gone" in (tmp_path / "noise.log").read_text()
    assert (tmp_path / "first.log").read_text() == ""
