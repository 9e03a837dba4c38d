"""Who may ask this server what: hosts, origins, a token, sizes, and the headers of every answer.

Attacks that it is made against: pages of other sites that send requests through the reader's
browser, or that read answers after their own name was pointed at this machine (DNS rebinding);
scripts in texts; other users of a network, or of this machine: without the token that the terminal
prints, no one changes anything, and only this machine reads.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from attlas.support.errors import AttlasError
from attlas.web.refusals import Refusal, error_content, error_id

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
EVERYWHERE = ("0.0.0.0", "::", "[::]")
TOKEN = "token"  # its name in the address that is printed at the start
HEADER = b"x-attlas"  # of changes: no page of another site can send it without being asked first
MOST_BODY = 2**20  # bytes
MOST_ADDRESS = 4_096  # bytes
MOST_HEADERS = 2**14  # bytes
SLOWEST_BODY = 20.0  # seconds
SAFE_METHODS = ("GET", "HEAD")
PUBLIC = "/static/"  # what is the same for everybody: scripts, rules and pictures
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # sizes and tints of elements
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
log = logging.getLogger("attlas.web")


@dataclass(frozen=True)
class Access:
    """Who may ask: the hosts and origins of this server, its token and its secret."""

    hosts: frozenset[str]  # as a browser sends them: name:port
    cookie: str = "attlas"  # its name; cookies know no port, so it has the number
    is_private: bool = True  # whether also reading needs the token
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @property
    def session(self) -> str:
        """The value of the cookie: it is made of the token, and does not show it."""
        return hmac.new(self.secret, b"session", "sha256").hexdigest()

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(f"http://{one}" for one in self.hosts)

    def opaque(self, *parts: str) -> str:
        """A name that no one can guess who does not have it: 20 letters from parts of text."""
        encoded = [one.encode("utf-8", "surrogatepass") for one in parts]
        joined = b"".join(len(one).to_bytes(8) + one for one in encoded)
        return hmac.new(self.secret, joined, "sha256").hexdigest()[:20]


def access_for(host: str, port: int) -> Access:
    """The access of a server at an address: on loopback, reading needs no token.

    >>> sorted(access_for("127.0.0.1", 80).hosts)
    ['127.0.0.1', '127.0.0.1:80', '[::1]', '[::1]:80', 'localhost', 'localhost:80']
    """
    own = {*LOOPBACK, _bracketed(host)} - set(EVERYWHERE)
    if host in EVERYWHERE:
        own |= set(_own_names())
    hosts = {f"{one}:{port}" for one in own} | (own if port == 80 else set())
    return Access(frozenset(hosts), f"attlas-{port}", not is_loopback(host))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host.

    >>> [is_loopback(one) for one in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "localhost.evil")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def own_name(host: str) -> str:
    """How an address names the host: one that stands for all, by the name of this machine."""
    return socket.gethostname() if host in EVERYWHERE else _bracketed(host)


def _bracketed(host: str) -> str:
    host = host.strip("[]").lower()
    return f"[{host}]" if ":" in host else host


def _own_names() -> list[str]:
    """The name and the addresses of this machine."""
    name = socket.gethostname().lower()
    try:
        found = {str(one[4][0]) for one in socket.getaddrinfo(name, None)}
    except OSError:
        found = set()
    found |= set(_outward())
    return [name, *sorted(_bracketed(one.partition("%")[0]) for one in found)]


def _outward() -> Iterator[str]:
    """The addresses from which this machine would send to others, which its name may not have.

    Nothing is sent: a socket for datagrams only looks for its way.
    """
    for family, other in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as one:
            one.connect((other, 9))
            yield str(one.getsockname()[0])


@dataclass(frozen=True)
class Request:
    """What is looked at before a request is answered."""

    method: str
    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]

    @classmethod
    def of(cls, scope: Scope) -> Request:
        headers = tuple((name.lower(), value) for name, value in scope["headers"])
        return cls(scope["method"], scope["path"], scope.get("query_string", b""), headers)

    def all(self, name: bytes) -> list[str]:
        return [value.decode("latin-1") for own, value in self.headers if own == name]

    def one(self, name: bytes) -> str:
        """The value of a header; empty if it is missing or there are several."""
        values = self.all(name)
        return values[0] if len(values) == 1 else ""

    @property
    def changes(self) -> bool:
        return self.method not in SAFE_METHODS

    @property
    def wants_page(self) -> bool:
        return not self.changes and "text/html" in self.one(b"accept")

    def cookie(self, name: str) -> str:
        for header in self.all(b"cookie"):
            try:
                found = SimpleCookie(header).get(name)
            except CookieError:
                continue
            if found is not None:
                return found.value
        return ""


def equal(one: str, other: str) -> bool:
    """Whether secrets are equal, in a time that does not show where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def check_size(request: Request, _: Access) -> None:
    """Refuse long addresses and headers."""
    if len(request.path.encode("utf-8", "replace")) + len(request.query) > MOST_ADDRESS:
        raise Refusal(414, f"This address is longer than {MOST_ADDRESS:,} bytes.")
    if sum(len(name) + len(value) for name, value in request.headers) > MOST_HEADERS:
        raise Refusal(413, f"The headers of this request have more than {MOST_HEADERS:,} bytes.")


def check_host(request: Request, access: Access) -> None:
    """Refuse names that are not this server's: a page of another site may have any name."""
    if request.one(b"host").lower() not in access.hosts:
        raise Refusal(
            421,
            "This server does not have this name; open the address that it printed at its start.",
        )


def check_method(request: Request, _: Access) -> None:
    """Refuse what no page sends."""
    if request.method not in (*SAFE_METHODS, "POST"):
        raise Refusal(405, "This server knows GET and POST only.")


