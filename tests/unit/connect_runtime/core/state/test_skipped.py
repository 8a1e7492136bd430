from __future__ import annotations

from connect_runtime.core.state import config_log, offset_log, skipped, status_log


def test_every_fold_names_the_key_of_what_it_skips_and_never_the_value():
    for fold in (config_log.ConfigLog(), status_log.StatusLog()):
        answer = fold.apply(b"connector-x", b'{"properties":"hunter2"}', offset=0)
        assert isinstance(answer, skipped.Skipped)
        assert "connector-x" in answer.reason
        assert "hunter2" not in answer.reason
    told = offset_log.OffsetLog().apply(b"[]", b"hunter2", offset=0)
    assert isinstance(told, skipped.Skipped)
    assert "hunter2" not in told.reason
