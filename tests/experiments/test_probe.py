"""Probes as estimators, experiments, folders and commands."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import attlas
from attlas import Model, Study, Text
from attlas.core.annotations import (
    DEPENDENCIES,
    ROOT,
)
from attlas.coreference import CoreferenceHeads
from attlas.coreference.antecedents import AntecedentCounts
from attlas.coreference.section import WHO
from attlas.corpora import split
from attlas.models.vectors import ModelVectors
from attlas.studies.folder import RESULT, Folder
from attlas.studies.shard_job import ShardJob
from attlas.support.errors import AttlasError, CorpusError, MeasureError, StudyError
from attlas.support.fingerprint import fingerprint
from attlas.syntax import SyntaxHeads
from attlas.syntax.arcs import DIRECTIONS, ArcCounts
from attlas.testing import tiny
from attlas.tree import TreeProbe
from attlas.tree.section import PROBES as PROBE_NAMES
from attlas.tree.work import PROBES
from attlas.views.findings import findings as study_findings, warnings
from tests.builders.pages import SECTIONS, findings
from tests.builders.probes import (
    PLAIN,
    PROBED,
    as_conllu,
    chained,
    document,
    plain,
    probe,
    refuse,
    rigged,
    sentence,
    stories,
    treebank,
)
from tests.builders.processes import CommandOutput, Start, kill_when
from tests.builders.studies import table_bytes, write_result
from tests.twins.stats import paired_slowly

# estimators as scikit-learn has them, and what they refuse


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        (SyntaxHeads, {"convention": "published", "min_cases": 3}),
        (CoreferenceHeads, {"tokens": 64}),
        (TreeProbe, {"features": "attention", "epochs": 2}),
    ],
)
def test_probes_are_estimators(kind: Any, own: dict[str, Any], tmp_path: Path) -> None:
    model = tiny("bert", num_hidden_layers=1)
    given = {**own, "cache": tmp_path / "cache", "workers": 1, "progress": False}
    probe = kind(model, **given)
    assert {name: probe.get_params()[name] for name in given} == given
    fitted = probe.fit(treebank(8) if kind is not CoreferenceHeads else stories(8))
    assert fitted is probe
    copied = clone(probe)
    assert {name: copied.get_params()[name] for name in given} == given
    assert not [name for name in vars(copied) if name.endswith("_")]
    assert copied.set_params(workers=2).workers == 2


def test_sentences_without_a_tree_are_named() -> None:
    heads = SyntaxHeads(rigged(), min_cases=1, progress=False)
    with pytest.raises(
        CorpusError, match=r"text 'bare' .*has no dependency tree .*; give a CoNLL-U file"
    ):
        heads.fit([chained(0, 1), Text("bare", "a cat sat"), Text("another", "a dog")])
    with pytest.raises(CorpusError, match=r"text '0' .*has no dependency tree"):
        heads.fit(["a cat sat"])
    tree = chained(0, 1).annotations
    with pytest.raises(CorpusError, match="'wordless'"):
        heads.fit([Text("wordless", "the a dog sat saw on", annotations=tree)])


def test_a_tree_that_does_not_fit_its_words_is_named() -> None:
    with pytest.raises(CorpusError, match="'short'"):
        SyntaxHeads(rigged(), min_cases=1, progress=False).fit(
            [sentence("short", PLAIN[:6], [ROOT, 0], ["root", "det"])]
        )


def test_scoring_before_choosing_is_refused() -> None:
    with pytest.raises(MeasureError, match="must be chosen before they are scored; call fit"):
        SyntaxHeads(rigged(), progress=False).evaluate([chained(0, 1)])
    with pytest.raises(MeasureError, match="must be chosen before they are scored; call fit"):
        CoreferenceHeads(rigged(), progress=False).evaluate(stories(2))
    with pytest.raises(MeasureError, match="convention is 'mine'; it must be sound or published"):
        SyntaxHeads(rigged(), convention="mine", progress=False).fit([chained(0, 1)])


def test_a_cache_holds_the_same_sentences_under_other_names(tmp_path: Path) -> None:
    """The name of a sentence is no part of what is counted."""
    fit = partial(SyntaxHeads(rigged(), min_cases=1, cache=tmp_path, progress=False).fit)
    first = fit([chained(n, 1) for n in range(3)]).chosen_
    again = fit(
        [
            Text(f"other {n}", words=one.words, annotations=one.annotations)
            for n, one in enumerate(chained(n, 1) for n in range(3))
        ]
    ).chosen_
    pd.testing.assert_frame_equal(first, again)


def test_texts_have_one_fingerprint_for_one_content() -> None:
    one, other = treebank(3), treebank(3)
    assert fingerprint(one) == fingerprint(other)
    other[1] = sentence(
        other[1].id,
        other[1].words or (),
        [0] * len(other[1].words or ()),
        ["x"] * len(other[1].words or ()),
    )
    assert len(set(map(fingerprint, (one, other, one[::-1], one[:2], stories(3))))) == 5


# pipelines


TEXTS: dict[str, Callable[..., list[Text]]] = {
    "syntax": treebank,
    "tree": treebank,
    "coreference": stories,
}


KINDS_OF_PROBE = pytest.mark.parametrize("kind", PROBED)


def probed(kind: str, out: Path, model: Model | None = None, **options: Any) -> Study:
    texts = TEXTS[kind]
    return probe(kind, model or rigged(), texts(30, 1), texts(25, 2), out, **options)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Study]:
    """Every probe once, of one model."""
    folder = tmp_path_factory.mktemp("probes")
    return {kind: probed(kind, folder / kind) for kind in PROBED}


@KINDS_OF_PROBE
def test_results_are_plain_and_the_same_from_memory_and_from_disk(
    kind: str, done: dict[str, Study]
) -> None:
    result, folder = done[kind].result, done[kind].folder
    plain(result)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert json.loads((folder / RESULT).read_text()) == result
    assert result["texts"] == {
        "train": 30,
        "test": 25,
        "in_both": 0 if kind != "coreference" else result["texts"]["in_both"],
    }
    manifest = done[kind].manifest
    assert manifest["status"] == "complete"
    assert manifest["counts"]["read"] == manifest["counts"]["analysed"] == 25
    assert {path.stem for path in (folder / "tables").iterdir()} == set(manifest["tables"])


def test_the_result_of_syntax(done: dict[str, Study]) -> None:
    result, study = done["syntax"].result, done["syntax"]
    assert study.tables == [
        "syntax",
        "syntax_published",
        "syntax_heads",
        "syntax_offsets",
        "example_words",
        "example_arcs",
    ]
    assert set(result) >= {"relations", "overall", "words", "counts", "texts"}
    names = [row["relation"] for row in result["relations"]]
    assert set(names) == {"obj", "det", "nmod:of"}  # `all` stands in `overall`
    for row in result["relations"]:
        assert set(row) >= {
            "relation",
            "direction",
            "layer",
            "head",
            "accuracy",
            "baseline",
            "offset",
            "n",
        }
        assert all(type(row[name]) is int for name in ("layer", "head", "offset", "n", "texts"))
        assert row["direction"] in DIRECTIONS
    heads = SyntaxHeads(rigged(), min_cases=5, progress=False).fit(treebank(30, 1))
    table = heads.evaluate(treebank(25, 2))
    assert result["overall"] == table.set_index("relation").loc["all", "accuracy"]
    pd.testing.assert_frame_equal(study.table("syntax")[table.columns], table)
    assert (
        len(study.table("syntax_heads")) == 4 * 8
    )  # relations and all; two directions, four heads
    assert result["words"]["words"] == table.set_index("relation").loc["all", "n"]


def test_the_control_of_syntax_is_the_best_head_of_random_weights(done: dict[str, Study]) -> None:
    control = SyntaxHeads(rigged().randomized(0), min_cases=5, progress=False).fit(treebank(30, 1))
    expected = control.evaluate(treebank(25, 2)).set_index("relation")
    table = done["syntax"].table("syntax").set_index("relation")
    for name in table.index:
        assert table.loc[name, "random_accuracy"] == expected.loc[name, "accuracy"]
    assert table.loc["obj", "random_accuracy"] < 0.8 < table.loc["obj", "accuracy"]
    assert done["syntax"].result["overall_random"] == expected.loc["all", "accuracy"]
    published = SyntaxHeads(rigged(), convention="published", min_cases=5, progress=False).evaluate(
        treebank(25, 2)
    )
    pd.testing.assert_frame_equal(done["syntax"].table("syntax_published"), published)


def test_the_result_of_tree(done: dict[str, Study]) -> None:
    result, study = done["tree"].result, done["tree"]
    assert study.tables == ["tree", "tree_differences"]
    assert {
        "attention",
        "attention_words",
        "right_branching",
        "distance_words",
        "random_attention_words",
    } <= set(result["uas"])
    assert list(result["uas"]) == list(PROBES) == study.table("tree")["probe"].tolist()
    train, test = treebank(30, 1), treebank(25, 2)
    for name in ("attention", "right_branching", "random_attention_words"):
        model = rigged()
        probe = TreeProbe(
            model.randomized(0) if name.startswith("random") else model,
            name.removeprefix("random_"),
            vectors=ModelVectors(model),
            progress=False,
        )
        scores = probe.fit(train).evaluate(test)
        assert result["uas"][name] == scores.uas
        assert result["tree_uas"][name] == scores.tree_uas
    right = sum(
        head == place + 1 or (head == ROOT and place + 1 == len(one.words or ()))
        for one in test
        for place, head in enumerate(one.annotations[DEPENDENCIES].heads)
    )
    assert result["uas"]["right_branching"] == pytest.approx(right / result["words"]["scored"])
    assert result["uas"]["attention"] > result["uas"]["random_attention"]
    for row in study.table("tree").to_dict("records"):
        assert row["low"] <= row["uas"] <= row["high"]
        assert row["difference"] == pytest.approx(row["uas"] - result["uas"]["right_branching"])
        assert row["words"] == result["words"]["scored"]


def test_the_result_of_coreference(done: dict[str, Study]) -> None:
    result, study = done["coreference"].result, done["coreference"]
    assert study.tables == ["coreference", "coreference_differences", "coreference_heads"]
    assert len(result["heads"]) == 4
    for row in result["heads"]:
        assert set(row) >= {"layer", "head", "all", "pronoun", "proper", "common"}
        assert all(type(row[name]) is int for name in ("layer", "head"))
    assert set(result["baselines"]) == {"nearest", "head_match", "rules"}
    table = study.table("coreference").set_index(["who", "kind"])
    assert {name: table.loc[(name, "all"), "accuracy"] for name in result["baselines"]} == result[
        "baselines"
    ]
    assert result["baselines"]["head_match"] == pytest.approx(
        2 / 4
    )  # the second Anna and the second dog
    heads = CoreferenceHeads(rigged(), progress=False).fit(stories(30, 1))
    expected = heads.evaluate(stories(25, 2)).set_index(["who", "kind"])
    for key in expected.index:
        assert table.loc[key, "accuracy"] == expected.loc[key, "accuracy"]
    control = CoreferenceHeads(rigged().randomized(0), progress=False).fit(stories(30, 1))
    assert table.loc[("random", "all"), "accuracy"] == control.score(stories(25, 2))
    first = result["best"][0]
    mine = result["heads"][first["layer"] * 4 + first["head"]]
    assert first["accuracy"] == mine["all"]
    assert result["windows"] == {
        "tokens": 128,
        "documents": 25,
        "mentions": 150,
        "across": 0,
        "scored": 100,
        "out_of_reach": 0,
    }


def test_differences_of_trees_are_paired_by_text(done: dict[str, Study]) -> None:
    table = done["tree"].table("tree").set_index("probe")
    apart = done["tree"].table("tree_differences").set_index(["probe", "control"])
    model, train, test = rigged(), treebank(30, 1), treebank(25, 2)

    def hits(name: str) -> Any:
        of = model.randomized(0) if name.startswith("random") else model
        features = name.removeprefix("random_")
        probe = TreeProbe(of, features, vectors=ModelVectors(model), progress=False)
        return probe.fit(train).evaluate(test)

    own, rivals = hits("attention"), ("right_branching", "previous_word")
    for rival in rivals:
        other, row = hits(rival), apart.loc[("attention", rival)]
        counts = zip(own.hits, other.hits, own.counts, strict=True)
        expected = paired_slowly([tuple(map(int, one)) for one in counts])
        assert row["difference_low"] == pytest.approx(expected[0])
        assert row["difference_high"] == pytest.approx(expected[1])
    for (probe_name, rival), row in apart.iterrows():  # type: ignore[misc]
        gap = table.loc[probe_name, "uas"] - table.loc[rival, "uas"]
        assert row["difference"] == pytest.approx(gap)
    assert {"distance_words", "random_attention"} <= set(apart.reset_index()["control"])


@pytest.mark.parametrize("kind", ["syntax", "coreference"])
def test_differences_from_random_weights_are_paired_by_text(
    done: dict[str, Study], kind: str
) -> None:
    """The same cases of both models, text by text, from a pass of each that follows its head."""
    measure: Any = ArcCounts if kind == "syntax" else AntecedentCounts
    for name, value, low, high, heads in _against_random(done[kind], kind):
        by_text = []
        for model, answer in zip((rigged(), rigged().randomized(0)), heads, strict=True):
            texts = TEXTS[kind](25, 2)
            tables = attlas.study(
                model, texts, [measure(followed=((name, answer),))], workers=1, progress=False
            )
            by_text.append(tables.table(f"{measure.name}_texts"))
        both = zip(*(one["right"] for one in by_text), by_text[0]["cases"], strict=True)
        counts = [tuple(map(int, one)) for one in both]
        gap = sum(one - other for one, other, _ in counts) / sum(n for *_, n in counts)
        assert value == pytest.approx(gap)
        assert (low, high) == pytest.approx(paired_slowly(counts))


def _against_random(study: Study, kind: str) -> list[tuple[str, float, float, float, list[int]]]:
    """What was compared with random weights, the difference, and the answers of both models."""
    ends = ["difference", "difference_low", "difference_high"]
    if kind == "syntax":
        rows = study.table("syntax").set_index("relation")
        numbers = rows[[f"random_{one}" for one in ends]]
        passes = SyntaxHeads(rigged().randomized(0), min_cases=5, progress=False)
        random = passes.fit(treebank(30, 1)).chosen_.set_index("relation")
        own = {
            name: int(DIRECTIONS.index(row["direction"]) * 4 + row["layer"] * 4 + row["head"])
            for name, row in rows.iterrows()
        }
        return [
            (
                str(name),
                *map(float, numbers.loc[name]),
                [own[name], int(random.loc[name, "answer"])],
            )
            for name in rows.index
        ]
    table = study.table("coreference_differences")
    rows = table[table["control"] == "random"].set_index("kind")[ends]
    heads = [CoreferenceHeads(one, progress=False) for one in (rigged(), rigged().randomized(0))]
    own, other = (one.fit(stories(30, 1)).chosen_.to for one in heads)
    return [
        (str(name), *map(float, rows.loc[name]), [own[name], other["all"]]) for name in rows.index
    ]


def test_differences_from_baselines_of_coreference_are_those_of_one_pass(
    done: dict[str, Study],
) -> None:
    table = done["coreference"].table("coreference").set_index(["who", "kind"])
    apart = done["coreference"].table("coreference_differences")
    for row in apart.to_dict("records"):
        head, rival = (table.loc[(row[who], row["kind"])] for who in ("who", "control"))
        assert row["difference"] == pytest.approx(head["accuracy"] - rival["accuracy"])
        assert row["difference_low"] <= row["difference"] <= row["difference_high"]
        assert row["n"] == head["n"]
        if row["control"] == "rules":
            assert row["difference_low"] == pytest.approx(head["difference_low"])
    assert set(apart["control"]) == {"nearest", "head_match", "rules", "random"}


@pytest.mark.parametrize("kind", ["tree", "coreference"])
def test_claims_have_paired_intervals(done: dict[str, Study], kind: str) -> None:
    """Without the table of differences, as in folders of earlier versions, they are wider."""
    claims = SECTIONS[kind].claims(done[kind])
    apart = done[kind].table(f"{kind}_differences")
    ends = set(zip(apart["difference_low"], apart["difference_high"], strict=True))
    assert claims
    assert {(one.difference_low, one.difference_high) for one in claims} <= ends
    manifest = json.loads(json.dumps(done[kind].manifest))
    del manifest["tables"][f"{kind}_differences"]
    before = SECTIONS[kind].claims(Study(done[kind].folder, manifest))
    widths = [
        [one.difference_high - one.difference_low for one in some] for some in (claims, before)
    ]
    assert all(now != then for now, then in zip(*widths, strict=True))
    assert sum(widths[0]) < sum(widths[1])


@KINDS_OF_PROBE
def test_a_probe_is_found_again_and_another_is_refused(
    kind: str, done: dict[str, Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = done[kind].folder
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for name in (
        "attlas.experiments.probe.study",
        "attlas.tree.work.read_word_attention",
        "attlas.syntax.work.examples",
        "attlas.experiments.workspace.pass_over",
    ):
        monkeypatch.setattr(name, refuse)
    again = probed(kind, out)
    assert again.result == done[kind].result
    assert again.tables == done[kind].tables
    texts = TEXTS[kind]
    with pytest.raises(StudyError, match=r"was made with another test set;"):
        probe(kind, rigged(), texts(30, 1), texts(25, 3), out)
    with pytest.raises(StudyError, match=r"was made with another seed;"):
        probed(kind, out, seed=1)
    with pytest.raises(StudyError, match=r"was made with another model \(weights, config\);"):
        probed(kind, out, tiny("bert"))
    other = next(name for name in PROBED if name != kind)
    with pytest.raises(StudyError, match=r"holds another kind of result"):
        probed(other, out)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/notes.txt").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(StudyError, match=r"is not empty .* and holds no results of Attlas"):
            probed(kind, tmp_path / "taken", fresh=fresh)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_other_vectors_under_the_same_name_are_another_probe(tmp_path: Path) -> None:
    path, rng = tmp_path / "glove.txt", np.random.default_rng(0)

    def write() -> None:
        path.write_text(
            "".join(
                f"{word} {' '.join(map(str, rng.normal(size=4)))}\n" for word in (*PLAIN, "cat")
            )
        )

    run = partial(
        probe, "tree", rigged(), treebank(8), treebank(6, 2), tmp_path / "out", vectors=path
    )
    write()
    first = run()
    assert first.result["vectors"] == "glove.txt"
    assert run().result == first.result
    write()
    with pytest.raises(StudyError, match="was made with another set of vectors"):
        run()


def test_fresh_throws_another_probe_away(tmp_path: Path) -> None:
    run = partial(probe, "coreference", rigged())
    run(stories(8, 5), stories(6, 6), tmp_path / "out")
    anew = run(stories(8, 7), stories(7, 8), tmp_path / "out", fresh=True)
    alone = run(stories(8, 7), stories(7, 8), tmp_path / "alone")
    assert anew.result == alone.result
    assert anew.manifest["identity"] == alone.manifest["identity"]
    assert table_bytes(anew.folder) == table_bytes(alone.folder)


@KINDS_OF_PROBE
def test_the_same_probe_writes_the_same_bytes(
    kind: str, done: dict[str, Study], tmp_path: Path
) -> None:
    """Whoever runs it, with one worker or two."""
    again = probed(kind, tmp_path / "again", workers=1)
    assert table_bytes(again.folder) == table_bytes(done[kind].folder)
    assert (again.folder / RESULT).read_bytes() == (done[kind].folder / RESULT).read_bytes()


@KINDS_OF_PROBE
def test_one_file_is_cut_in_two(kind: str, tmp_path: Path) -> None:
    texts = TEXTS[kind](20, 3)
    found = probe(kind, rigged(), texts, None, tmp_path / "out", seed=4)
    first, second = split(texts, 0.2, 4)
    assert (found.result["texts"]["train"], found.result["texts"]["test"]) == (16, 4)
    identity = found.manifest["identity"]
    assert (identity["train"], identity["test"]) == (fingerprint(first), fingerprint(second))
    with pytest.raises(
        CorpusError, match=r"two different texts are needed to set some aside, got 1; .*--test"
    ):
        probe(kind, rigged(), texts[:1], None, tmp_path / "one")
    assert not (tmp_path / "one").exists()


@KINDS_OF_PROBE
def test_sentences_longer_than_the_model_are_counted(kind: str, tmp_path: Path) -> None:
    short = rigged()
    model = attlas.load((short.network, short.tokenizer), max_length=9)  # seven words and the marks
    texts = TEXTS[kind]
    found = probe(kind, model, texts(30, 1), texts(25, 2), tmp_path / "out")
    counts = found.result["counts"]
    assert counts["read"] == counts["analysed"]
    if (
        kind == "coreference"
    ):  # both sentences are longer; "Anna" has three tokens, so that the second is cut off
        assert (counts["read"], counts["truncated"]) == (50, 50)
        assert found.result["mentions"]["unseen"] == 25
        assert found.result["windows"]["out_of_reach"] == 50  # "it" and "she"
        return
    lengths = [len(one.words or ()) for one in texts(25, 2)]
    assert counts["truncated"] == sum(length > 7 for length in lengths) > 0
    assert counts["tokens_cut"] == sum(max(0, length - 7) for length in lengths)
    lost = headless = 0
    for one in texts(25, 2):
        tree = one.annotations[DEPENDENCIES]
        for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            if kind == "tree":
                lost, headless = lost + (word >= 7), headless + (word < 7 <= head)
            elif relation not in ("root", "punct"):
                lost += word >= 7 or head >= 7
    assert found.result["words"]["unseen"] == lost > 0
    assert found.result["words"].get("headless", 0) == headless


def test_a_word_without_a_head_may_have_the_name_of_a_relation(tmp_path: Path) -> None:
    """Treebanks name the relation of a root as they like."""
    texts = treebank(30, 1)
    odd = [
        sentence(
            one.id,
            one.words or (),
            one.annotations[DEPENDENCIES].heads,
            [name.replace("root", "obj") for name in one.annotations[DEPENDENCIES].relations],
        )
        for one in texts
    ]
    found = probe("syntax", rigged(), odd, odd, tmp_path / "out", min_cases=5)
    row = next(row for row in found.result["relations"] if row["relation"] == "obj")
    assert (row["head"], row["accuracy"]) == (3, 1)


def test_documents_to_score_on_without_antecedents_are_refused(tmp_path: Path) -> None:
    alone = [document(n, "dog mat it", (0, "a", "common"), (2, "b", "pronoun")) for n in range(3)]
    with pytest.raises(AttlasError, match="antecedent"):
        probe("coreference", rigged(), stories(3), alone, tmp_path / "out")


def test_sentences_to_score_on_without_words_to_score_are_refused(tmp_path: Path) -> None:
    marks = [sentence(n, [".", "!"], [ROOT, 0], ["punct", "punct"]) for n in range(3)]
    with pytest.raises(AttlasError):
        probe("tree", rigged(), treebank(5), marks, tmp_path / "out")


def test_a_difference_seen_in_one_text_alone_is_not_certain() -> None:
    """Its interval is over texts: of one text there is no spread to know it from."""
    one = treebank(1, 2)
    heads = SyntaxHeads(rigged(), min_cases=1, progress=False).fit(treebank(25, 1))
    row = heads.evaluate(one).set_index("relation").loc["obj"]
    assert (row["texts"], row["accuracy"]) == (1, 1)
    assert row["difference"] > 0
    assert not row["difference_low"] > 0


@pytest.mark.slow
def test_a_probe_that_was_killed_goes_on_to_the_same_bytes(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, attlas_start: Start
) -> None:
    data = tmp_path / "bank.conllu"
    data.write_text(as_conllu(treebank(400, 1)))
    out, whole = tmp_path / "broken", tmp_path / "whole"
    command = [
        "probe",
        "syntax",
        "--data",
        data,
        "--model",
        tiny_folder,
        "--out",
        out,
        "--no-report",
        "--workers",
        "1",
    ]

    def halfway() -> bool:
        """The first pass is done, the second has begun."""
        return len(list((out / "states").glob("*/manifest.json"))) >= 2

    assert kill_when(attlas_start(*command), halfway)
    with pytest.raises(StudyError, match="not complete"):
        Study.open(out)
    assert json.loads((out / "manifest.json").read_text())["status"] == "running"
    with pytest.raises(
        StudyError, match=r"holds another kind of result \(syntax, not coreference\)"
    ):
        probe("coreference", tiny_folder, "embedded:sentences", None, out)  # of another kind
    jobs, runs = Counter[str](), []

    def counted(*given: Any) -> ShardJob:
        jobs[runs[-1]] += 1
        return ShardJob(*given)

    monkeypatch.setattr("attlas.studies.run.ShardJob", counted)
    found = {}
    for folder in (out, whole):
        runs.append(folder.name)
        found[folder.name] = probe("syntax", tiny_folder, str(data), None, folder, min_cases=100)
    assert 0 < jobs["broken"] < jobs["whole"]  # what was done is not done again
    assert (out / RESULT).read_bytes() == (whole / RESULT).read_bytes()
    assert table_bytes(out) == table_bytes(whole)
    assert found["broken"].manifest["counts"] == found["whole"].manifest["counts"]
    assert not (out / "states").exists()  # large, and of no more use


# results worked out from studies


def about(model: str = "m", state: str = "0" * 64, **more: Any) -> dict[str, Any]:
    """A manifest as a study's, by hand."""
    shape = {
        "n_layers": 2,
        "n_heads": 2,
        "max_length": 512,
        "class": "BertModel",
        "sha256": state,
        "state_sha256": state,
    }
    counts = {
        "read": 2,
        "analysed": 2,
        "quarantined": 0,
        "truncated": 0,
        "tokens": 9,
        "tokens_cut": 0,
    }
    corpus = {"name": "texts", "fingerprint": "f" * 64, "labels": {}}
    return {
        "model": {"name": model, **shape},
        "corpus": corpus,
        "counts": counts,
        "versions": {"torch": "2", "transformers": "5"},
        "seconds": 1.0,
        **more,
    }


