from __future__ import annotations

from connect_runtime.api.errors import (
    AlreadyExistsError,
    ConfigError,
    ConnectError,
    DataError,
    IllegalWorkerStateError,
    NotFoundError,
    RetriableError,
    SchemaBuilderError,
    UnsupportedOperationError,
)
from connect_runtime.base import errors
from connect_runtime.base.errors import FatalError


def test_only_a_retriable_error_may_be_tried_again():
    finals = [
        DataError,
        SchemaBuilderError,
        ConfigError,
        NotFoundError,
        AlreadyExistsError,
        IllegalWorkerStateError,
        UnsupportedOperationError,
    ]
    assert all(issubclass(each, FatalError) for each in finals)
    assert not any(issubclass(each, errors.RetriableError) for each in finals)
    assert issubclass(SchemaBuilderError, DataError)


def test_the_worker_sees_the_same_roots():
    assert ConnectError is errors.ConnectError
    assert RetriableError("later", delay_ms=5).delay_ms == 5
