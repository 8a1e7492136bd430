from connect_runtime.runtime import traces


def test_what_went_wrong_comes_first():
    error = ValueError("no topic in the configuration")
    error.__cause__ = KeyError("topic")
    told = traces.of(error).splitlines()
    assert told[0] == "ValueError: no topic in the configuration"
    assert "KeyError: 'topic'" in told
    assert told[-1] == told[0]
