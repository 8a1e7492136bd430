"""Whether the fuzz runner sees what it is there for: planted targets."""

from __future__ import annotations

import dataclasses
import random
import time

import pytest

from tests.fuzz import mutation, runner, targets
from tests.fuzz.targets import Target

pytestmark = pytest.mark.judges


class DocumentedError(Exception):
    """What a planted decoder may raise."""


def target(call, **more):
    given = {"name": "planted", "seeds": lambda: [b"seed"], "allowed": (DocumentedError,)}
    return Target(call=call, **{**given, **more})


def test_a_foreign_error_is_found_with_its_input_and_its_place():
    def call(data):
        if b"\x00" in data:
            raise KeyError("foreign")
        raise DocumentedError

    report = runner.run(target(call), inputs=2000)
    (found,) = report.findings.values()
    assert found.what.startswith("KeyError tests/fuzz/test_runner.py:")
    assert (found.detail, b"\x00" in found.data) == ("'foreign'", True)
    assert report.inputs == 2000
    assert report.refused["DocumentedError"] < 2000
    assert "FOUND KeyError" in report.describe()


def test_a_slow_input_is_found():
    def call(data):
        ends_s = time.process_time() + (0.05 if data == b"slow" else 0.0)
        while time.process_time() < ends_s:
            pass

    (found,) = runner.run(
        target(call, seeds=lambda: [b"", b"slow"], slow_s=0.02), inputs=2
    ).findings.values()
    assert (found.what, found.data) == ("slow", b"slow")


def test_an_input_that_is_slow_once_only_is_not_taken_for_slow():
    """The machine was, or garbage was collected."""
    waits = [0.05]

    def call(_):
        ends_s = time.process_time() + (waits.pop() if waits else 0.0)
        while time.process_time() < ends_s:
            pass

    assert not runner.run(target(call, slow_s=0.02), inputs=1).findings


def test_an_input_that_takes_much_memory_is_found():
    def call(data):
        return b"x" * (48 << 20) if data == b"large" else None

    planted = target(call, seeds=lambda: [b"", b"large"], memory_bytes=16 << 20)
    (found,) = runner.run(planted, inputs=2).findings.values()
    assert (found.what, found.data) == ("memory", b"large")


def test_an_earlier_peak_does_not_hide_an_input_that_takes_much_memory():
    taken: list[bytes] = []

    def call(data):
        if data == b"first":
            taken.append(b"x" * (96 << 20))
        elif data == b"second":
            taken.clear()  # the peak is far above what is used now
        return b"x" * (48 << 20) if data == b"large" else None

    inputs = [b"", b"first", b"second", b"large"]
    planted = target(call, seeds=lambda: inputs, memory_bytes=64 << 20)
    report = runner.run(planted, inputs=3)
    assert [each.data for each in report.findings.values()] == [b"first"]
    larger = dataclasses.replace(planted, memory_bytes=32 << 20)
    report = runner.Report(target="planted")
    for data in inputs[2:]:
        runner.judge(larger, data, report)
    assert [each.data for each in report.findings.values()] == [b"large"]


def test_the_same_seed_number_gives_the_same_inputs():
    def inputs(seed, text):
        seen: list[bytes] = []
        runner.run(target(seen.append, text=text), seed=seed, inputs=300)
        return seen

    for text in (False, True):
        assert inputs(1, text) == inputs(1, text)
        assert inputs(1, text) != inputs(2, text)
    assert inputs(1, True)[0] == b"seed"


def test_time_ends_a_run():
    report = runner.run(target(lambda _: None), seconds=0.2)
    assert report.inputs > 10


def test_the_corpus_is_tried_before_the_seeds(tmp_path, monkeypatch):
    monkeypatch.setattr(targets, "CORPUS", tmp_path)
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "once").write_bytes(b"failed")
    assert target(lambda _: None).all_seeds() == [b"failed", b"seed"]


def test_the_command_reports_each_target_and_keeps_what_it_found(tmp_path, monkeypatch, capsys):
    def broken(data):
        raise KeyError(len(data))

    planted = {"planted": target(broken), "sound": target(lambda _: None, name="sound")}
    monkeypatch.setattr(targets, "registered", lambda: planted)
    options = ["--inputs", "20", "--seconds", "60", "--save", str(tmp_path)]
    assert runner.main(options) == 1
    printed = capsys.readouterr().out
    assert "planted: 20 inputs" in printed
    assert "FOUND KeyError" in printed
    assert printed.endswith("40 inputs in all, seed 1\n")
    assert (tmp_path / "planted" / "1.bin").read_bytes() == b"seed"
    assert runner.main([*options, "--target", "sound"]) == 0


@pytest.mark.parametrize("text", [False, True])
def test_inputs_are_bounded(text):
    rng = random.Random(1)
    seeds = [bytes(mutation.LENGTH_MAX)]
    made = [mutation.mutated(rng, seeds, text=text) for _ in range(200)]
    assert max(map(len, made)) <= mutation.LENGTH_MAX
    assert len(set(made)) > 100