def test_studies_of_one_model_stand_beside_one_another(
    done: dict[str, Study], tmp_path: Path
) -> None:
    study = attlas.study(
        rigged(), ["a cat sat", "the dog"], ["surface", "entropy"], tmp_path / "study"
    )
    both = study.combined_with(done["syntax"], done["coreference"])
    assert both.tables == [*study.tables, *done["syntax"].tables, *done["coreference"].tables]
    for name, owner in (
        ("surface", study),
        ("syntax", done["syntax"]),
        ("coreference", done["coreference"]),
    ):
        assert both.has(name)
        pd.testing.assert_frame_equal(both.table(name), owner.table(name))
    assert both.table("syntax", ["relation"]).columns.tolist() == ["relation"]
    assert both.combined_with(done["tree"]).has("tree")
    assert not study.has("syntax")  # as it was
    with pytest.raises(StudyError, match="no table 'tree'; its tables are texts, surface"):
        both.table("tree")
    stranger = attlas.study(tiny("bert"), ["a cat"], ["surface"], tmp_path / "stranger")
    with pytest.raises(
        StudyError,
        match=r"stranger is of another model .* than .*study .*; a report is of one model",
    ):
        study.combined_with(done["syntax"], stranger)


def test_studies_may_stand_beside_one_another_in_any_order(
    done: dict[str, Study], tmp_path: Path
) -> None:
    study = attlas.study(
        rigged(), ["a cat sat", "the dog"], ["surface", "totals"], tmp_path / "study"
    )
    for number, together in enumerate(
        (study.combined_with(done["syntax"]), done["syntax"].combined_with(study))
    ):
        page = together.report(tmp_path / f"{number}.html").read_text()
        assert re.findall(r'<section id="(\w+)"', page) == ["syntax", "surface", "totals"]
        assert "the dog" in re.sub(r"<[^>]*>", "", page)


