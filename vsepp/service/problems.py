"""Every error is answered in one form: {"status": 404, "reason": "There is no photo 12."}"""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from vsepp.errors import Unavailable, WorkFailed, WrongRequest

SAFE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class TimedOut(Exception):
    """A request took too long; the process continues."""


class Problem(BaseModel):
    """Why a request was not answered as asked."""

    status: int = Field(examples=[422])
    reason: str = Field(examples=["'yesterday' is not a date. Write 2020, 2020-05 or 2020-05-17."])


REASONS = {
    400: "The request cannot be read.",
    401: "This collection is private. Send its token: Authorization: Bearer TOKEN.",
    403: "Requests from other sites are refused.",
    404: "There is nothing here.",
    405: "This method is not allowed here.",
    408: "The upload took too long.",
    413: "The upload is too large.",
    421: "Use the address 127.0.0.1 or localhost.",
    422: "A value is wrong.",
    500: "Something went wrong in the service; its terminal says more.",
    503: "The service is busy. Try again.",
}


def problem(
    status: int, reason: str = "", headers: Mapping[str, str] | None = None
) -> JSONResponse:
    body = Problem(status=status, reason=reason or REASONS.get(status, "The request failed."))
    return JSONResponse(body.model_dump(), status, headers={**SAFE_HEADERS, **(headers or {})})


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for its OpenAPI description."""
    common = (400, 401, 403, 408, 413, 421, 422, 500, 503)
    return {
        status: {"model": Problem, "description": REASONS[status]}
        for status in sorted({*common, *statuses})
    }


def answer_problems(app: FastAPI) -> None:
    """Answer every exception with a problem."""
    for kind in (
        HTTPException,
        RequestValidationError,
        WrongRequest,
        TimedOut,
        WorkFailed,
        Exception,
    ):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> JSONResponse:
    match error:
        case HTTPException():  # Starlette's own details only name the status
            plain = error.detail in ("Not Found", "Method Not Allowed")
            return problem(error.status_code, "" if plain else str(error.detail), error.headers)
        case RequestValidationError():
            return problem(422, " ".join(_sentence(item) for item in error.errors()))
        case WrongRequest():
            return problem(422, printable(str(error)))
        case TimedOut():
            return problem(503, str(error), {"Retry-After": "2"})
        case Unavailable():
            return problem(503, printable(str(error)), {"Retry-After": "5"})
        case WorkFailed():
            return problem(500, printable(str(error)))
    return problem(500)  # the traceback goes to the terminal


def printable(text: str) -> str:
    """A path that is not valid UTF-8 can be opened, but not written."""
    return text.encode(errors="replace").decode()


def _sentence(item: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in item["loc"][1:]) or str(item["loc"][0])
    return f"{where}: {item['msg']}."