def check_token(request: Request, access: Access) -> None:
    """Where others can reach this server, refuse readers without its cookie."""
    if not access.is_private or request.path.startswith(PUBLIC):
        return
    if not equal(request.cookie(access.cookie), access.session):
        raise Refusal(
            403,
            "This server needs its token: open the address with the token that the terminal "
            "printed at its start.",
        )


def check_origin(request: Request, access: Access) -> None:
    """Refuse what a page of another site asks for; following a link from there is allowed."""
    site, origins = request.one(b"sec-fetch-site"), request.all(b"origin")
    follows = not request.changes and request.one(b"sec-fetch-mode") == "navigate"
    if site in ("cross-site", "same-site") and not follows:
        raise Refusal(403, "Pages of other sites cannot use this server.")
    if any(one.lower() not in access.origins for one in origins):
        raise Refusal(403, "Pages of other sites cannot use this server.")


def check_change(request: Request, access: Access) -> None:
    """Refuse changes that do not come from a page of this server."""
    if not request.changes:
        return
    kind = request.one(b"content-type").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "Changes are sent as JSON (content-type: application/json).")
    if not request.all(HEADER):
        raise Refusal(403, "Changes are sent by the pages of this server (header X-Attlas).")
    if not equal(request.cookie(access.cookie), access.session):
        raise Refusal(
            403,
            "Without the token of this server pages can only be read: open the address that the "
            "terminal printed at its start.",
        )


CHECKS = (check_size, check_host, check_method, check_origin, check_token, check_change)


class Guard:
    """The middleware: it checks requests, bounds their bodies, and completes the answers.

    Add it with `app.add_middleware(Guard, access=access_for(host, port))`, after all others.
    """

    def __init__(self, app: App, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:  # no page opens a socket
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, request = time.perf_counter(), Request.of(scope)
        answer = _Answer(send, request)
        try:
            if (target := self._exchange(request)) is not None:
                await answer.redirect(target, self._cookie)
            else:
                for check in CHECKS:
                    check(request, self.access)
                await self.app(scope, await _bounded(request, receive), answer.send)
        except Refusal as refusal:
            await answer.error(refusal.status, str(refusal))
        except AttlasError as error:
            await answer.error(409, str(error), self._logged(request, error, known=True))
        except Exception as error:
            number = self._logged(request, error)
            await answer.error(500, "This did not work, because of an error in Attlas.", number)
        took = 1_000 * (time.perf_counter() - began)
        log.info("%s %s %d %.0f ms", request.method, _plain(request.path), answer.status, took)

    def _logged(self, request: Request, error: Exception, known: bool = False) -> str:
        """Log an error, with its traceback unless it is `known`; the reader gets its number."""
        number = error_id()
        what = (number, request.method, _plain(request.path), error)
        log.error("error %s in %s %s: %s", *what, exc_info=None if known else error)
        return number

    def _exchange(self, request: Request) -> str | None:
        """The address without the token, if it has the right one: the cookie takes its place."""
        if request.changes:
            return None
        fields = parse_qsl(request.query.decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in fields if name == TOKEN]
        if len(given) != 1 or not equal(given[0], self.access.token):
            return None
        check_size(request, self.access)
        check_host(request, self.access)
        rest = urlencode([(name, value) for name, value in fields if name != TOKEN])
        return "/" + quote(request.path.lstrip("/\\")) + ("?" + rest if rest else "")

    @property
    def _cookie(self) -> str:
        return f"{self.access.cookie}={self.access.session}; Path=/; HttpOnly; SameSite=Strict"


def _plain(path: str) -> str:
    """A path as one line of a log."""
    return path.encode("unicode_escape").decode()[:200]


async def _bounded(request: Request, receive: Receive) -> Receive:
    """The body of a change, read as a whole, in time, and no more than is allowed."""
    if not request.changes:
        return receive
    too_large = Refusal(413, f"A request may have {MOST_BODY:,} bytes; this one has more.")
    length = request.one(b"content-length")
    if length and not (length.isdecimal() and len(length) < 20 and int(length) <= MOST_BODY):
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            more = True
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message["type"] == "http.request" and message.get("more_body", False)
                if len(body) > MOST_BODY:
                    raise too_large
    except TimeoutError as error:
        raise Refusal(408, "This request did not arrive in time.") from error
    whole = {"type": "http.request", "body": bytes(body), "more_body": False}
    waiting = [whole]

    async def read() -> Message:
        return waiting.pop() if waiting else await receive()

    return read


class _Answer:
    """An answer on its way, with the headers that every one has."""

    def __init__(self, send: Send, request: Request) -> None:
        self._send, self._request = send, request
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": self._headers(message.get("headers", []))}
        await self._send(message)

    def _headers(self, own: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """The headers of an answer: its own, but for those that are fixed, and the fixed ones."""
        fixed = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        out = [(name, value) for name, value in own if name.lower().decode() not in HEADERS]
        if not any(name.lower() == b"cache-control" for name, _ in out):
            out.append((b"cache-control", b"no-store"))
        return [*out, *fixed]

    async def _whole(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        pairs = {**headers, "content-length": str(len(body))}
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in pairs.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": encoded})
        await self.send({"type": "http.response.body", "body": body})

    async def redirect(self, target: str, cookie: str) -> None:
        await self._whole(303, {"location": target, "set-cookie": cookie})

    async def error(self, status: int, sentence: str, number: str = "") -> None:
        if self.status:  # it has begun: the connection ends here
            raise ConnectionError(f"an answer of {self.status} was not finished")
        body, kind = error_content(status, sentence, number, self._request.wants_page)
        await self._whole(status, {"content-type": kind}, body)