def test_topology_may_stand_beside_a_study(tmp_path: Path) -> None:
    scores = {
        "mcc": 0.5,
        "mcc_low": 0.4,
        "mcc_high": 0.6,
        "accuracy": 0.8,
        "accuracy_low": 0.7,
        "accuracy_high": 0.9,
        "n": 20,
    }
    heads = pd.DataFrame({"layer": [0, 0, 1, 1], "head": [0, 1, 0, 1], "train": 0.5, "test": 0.4})
    topology_facts = {
        "difference_from_model": None,
        "test_texts_in_train": 0,
        "truncated": {},
        "features": {"left_out": 0},
        "maps": {"pearson": None},
        "texts": {"train": 40, "dev": 30, "test": 20},
    }
    frames = {
        "topology": pd.DataFrame([{"classifier": "all", **scores}]),
        "topology_heads": heads,
        "topology_grid": heads,
    }
    places = {name: Folder(tmp_path / name, name) for name in ("topology", "first")}
    for place in places.values():
        with place.claim({}):
            pass
    second = write_result(
        places["topology"], about("topology", topology=topology_facts), frames, {}
    )
    first = write_result(places["first"], about("first"), {"own": heads}, {})
    assert findings(second)
    assert findings(first.combined_with(second)) == findings(second)


