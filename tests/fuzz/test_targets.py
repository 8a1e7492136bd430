"""Every fuzz target: its seeds and some mutations of them quickly; for longer in `make fuzz` and in
`make test-full`."""

from __future__ import annotations

import os

import pytest

from tests.fuzz import runner, targets
from tests.fuzz.runner import Report

QUICK_INPUTS = 15
LONG_S = float(os.environ.get("MM2_FUZZ_SECONDS", "20"))
TARGETS = targets.registered()
WITHOUT_VALID_SEED = {"sasl-scram"}
"""A server's answer holds the client's nonce, which is random."""


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_a_few_mutations_raise_only_what_is_documented(name):
    report = runner.run(TARGETS[name], inputs=QUICK_INPUTS + len(TARGETS[name].all_seeds()))
    assert not report.findings, report.describe()


@pytest.mark.full
@pytest.mark.timeout(LONG_S + 300)
@pytest.mark.parametrize("name", TARGETS)
def test_many_mutations_raise_only_what_is_documented(name):
    report = runner.run(TARGETS[name], seconds=LONG_S)
    assert not report.findings, report.describe()


def test_every_folder_of_the_corpus_belongs_to_a_target():
    folders = {path.name for path in targets.CORPUS.iterdir()}
    assert folders <= set(TARGETS)
    assert all(targets.corpus(each) for each in folders)


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_takes_some_seed_as_valid(name):
    """Else mutations would never come past the first check."""
    target = TARGETS[name]
    report = Report(target=name)
    for seed in target.seeds():
        runner.judge(target, seed, report)
    assert (report.inputs > report.refused.total()) != (name in WITHOUT_VALID_SEED)
