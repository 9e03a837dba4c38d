"""The guard of the server against what other sites, other machines and large requests try."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from hypothesis import given, strategies as st

from attlas.support.errors import AttlasError
from attlas.web.refusals import without_paths
from attlas.web.safety import MOST_BODY, Access, Guard, access_for
from tests.builders.served import served

PORT = 8_765
HOME = f"http://127.0.0.1:{PORT}"
PAGE = {"accept": "text/html,*/*"}
CHANGE = {"content-type": "application/json", "x-attlas": "1"}
SECRET = "the words of a reader"


def toy(access: Access) -> FastAPI:
    """An app with a page, a change, errors and a slow stream, behind the guard."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.changes = []

    @app.get("/")
    def page() -> dict[str, str]:
        return {"page": "studies"}

    @app.get("/static/a.js")
    def script() -> dict[str, str]:
        return {}

    @app.post("/change")
    async def change(request: Request) -> dict[str, int]:
        app.state.changes.append(await request.body())
        return {"changes": len(app.state.changes)}

    @app.get("/known")
    def known() -> None:
        raise AttlasError("there is no study folder /home/ann/runs/tour; make one")

    @app.get("/unknown")
    def unknown() -> None:
        raise ValueError(f"{SECRET} in /home/ann/attlas/web.py")

    app.add_middleware(Guard, access=access)
    return app


def client(host: str = "127.0.0.1", base: str = HOME, **options: Any) -> TestClient:
    access = access_for(host, PORT)
    made = TestClient(toy(access), base_url=base, follow_redirects=False, **options)
    made.access = access  # type: ignore[attr-defined]
    return made


def opened() -> TestClient:
    """A reader who has opened the address that the terminal printed, and so has the cookie."""
    reader = client()
    token = reader.access.token  # type: ignore[attr-defined]
    assert reader.get(f"/?token={token}", headers=PAGE).status_code == 303
    return reader


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
def test_its_own_names_are_answered(host: str) -> None:
    assert client().get("/", headers={"host": f"{host}:{PORT}"}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        "127.0.0.1:80",
        f"127.0.0.1.evil.example:{PORT}",
        f"localhost:{PORT}.evil.example",
        f"evil.example@localhost:{PORT}",
        f"127.0.0.1:{PORT}, evil.example",
        "",
    ],
)
def test_a_name_that_was_pointed_here_is_refused(host: str) -> None:
    """DNS rebinding: the browser sends the name of the other site."""
    answer = client().get("/", headers={"host": host, **PAGE})
    assert answer.status_code == 421
    assert "set-cookie" not in answer.headers


def test_changes_of_a_page_of_this_server() -> None:
    reader = opened()
    headers = {**CHANGE, "origin": HOME, "sec-fetch-site": "same-origin"}
    assert reader.post("/change", json={}, headers=headers).json() == {"changes": 1}


CROSS = {
    "a form": {"content-type": "application/x-www-form-urlencoded"},
    "a form that claims to be text": {"content-type": "text/plain"},
    "no header of ours": {"x-attlas": None},
    "another origin": {"origin": "http://evil.example"},
    "an origin that is hidden": {"origin": "null"},
    "this machine, another port": {"origin": "http://127.0.0.1:9999"},
    "this server over https": {"origin": f"https://127.0.0.1:{PORT}"},
    "a request across sites": {"sec-fetch-site": "cross-site"},
    "a request across ports": {"sec-fetch-site": "same-site"},
    "navigation that changes": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    "no cookie": {"cookie": ""},
    "another cookie": {"cookie": f"attlas-{PORT}=0123"},
    "two cookies": {"cookie": f"attlas-{PORT}=é\u00ff"},
}


@pytest.mark.parametrize("name", CROSS)
def test_changes_of_other_pages_are_refused(name: str) -> None:
    reader = opened()
    if "cookie" in CROSS[name]:
        reader.cookies.clear()
    both = {**CHANGE, "origin": HOME, "sec-fetch-site": "same-origin", **CROSS[name]}
    headers = {k: v.encode("utf-8") for k, v in both.items() if v is not None}
    answer = reader.post("/change", content=b"{}", headers=headers)
    assert answer.status_code in (403, 415)
    assert not reader.app.state.changes  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods(method: str) -> None:
    assert opened().request(method, "/change", headers=CHANGE).status_code == 405