# the command line


DATA: dict[str, str] = {
    "bank.conllu": as_conllu(treebank(30, 1)),
    "dev.conllu": as_conllu(treebank(25, 2)),
    "stories.conllu": as_conllu(stories(12)),
    "one.conllu": as_conllu(treebank(1)),
    "plain.csv": "text,label\na cat sat,1\nthe dog,0\n",
    "broken.conllu": as_conllu(treebank(2))
    + "# sent_id = bad\n1\tcat\t_\tX\t_\t_\tzero\troot\t_\t_\n",
    "empty.conllu": "",
}


DATA["broken-stories.conllu"] = (
    DATA["stories.conllu"] + "# newdoc id = bad\n1\tcat\t_\tX\t_\t_\tzero\troot\t_\t_\n"
)


def write_files(folder: Path) -> None:
    for name, content in DATA.items():
        (folder / name).write_text(content)
    (folder / "taken").mkdir()
    (folder / "taken/notes.txt").write_text("mine")


@KINDS_OF_PROBE
def test_a_probe_from_the_command_line(
    kind: str, inside: Callable[..., CommandOutput], tmp_path: Path, small_folder: Path
) -> None:
    write_files(tmp_path)
    first, second = (
        ("stories.conllu",) * 2 if kind == "coreference" else ("bank.conllu", "dev.conllu")
    )
    command: list[Any] = [
        "probe",
        kind,
        "--train",
        first,
        "--test",
        second,
        "--model",
        small_folder,
        "--out",
        "out",
    ]
    command += ["--min-cases", "5"] if kind == "syntax" else []
    message = inside(*command, "--json")
    assert message.code == 0, message.error
    assert "Traceback" not in message.error
    content = json.loads(message.out)
    assert content["study"] == "out"
    page = (tmp_path / content["report"]).read_text(encoding="utf-8")
    assert page.count(f'<section id="{kind}"') == 1
    assert page.endswith(("</html>\n", "</html>"))
    keys = {
        "syntax": {"relations", "overall"},
        "tree": {"uas"},
        "coreference": {"heads", "baselines"},
    }[kind]
    assert keys <= set(content)
    output = inside(*command)  # found again, in words
    assert output.code == 0, output.error
    assert "nan" not in output.out
    lines = output.out.splitlines()
    table = Study.open(tmp_path / "out").table(kind)
    assert len([line for line in lines if line.strip()]) >= len(table) + 1
    for name in table[{"syntax": "relation", "tree": "probe", "coreference": "who"}[kind]]:
        shown = {**PROBE_NAMES, **WHO}.get(name, name)
        assert any(line.startswith(shown) for line in lines), name
    result = Study.open(tmp_path / "out")
    for one in study_findings(result, SECTIONS):
        assert f"{one.verdict.capitalize()}: {one.sentence}" in lines
    for warning in warnings(result, SECTIONS):
        assert f"Warning: {warning}" in lines
    assert "folder    out" in lines
    assert lines[-1].startswith("next      attlas report out")
    assert "report    out/report.html" in lines
    other = inside(*command, "--seed", "3")
    assert (other.code, other.out, other.error.count("\n")) == (2, "", 1)
    assert "out was made with another seed;" in other.error
    fresh = inside(*command, "--seed", "3", "--fresh", "--no-report", "--json")
    assert fresh.code == 0, fresh.error
    assert json.loads(fresh.out)["report"] is None


