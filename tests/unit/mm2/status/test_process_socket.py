from __future__ import annotations

import contextlib
import os
import pathlib
import socket

import pytest

from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from mm2 import exit_codes
from mm2.status import process_socket
from mm2.status.process_socket import (
    ExplainRequest,
    ProcessRequest,
    ProcessResponse,
    ProcessSocket,
    ProcessSocketError,
    ReloadRequest,
    RestApiRequest,
)


@pytest.fixture
def where(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def serving(where, tmp_path):
    """Starts a process's side, which answers with what it is given; its questions are kept."""
    failures: list[UnexpectedThreadEnd] = []
    owned = ThreadGroup(on_unexpected_end=failures.append)
    opened = []

    def serve(file: pathlib.Path, answer: ProcessResponse) -> list[ReloadRequest]:
        questions: list[ReloadRequest] = []
        made = ProcessSocket(file, folder=where)
        opened.append(made)

        def reply(question):
            questions.append(question)
            return answer

        def body(stop):
            while not stop.is_set():
                made.serve_request(reply, 0.05)

        owned.start("serving", body)
        return questions

    yield serve
    assert owned.stop_all(5.0) == []
    for each in opened:
        each.close()
        assert not each.path.exists()
    assert failures == []


def ask(file, where, *, dry_run=False, timeout_s=5.0):
    return process_socket.query_processes(
        file, ReloadRequest(dry_run=dry_run), folder=where, timeout_s=timeout_s
    )


def test_a_question_and_its_answer(serving, where, tmp_path):
    file = tmp_path / "c.yaml"
    answer = ProcessResponse(code=exit_codes.BAD_INPUT, lines=("first", "zweite Zeile: ü"))
    questions = serving(file, answer)
    assert ask(file, where, dry_run=True) == {os.getpid(): answer}
    assert questions == [ReloadRequest(dry_run=True)]


def test_who_asks_is_known_from_the_kernel_and_not_from_the_question(serving, where, tmp_path):
    file = tmp_path / "c.yaml"
    asked = serving(file, ProcessResponse(code=exit_codes.DONE, lines=()))
    claims = RestApiRequest(peer="somebody else")
    process_socket.query_processes(file, claims, folder=where, timeout_s=5.0)
    assert asked[0].peer.endswith(f"(uid {os.geteuid()}, pid {os.getpid()})")


def test_the_file_is_known_by_its_place_not_by_its_spelling(serving, where, tmp_path, monkeypatch):
    serving(tmp_path / "c.yaml", ProcessResponse(code=0, lines=()))
    monkeypatch.chdir(tmp_path)
    assert len(ask(pathlib.Path("c.yaml"), where)) == 1
    with pytest.raises(ProcessSocketError, match=r"no process runs .*other\.yaml"):
        ask(pathlib.Path("other.yaml"), where)


def test_a_file_that_is_a_link_to_another_place_by_now_is_the_same(serving, where, tmp_path):
    """As Kubernetes changes the files of a ConfigMap."""
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "c.yaml").touch()
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "c.yaml").symlink_to("..data/c.yaml")
    serving(tmp_path / "c.yaml", ProcessResponse(code=0, lines=()))
    (tmp_path / "..data").unlink()
    (tmp_path / "..data").symlink_to("two")
    assert len(ask(tmp_path / "c.yaml", where)) == 1


def test_sockets_of_the_dead_are_removed(where, tmp_path):
    file = tmp_path / "c.yaml"
    dead = ProcessSocket(file, folder=where)
    dead._listener.close()
    assert dead.path.exists()
    with pytest.raises(ProcessSocketError, match="no process runs"):
        ask(file, where)
    assert not dead.path.exists()


def test_a_process_that_does_not_answer_is_not_waited_for_longer_than_asked(where, tmp_path):
    silent = ProcessSocket(tmp_path / "c.yaml", folder=where)
    (answer,) = ask(tmp_path / "c.yaml", where, timeout_s=0.1).values()
    assert answer.code == exit_codes.UNREACHABLE
    assert "no response within 0.1 s" in answer.lines[0]
    silent.close()


def test_a_process_that_too_many_ask_is_told_of(where, tmp_path):
    busy = ProcessSocket(tmp_path / "c.yaml", folder=where)
    waiting = [socket.socket(socket.AF_UNIX) for _ in range(20)]
    for each in waiting:
        each.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            each.connect(str(busy.path))
    (answer,) = ask(tmp_path / "c.yaml", where, timeout_s=0.1).values()
    assert answer.code == exit_codes.UNREACHABLE
    assert "try again" in answer.lines[0]
    for each in waiting:
        each.close()
    busy.close()


