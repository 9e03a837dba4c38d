"""Try a text, in a browser and over HTTP: all views of it, nothing stored or logged."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from urllib.request import urlopen

import numpy as np
import pytest

import attlas
from attlas.models.load import load
from attlas.testing import tiny
from attlas.web import looks
from attlas.web.looks import Looks
from tests.attacks.payloads import ALL, PAYLOADS
from tests.builders.served import Served, listening, opened, served, until_ready
from tests.builders.text_views import SENTENCE

TEXT = " ".join([SENTENCE] * 3)


@pytest.fixture
def one(tmp_path: Path) -> Served:
    return served([tmp_path], {"a": tiny("bert"), "b": tiny("gpt2")})


def first_model(one: Served) -> str:
    return next(iter(one.looks.models))


def test_a_text_is_read_and_answers_with_the_weights_of_the_model(one: Served) -> None:
    client = one.client()
    about = client.post("/api/looks", json={"model": first_model(one), "text": TEXT}).json()
    look = until_ready(client, about)
    views = client.get(f"/api/looks/{look}/views").json()
    assert views["about"]["tokens"] == len(attlas.attention(tiny("bert"), TEXT).tokens)
    assert [view["place"] for view in views["views"]] == ["text", "heads", "matrix"]
    row = client.get(f"/api/looks/{look}/rows/L2H1/5").content
    expected = attlas.attention(tiny("bert"), TEXT).weights[2, 1, 5].numpy()
    assert np.array_equal(np.frombuffer(row, dtype="<f4"), expected)
    assert client.get(f"/api/looks/{look}/codes/L2H1").json()["name"] == "L2H1"
    assert client.get(f"/api/looks/{look}/tops/3").json()["rows"] == [3]


@pytest.mark.parametrize(
    "path",
    [
        "/api/looks/0123",
        "/api/looks/..%2f..%2fetc%2fpasswd/views",
        "/api/looks/{look}/rows/L0H0/999999",
        "/api/looks/{look}/rows/L99H0/1",
        "/api/looks/{look}/rows/..%2fL0H0/1",
        "/api/looks/{look}/codes/passwd",
        "/api/looks/{look}/tops/100000",
        "/s/..%2f..%2fetc/try",
    ],
)
def test_what_does_not_exist_is_said_in_one_sentence(one: Served, path: str) -> None:
    client = one.client()
    about = client.post("/api/looks", json={"model": first_model(one), "text": TEXT}).json()
    answer = client.get(path.format(look=until_ready(client, about)))
    assert answer.status_code == 404
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        {"model": "gpt2", "text": "a"},
        {"model": "../../model", "text": "a"},
        {"model": None, "text": "a"},
        {"text": "a"},
        {"model": "x", "text": "a", "allow_pickle": True},
        {"model": "x", "text": ["a"]},
        [],
        "a",
    ],
)
def test_only_named_models(one: Served, body: Any) -> None:
    answer = one.client().post("/api/looks", json=body)
    assert answer.status_code in (404, 422)
    assert set(answer.json()) == {"error"}


def test_a_request_that_is_no_json(one: Served) -> None:
    answer = one.client().post("/api/looks", content=b"{" + b"\xff" * 10)
    assert answer.status_code in (400, 422)
    assert "Traceback" not in answer.text


def test_the_text_is_in_no_log_and_in_no_folder(
    one: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = one.client()
    secret = f"{TEXT} zebra"
    about = client.post("/api/looks", json={"model": first_model(one), "text": secret}).json()
    client.get(f"/api/looks/{until_ready(client, about)}/views")
    assert "zebra" not in caplog.text
    assert not list(tmp_path.iterdir())
    assert "zebra" not in str(about)


def test_texts_of_any_characters(one: Served) -> None:
    client = one.client()
    for text in (ALL, "\x00a", "\ud83d a", "a" * 3_000, "a\u202eb"):
        body = json.dumps({"model": first_model(one), "text": text})  # also half a character
        answer = client.post("/api/looks", content=body)
        assert answer.status_code in (200, 422), text
        if answer.status_code == 200:
            client.get(f"/api/looks/{until_ready(client, answer.json())}/views").json()


def test_the_model_of_a_study_is_known_by_its_weights(tmp_path: Path) -> None:
    tiny("bert").save(tmp_path / "model")
    looks = Looks([str(tmp_path / "model"), "b"], lambda *parts: "-".join(parts))
    first = next(iter(looks.models.values()))
    loaded = load(tmp_path / "model")
    of_file = {"model": {"file_sha256": loaded.file_sha256, "state_sha256": "x"}}
    assert looks.matching(of_file) == first.id
    assert looks.matching({"model": {"file_sha256": "y", "state_sha256": "x"}}) == ""
    assert looks.matching({"model": None}) == ""
    first.load(lambda *_: None)
    assert looks.matching({"model": {"state_sha256": loaded.weights_sha256()}}) == first.id


# in a browser


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    models = {"a": tiny("bert"), "b": tiny("gpt2")}
    with listening([tmp_path_factory.mktemp("none")], models) as one:
        yield one


def try_text(page: Any, text: str) -> None:
    page.get_by_label("Text").fill(text)
    page.get_by_role("button", name="Look").click()
    page.wait_for_selector(".attlas-look[data-drawn]")


def test_a_text_is_typed_and_answers(there: Served, browser: Any) -> None:
    page, wrong = opened(browser, there.link("/try"))
    try_text(page, TEXT)
    assert "cat" not in page.url
    page.locator("w", has_text="dog").first.click()
    assert "dog" in page.locator(".said").inner_text()
    page.locator("[role=gridcell]").nth(5).click()
    page.locator(".attlas-look .matrix").scroll_into_view_if_needed()  # drawn when it is near
    page.wait_for_selector(".attlas-matrix[data-ready]")
    page.locator(".attlas-matrix canvas.part").click(position={"x": 200, "y": 200})
    page.locator(".readout", has_text="exactly").wait_for()
    page.locator(".attlas-matrix canvas.part").press("+")
    page.wait_for_url("**region=**")
    shown = page.get_attribute(".attlas-matrix", "data-span")
    assert "cat" not in page.url
    assert wrong == []
    page.reload()  # the address knows the pass, and the part of the matrix
    page.wait_for_selector(".attlas-look[data-drawn]")
    page.locator(".attlas-look .matrix").scroll_into_view_if_needed()
    page.wait_for_selector(f".attlas-matrix[data-ready][data-span='{shown}']")
    page.context.close()


def test_a_pass_goes_on_when_its_page_is_left(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address knows the pass from its start on: loaded again, the page follows it."""
    may_end, read = threading.Event(), looks.look_at

    def slow(*arguments: Any) -> Any:
        assert may_end.wait(60)
        return read(*arguments)

    monkeypatch.setattr("attlas.web.looks.look_at", slow)
    with listening([tmp_path], {"a": tiny("bert")}) as one:
        page, wrong = opened(browser, one.link("/try"))
        page.get_by_label("Text").fill(TEXT)
        page.get_by_role("button", name="Look").click()
        page.wait_for_function("() => location.search.includes('look=')")
        page.reload(wait_until="commit")
        page.locator(".pass progress").wait_for()
        may_end.set()
        page.wait_for_selector(".attlas-look[data-drawn]")
        assert wrong == []
        page.context.close()