def test_a_probe_of_one_file(
    inside: Callable[..., CommandOutput], tmp_path: Path, small_folder: Path
) -> None:
    write_files(tmp_path)
    output = inside(
        "probe",
        "coreference",
        "--data",
        "stories.conllu",
        "--tokens",
        "0",
        "--model",
        small_folder,
        "--out",
        "out",
        "--json",
    )
    assert output.code == 0, output.error
    content = json.loads(output.out)
    assert (content["texts"]["train"], content["texts"]["test"]) == (10, 2)
    assert content["windows"]["tokens"] is None
    cut = inside(
        "probe",
        "syntax",
        "--data",
        "bank.conllu",
        "--max-length",
        "9",
        "--min-cases",
        "2",
        "--model",
        small_folder,
        "--out",
        "cut",
        "--json",
    )
    assert cut.code == 0, cut.error
    assert json.loads(cut.out)["counts"]["truncated"] > 0


MISSING = "Missing option '--train' / '--data'"


WRONG: dict[str, tuple[list[str], str]] = {
    "no data": ([], MISSING),
    "nothing to choose on": (["--test", "bank.conllu"], MISSING),
    "no such file": (["--data", "nowhere.conllu"], "nowhere.conllu"),
    "no such file to score on": (["--train", "good", "--test", "nowhere.conllu"], "nowhere.conllu"),
    "a table": (["--data", "plain.csv"], "plain.csv"),
    "a table to score on": (["--train", "good", "--test", "plain.csv"], "plain.csv"),
    "a broken row": (["--data", "broken"], "line "),
    "an empty file": (["--data", "empty.conllu"], "empty.conllu"),
    "one text": (["--data", "one"], "two different texts are needed"),
    "no such model": (["--data", "good", "--model", "./nowhere"], "there is no folder nowhere"),
    "not a model": (["--data", "good", "--model", "taken"], "has no config.json"),
    "a folder of someone else": (
        ["--data", "good", "--out", "taken"],
        "taken is not empty (it has",
    ),
    "an unknown option": (["--data", "good", "--fast"], "No such option: --fast"),
    "a seed that is no number": (["--data", "good", "--seed", "x"], "Invalid value for '--seed'"),
}


