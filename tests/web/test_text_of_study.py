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
from tests.builders.served import Served, listening, opened, served, shown, until_ready

TEXTS = [
    attlas.Text("one", "a good film , not bad .", label="good"),
    attlas.Text("<b>two & more", "the dog saw a cat in the film .", label="bad"),
]
MOVED = [
    attlas.Text("first", "a text that only this study has ."),
    *(attlas.Text(f"x{one.id}", one.text, label=one.label) for one in TEXTS[:1]),
]  # at another place, with another id
NAMES = {"id2label": {0: "good", 1: "bad"}, "label2id": {"good": 0, "bad": 1}}


def explain(texts: list[attlas.Text], folder: Path) -> None:
    """Explain predictions of texts, as a part of a study."""
    how: dict[str, Any] = {"methods": ("saliency", "rollout"), "faithfulness": "none"}
    experiment = attlas.Explain(data=texts, model=classifier(), **how)
    attlas.run(experiment, folder / PARTS / "explain", workers=1, progress=False)


@cache
def classifier() -> attlas.Model:
    return tiny("bert", "classify", **NAMES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with explanations of its first text."""
    folder = tmp_path_factory.mktemp("studies") / "mine"
    quiet: dict[str, Any] = {"workers": 1, "progress": False}
    attlas.study(classifier(), TEXTS, "totals,surface", folder, **quiet)
    explain(TEXTS, folder)
    return folder


def test_predictions_of_some_of_the_texts_by_another_model(tmp_path: Path) -> None:
    attlas.study(tiny("bert"), TEXTS, "surface", tmp_path / "mine", workers=1, progress=False)
    explain(TEXTS[:1], tmp_path / "mine")
    client = served([tmp_path], {}).client()
    study = client.get("/api/studies").json()[0]["id"]
    page = client.get(f"/s/{study}/texts?right=wrong").text
    assert "predicted by " in page
    rows = client.get(f"/api/studies/{study}/texts").json()["texts"]
    assert [bool(row["predicted"]) for row in rows] == [True, False]
    assert "predicted <b>" in client.get(f"/s/{study}/text?id=one").text


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
        page, wrong = opened(browser, one.link(f"/s/{study}/text?id={quote(text.id)}"))
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
        page, wrong = opened(browser, one.link(f"/s/{study}/text?id=one"))
        assert page.locator("[data-part='Attention received']").is_visible()
        page.get_by_role("button", name="Read with this model").click()
        page.wait_for_selector(".attlas-look[data-drawn]")
        assert wrong == []
        page.context.close()


@pytest.fixture(scope="module")
def both(folder: Path) -> Path:
    """Its folder, with studies of the moved texts: with the same tokens, and with others."""
    quiet: dict[str, Any] = {"workers": 1, "progress": False}
    attlas.study(tiny("bert", seed=1), MOVED, "totals", folder.parent / "after", **quiet)
    attlas.study(tiny("gpt2"), MOVED, "totals", folder.parent / "causal", **quiet)
    return folder.parent


def test_the_same_text_in_two_studies(both: Path, browser: Any) -> None:
    """Texts are the same by content; a word that is chosen in one is chosen in the other."""
    with listening([both], {}) as one:
        ids = {row["name"]: row["id"] for row in one.client().get("/api/studies").json()}
        page, wrong = opened(browser, one.link(f"/s/{ids['mine']}/text?id=one"))
        page.select_option("select[data-query=with]", ids["after"])
        page.wait_for_url(f"**with={ids['after']}**")
        texts = shown(page).locator(".pair .attlas-text")
        assert texts.count() == 2
        assert texts.nth(0).locator("w").all_inner_texts() == (
            texts.nth(1).locator("w").all_inner_texts()
        )
        tints = [
            [word.get_attribute("style") for word in text.locator("w").all()]
            for text in texts.all()
        ]
        assert tints[0] != tints[1]
        texts.nth(0).locator("w", has_text="film").click()
        assert texts.nth(1).locator("w[aria-selected=true]").all_inner_texts() == ["film"]
        page.goto(f"{one.address}/s/{ids['mine']}/text?id=one&with={ids['causal']}")
        assert shown(page).locator(".pair .attlas-text").count() == 2
        page.goto(f"{one.address}/s/{ids['after']}/text?id=first&with={ids['mine']}")
        assert "has no text with these words" in shown(page).inner_text(".pair")
        assert wrong == []
        page.context.close()
        client = one.client()
        assert client.get(f"/s/{ids['mine']}/text?id=one&with=0123").status_code == 404
        assert client.get(f"/s/{ids['mine']}/text?id=one&with={ids['mine']}").status_code == 404
