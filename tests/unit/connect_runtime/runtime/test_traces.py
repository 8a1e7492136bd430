from connect_runtime.runtime import traces


def test_what_went_wrong_comes_first():
    try:
        try:
            raise KeyError("topic")
        except KeyError as error:
            raise ValueError("no topic in the configuration") from error
    except ValueError as error:
        told = traces.of(error).splitlines()
    assert told[0] == "ValueError: no topic in the configuration"
    assert "KeyError: 'topic'" in told
    assert told[-1] == told[0]