@KINDS_OF_PROBE
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_is_one_clear_line_and_nothing_is_written(
    case: str, kind: str, inside: Callable[..., CommandOutput], tmp_path: Path, small_folder: Path
) -> None:
    write_files(tmp_path)
    (tmp_path / "one.conllu").write_text(
        as_conllu((stories if kind == "coreference" else treebank)(1))
    )
    names = (
        {"good": "stories.conllu", "broken": "broken-stories.conllu"}
        if kind == "coreference"
        else {"good": "bank.conllu", "broken": "broken.conllu"}
    )
    names["one"] = "one.conllu"
    given, message = WRONG[case]
    arguments = [names.get(part, part) for part in given]
    arguments += [] if "--model" in arguments else ["--model", str(small_folder)]
    arguments += [] if "--out" in arguments else ["--out", "out"]
    if case == "a broken row":
        message = f"{names['broken']}, line {DATA[names['broken']].count(chr(10))}"
    before = sorted(tmp_path.rglob("*"))
    output = inside("probe", kind, *arguments)
    assert output.code == 2, output.error
    assert message in output.error
    assert output.error.count("\n") == 1, output.error
    assert output.out == ""
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["tree", "--vectors", "nowhere.txt"],
            "there is no file 'nowhere.txt'; give the path of vectors",
        ),
        (["tree", "--convention", "mine"], "convention is 'mine'; it must be sound or published"),
        (["coreference", "--tokens", "2"], "windows of 2 tokens hold no word"),
        (["syntax", "--min-cases", "9999"], "no relation has 9999 cases"),
    ],
)
def test_options_that_cannot_be_are_refused(
    arguments: list[str],
    message: str,
    inside: Callable[..., CommandOutput],
    tmp_path: Path,
    small_folder: Path,
) -> None:
    write_files(tmp_path)
    data = "stories.conllu" if arguments[0] == "coreference" else "bank.conllu"
    output = inside("probe", *arguments, "--data", data, "--model", small_folder, "--out", "out")
    assert (output.code, output.out) == (2, "")
    assert message in output.error
    assert "Traceback" not in output.error
    right = inside(
        "probe",
        arguments[0],
        "--data",
        data,
        "--model",
        small_folder,
        "--out",
        "out",
        "--no-report",
        *(["--min-cases", "2"] if arguments[0] == "syntax" else []),
    )
    assert right.code == 0, right.error  # what was refused holds no folder


