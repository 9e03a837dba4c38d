"""Views of attention classifiers: every number with its control, and pages that stay small."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from attlas.cli.app import print_experiment
from attlas.dynamics.section import by_scale, cells as cell_names, tokens as token_charts
from attlas.dynamics.section.cells import model_title
from attlas.dynamics.section.findings import separation_note
from attlas.dynamics.summary import CELL, with_intervals
from attlas.studies.folder import Folder
from attlas.studies.opened import Study
from attlas.views import charts
from tests.builders.pages import (
    SECTIONS,
    Tags,
    draw_all,
    facts,
    findings,
    findings_of,
    n_pictures,
    open_page,
    redrawn,
    render,
    sections,
    write_charts,
)
from tests.builders.studies import write_result

HOSTILE = (
    "<script>alert(1)</script>",
    "\"quoted\" & 'single'",
    "שלום",
    "if",
    "</svg><img src=x onerror=alert(1)>",
    "{{ x }} ${y}",
    "今日は",
    "datum['x']",
)
PARTS = {
    "dynamics": ("dynamics", "dynamics_summary"),
    "dynamics_tokens": ("dynamics_tokens",),
    "dynamics_flow": ("dynamics_flow",),
    "dynamics_path": ("dynamics_path",),
}
GRID = (0.001, 1.0, 10.0, 20.0, 50.0, 100.0, 10_000.0)
TWO, THREE = ("negative", "positive"), ("<b>guns</b>", "if", "\"med\" & 'co'")


def frames(
    models: Sequence[tuple[str, str]] = (
        ("dot", "none"),
        ("dot", "affine"),
        ("dot", "lstm"),
        ("additive", "none"),
    ),
    scales: Sequence[float] = (0.001, 10.0, 10_000.0),
    seeds: int = 1,
    classes: Sequence[str] = TWO,
    tokens: Sequence[int] = (20, 14, 40),
    epochs: int = 5,
    published: bool = False,
) -> dict[str, pd.DataFrame]:
    """Made-up tables: separation fails at small scales, and classes part at large ones."""
    rng = np.random.default_rng(0)
    two = len(classes) == 2
    kinds = ["positive", "negative", "neutral"] if two else [*classes, "neutral"]
    sizes = list(tokens) if len(tokens) == len(kinds) else [tokens[0]] * len(classes) + [tokens[-1]]
    words = [
        f"{kind[:3]}{number}"
        for kind, size in zip(kinds, sizes, strict=True)
        for number in range(size)
    ]
    words[: len(HOSTILE)] = HOSTILE
    kind_of = np.repeat(kinds, sizes)
    side = (
        np.select([kind_of == kinds[0], kind_of == kinds[1]], [1.0, -1.0], 0.0)
        if two
        else (kind_of != "neutral") * 1.0
    )
    counts = rng.geometric(0.05, len(words)) + 5 * (kind_of != "neutral")
    found: dict[str, list[Any]] = {
        name: []
        for name in (
            "dynamics",
            "dynamics_tokens",
            "dynamics_path",
            "dynamics_kinds",
            "dynamics_flow",
        )
    }
    for number, (attention, encoder) in enumerate(models):
        for scale in scales:
            cell = {"attention": attention, "encoder": encoder, "scale": float(scale)}
            good = 1 / (1 + np.exp(-2 * (np.log10(scale) + 0.5)))
            apart = 0.25 * np.log10(max(scale, 1)) * (-1) ** number
            for seed in range(seeds):
                reached, separation = (
                    0.5 + 0.31 * good + rng.normal(0, 0.006),
                    0.5 + 0.42 * good - 0.05 * abs(apart) + rng.normal(0, 0.006),
                )
                row = {
                    **cell,
                    "seed": seed,
                    "accuracy": reached,
                    "accuracy_low": reached - 0.02,
                    "accuracy_high": reached + 0.02,
                    "dev_accuracy": reached - 0.01,
                    "majority": 0.501,
                    "epoch": epochs,
                }
                row |= {
                    "separation": separation,
                    "separation_low": separation - 0.03,
                    "separation_high": separation + 0.02,
                    "separation_untrained": 0.5 + rng.normal(0, 0.01),
                    "separation_count": 0.713,
                }
                row |= {
                    "separation_frequent": separation - 0.12,
                    "separation_frequent_low": separation - 0.17,
                    "separation_frequent_high": separation - 0.07,
                    "gap": apart + rng.normal(0, 0.05) if two else abs(apart),
                    "polarity_auc": 0.9 + 0.09 * good if two else np.nan,
                }
                found["dynamics"].append(
                    {
                        **row,
                        "vw": apart * 3,
                        "v_norm": 9.5,
                        "w_norm": 2.0,
                        "seconds": 3.0,
                        "texts": 1821,
                        **(
                            {"tokens_positive": sizes[0], "tokens_negative": sizes[1]}
                            if two
                            else {"tokens_polarity": sum(sizes[:-1])}
                        ),
                        "tokens_neutral": sizes[-1],
                    }
                )
            local = encoder in ("lstm", "model")
            polarity = side * 3 * good + rng.normal(0, 0.6, len(words))
            score = (np.abs(side) * 2 * good + side * apart + rng.normal(0, 0.5, len(words))) / max(
                1.0, scale / 20
            )
            found["dynamics_tokens"].append(
                pd.DataFrame(
                    {
                        **cell,
                        "token": words,
                        "kind": kind_of,
                        "count": counts,
                        "gamma": side * 0.7 if two else np.nan,
                        "share": 0.85,
                        "polarity": polarity,
                        "attention_score": score,
                        "polarity_local": polarity * 0.8 if local else np.nan,
                        "attention_local": score * 0.7 if local else np.nan,
                        "weight": np.where(
                            rng.random(len(words)) < 0.2,
                            np.nan,
                            rng.beta(1 + 2 * np.abs(side), 20, len(words)),
                        ),
                    }
                )
            )
            for epoch in range(epochs + 1):
                way = 1 - np.exp(-3 * epoch / epochs)
                found["dynamics_path"].append(
                    {
                        **cell,
                        "epoch": epoch,
                        "loss": 0.69 - 0.5 * way if epoch else np.nan,
                        "dev_accuracy": 0.5 + 0.3 * way * good,
                        "vw": 3 * apart * way,
                        "v_norm": 9.5 + way,
                        "w_norm": 0.6 + 1.4 * way,
                        "separation": 0.5 + 0.4 * way * good,
                        "gap": apart * way,
                    }
                )
                for kind in kinds:
                    sign = float(side[kind_of == kind].mean())
                    mean, high = 3 * sign * way * good, (2 * abs(sign) * good + sign * apart) * way
                    found["dynamics_kinds"].append(
                        {
                            **cell,
                            "epoch": epoch,
                            "kind": kind,
                            "tokens": int((kind_of == kind).sum()),
                            "polarity": mean,
                            "polarity_low": mean - 0.4,
                            "polarity_high": mean + 0.4,
                            "attention_score": high,
                            "attention_low": high - 0.3,
                            "attention_high": high + 0.3,
                        }
                    )
                    if local:
                        continue
                    layered = (
                        ["A_layer", "B_layer"] if encoder == "affine" else [],
                        ["D_layer", "E_layer"]
                        if encoder == "affine"
                        else ["F_layer"]
                        if attention == "additive"
                        else [],
                    )
                    for name, terms in (
                        ("polarity", ["A", "B", "C", *layered[0]]),
                        ("attention", ["D", "E", "F", *layered[1]]),
                    ):
                        parts = {
                            term: (sign if place != 1 or name == "polarity" else abs(sign))
                            * (1 - way + 0.05)
                            * 0.01
                            * (place + 1)
                            for place, term in enumerate(terms)
                        }
                        found["dynamics_flow"] += [
                            {
                                **cell,
                                "epoch": epoch,
                                "kind": kind,
                                "side": name,
                                "term": term,
                                "mean": mean,
                            }
                            for term, mean in {**parts, "sum": sum(parts.values())}.items()
                        ]
    out = {
        name: pd.concat(rows, ignore_index=True)
        if name == "dynamics_tokens"
        else pd.DataFrame(rows)
        for name, rows in found.items()
        if rows
    }
    return {**out, "dynamics_summary": summarised(out["dynamics"], published)}


def summarised(rows: pd.DataFrame, published: bool = False) -> pd.DataFrame:
    """A row for each classifier: means, spreads and ends over seeds."""
    out = []
    for cell, part in rows.groupby(list(CELL), sort=False):
        row: dict[str, Any] = {**dict(zip(CELL, cell, strict=True)), "seeds": len(part)}
        for name in ("accuracy", "separation", "gap"):
            row |= {
                name: part[name].mean(),
                f"{name}_sd": part[name].std(),
                f"{name}_low": part[name].min(),
                f"{name}_high": part[name].max(),
            }
        row |= {
            name: part[name].mean()
            for name in (
                "majority",
                "separation_untrained",
                "separation_count",
                "separation_frequent",
            )
        }
        out.append(row | ({"published": 0.822 if cell[2] != 1 else np.nan} if published else {}))
    return pd.DataFrame(out)


def study_of(folder: Path, tables: dict[str, pd.DataFrame], classes: Sequence[str] = TWO) -> Study:
    about = {
        "cells": [],
        "classes": list(classes),
        "positive": classes[1] if len(classes) == 2 else None,
        "texts": {"train": 6920, "dev": 872, "test": 1821},
    }
    manifest = {
        "model": {
            "name": "attention classifiers",
            "class": "AttentionClassifier",
            "n_layers": 1,
            "n_heads": 1,
            "max_length": 0,
            "state_sha256": None,
        },
        "corpus": {"name": "sst", "fingerprint": "0" * 20, "labels": {}},
        "counts": {
            "analysed": 1821,
            "read": 1821,
            "tokens": 35000,
            "truncated": 0,
            "tokens_cut": 0,
            "quarantined": 0,
        },
        "versions": {"torch": "2", "transformers": "5"},
        "dynamics": about,
        "seconds": 12.0,
    }
    place = Folder(folder, "dynamics")
    with place.claim({"source": "0" * 64}):
        return write_result(place, manifest, tables)


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return frames()


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, tables: dict[str, pd.DataFrame]) -> Study:
    return study_of(tmp_path_factory.mktemp("dynamics"), tables)


def specs(study: Study) -> dict[str, list[dict[str, Any]]]:
    """The charts of every section."""
    return {
        name: [figure.chart.to_dict() for figure in section.figures(study) if figure.chart]
        for name, section in sections(study)
    }


def chooses(spec: dict[str, Any]) -> list[str]:
    """What a reader may choose in a chart."""
    return [label for one in spec.get("params", []) for label in one["bind"]["labels"]]


# sections


def test_every_section_appears_with_its_tables_and_not_without(
    tmp_path: Path, study: Study, tables: dict[str, pd.DataFrame]
) -> None:
    assert [name for name, _ in sections(study)] == list(PARTS)
    assert all(SECTIONS[name].needs == needs for name, needs in PARTS.items())
    assert SECTIONS["dynamics"].question == "Does attention learn to mark polarity words?"
    assert [len(SECTIONS[name].figures(study)) for name in PARTS] == [4, 3, 1, 3]
    few = study_of(tmp_path / "few", {name: tables[name] for name in PARTS["dynamics"]})
    assert [name for name, _ in sections(few)] == ["dynamics"]
    assert "Gradient terms" not in render(few)
    bare = study_of(
        tmp_path / "bare",
        {
            name: table
            for name, table in tables.items()
            if name not in ("dynamics_flow", "dynamics_kinds")
        },
    )
    assert [name for name, _ in sections(bare)] == ["dynamics", "dynamics_tokens", "dynamics_path"]
    assert len(SECTIONS["dynamics_path"].figures(bare)) == 1
    empty = study_of(
        tmp_path / "empty",
        {**tables, **{name: tables[name][:0] for name in ("dynamics_tokens", "dynamics_flow")}},
    )
    assert (
        SECTIONS["dynamics_tokens"].figures(empty) == SECTIONS["dynamics_flow"].figures(empty) == []
    )
    assert render(empty)


def test_a_reader_chooses_only_where_there_is_a_choice(tmp_path: Path, study: Study) -> None:
    one = study_of(tmp_path / "one", frames(models=[("dot", "none")], scales=[10.0]))
    assert not any(chooses(spec) for part in specs(one).values() for spec in part)
    assert "dot, scale 10" in json.dumps(specs(one)["dynamics_tokens"][0])  # its title
    many = specs(study)
    first = ["dot, scale 10", "dot, scale 0.001", "dot, scale 10,000", "dot, affine, scale 10"]
    assert chooses(many["dynamics_tokens"][0]) == [
        *first,
        "dot, LSTM, scale 10, a word by itself",
        "dot, LSTM, scale 10, in context",
        "additive, scale 10",
    ]
    assert chooses(many["dynamics_flow"][0]) == [
        *first,
        "additive, scale 10",
    ]  # an LSTM has no terms
    assert chooses(many["dynamics_path"][0]) == ["dot", "dot, affine", "dot, LSTM", "additive"]
    assert not any(chooses(spec) for spec in many["dynamics"])


def test_classifiers_that_are_drawn_are_few() -> None:
    cells = pd.DataFrame(
        [
            {"attention": attention, "encoder": encoder, "scale": scale}
            for attention in ("dot", "additive")
            for encoder in ("none", "affine", "lstm", "vectors", "model")
            for scale in GRID
        ]
    )
    chosen = cell_names.chosen_cells(cells)
    assert list(chosen["cell"][:4]) == [
        "dot, scale 10",
        "dot, scale 0.001",
        "dot, scale 10,000",
        "dot, affine, scale 10",
    ]
    assert len(chosen) == cell_names.MOST_CELLS
    assert cell_names.chosen_cells(cells[cells["scale"] > 20]).loc[0, "scale"] == 50
    assert len(cell_names.chosen_cells(cells[:1])) == 1
    assert [model_title("dot", encoder) for encoder in ("none", "vectors", "model", "new")] == [
        "dot",
        "dot, given vectors",
        "dot, frozen model",
        "dot, new",
    ]


@pytest.mark.slow
def test_a_report_of_many_tokens_stays_small(tmp_path: Path) -> None:
    tables = frames(
        scales=GRID,
        tokens=(412, 265, 1384),
        epochs=300,
        models=[("dot", "none"), ("dot", "lstm"), ("additive", "none")],
    )
    grid = study_of(tmp_path / "grid", tables)
    sizes = {
        name: sum(len(json.dumps(spec)) for spec in part) for name, part in specs(grid).items()
    }
    assert sum(sizes.values()) < 2_000_000, sizes
    assert "all 2,061 tokens" in SECTIONS["dynamics_tokens"].figures(grid)[0].caption
    more = pd.concat(
        [
            tables["dynamics_tokens"][:2061].assign(token=lambda rows, n=n: rows["token"] + str(n))
            for n in range(3)
        ]
    )
    data = rows_of(token_charts.tokens(more).to_dict(), "token")
    assert token_charts.drawn_tokens(more) == "3,000 of 6,183 tokens at random"
    assert len(data) == token_charts.MOST_TOKENS
    assert [row["x"] for row in data] == list(range(3000))
    assert data == rows_of(token_charts.tokens(more).to_dict(), "token")


# charts


def rows_of(spec: dict[str, Any], column: str) -> list[dict[str, Any]]:
    """The rows of the first data set of a chart that has a column."""
    return next(rows for rows in spec["datasets"].values() if column in rows[0])


def test_points_stand_at_their_scale(tables: dict[str, pd.DataFrame]) -> None:
    summary, rows = tables["dynamics_summary"], tables["dynamics"]
    spec = by_scale.accuracy(summary, rows).to_dict()
    data = rows_of(spec, "accuracy")
    assert all(abs(np.log10(row["at"] / row["scale"])) < 0.15 for row in data)
    for row, own in zip(data, rows.to_dict("records"), strict=True):
        assert [row["accuracy"], row["low"], row["high"]] == pytest.approx(
            [own["accuracy"], own["accuracy_low"], own["accuracy_high"]], abs=1e-4
        )
    axis = next(
        layer["encoding"]["x"]
        for layer in spec["layer"]
        if "axis" in layer["encoding"].get("x", {})
    )
    assert axis["axis"]["values"] == [0.001, 10.0, 10_000.0]
    assert axis["scale"]["type"] == "log"
    alone = by_scale.accuracy(summary[:1], rows[:1]).to_dict()
    assert rows_of(alone, "accuracy")[0]["at"] == 0.001
    assert "published" not in json.dumps(spec)
    assert "diamond" in json.dumps(by_scale.accuracy(summary.assign(published=0.8), rows).to_dict())


def test_ends_are_an_interval_of_one_seed_or_the_range_of_several() -> None:
    for seeds in (1, 3):
        tables = frames(seeds=seeds, scales=[1.0, 10.0])
        rows, summary = tables["dynamics"], tables["dynamics_summary"]
        table = with_intervals(summary, rows, "separation_frequent")
        own = rows.groupby(list(CELL), sort=False)
        what = (
            ("separation_frequent_low", "separation_frequent_high")
            if seeds == 1
            else ("separation_frequent",) * 2
        )
        assert table["low"].tolist() == own[what[0]].min().tolist()
        assert table["high"].tolist() == own[what[1]].max().tolist()
        assert with_intervals(summary, rows, "gap")["low"].tolist() == own["gap"].min().tolist()
        assert len(table) == len(summary)


def test_frequency_alone_is_a_line_or_ticks(tables: dict[str, pd.DataFrame]) -> None:
    summary, rows = tables["dynamics_summary"], tables["dynamics"]
    assert "frequency/alone .71" in json.dumps(by_scale.separation(summary, rows).to_dict())
    other = summary.assign(separation_count=np.linspace(0.6, 0.7, len(summary)))
    spec = json.dumps(by_scale.separation(other, rows).to_dict())
    assert '"tick"' in spec
    assert "frequency/alone ." not in spec


def test_tokens_are_drawn_with_the_scores_of_their_classifier(
    tables: dict[str, pd.DataFrame],
) -> None:
    frame = tables["dynamics_tokens"]
    spec = token_charts.tokens(frame).to_dict()
    data = {row["token"]: row for row in rows_of(spec, "p0")}
    for place, name in enumerate(chooses(spec)):
        local = "_local" if name.endswith("in context") else ""
        cell = name.removesuffix(", in context").removesuffix(", a word by itself")
        model, _, scale = cell.rpartition(", scale ")
        own = frame[
            (frame["scale"] == float(scale.replace(",", "")))
            & np.array(
                [
                    model_title(*pair) == model
                    for pair in zip(frame["attention"], frame["encoder"], strict=True)
                ]
            )
        ]
        assert len(own) == len(data)
        for row in own.to_dict("records"):
            drawn = data[row["token"]]
            assert drawn["kind"] == row["kind"]
            assert drawn[f"p{place}"] == pytest.approx(row[f"polarity{local}"], rel=0.01)
            assert drawn[f"a{place}"] == pytest.approx(
                row[f"attention{local or '_score'}"], rel=0.01
            )
    assert cell_names.kinds_of(frame) == (
        ["positive", "negative", "neutral"],
        [charts.FOR, charts.AGAINST, charts.GREY],
    )
    names, colours = cell_names.kinds_of(pd.DataFrame({"kind": ["neutral", "b", "a", "positive"]}))
    assert names == ["a", "b", "positive", "neutral"]
    assert colours[-1] == charts.GREY
    assert len(set(colours)) == 4
    assert token_charts.weights(frame.assign(weight=np.nan)) is None


def test_lists_of_the_strongest_tokens() -> None:
    cell = {"attention": "dot", "encoder": "none", "scale": 10.0}
    rows = [
        ("good", "positive", 3.0, 1.0),
        ("fine", "positive", 4.0, 0.5),
        ("bad", "negative", -2.0, 2.0),
        ("poor", "negative", -5.0, 0.1),
        ("the", "neutral", -0.5, -1.0),
        ("of", "neutral", 0.25, -2.0),
    ]
    frame = pd.DataFrame(
        [
            {**cell, "token": token, "kind": kind, "polarity": polarity, "attention_score": score}
            for token, kind, polarity, score in rows
        ]
    )
    table = token_charts.tokens_table(frame)
    lines = [
        [re.sub("[\u2068\u2069]", "", cell).replace("\u00a0", " ") for cell in row]
        for row in (table.titles, *table.rows)
    ]
    assert lines[:3] == [
        [
            "positive: polarity",
            "negative: polarity",
            "neutral: polarity",
            "highest attention score",
            "lowest attention score",
        ],
        ["fine 4.00", "poor -5.00", "the -.50", "bad (negative) 2.00", "of (neutral) -2.00"],
        ["good 3.00", "bad -2.00", "of .25", "good (positive) 1.00", "the (neutral) -1.00"],
    ]
    assert lines[-1][:3] == ["", "", ""]


def test_the_table_of_classifiers_has_every_control() -> None:
    tables = frames(models=[("dot", "none")], scales=[10.0], seeds=2, published=True)
    rows, summary = tables["dynamics"], tables["dynamics_summary"]
    page = by_scale.summary_table(summary, rows).html().replace("\u00a0", " ")
    for title in (
        "published",
        "majority class",
        "before training",
        "frequency alone",
        "against frequent",
        "range over seeds",
        "seeds",
    ):
        assert f"<th scope=col>{title}</th>" in page
    row = summary.iloc[0]
    assert f"<td>{row['accuracy']:.3f} ± {row['accuracy_sd']:.3f}</td>".replace("0.", ".") in page
    assert (
        f"<td>{row['separation_low']:.3f} to {row['separation_high']:.3f}</td>".replace("0.", ".")
        in page
    )
    once = by_scale.summary_table(summarised(rows[:1]), rows[:1]).html()
    assert "±" not in once
    assert ">published</th>" not in once
    assert "<th scope=col>95% CI</th>" in once
    local = by_scale.summary_table(summary.assign(separation_local=0.625), rows).html()
    assert "<th scope=col>in context</th>" in local
    assert "<td>.625</td>" in local
    many = frames(scales=np.geomspace(0.01, 100, 12))
    table = by_scale.summary_table(many["dynamics_summary"], many["dynamics"])
    assert 'class="window' in table.html()


# sentences


def told_rows(**columns: Any) -> dict[str, pd.DataFrame]:
    """Two scales of dot attention with the numbers of a sum in the head."""
    base = frames(models=[("dot", "none")], scales=[10.0, 100.0])["dynamics"]
    rows = base.assign(
        accuracy=[0.82, 0.8],
        accuracy_low=[0.8, 0.78],
        accuracy_high=[0.84, 0.82],
        dev_accuracy=[0.79, 0.8],
        separation=[0.93, 0.55],
        separation_low=[0.9, 0.49],
        separation_high=[0.95, 0.6],
        separation_untrained=0.5,
        separation_frequent=[0.7, 0.5],
        separation_frequent_low=[0.6, 0.4],
        separation_frequent_high=[0.8, 0.6],
        gap=[0.1, -1.2],
        vw=[-0.2, -3.0],
        polarity_auc=[0.99, 0.97],
    )
    rows = rows.assign(**columns)
    return {"dynamics": rows, "dynamics_summary": summarised(rows, published=True)}


def test_what_is_found_comes_with_its_control(tmp_path: Path) -> None:
    study = study_of(tmp_path, told_rows())
    assert findings_of(study, "dynamics") == [
        "The attention scores of a small classifier separate words typical of one class from "
        "neutral ones (dot-product attention, scores divided by 10): AUC 0.93 [0.90, 0.95], "
        "frequency alone 0.71, before training 0.50 (n = 40).",
        "A small classifier (dot-product attention, scores divided by 10) predicts labels: "
        "accuracy 0.82 [0.80, 0.84], majority class 0.50, published 0.82 (n = 1,821). Above the "
        "control: all 2 classifiers.",
        "Of 2 classifiers, the 95% CI of the separation is above chance (0.50) in 1 (dot, scale "
        "10), above frequency alone (0.71) in 1 (dot, scale 10), and above chance against neutral "
        "tokens that meet the minimum frequency of polarity tokens in 1 (dot, scale 10).",
        "At the largest scale, 100, positive tokens have lower attention scores than negative "
        "ones, by 1.20 pooled standard deviations (dot), at scale 10 higher by 0.10; with plain "
        "dot attention, the gap has the sign of V·W in 1 of 2 classifiers.",
        "Polarity scores separate positive from negative tokens with AUC from 0.97 (dot, scale "
        "100) to 0.99 (dot, scale 10); chance is 0.50.",
    ]
    assert set(findings_of(study, "dynamics")) <= set(findings(study))
    assert (
        separation_note(study.table("dynamics")) in SECTIONS["dynamics"].figures(study)[1].caption
    )
    assert facts(study) == [
        ("model", "2 classifiers: dot; scale 10, 100; 1 seed"),
        ("corpus", "sst"),
        ("texts", "6,920 to train, 872 to choose the epoch, 1,821 to test"),
        ("classes", "negative, positive"),
        ("excluded", "no rows"),
        ("time", "12.0 s"),
    ]


def test_one_classifier_is_told_plainly(tmp_path: Path) -> None:
    tables = {name: table[:1] for name, table in told_rows().items()}
    assert findings_of(study_of(tmp_path, tables), "dynamics")[:4] == [
        "The attention scores of a small classifier separate words typical of one class from "
        "neutral ones (dot-product attention, scores divided by 10): AUC 0.93 [0.90, 0.95], "
        "frequency alone 0.71, before training 0.50 (n = 40).",
        "A small classifier (dot-product attention, scores divided by 10) predicts labels: "
        "accuracy 0.82 [0.80, 0.84], majority class 0.50, published 0.82 (n = 1,821).",
        "The 95% CI of the separation is above chance (0.50), above frequency alone (0.71), and "
        "above chance against neutral tokens that meet the minimum frequency of polarity tokens.",
        "At scale 10, positive tokens have higher attention scores than negative ones, by 0.10 "
        "pooled standard deviations (dot).",
    ]


def test_classifiers_that_fail_at_one_scale_are_named_together() -> None:
    rows = frames(scales=[0.001, 10.0])["dynamics"].assign(separation_frequent=np.nan)
    low = rows["scale"] < 1
    rows = rows.assign(
        separation_low=np.where(low, 0.4, 0.8), separation_count=np.where(low, 0.6, 0.7)
    )
    assert separation_note(rows) == (
        "Of 8 classifiers, the 95% CI of the separation is above chance (0.50) in 4 (all at scale "
        "10), above frequency alone (0.60 to 0.70) in 4 (all at scale 10)."
    )
    assert "(0.50) in all, above" in separation_note(rows.assign(separation_low=0.9))
    assert "(0.50) in none, above" in separation_note(rows.assign(separation_low=0.4))
    most = rows.assign(separation_low=[0.4] * 6 + [0.9] * 2)
    assert " in 2 (additive, scale 0.001; additive, scale 10), above" in separation_note(most)


def test_every_seed_is_a_comparison(tmp_path: Path) -> None:
    one = told_rows()["dynamics"]
    rows = pd.concat([one, one.assign(seed=1, accuracy=one["accuracy"] + 0.02)])
    study = study_of(tmp_path, {"dynamics": rows, "dynamics_summary": summarised(rows)})
    assert "Above the control: all 4 classifiers." in findings_of(study, "dynamics")[1]
    assert facts(study)[0] == ("model", "4 classifiers: dot; scale 10, 100; 2 seeds")
    assert "range over 2 seeds" in SECTIONS["dynamics"].figures(study)[0].caption


def test_without_neutral_tokens_nothing_is_separated(tmp_path: Path) -> None:
    nothing = dict.fromkeys(
        (
            "separation",
            "separation_low",
            "separation_high",
            "separation_untrained",
            "separation_count",
            "separation_frequent",
            "separation_frequent_low",
            "separation_frequent_high",
        ),
        np.nan,
    )
    tables = {**frames(models=[("dot", "none")]), **told_rows(**nothing)}
    tables["dynamics_path"] = tables["dynamics_path"].assign(separation=np.nan)
    study = study_of(tmp_path, tables)
    lines = findings_of(study, "dynamics")
    assert lines[1] == (
        "Separation cannot be computed: under this rule there are no neutral (or no polarity) "
        "tokens. You probably need more training texts."
    )
    assert len(lines) == 4
    assert [figure.name for figure in SECTIONS["dynamics"].figures(study)] == [
        "accuracy-by-scale",
        "gap-by-scale",
        "classifiers-in-numbers",
    ]
    assert "separation (AUC)" not in json.dumps(specs(study)["dynamics_path"])
    assert "<td>-</td>" in render(study)
    half = told_rows(
        separation_frequent=np.nan,
        separation_frequent_low=np.nan,
        separation=[0.9, np.nan],
        separation_low=[0.8, np.nan],
    )
    study = study_of(tmp_path / "half", half)
    assert findings_of(study, "dynamics")[2].startswith(
        "The 95% CI of the separation is above chance (0.50), above freq"
    )
    assert len(specs(study)["dynamics"][1]["hconcat"]) == 1


def test_more_classes_have_no_sign(tmp_path: Path) -> None:
    study = study_of(tmp_path, frames(classes=THREE), THREE)
    lines = findings_of(study, "dynamics")
    assert lines[3] == (
        "At the largest scale, 10,000, the mean attention scores of the classes' tokens differ by "
        "1.00 pooled standard deviations (dot), at scale 10 by 0.25."
    )
    assert len(lines) == 4
    assert dict(facts(study))["classes"] == ", ".join(THREE)
    assert "never below 0" in SECTIONS["dynamics"].figures(study)[2].caption
    named = study_of(tmp_path / "named", frames(models=[("dot", "none")]), ("ham", "<spam>"))
    assert dict(facts(named))["classes"] == "ham, <spam>; tokens of <spam> are called positive"
    assert (
        "positive tokens (those of <spam>) minus negative ones"
        in SECTIONS["dynamics"].figures(named)[2].caption
    )
    assert "<spam>" not in render(named)


def test_the_terminal_says_the_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    study = study_of(tmp_path, {**frames(models=[("dot", "none")]), **told_rows()})
    print_experiment(study, report=True, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "model",
        "scale",
        "accuracy",
        "paper",
        "majority",
        "AUC",
        "before",
        "count",
        "frequent",
        "gap",
    ]
    assert lines[1].split() == [
        "dot",
        "10",
        ".820",
        ".822",
        ".501",
        ".930",
        ".500",
        ".713",
        ".700",
        ".100",
    ]
    assert lines[2].split()[:3] == ["dot", "100", ".800"]
    marked = [
        line for line in lines if line.startswith(("Warning: ", "Signal: ", "Weak: ", "Note: "))
    ]
    for sentence in findings(study):
        assert any(sentence in line for line in marked), sentence
    assert lines[-2] == f"report    {tmp_path / 'report.html'}"
    assert lines[-1].startswith(f"next      attlas report {tmp_path} ")
    monkeypatch.setattr(type(study), "result", {"cells": 2})
    print_experiment(study, report=False, as_json=True)
    assert json.loads(capsys.readouterr().out)["cells"] == 2
    wide = study_of(tmp_path / "wide", frames(scales=GRID, published=True, seeds=2))
    print_experiment(wide, report=False, as_json=False)
    assert "…" not in capsys.readouterr().out


# pages


@pytest.mark.parametrize("classes", [TWO, THREE])
def test_hostile_strings_are_escaped_everywhere(tmp_path: Path, classes: tuple[str, ...]) -> None:
    study = study_of(
        tmp_path, frames(classes=classes, models=[("dot", "none")], tokens=(9, 9, 9)), classes
    )
    page = render(study)
    tags = Tags()
    tags.feed(page)
    assert "img" not in tags.tags
    assert tags.tags.count("script") == 5
    assert not any(name in page for name in (*HOSTILE, *classes) if "<" in name)
    html = "".join(
        figure.table.html()
        for part in PARTS
        for figure in SECTIONS[part].figures(study)
        if figure.table
    )
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "weights sha256" not in page
    assert "L2H7" not in page


@pytest.mark.parametrize("classes", [TWO, THREE])
def test_the_report_is_drawn_in_a_browser(
    tmp_path: Path,
    browser: Any,
    classes: tuple[str, ...],
) -> None:
    study = study_of(tmp_path, frames(classes=classes), classes)
    for scheme, width in (("light", 1280), ("dark", 420)):
        page, wrong = open_page(
            browser,
            study.report(tmp_path / "report.html"),
            color_scheme=scheme,
            viewport={"width": width, "height": 800},
        )
        draw_all(page)
        assert page.locator("section .chart svg.marks").count() == 8
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.locator(".vega-bind select").count() == 4
        drawn = page.locator("#dynamics_flow .chart svg.marks text")
        assert "dot, scale 10" in drawn.all_text_contents()
        assert not any("layer" in text for text in drawn.all_text_contents())
        menu = page.locator("#dynamics_flow select")
        choose = partial(menu.select_option, label="dot, affine, scale 10")
        redrawn(page, "#dynamics_flow svg.marks", choose)
        assert "dot, affine, scale 10" in drawn.all_text_contents()
        assert [text for text in drawn.all_text_contents() if "layer" in text] == [
            f"{term}: layer" for term in "ABDE"
        ]
        dots = page.locator("#dynamics_tokens .chart").first.locator(
            "svg .mark-symbol.role-mark path"
        )
        count = dots.count()
        where = dots.first.get_attribute("transform")
        menu = page.locator("#dynamics_tokens select")
        choose = partial(menu.select_option, label="dot, LSTM, scale 10, in context")
        redrawn(page, "#dynamics_tokens svg.marks", choose)
        assert dots.count() == count
        assert dots.first.get_attribute("transform") != where
        assert wrong == []
        page.context.close()


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"classes": THREE}, marks=pytest.mark.slow),
        {"models": [("dot", "none")], "scales": [10.0]},
        pytest.param({"models": [("dot", "lstm")], "seeds": 2}, marks=pytest.mark.slow),
    ],
)
def test_every_chart_is_exported(tmp_path: Path, tables: dict[str, Any]) -> None:
    study = study_of(tmp_path / "study", frames(**tables), tables.get("classes", TWO))
    paths = write_charts(study, tmp_path / "charts")
    assert len({*paths}) == len(paths) == n_pictures(study)
    assert all(path.read_bytes().startswith(b"<svg") for path in paths)
    assert not any("NaN" in path.read_text() for path in paths)
