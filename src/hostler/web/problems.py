"""From what went wrong to what is answered: a status code and `{"error": class, "message": text}`."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response

from hostler.model import codec, errors
from hostler.model.record import record


@record
class Problem:
    """The body of every answer that is no success. `error` names a class of `hostler.model.errors` where one fits."""

    error: str
    message: str


STATUS: Mapping[type[errors.HostlerError], HTTPStatus] = {
    errors.HostlerError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.UsageError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.SettingsError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.SpecError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.Conflict: HTTPStatus.CONFLICT,
    errors.NotOwner: HTTPStatus.FORBIDDEN,
    errors.EventRefused: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.Outdated: HTTPStatus.CONFLICT,
    errors.CorruptState: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.DamagedEntry: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.IllegalTransition: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.BrokenInvariant: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.StoreError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.StoreBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreFull: HTTPStatus.INSUFFICIENT_STORAGE,
    errors.StoreLost: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreFenced: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreForked: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreRefused: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.StandsBy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.SchemaMismatch: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.FilesError: HTTPStatus.BAD_GATEWAY,
    errors.FilesChanged: HTTPStatus.BAD_GATEWAY,
    errors.PartlyFetched: HTTPStatus.BAD_GATEWAY,
    errors.LinkError: HTTPStatus.BAD_GATEWAY,
    errors.LinkLost: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.LinkRefused: HTTPStatus.BAD_GATEWAY,
    errors.AnswerError: HTTPStatus.BAD_GATEWAY,
    errors.ControllerAbsent: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.ControllerStarting: HTTPStatus.SERVICE_UNAVAILABLE,
}

WITHOUT_CLASS: Mapping[int, str] = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.UNAUTHORIZED: "Unauthorized",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "NoSuchPath",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "BodyTooLarge",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "HeadTooLarge",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
}
"""Names for what HTTP itself refuses."""


def status_of(error: errors.HostlerError) -> HTTPStatus:
    """The status code of an error: that of its class or of the nearest class above it."""
    return next(STATUS[shape] for shape in type(error).__mro__ if shape in STATUS)


def from_error(error: errors.HostlerError) -> Response:
    """The answer to a request that ended in `error`."""
    return _answer(status_of(error), type(error).__name__, str(error))


def from_status(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that HTTP refuses before it means anything."""
    return _answer(status, WITHOUT_CLASS.get(status, "HttpError"), message, headers)


def _answer(status: int, error: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    body = codec.adapter(Problem).dump_json(Problem(error=error, message=message))
    return Response(body, status, headers, media_type="application/json")