@pytest.mark.slow
def test_look_opens_the_workbench(tmp_path: Path) -> None:
    """`attlas look TEXT --open`: the page of the text, which is in no address."""
    tiny("bert").save(tmp_path / "model")
    command = [sys.executable, "-m", "attlas", "look", TEXT, "--model", "model", "--open"]
    environment = {**os.environ, "BROWSER": "true", "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            address = next(line for line in process.stdout if line.startswith("serving")).split()[1]
            home, _, look = address.partition("/try?")
            look = parse_qs(look)["look"][0]
            assert "cat" not in address
            about = {"state": "waiting"}
            while about["state"] in ("waiting", "running"):
                with urlopen(f"{home}/api/looks/{look}", timeout=60) as answer:
                    about = json.load(answer)
            assert about["state"] == "ready"
            with urlopen(f"{home}/api/looks/{look}/views", timeout=60) as answer:
                assert json.load(answer)["about"]["model"] == "model"
        finally:
            process.terminate()


def test_rows_of_a_head_arrive_when_it_is_chosen(
    there: Served, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attlas.web.looks.INLINE_BYTES", 0)
    page, wrong = opened(browser, there.link("/try"))
    try_text(page, f"{TEXT} again")
    page.locator("w", has_text="dog").first.click()
    with page.expect_response(lambda answer: "/words/L1H1/" in answer.url):
        page.locator("select[data-choose=head]").first.select_option("L1H1")
    seen = attlas.attention(tiny("bert"), f"{TEXT} again")
    largest = f"{seen.to_words()[1, 1, seen.words.index('dog')].max():.2f}"
    first = page.locator(".side .lists").first.locator("tbody tr").first.locator("td").nth(2)
    first.filter(has_text=largest).wait_for()  # those of all heads are shown until they arrive
    assert wrong == []
    page.context.close()


def test_lines_of_several_heads_are_open_at_first_sight(
    there: Served, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the rows of heads follow; the parts of the matrix are next to each other."""
    monkeypatch.setattr("attlas.web.looks.INLINE_BYTES", 0)
    page, wrong = opened(browser, there.link("/try"))
    try_text(page, f"{TEXT} at first")
    page.locator(".lines").scroll_into_view_if_needed()  # asked for when they are seen
    page.wait_for_function("() => !document.querySelector('.lines').innerText.includes('reading')")
    drawn = [one.locator("path").count() for one in page.locator(".lines svg").all()]
    assert len(drawn) == 4
    assert min(drawn) > 0
    page.locator(".attlas-look .matrix").scroll_into_view_if_needed()
    page.wait_for_selector(".attlas-matrix[data-ready]")
    whole, part = (
        page.locator(f".attlas-matrix canvas.{name}").bounding_box() for name in ("whole", "part")
    )
    assert whole["x"] + whole["width"] < part["x"]
    window = page.locator(".attlas-matrix .window").bounding_box()
    assert window["width"] <= whole["width"] + 4
    assert wrong == []
    page.context.close()


def test_several_words_of_a_long_text(browser: Any, tmp_path: Path) -> None:
    """4,096 tokens: numbers of a head arrive for the words that are chosen, and are summed."""
    model = tiny("longformer", max_position_embeddings=4_100)
    model.tokenizer.model_max_length = 4_096
    loaded = attlas.load((model.network, model.tokenizer))
    text = " ".join(f"cat{number % 10}" for number in range(2_500))
    with listening([tmp_path], {"long": loaded}) as one:
        page, wrong = opened(browser, one.link("/try"))
        try_text(page, text)
        assert "4,096 tokens" in page.locator(".attlas-look .about").inner_text()
        page.select_option("[data-choose=head]", "L1H2")
        words = (20, 1_900)
        for word in words:
            page.locator("w").nth(word).click(modifiers=["Shift"])
        page.locator(".side .chip").nth(1).wait_for()
        page.locator(".side .lists tbody tr").first.wait_for()
        (look,) = one.looks.kept._looks.values()
        each = [np.frombuffer(look.word("L1H2", word), "<f4").reshape(2, -1)[0] for word in words]
        order = np.argsort(-np.mean(each, axis=0), kind="stable")
        cells = page.locator(".side .lists").first.locator("tbody tr").first.locator("td, th")
        first = cells.all_inner_texts()
        assert first[1] == str(order[0] + 1)
        assert float(first[3]) == pytest.approx(np.mean(each, axis=0).max(), abs=0.006)
        assert wrong == []
        page.context.close()


def test_no_script_of_a_text_runs(there: Served, browser: Any) -> None:
    page, wrong = opened(browser, there.link("/try"))
    for text in (ALL, *PAYLOADS[:3]):
        try_text(page, text)
        page.locator("w").nth(3).click()
        page.wait_for_timeout(50)
        page.evaluate("document.querySelector('.attlas-look').remove()")
    assert page.evaluate("window.__hacked") is None
    assert wrong == []
    page.context.close()


def test_keyboard_only(there: Served, browser: Any) -> None:
    page, wrong = opened(browser, there.link("/try"))
    page.get_by_label("Text").focus()
    page.keyboard.type("a cat saw the dog")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".attlas-look[data-drawn]")
    page.locator("w[tabindex]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator("w[aria-selected=true]").count() == 1
    assert wrong == []
    page.context.close()


@pytest.mark.parametrize("path", ["/try", "/"])
def test_a_phone_does_not_scroll_sideways(there: Served, browser: Any, path: str) -> None:
    page, _ = opened(browser, there.link(path), viewport={"width": 390, "height": 800})
    if path == "/try":
        try_text(page, TEXT)
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0
    page.context.close()


def test_an_error_is_a_sentence_on_the_page(there: Served, browser: Any) -> None:
    page, _ = opened(browser, there.link("/try"))
    page.get_by_label("Text").fill("a" * 200_001)
    page.get_by_role("button", name="Look").click()
    page.wait_for_selector("[role=alert]")
    assert "200,000 characters" in page.locator("[role=alert]").inner_text()
    page.context.close()
