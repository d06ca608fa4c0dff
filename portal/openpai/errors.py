"""Every refusal in OpenPAI's form: ``{code, message}``, with its codes and statuses."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import RequestDataTooBig
from rest_framework.response import Response

from portal.common.errors import Refused
from portal.common.problems import handler as problem_handler

log = logging.getLogger(__name__)

CODES = {
    400: "InvalidParametersError",
    401: "UnauthorizedUserError",
    403: "ForbiddenUserError",
    404: "NoApiError",
    405: "NoApiError",
    406: "InvalidParametersError",
    409: "ConflictJobError",
    413: "InvalidParametersError",
    415: "InvalidParametersError",
    429: "TooManyRequestsError",
}
"""What a status is called where nothing nearer is known."""

GUEST = "Guest is not allowed to do this operation."
BAD_TOKEN = "Your token is invalid."
NOT_ADMIN = "Non-admin is not allow to do this operation."  # OpenPAI's own wording, which clients compare
APPLICATION = "Applications are not allowed to do this operation."


class PaiError(Refused):
    """A refusal with OpenPAI's own code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def no_job(name: str) -> PaiError:
    return PaiError(404, "NoJobError", f"Job {name} is not found.")


def no_task(name: str) -> PaiError:
    return PaiError(404, "NoTaskError", f"Task {name} is not found.")


def no_task_log() -> PaiError:
    return PaiError(404, "NoTaskLogError", "Log of task is not found.")


def no_user(name: str, status: int = 404) -> PaiError:
    return PaiError(status, "NoUserError", f"User {name} is not found.")


def no_group(name: str) -> PaiError:
    return PaiError(404, "NoGroupError", f"Group {name} is not found.")


def no_vc(name: str, yours: Iterable[str], status: int = 404) -> PaiError:
    """``yours``: those that who asks may use."""
    told = f"Virtual cluster {name} is not found; yours: {', '.join(sorted(yours)) or 'none'}."
    return PaiError(status, "NoVirtualClusterError", told)


def no_storage(name: str) -> PaiError:
    return PaiError(404, "NoStorageError", f"Storage {name} is not found.")


def invalid(message: str) -> PaiError:
    return PaiError(400, "InvalidParametersError", message)


def forbidden(message: str) -> PaiError:
    return PaiError(403, "ForbiddenUserError", message)


def reserved(key: str) -> PaiError:
    return PaiError(403, "ForbiddenKeyError", f"Key {key} is system reserved and should not be modified!")


def handler(error: Exception, context: Mapping[str, Any]) -> Response:
    """Django REST framework's hook for these views. A mistake of ours stands in our log, not in the answer."""
    if isinstance(error, PaiError):
        return _answer(error.status, error.code, error.detail)
    response = problem_handler(error, context)
    if response is None:
        request = context["request"]
        log.error("%s %s", request.method, request.path, exc_info=error)
        return _answer(500, "UnknownError", "The portal made a mistake; an administrator finds it in the portal's log.")
    code = "InvalidParametersError" if isinstance(error, RequestDataTooBig) else CODES.get(response.status_code)
    answer = _answer(response.status_code, code or "UnknownError", _sentence(response.data))
    for name in ("Retry-After", "WWW-Authenticate"):
        if name in response.headers:
            answer.headers[name] = response.headers[name]
    return answer


def _answer(status: int, code: str, message: str) -> Response:
    return Response({"code": code, "message": message}, status=status)


def _sentence(document: Mapping[str, Any]) -> str:
    faults = document.get("errors")
    if not faults:
        return str(document["detail"])
    return "; ".join(f"{fault['path']}: {fault['message']}" if fault["path"] else fault["message"] for fault in faults)
