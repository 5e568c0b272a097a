"""``POST /api/v1/evaluations``: where a service that evaluates checkpoints reports its results."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from .evaluation import InvalidEvaluationError, parse_evaluation
from .evaluationstore import ConflictError, FullError
from .websecurity import guarded

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from .bearertoken import BearerToken
    from .evaluationstore import EvaluationStore
    from .websecurity import WebSecurity

log = logging.getLogger("gpu_actuary")

PATH: Final = "/api/v1/evaluations"
MAX_BODY_BYTES: Final = 16384
_DISCARDED_BYTES: Final = 1 << 20
RESULTS: Final = ("stored", "repeated", "conflict", "invalid", "failed")


class EvaluationApi:
    """The endpoint as a WSGI application; who may call it is decided before.

    ``results`` counts the requests by what came of them.
    """

    def __init__(self, store: EvaluationStore) -> None:
        self.store = store
        self.results = dict.fromkeys(RESULTS, 0)
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request with a JSON object."""
        status, result, document = self._answer(environ)
        _discard_rest(environ)
        with self._lock:
            self.results[result] += 1
        headers = [("Content-Type", "application/json")]
        if status.startswith("405"):
            headers.append(("Allow", "POST"))
        start_response(status, headers)
        return [json.dumps(document).encode() + b"\n"]

    def _answer(self, environ: WSGIEnvironment) -> tuple[str, str, dict[str, object]]:
        if environ["REQUEST_METHOD"] != "POST":
            return _error("405 Method Not Allowed", "invalid", "expected POST")
        # A form in a foreign page cannot send this type: it keeps a browser's password from misuse.
        kind = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            expected = f"expected Content-Type: application/json, not {kind!r}"
            return _error("415 Unsupported Media Type", "invalid", expected)
        length = environ.get("CONTENT_LENGTH") or ""
        if not length.isdecimal():
            return _error("411 Length Required", "invalid", "expected a Content-Length")
        if int(length) > MAX_BODY_BYTES:
            expected = f"expected at most {MAX_BODY_BYTES} bytes"
            return _error("413 Content Too Large", "invalid", expected)
        body = environ["wsgi.input"].read(int(length))
        environ["CONTENT_LENGTH"] = ""  # nothing is left to discard
        try:
            evaluation = parse_evaluation(body, time.time())
            result = self.store.add(evaluation)
        except InvalidEvaluationError as error:
            document = {"error": str(error), "field": error.field, "expected": error.expected}
            return "400 Bad Request", "invalid", dict(document)
        except ConflictError as error:
            return _error("409 Conflict", "conflict", str(error))
        except FullError as error:
            return _error("507 Insufficient Storage", "failed", str(error))
        except OSError as error:
            log.warning("Cannot keep an evaluation: %s", error)
            return _error("503 Service Unavailable", "failed", f"cannot keep it: {error.strerror}")
        return (
            "200 OK",
            result,
            {
                "result": result,
                "job_id": evaluation.job_id,
                "step": evaluation.step,
                "withheld": list(evaluation.withheld),
            },
        )


def _discard_rest(environ: WSGIEnvironment) -> None:
    """Read what a refused request still sends: closing on it could cost the client our answer."""
    length = environ.get("CONTENT_LENGTH") or ""
    left = min(int(length), _DISCARDED_BYTES) if length.isdecimal() else 0
    while left > 0 and (part := environ["wsgi.input"].read(min(left, MAX_BODY_BYTES))):
        left -= len(part)


def _error(status: str, result: str, text: str) -> tuple[str, str, dict[str, object]]:
    return status, result, {"error": text}


def gate(
    application: WSGIApplication,
    api: EvaluationApi | None,
    security: WebSecurity | None,
    token: BearerToken | None,
) -> WSGIApplication:
    """``application`` behind ``security``, with ``api`` at its path for those who may report.

    They are whoever has a password, and whoever has ``token``, which opens nothing else.
    """

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != PATH:
            return inner(environ, start_response)
        if api is None:
            return _refuse(
                start_response,
                "403 Forbidden",
                "reports are off: start the sidecar with --push-token-file, or with --web-config"
                " and basic_auth_users",
            )
        if token is not None and token.accepts(environ.get("HTTP_AUTHORIZATION", "")):
            return api(environ, start_response)
        if security is None or security.current().users is None:
            return _refuse(start_response, "401 Unauthorized", "expected the bearer token")
        return guarded(api, security)(environ, start_response)

    inner = guarded(application, security) if security is not None else application
    return answer


def _refuse(start_response: StartResponse, status: str, text: str) -> Iterable[bytes]:
    headers = [("Content-Type", "application/json")]
    if status.startswith("401"):
        headers.append(("WWW-Authenticate", "Bearer"))
    start_response(status, headers)
    return [json.dumps({"error": text}).encode() + b"\n"]
