from __future__ import annotations

from connect_runtime.api import config_infos
from connect_runtime.core.herder import validation


def infos(*errors: tuple[str, ...]) -> config_infos.ConfigInfos:
    configs = tuple(
        config_infos.ConfigInfo(
            definition=None,
            value=config_infos.ConfigValueInfo(
                name=str(number), value=None, recommended_values=(), errors=each, visible=True
            ),
        )
        for number, each in enumerate(errors)
    )
    return config_infos.ConfigInfos(
        name="x", error_count=sum(map(len, errors)), groups=(), configs=configs
    )


def test_nothing_wrong_may_be_written() -> None:
    assert validation.refusal(infos((), ())) is None


def test_every_error_is_told_on_a_line_of_its_own() -> None:
    assert validation.refusal(infos(("a", "b"), (), ("c",))) == (
        "Connector configuration is invalid and contains the following 3 error(s):\n"
        "a\nb\nc\n"
        "You can also find the above list of errors at the endpoint"
        " `/connector-plugins/{connectorType}/config/validate`"
    )