def test_the_verb_alone_lists_its_probes(inside: Callable[..., CommandOutput]) -> None:
    output = inside("probe", "--help")
    assert output.code == 0
    assert all(name in output.out for name in PROBED)
    assert "No such command 'grammar'" in inside("probe", "grammar").error


def test_one_report_of_several_folders(
    inside: Callable[..., CommandOutput], done: dict[str, Study], tmp_path: Path
) -> None:
    folders = [done[kind].folder for kind in PROBED]
    output = inside("report", *folders, "--out", "all.html", "--json")
    assert output.code == 0, output.error
    content = json.loads(output.out)
    page = (tmp_path / content["report"]).read_text()
    assert re.findall(r'<section id="(\w+)"', page) == ["syntax", "tree", "coreference"]
    stranger = attlas.study(tiny("bert"), ["a cat"], ["surface"], tmp_path / "stranger")
    for wrong, message in (
        (stranger.folder, "a report is of one model"),
        ("nowhere", "there is no study folder nowhere"),
    ):
        output = inside("report", folders[0], wrong)
        assert (output.code, output.out, output.error.count("\n")) == (2, "", 1)
        assert message in output.error


def test_heads_on_the_map_are_named_by_what_they_find(
    done: dict[str, Study], tmp_path: Path
) -> None:
    study = attlas.study(
        rigged(),
        ["a cat sat on it", "the dog saw a cat"],
        ["surface", "entropy", "head_distance"],
        tmp_path / "study",
    )
    together = study.combined_with(*done.values())
    map_figure = SECTIONS["head_distance"].figures(together)[0]
    spec = json.dumps(map_figure.chart.to_dict()) if map_figure.chart is not None else ""
    assert '"behaviour": "obj"' in spec
    assert '"behaviour": "obj"' not in json.dumps(
        SECTIONS["head_distance"].figures(study)[0].chart.to_dict()
    )  # type: ignore[union-attr]
    lines = findings(together)
    table = done["syntax"].table("syntax").set_index("relation")
    baseline = f"{table.loc['obj', 'baseline']:.2f}"
    obj = next(
        line for line in lines if line.startswith("L0H3 points from direct objects (obj) to their")
    )
    assert re.search(rf"best fixed offset \([+-]\d+\) {baseline}", obj)
    for begins in (
        "Attention predicts dependency trees: words with the right syntactic head (UAS) ",
        "Attention improves parsing over words and distances: words with the right ",
    ):
        assert any(line.startswith(begins) for line in lines), begins
    best_head = done["coreference"].result["best"][0]
    assert any(
        line.startswith(f"L{best_head['layer']}H{best_head['head']} finds the antecedents of all")
        for line in lines
    )
    assert any("points from words to their syntactic heads: " in line for line in lines)
    assert not any("nan" in line for line in lines)
