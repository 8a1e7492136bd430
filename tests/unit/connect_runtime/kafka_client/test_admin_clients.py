"""Admin clients that are let go in threads of their own, and many of them after each other."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from connect_runtime.kafka_client import admin_clients

LET_GO_BY_ITS_OWN_CALLBACK = """
import sys, threading
import confluent_kafka.admin
from connect_runtime.kafka_client import admin_clients

def ends():
    kind = {"ours": admin_clients.AdminClient, "plain": confluent_kafka.admin.AdminClient}
    held = [kind[sys.argv[1]]({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})]
    let_go = threading.Event()
    def answered(future):
        held.clear()
        let_go.set()
    held[0].describe_cluster(request_timeout=0.2).add_done_callback(answered)
    assert let_go.wait(20)

ends()
print("goes on")
"""
NOBODY = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


def run(kind: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LET_GO_BY_ITS_OWN_CALLBACK, kind]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_client_that_its_own_thread_lets_go_does_not_end_the_process():
    done = run("ours")
    assert (done.returncode, done.stdout) == (0, "goes on\n"), done.stderr


def test_the_librarys_own_would_end_it():
    """Once this fails the class has no use any more."""
    done = run("plain")
    assert done.returncode == -signal.SIGABRT
    assert "librdkafka owned thread" in done.stderr


def test_more_clients_can_follow_each_other_than_a_process_has_room_for():
    """Some 1,000 fit."""
    for _ in range(1_200):
        admin_clients.AdminClient(NOBODY)


def test_what_was_let_go_is_freed_when_another_is_polled():
    other = admin_clients.AdminClient(NOBODY)
    admin_clients.AdminClient(NOBODY)
    assert admin_clients.AdminClient._let_go.qsize() == 1
    other.poll(0)
    assert admin_clients.AdminClient._let_go.qsize() == 0


def test_what_the_library_refuses_is_raised_as_it_says_it():
    with pytest.raises(Exception, match="No such configuration property"):
        admin_clients.AdminClient({"no.such": "setting"})
