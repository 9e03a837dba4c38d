"""What the heads of a model do: counts against loops, for models of every shape."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import attlas
from attlas import catalogue
from attlas.testing import tiny
from attlas.views.claims import Claim
from attlas.views.findings import findings, opening
from attlas.views.head_kinds import MUCH, HeadKinds, head_kinds
from attlas.views.report import render
from attlas.views.section import Section, shown
from tests.builders.pages import open_page

SECTIONS = catalogue.sections()
FIRST = ("the first token", "[CLS]")
MODELS: Mapping[str, Mapping[str, Any]] = {
    "bert": {},
    "gpt2": {},
    "longformer": {},
    "two heads": {"num_hidden_layers": 1, "num_attention_heads": 2},
    "many heads": {
        "num_hidden_layers": 10,
        "hidden_size": 36,
        "num_attention_heads": 18,
    },
}


def study_of(family: str, count: int = 31, **options: Any) -> attlas.Study:
    texts = [attlas.Text(str(n), "the dog saw a cat ." + " very" * (n % 7)) for n in range(count)]
    model = tiny(family, **options)
    return attlas.study(model, texts, "surface,entropy", workers=1, progress=False)


def kinds_of(study: attlas.Study) -> HeadKinds:
    found = head_kinds(study, shown(study, SECTIONS))
    assert found is not None
    return found


@pytest.mark.parametrize("name", MODELS)
def test_counts_are_those_of_a_loop_over_the_tables(name: str) -> None:
    family = name if name in ("bert", "gpt2", "longformer") else "bert"
    study = study_of(family, **MODELS[name])
    surface, entropy = (study.table(one).to_dict("records") for one in ("surface", "entropy"))
    kinds = kinds_of(study)
    assert kinds.heads == len(surface) == study.n_layers * study.n_heads
    assert ("first" in {one.kind.group for one in kinds.kinds}) == (family == "gpt2")
    for one in kinds.kinds:
        for least in MUCH.values():
            names = []
            for row, other in zip(surface, entropy, strict=True):
                if one.kind.is_breadth:
                    share = math.exp(min(0.0, other["entropy"] - other["entropy_uniform"]))
                    is_more = True
                else:
                    share = row[one.kind.group]
                    is_more = share > row[f"{one.kind.group}_uniform"]
                head = f"L{int(row['layer'])}H{int(row['head'])}"
                if share >= least and is_more and head in one.counted:
                    names.append(head)
            assert sorted(one.heads(least)) == sorted(names)
            low, high = one.between(least)
            assert low <= len(names) <= high
        ranked = list(one.shares.values())
        assert ranked == sorted(ranked, reverse=True)
    assert kinds.sentence.startswith(f"Of {kinds.heads:,} heads, ")


def claim(head: int, group: str, value: float, control: float, half: float = 0.01) -> Claim:
    gap = value - control
    ends = (value - half, value + half), (gap - half, gap + half)
    options = {"texts": 100, "group": group, "head": (0, head)}
    return Claim(f"L0H{head} does it", value, *ends[0], control, "uniform", *ends[1], **options)


def of_claims(claims: list[Claim]) -> HeadKinds:
    class Model:
        n_layers, n_heads = 1, 4

    section = SECTIONS["surface"]
    own = {"title": "Own", "question": "", "needs": (), "about": "", "figures": lambda study: []}
    both = (*section.kinds, *SECTIONS["entropy"].kinds)
    one = Section(
        **own, claims=lambda study: claims, smallest_effect=0.02, kinds=both, columns={"own": ()}
    )
    found = head_kinds(Model(), [("own", one)])  # type: ignore[arg-type]
    assert found is not None
    return found


def test_heads_that_are_uniform_do_nothing_and_are_broad() -> None:
    """Also where uniform attention itself gives a quarter, as in very short texts."""
    shares = [claim(head, "previous", 0.3, 0.3) for head in range(4)]
    broad = [claim(head, "entropy", 1.1, 1.1) for head in range(4)]
    kinds = of_claims([*shares, *broad])
    previous, breadth = kinds.kinds
    assert (previous.heads(0.25), previous.uniform(0.25), previous.uniform(0.5)) == ([], 4, 0)
    assert len(breadth.heads(0.5)) == breadth.uniform(0.5) == 4
    assert kinds.sentence == (
        "Of 4 heads, none gives a quarter of its attention to the previous token; "
        "4 have attention spread over at least half of the tokens."
    )


def test_counts_have_the_range_of_their_intervals() -> None:
    values = (0.9, 0.51, 0.49, 0.1)
    kinds = of_claims([claim(head, "cls", value, 0.05, 0.03) for head, value in enumerate(values)])
    (cls,) = kinds.kinds
    assert cls.heads(0.5) == ["L0H0", "L0H1"]
    assert cls.between(0.5) == (1, 3)
    assert kinds.sentence == "Of 4 heads, 3 give at least a quarter of their attention to [CLS]."
    assert not kinds.is_weak


def test_few_texts_are_weak() -> None:
    assert kinds_of(study_of("bert", 3)).is_weak


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_the_claim_about_most_heads_is_the_lower_median(family: str) -> None:
    study = study_of(family)
    claims = SECTIONS["surface"].claims(study)
    most = [one for one in claims if one.is_of_most]
    table = study.table("surface")
    name = "cls" if family == "bert" else "first"
    (first,) = [one for one in most if any(one.words.endswith(words) for words in FIRST)]
    ranked = sorted(table[name])
    assert first.value == ranked[(len(ranked) - 1) // 2]
    assert sum(value >= first.value for value in ranked) > len(ranked) / 2
    assert first.low <= first.value <= first.high
    assert first.fact == "first token"
    halves = sum(table[name] >= 0.5)
    assert first.further.startswith(f"{halves} of {len(ranked)} heads give it at least half")


def test_models_with_two_heads_have_no_most_heads() -> None:
    study = study_of("bert", **MODELS["two heads"])
    assert not any(one.is_of_most for one in SECTIONS["surface"].claims(study))
    assert "What the heads do" in render(study, SECTIONS)


def test_a_report_opens_with_each_fact_and_head_once() -> None:
    study = attlas.study(
        tiny("bert"),
        [attlas.Text(str(n), "the dog saw a cat ." + " very" * (n % 7)) for n in range(31)],
        "surface,entropy,templates",
        workers=1,
        progress=False,
    )
    found = opening(findings(study, SECTIONS))
    heads = [one.claim.head for one in found if one.claim.head is not None]
    facts = [one.claim.fact for one in found if one.claim.fact]
    assert len(found) > 1
    assert len({*heads}) == len(heads)
    assert len({*facts}) == len(facts)


def test_a_kind_lists_its_heads_and_colours_the_grid(tmp_path: Path, browser: Any) -> None:
    study = study_of("bert")
    path = study.report(tmp_path / "report.html")
    page, wrong = open_page(browser, path, viewport={"width": 1340, "height": 900})
    kinds = kinds_of(study)
    rows = page.locator(".attlas-kinds tbody tr:not(.heads)")
    assert rows.count() == len(kinds.kinds)
    for row, kind in zip(rows.all(), kinds.kinds, strict=True):
        counts = [len(kind.heads(least)) for least in MUCH.values()]
        assert row.locator("td.number").all_inner_texts() == [str(count) for count in counts]
        assert row.locator("svg line.value, svg line.low").count() == kinds.heads
        row.locator("th button").click()
        grid = page.locator("main > header .attlas-heads select")
        assert grid.input_value() == kind.column
        listed = page.locator(".attlas-kinds tr.heads:visible button[data-name]")
        assert listed.count() == (len(kind.heads(0.25)) or 3)
        name = listed.first.inner_text()
        listed.first.click()
        assert page.locator("main > header td[aria-selected=true]").get_attribute("data-head") == (
            name
        )
        assert listed.first.get_attribute("aria-pressed") == "true"
        listed.first.click()
        row.locator("th button").click()
    assert wrong == []
