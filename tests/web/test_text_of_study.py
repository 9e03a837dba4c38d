"""A text of a study with its model: rows of the model, and the attribution that the study has."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import attlas
from attlas.studies.folder import PARTS
from attlas.testing import tiny
from tests.builders.served import Served, listening, opened, served, until_ready

TEXTS = [
    attlas.Text("one", "a good film , not bad .", label="good"),
    attlas.Text("<b>two & more", "the dog saw a cat in the film .", label="bad"),
]
NAMES = {"id2label": {0: "good", 1: "bad"}, "label2id": {"good": 0, "bad": 1}}


@cache
def classifier() -> attlas.Model:
    return tiny("bert", "classify", **NAMES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with explanations of its first text."""
    folder = tmp_path_factory.mktemp("studies") / "mine"
    quiet: dict[str, Any] = {"workers": 1, "progress": False}
    attlas.study(classifier(), TEXTS, "totals,surface", folder, **quiet)
    explain = attlas.Explain(
        data=TEXTS, model=classifier(), methods=("saliency", "rollout"), faithfulness="none"
    )
    attlas.run(explain, folder / PARTS / "explain", **quiet)
    return folder


def known(folder: Path) -> Served:
    """A server that has loaded the study's model."""
    one = served([folder], {"mine": classifier(), "other": tiny("gpt2")})
    next(iter(one.looks.models.values())).load(lambda *_: None)
    return one


def test_the_attribution_of_the_study_goes_with_the_attention_of_its_model(folder: Path) -> None:
    one = known(folder)
    client = one.client()
    mine, other = one.looks.models
    study = client.get("/api/studies").json()[0]["id"]
    views = {}
    for model in (mine, other):
        body = {"model": model, "text": "one"}
        look = until_ready(client, client.post(f"/api/studies/{study}/looks", json=body).json())
        views[model] = client.get(f"/api/looks/{look}/views?study={study}").json()["views"][0][
            "data"
        ]
    assert views[mine]["methods"] == ["saliency", "rollout"]
    assert "methods" not in views[other]  # other tokens
    assert views[mine]["id"] == "one"


@pytest.mark.parametrize("text", ["", "three", "../one", "one\x00", "' OR 1"])
def test_only_texts_of_the_study(folder: Path, text: str) -> None:
    one = known(folder)
    client = one.client()
    study = client.get("/api/studies").json()[0]["id"]
    body = {"model": next(iter(one.looks.models)), "text": text}
    answer = client.post(f"/api/studies/{study}/looks", json=body)
    assert (answer.status_code, set(answer.json())) == (404, {"error"})
    assert client.post("/api/studies/0123/looks", json=body).status_code == 404


def test_the_page_names_the_model_if_it_was_named_at_the_start(folder: Path) -> None:
    one = known(folder)
    client = one.client()
    study = client.get("/api/studies").json()[0]["id"]
    page = client.get(f"/s/{study}/text?id=one").text
    assert f'"own": "{next(iter(one.looks.models))}"' in page
    others = served([folder], {"other": tiny("gpt2")}).client()
    assert '"own": ""' in others.get(f"/s/{study}/text?id=one").text


@pytest.mark.parametrize("text", TEXTS, ids=lambda one: one.id[:3])
def test_a_text_in_a_browser(folder: Path, text: attlas.Text, browser: Any) -> None:
    with listening([folder], {"mine": classifier()}) as one:
        next(iter(one.looks.models.values())).load(lambda *_: None)
        study = one.client().get("/api/studies").json()[0]["id"]
        page, wrong = opened(browser, f"{one.address}/s/{study}/text?id={quote(text.id)}")
        page.wait_for_selector(".attlas-look[data-drawn]")
        page.locator(".attlas-look button[data-tint=score]").click()
        page.locator(".attlas-look w", has_text="film").click()
        assert "saliency" in page.locator(".attlas-look .said").inner_text()
        words, lists = (
            page.locator(f".attlas-look {one}").bounding_box() for one in (".text-main", ".side")
        )
        assert lists["x"] == words["x"]  # a short text has its lists below it
        assert page.locator("[data-part='Attention received']").is_hidden()
        assert wrong == []
        page.context.close()


def test_another_model_is_chosen_by_hand(folder: Path, browser: Any) -> None:
    with listening([folder], {"other": tiny("gpt2")}) as one:
        study = one.client().get("/api/studies").json()[0]["id"]
        page, wrong = opened(browser, f"{one.address}/s/{study}/text?id=one")
        assert page.locator("[data-part='Attention received']").is_visible()
        page.get_by_role("button", name="Read with this model").click()
        page.wait_for_selector(".attlas-look[data-drawn]")
        assert wrong == []
        page.context.close()