@pytest.mark.parametrize("sent", [b"", b"nonsense\n", b"[]\n", b"{}\n", b'{"version": 1}\n'])
def test_nonsense_ends_its_connection_and_nothing_else(serving, where, tmp_path, sent):
    file = tmp_path / "c.yaml"
    questions = serving(file, ProcessResponse(code=0, lines=("fine",)))
    (path,) = where.iterdir()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5.0)
        connection.connect(str(path))
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass
    assert questions == []
    assert [each.lines for each in ask(file, where).values()] == [("fine",)]


def test_a_folder_that_others_can_enter_is_refused(where, tmp_path):
    where.chmod(0o755)
    with pytest.raises(ProcessSocketError, match="chmod 700"):
        ProcessSocket(tmp_path / "c.yaml", folder=where)


def test_nobody_is_asked_in_a_folder_that_others_can_enter(serving, where, tmp_path):
    serving(tmp_path / "c.yaml", ProcessResponse(code=0, lines=("a lie",)))
    where.chmod(0o777)
    with pytest.raises(ProcessSocketError, match="chmod 700"):
        ask(tmp_path / "c.yaml", where)


def test_nobody_is_asked_in_a_folder_of_another_user(serving, where, tmp_path, monkeypatch):
    """Before the first run anybody can make a folder of that name in the temporary directory."""
    serving(tmp_path / "c.yaml", ProcessResponse(code=0, lines=("a lie",)))
    monkeypatch.setattr(os, "geteuid", lambda: where.stat().st_uid + 1)
    with pytest.raises(ProcessSocketError, match=r"belongs to user id \d+.*MM2_RUN_DIR"):
        ask(tmp_path / "c.yaml", where)


def test_a_folder_that_is_exchanged_after_the_check_answers_nothing(
    serving, where, tmp_path, monkeypatch
):
    """Another user can exchange the folder itself, but not the one that was opened and checked."""
    serving(tmp_path / "c.yaml", ProcessResponse(code=0, lines=("a lie",)))
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    check = process_socket._check_directory_owner

    def exchange(folder, **given):
        check(folder, **given)
        own.rename(tmp_path / "away")
        where.rename(own)

    monkeypatch.setattr(process_socket, "_check_directory_owner", exchange)
    with pytest.raises(ProcessSocketError, match="no process runs"):
        ask(tmp_path / "c.yaml", own)


def owned_by_no_root(where):
    if os.geteuid() == 0:
        os.chown(where, 4242, -1)
    return where


def test_root_may_ask_in_a_folder_of_another_that_not_anybody_could_have_made(where):
    process_socket._check_directory_owner(owned_by_no_root(where), uid=0)
    where.parent.chmod(0o1777)
    with pytest.raises(ProcessSocketError, match="belongs to user id"):
        process_socket._check_directory_owner(where, uid=0)


def test_root_listens_in_no_folder_of_another(where):
    with pytest.raises(ProcessSocketError, match="belongs to user id"):
        process_socket._check_directory_owner(owned_by_no_root(where), uid=0, ours=True)


def test_a_link_is_as_good_as_who_made_it(where, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(where)
    if os.geteuid() == 0:
        os.chown(link, 4242, -1, follow_symlinks=False)
    us = where.stat().st_uid
    tmp_path.chmod(0o1777)
    if link.lstat().st_uid == us:  # no root: nobody else can be made its owner
        process_socket._check_directory_owner(link, uid=us)
        return
    with pytest.raises(ProcessSocketError, match="belongs to user id 4242"):
        process_socket._check_directory_owner(link, uid=us)


def test_where_it_is():
    assert process_socket.find_socket_directory(
        {"MM2_RUN_DIR": "/x", "XDG_RUNTIME_DIR": "/y"}
    ) == pathlib.Path("/x")
    assert process_socket.find_socket_directory({"XDG_RUNTIME_DIR": "/y"}) == pathlib.Path("/y/mm2")
    assert process_socket.find_socket_directory({}).name == f"mm2-run-{os.geteuid()}"


def test_each_kind_of_question_arrives_as_what_it_is(serving, where, tmp_path):
    file = tmp_path / "c.yaml"
    answer = ProcessResponse(code=exit_codes.DONE, lines=("a",), detail={"flows": [{"n": 1}]})
    questions = serving(file, answer)
    asked: list[ProcessRequest] = [
        ExplainRequest(topic="größe"),
        ReloadRequest(),
    ]
    for each in asked:
        found = process_socket.query_processes(file, each, folder=where, timeout_s=5.0)
        assert found == {os.getpid(): answer}
    assert questions == asked


def test_another_release_is_told_apart(serving, where, tmp_path):
    """An older process would take any question for one to reload."""
    questions = serving(tmp_path / "c.yaml", ProcessResponse(code=0, lines=()))
    (path,) = where.iterdir()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5.0)
        connection.connect(str(path))
        connection.sendall(b'{"version": 1, "dry_run": false}\n')
        said = connection.recv(4096)
    assert b"use the same release" in said
    assert questions == []