def test_other_sites_cannot_read_but_may_link_here() -> None:
    across = {"sec-fetch-site": "cross-site"}
    assert client().get("/", headers={**across, "sec-fetch-mode": "no-cors"}).status_code == 403
    assert client().get("/", headers={**across, "sec-fetch-mode": "navigate"}).status_code == 200


def test_no_answer_allows_other_origins() -> None:
    for path in ("/", "/missing", "/unknown"):
        answer = client().get(path)
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/", "/missing", "/known", "/unknown", "/static/a.js"])
def test_every_answer_has_the_headers(path: str) -> None:
    headers = client().get(path, headers=PAGE).headers
    policy = headers["content-security-policy"]
    script = next(one for one in policy.split("; ") if one.startswith("script-src"))
    assert script == "script-src 'self'"
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers.get_list("content-security-policy") == [policy]
    assert headers["cache-control"] == "no-store"


def test_on_loopback_reading_needs_no_token_and_changing_does() -> None:
    """Other users of this machine can open pages too; no page gives them the cookie."""
    other = client()
    for path in ("/", "/?token=", "/?token=wrong"):
        page = other.get(path, headers=PAGE)
        assert page.status_code == 200
        assert "set-cookie" not in page.headers
    refused = other.post("/change", json={}, headers=CHANGE)
    assert refused.status_code == 403
    assert "open the address that the terminal printed" in refused.json()["error"]
    assert opened().post("/change", json={}, headers=CHANGE).status_code == 200


FOREIGN = "192.0.2.7"
THERE = f"http://{FOREIGN}:{PORT}"


def test_another_host_needs_the_token() -> None:
    for path in ("/", "/missing", "/?token=", "/?token=wrong"):
        answer = client(FOREIGN, THERE).get(path, headers=PAGE)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
    wrong = client(FOREIGN, THERE).get("/static/a.js?token=wrong", headers=PAGE)
    assert wrong.status_code == 200  # the same for everybody
    assert "set-cookie" not in wrong.headers


def test_the_token_becomes_a_cookie_and_leaves_the_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    reader = client(FOREIGN, THERE)
    token = reader.access.token  # type: ignore[attr-defined]
    assert len(token) >= 32
    answer = reader.get(f"/s/a b/x?head=L2H10&token={token}&q=%C3%A9", headers=PAGE)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/s/a%20b/x?head=L2H10&q=%C3%A9"
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
    assert reader.get("/", headers=PAGE).status_code == 200
    assert reader.post("/change", json={}, headers=CHANGE).status_code == 200
    ours = [one.getMessage() for one in caplog.records if one.name == "attlas.web"]
    assert ours
    assert not any(token in one for one in ours)
    assert token not in cookie + answer.headers["location"]
    assert token not in repr(reader.access)  # type: ignore[attr-defined]


def test_the_token_leads_to_no_other_site() -> None:
    reader = client(FOREIGN, THERE)
    token = reader.access.token  # type: ignore[attr-defined]
    for path in ("//evil.example/", "/\\evil.example/", "//%0d%0aset-cookie:a=b"):
        answer = reader.get(f"{THERE}{path}?token={token}", headers=PAGE)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/")
        assert not answer.headers["location"].startswith(("//", "/\\"))


def test_the_token_does_not_help_under_another_name() -> None:
    reader = client(FOREIGN, THERE)
    token = reader.access.token  # type: ignore[attr-defined]
    answer = reader.get(f"/?token={token}", headers={"host": "evil.example"})
    assert answer.status_code == 421


def test_every_server_has_its_own_secrets() -> None:
    one, other = access_for("127.0.0.1", PORT), access_for("0.0.0.0", PORT)
    assert not one.is_private
    assert other.is_private
    assert one.token != access_for("127.0.0.1", PORT).token
    assert one.session != access_for("127.0.0.1", PORT).session
    assert not any(host.startswith(("0.0.0.0", "[::]")) for host in other.hosts)
    assert other.opaque("a", "bc") != other.opaque("ab", "c")


