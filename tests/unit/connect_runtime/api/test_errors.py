from __future__ import annotations

from connect_runtime.api import errors
from connect_runtime.base import errors as roots


def test_only_a_retriable_error_may_be_tried_again():
    finals = [
        errors.DataError,
        errors.SchemaBuilderError,
        errors.ConfigError,
        errors.NotFoundError,
        errors.AlreadyExistsError,
        errors.IllegalWorkerStateError,
        errors.UnsupportedOperationError,
    ]
    assert all(issubclass(each, roots.FatalError) for each in finals)
    assert not any(issubclass(each, roots.RetriableError) for each in finals)
    assert issubclass(errors.SchemaBuilderError, errors.DataError)


def test_the_worker_sees_the_same_roots():
    assert errors.ConnectError is roots.ConnectError
    assert errors.RetriableError("later", delay_ms=5).delay_ms == 5
