"""FPNN's methods over HTTP: POST with a JSON map, GET with one in the URL. Plain Python 3.11, on http.client.

Its invariant: an answer is a map, and one whose status is not 200 is raised with its code and ex.
"""

import http.client
import json
from urllib.parse import quote

from dial import split_address
from errors import AnswerError, ConnectionLost, PeerInvalid, TimedOut

TIMEOUT_S = 5


class HttpError(AnswerError):
    """An error answer over HTTP, with the status line's number."""

    def __init__(self, http_status, params):
        super().__init__(params["code"], params["ex"], params)
        self.http_status = http_status


class HttpClient:
    """One connection, kept open between calls as HTTP/1.1 does."""

    def __init__(self, address, tls=None, timeout_s=TIMEOUT_S):
        _, (host, port) = split_address(address)
        if tls is None:
            self._connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        else:
            self._connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls)

    def post(self, method, params=None, chunked=False, headers=None):
        """The map that answers POST /service/METHOD; `chunked` sends the body in pieces of seven bytes."""
        body = json.dumps(params or {}).encode()
        pieces = [body[at : at + 7] for at in range(0, len(body), 7)] if chunked else body
        return self._call("POST", method, "", pieces, {"Content-Type": "application/json", **(headers or {})}, chunked)

    def get(self, method, params=None, headers=None):
        """The map that answers GET /service/METHOD?fpnn=...; without params, without a query."""
        query = "" if params is None else "?fpnn=" + quote(json.dumps(params), safe="")
        return self._call("GET", method, query, None, headers or {}, False)

    def _call(self, verb, method, query, body, headers, chunked):
        path = f"/service/{quote(method, safe='*')}{query}"
        if chunked:
            headers = {**headers, "Transfer-Encoding": "chunked"}
        try:
            self._connection.request(verb, path, body, headers, encode_chunked=chunked)
            answer = self._connection.getresponse()
            text = answer.read()
        except TimeoutError as error:
            raise TimedOut(f"{verb} {path} was not answered in time") from error
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionLost(f"{verb} {path}: {error!r}") from error
        return _params(answer.status, text)

    def close(self):
        self._connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _params(status, text):
    try:
        params = json.loads(text)
    except ValueError as error:
        raise PeerInvalid(f"HTTP {status} with a body that is not JSON: {text[:200]!r}") from error
    if not isinstance(params, dict):
        raise PeerInvalid(f"HTTP {status} with a body that is no map: {text[:200]!r}")
    if status == 200:
        return params
    if not isinstance(params.get("code"), int) or not isinstance(params.get("ex"), str):
        raise PeerInvalid(f"HTTP {status} without an int `code` and a text `ex`: {params!r}")
    raise HttpError(status, params)