def test_the_addresses_of_this_machine_are_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its name leads to loopback, as Debian has it."""
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: [(0, 0, 0, "", ("127.0.1.1", 0))])
    monkeypatch.setattr("attlas.web.safety._outward", lambda: iter(["192.0.2.7", "fe80::1%eth0"]))
    hosts = access_for("0.0.0.0", PORT).hosts
    assert {f"192.0.2.7:{PORT}", f"[fe80::1]:{PORT}", f"127.0.1.1:{PORT}"} <= hosts
    assert f"192.0.2.7:{PORT}" not in access_for("127.0.0.1", PORT).hosts


def test_the_page_of_an_error_has_rules(tmp_path: Path) -> None:
    reader = served([tmp_path], {}).client()
    page = reader.get("/?q=" + "x" * 5_000, headers=PAGE)
    assert page.status_code == 414
    (sheet,) = re.findall(r'<link rel="stylesheet" href="([^"]+)"', page.text)
    assert "body.served" in reader.get(sheet).text


def test_large_bodies_are_refused_before_they_are_read_and_while_they_arrive() -> None:
    reader = opened()
    exact = b"x" * MOST_BODY
    assert reader.post("/change", content=exact, headers=CHANGE).status_code == 200
    assert reader.post("/change", content=exact + b"x", headers=CHANGE).status_code == 413
    for length in ("12a", "-1", "9" * 5_000):
        lying = {**CHANGE, "content-length": length}
        assert reader.post("/change", content=b"{}", headers=lying).status_code == 413

    def chunks() -> Any:
        for _ in range(MOST_BODY // 2**16 + 1):
            yield b"x" * 2**16

    assert reader.post("/change", content=chunks(), headers=CHANGE).status_code == 413
    assert len(reader.app.state.changes) == 1  # type: ignore[attr-defined]


def test_long_addresses_and_headers() -> None:
    assert client().get("/?q=" + "x" * 5_000).status_code == 414
    assert client().get("/" + "x" * 5_000).status_code == 414
    assert client().get("/", headers={"x-long": "x" * 20_000}).status_code == 413


@pytest.mark.parametrize("headers", [PAGE, {}])
def test_errors_are_one_sentence_without_paths(
    headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    known = client().get("/known", headers=headers)
    assert known.status_code == 409
    assert "there is no study folder tour; make one" in known.text
    answer = client().get("/unknown", headers=headers)
    assert answer.status_code == 500
    for word in (SECRET, "Traceback", "/home", "ValueError", ".py"):
        assert word not in answer.text
    record = caplog.records[-1] if "error" in caplog.text else None
    assert record is not None
    number = next(one for one in caplog.records if one.exc_info).args[0]  # type: ignore[index]
    assert str(number) in answer.text


def test_the_log_has_no_query_and_one_line_a_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "attlas.web")
    client().get("/missing%0aerror?text=secret", headers=PAGE)
    (line,) = [one.getMessage() for one in caplog.records if one.name == "attlas.web"]
    assert "secret" not in line
    assert "\n" not in line
    assert line.startswith("GET /missing\\nerror 404")


def test_a_socket_is_closed() -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client().websocket_connect("/"):
        pass


def test_a_stream_that_fails_ends_the_connection() -> None:
    access = access_for("127.0.0.1", PORT)
    app = FastAPI()

    @app.get("/stream")
    async def stream() -> Any:
        from fastapi.responses import StreamingResponse

        async def rows() -> AsyncIterator[bytes]:
            yield b"a,b\n"
            raise ValueError(SECRET)

        return StreamingResponse(rows())

    app.add_middleware(Guard, access=access)
    with pytest.raises(Exception, match="not finished"):
        TestClient(app, base_url=HOME).get("/stream")


@given(st.text())
def test_any_sentence_loses_its_paths(name: str) -> None:
    shown = without_paths(f"{name} /home/ann/secret/file.csv is gone")
    assert "/home/ann" not in shown or name.endswith(tuple("abc.:/_")) or name[-1:].isalnum()
    assert without_paths("/") == "/"
    assert without_paths("0.5/1 of a/b and 3 / 4") == "0.5/1 of a/b and 3 / 4"


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("'/tmp/a/b.csv' cannot be read", "'b.csv' cannot be read"),
        ("~/runs/x is gone", "x is gone"),
        (r"C:\Users\ann\x.csv is gone", "x.csv is gone"),
        ("(/a/b, /c/d)", "(b, d)"),
        ("see http://127.0.0.1:1/x/y", "see http://127.0.0.1:1/x/y"),
        ("runs/tour has none", "runs/tour has none"),
    ],
)
def test_paths(sentence: str, shown: str) -> None:
    assert without_paths(sentence) == shown
