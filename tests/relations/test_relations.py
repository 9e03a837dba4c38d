"""Relations from attention: vectors, readers, candidates and scores against plain loops.

The extractor, the experiments and the command line are run as a user runs them.
"""

from __future__ import annotations

import copy
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import wraps
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings, strategies as st
from safetensors.numpy import load_file, save
from scipy.cluster.hierarchy import linkage
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, precision_recall_fscore_support

import attlas
from attlas.cli import main
from attlas.core.annotations import RELATIONS, Relations, Triple
from attlas.core.attention import DenseAttention
from attlas.core.text import Text
from attlas.corpora import read
from attlas.corpora.splits import text_digests
from attlas.experiments.workspace import Workspace, scratch
from attlas.language.phrases import PARSERS
from attlas.language.tagging import tagged
from attlas.models.vectors import ModelVectors
from attlas.relations import (
    experiment as experiment_module,
    extraction,
    fitting,
    interpret as interpret_module,
    vectors as vectors_module,
    work as work_module,
)
from attlas.relations.answers import Answers, each_relation, intervals
from attlas.relations.baselines import GAPS, TAGS, Surface
from attlas.relations.candidates import (
    Case,
    apart,
    count_unusable,
    first_occurrences,
    gold_cases,
    has_words,
    negatives,
    pools,
    related_texts,
    relations_in,
    unit_pools,
)
from attlas.relations.experiment import extractor_folder
from attlas.relations.extraction import (
    best_triples,
    candidate_features,
    candidates,
    sentences_of as sentences_in,
)
from attlas.relations.extractor import RelationExtractor
from attlas.relations.features import (
    ATTENTION,
    BAG,
    BOTH,
    FEATURE_KINDS,
    HEAD_TAIL,
    RANDOM,
    Part,
    feature_kinds,
    read_part,
)
from attlas.relations.fitting import Readers, fitted
from attlas.relations.head_selection import heads_order
from attlas.relations.interpret import (
    Sides,
    directions_table,
    heads_table,
    layers_table,
    merged_table,
    merges,
    merges_frame,
    path_table,
    similarity_table,
)
from attlas.relations.matching import ExtractedTriple, exact, extraction_scores, lenient
from attlas.relations.reading import Sample, attention_features, cases_of, read_sample
from attlas.relations.unseen import halves, held_out_phrases, unseen_jobs, unseen_scores
from attlas.relations.vectors import (
    DIRECTIONS,
    CaseVectors,
    case_vectors,
    read_case_vectors,
    read_units,
)
from attlas.relations.work import in_both
from attlas.stats.linear import (
    LinearReader,
    balanced,
    by_balanced_accuracy,
    by_macro_f1,
    calibrate,
    fit_published,
    fit_reader,
    multinomial,
    whitening,
)
from attlas.support.errors import AttlasError, CorpusError, MeasureError, ModelError, StudyError
from attlas.support.fingerprint import feed, sha256
from attlas.testing import tiny
from tests import strategies
from tests.builders.models import shared
from tests.builders.relations import NAMES, rows
from tests.close import close, terms_of
from tests.twins import attention as twins
from tests.twins.relations import (
    candidates_slowly,
    scores_slowly,
    units_slowly,
)


def fewrel_rows(count: int, seed: int = 0) -> list[dict[str, object]]:
    out = []
    for row in rows(count, seed):
        tokens = [*str(row["text"]).rstrip(".").split(), "."]
        triple = row["triples"][0]  # type: ignore[index]
        places = [tokens.index(triple[part]) for part in ("head", "tail")]
        pair = {
            key: [triple[part], "Q", [[place]]]
            for key, part, place in zip("ht", ("head", "tail"), places, strict=True)
        }
        out.append({"relation": triple["relation"], "tokens": tokens, **pair})
    return out


def text_of(string: str, *triples: tuple[str, str, str | None, str], id: str = "t") -> Text:
    """A text whose phrases are where their strings first stand."""

    def span(part: str | None) -> tuple[int, int] | None:
        return None if part is None else (string.index(part), string.index(part) + len(part))

    made = tuple(
        Triple(span(head), span(tail), relation, span(words))
        for head, tail, words, relation in triples
    )  # type: ignore[arg-type]
    return Text(id, string, annotations={RELATIONS: Relations(made)})


@pytest.fixture(scope="module")
def model() -> attlas.Model:
    return shared("bert")


@pytest.fixture(scope="module")
def known(minilm: attlas.Model) -> SimpleNamespace:
    """Embedded sentences of a few relations, and an extractor that learnt from some of them."""
    wanted = ("born_in", "works_for", "married_to", "capital_of")
    texts = [
        text
        for text in read("embedded:relations")
        if {t.relation for t in relations_in(text).triples} <= {*wanted}
    ]
    train, test = texts[:90], texts[90:]
    made = RelationExtractor(minilm, negatives=2, grid=(0.03, 0.3), workers=1, progress=False)
    return SimpleNamespace(train=train, test=test, extractor=made.fit(train))


@pytest.fixture(scope="module")
def small(model: attlas.Model) -> RelationExtractor:
    """An extractor of a model that knows nothing: for whatever only needs its shape."""
    return RelationExtractor(model, negatives=2, grid=(0.1, 1.0), workers=1, progress=False).fit(
        rows(36), rows(12, 1)
    )


@pytest.fixture(scope="module")
def work() -> Iterator[Workspace]:
    with scratch(workers=1, progress=False) as made:
        yield made


@pytest.fixture(scope="module")
def evidence(small: RelationExtractor, model: attlas.Model, work: Workspace) -> SimpleNamespace:
    """Cases of texts to learn from and to tune on, as every kind of features shows them."""
    how = small.setup_, (model, model.randomized(0))
    train = read_part(work, related_texts(rows(36)), *how, states=True)
    tune = read_part(work, related_texts(rows(15, 1)), *how, 1, train.vocabulary, states=True)
    return SimpleNamespace(train=train, tune=tune, readers=small.readers_)


def sample_of(extractor: RelationExtractor, texts: list[Text]) -> Sample:
    """Triples of texts, and one negative for each, as an extractor reads them."""
    cases = cases_of(texts, extractor.setup_, 1)
    with scratch(workers=1, progress=False) as work:
        return read_sample(
            work, extractor.model_, texts, cases, published=extractor.setup_.published
        )


class Passes:
    """How many texts, and batches, went through a network while it is open."""

    def __init__(self, model: attlas.Model) -> None:
        self.model, self.texts, self.batches = model, 0, 0

    def __enter__(self) -> Passes:
        forward = self.model.part.forward  # not by a hook: a model with one is another model

        @wraps(forward)
        def note(*args: object, **kwargs: torch.Tensor) -> object:
            self.texts += len(kwargs["input_ids"])
            self.batches += 1
            return forward(*args, **kwargs)

        self.model.part.forward = note  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        del self.model.part.forward


# attention between units


@given(
    st.one_of(strategies.dense_layers(), strategies.banded_layers()),
    strategies.generators,
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=60)
def test_between_units_is_its_slow_twin(made, rng, units, mean):
    texts, n = len(made.weights), made.weights.shape[-1]
    members = rng.random((texts, units, n)) < rng.choice([0.0, 0.3, 0.8], (texts, units, 1))
    found = made.layer.between_units(torch.from_numpy(members), mean)
    expected = twins.each_head(units_slowly, made.weights, members.tolist(), mean=mean)
    close(found, expected, n * n)


# triple vectors


class Slow:
    """The library's own forward pass for each triple, with loops over characters and tokens."""

    def __init__(self, model: attlas.Model) -> None:
        self.tokenizer, self.limit = model.tokenizer, model.max_length
        self.network = copy.deepcopy(model.network)
        self.network.set_attn_implementation("eager")

    def vector(self, text: str, case: Case, mean: bool) -> list[float] | None:
        """The triple's vector; None if a phrase has no token, or was cut."""
        whole = self.tokenizer(text, return_offsets_mapping=True)
        row = self.tokenizer(
            text, return_offsets_mapping=True, truncation=True, max_length=self.limit
        )
        marks = {self.tokenizer.cls_token_id, self.tokenizer.sep_token_id}

        def tokens(encoded, span):
            found = []
            for token, (number, (start, stop)) in enumerate(
                zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
            ):
                if number not in marks and any(
                    span[0] <= character < span[1] for character in range(start, stop)
                ):
                    found.append(token)
            return found

        parts = {name: tokens(row, span) for name, span in zip("htr", case.spans, strict=False)}
        if any(
            len(found) != len(tokens(whole, span)) or not found
            for found, span in zip(parts.values(), case.spans, strict=True)
        ):
            return None
        with torch.no_grad():
            layers = self.network(
                torch.tensor([row["input_ids"]]), output_attentions=True
            ).attentions
        out = []
        for name in ("h-r", "r-t", "h-t", "r-h", "t-r", "t-h") if "r" in parts else ("h-t", "t-h"):
            givers, takers = parts[name[0]], parts[name[2]]
            for layer in layers:
                for head in layer[0].double().tolist():
                    total = sum(head[query][key] for query in givers for key in takers)
                    out.append(total / len(givers) if mean else total)
        return out


PIECES = (
    "the",
    "cat",
    "unbelievable",
    "Ann",
    "Ann",
    "naïve",
    "e\u0301clair",
    "世界",
    "👍🏽",
    "x_y",
    "Zürich's",
    "don't",
    "—",
    "[SEP]",
)


@st.composite
def texts_with_cases(draw: st.DrawFn) -> tuple[str, list[Case]]:
    """A text with repeated, split and odd words, and cases of its words or parts of words."""
    words = draw(st.lists(st.sampled_from(PIECES), min_size=3, max_size=8))
    string = " ".join(words)
    starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
    worded, cases = draw(st.booleans()), []
    for _ in range(draw(st.integers(1, 3))):
        spans = []
        for _ in range(2 + worded):
            first = draw(st.integers(0, len(words) - 1))
            last = draw(st.integers(first, min(first + 1, len(words) - 1)))
            start, stop = starts[first], starts[last] + len(words[last])
            if draw(st.integers(0, 3)) == 0:  # a part of it
                start = draw(st.integers(start, stop - 1))
                stop = draw(st.integers(start + 1, stop))
            spans.append((start, stop))
        cases.append(Case(0, spans[0], spans[1], spans[2] if worded else None))
    return string, cases


@given(texts_with_cases(), st.booleans(), st.sampled_from([None, 9]))
@example(
    ("Ann Ann Ann 👍🏽 the", [Case(0, (12, 15), (0, 3), None)]), False, 9
)  # ends in the space before the cut
@settings(max_examples=40)
def test_gather_is_one_slow_pass_for_each_triple(made, mean, limit):
    model = replace(SLOW_MODEL, limit=limit) if limit else SLOW_MODEL
    slow, (string, cases) = Slow(model), made
    assume(
        not (limit and "[SEP]" in string)
    )  # a mark is no token of a phrase: where a text was cut, one that ends in it is not seen
    found = read_case_vectors(
        model, [Text("t", string)], cases, mean=mean, workers=1, progress=False
    )
    for number, case in enumerate(cases):
        expected = slow.vector(string, case, mean)
        assert found.seen[number] == (expected is not None)
        np.testing.assert_allclose(
            found.attention[number].ravel(), 0 if expected is None else expected, atol=1e-5
        )


SLOW_MODEL = tiny("bert")


def test_case_vectors_take_every_direction():
    rng = np.random.default_rng(0)
    weights = rng.random((5, 5, 6)).astype(np.float32)
    for parts in ([[0, 4, 2], [3, 3, 1]], [[0, 4], [2, 1]]):
        found = case_vectors(weights, np.array(parts))
        for case, mine in enumerate(parts):
            at = dict(zip("htr", mine, strict=False))
            names = [name for name in DIRECTIONS if name[0] in at and name[2] in at]
            for number, name in enumerate(names):
                assert (found[case, number] == weights[at[name[0]], at[name[2]]]).all()


@pytest.fixture(scope="module")
def drawn() -> SimpleNamespace:
    texts = related_texts(
        [
            *rows(9),
            {
                "text": "Ann knew 世界 and hired a cat there.",
                "triples": [
                    {"head": "Ann", "tail": "a cat", "relation": "boss", "relation_words": "hired"}
                ],
            },
        ]
    )
    gold = gold_cases(texts, True)
    return SimpleNamespace(texts=texts, cases=gold + negatives(texts, gold, 3, 0))


def test_vectors_do_not_depend_on_neighbours_order_or_workers(monkeypatch, model, drawn):
    whole = read_case_vectors(model, drawn.texts, drawn.cases, workers=1, progress=False)
    assert whole.seen.all()
    assert whole.attention.shape == (len(drawn.cases), 6, 12)
    alone = [
        read_case_vectors(model, drawn.texts, [case], workers=1, progress=False).attention[0]
        for case in drawn.cases[::4]
    ]
    rounding = {"terms": terms_of(model.network), "magnitude": 1}
    close(whole.attention[::4], alone, **rounding)
    turned = read_case_vectors(model, drawn.texts, drawn.cases[::-1], workers=1, progress=False)
    close(turned.attention[::-1], whole.attention, **rounding)
    monkeypatch.setattr(vectors_module, "SHARD", 3)
    one, three = (
        read_case_vectors(model, drawn.texts, drawn.cases, workers=n, progress=False, states=True)
        for n in (1, 3)
    )
    assert (one.attention == three.attention).all()
    assert (one.states == three.states).all()
    assert one.states is not None
    assert one.states.shape == (len(drawn.cases), 3, 4, 32)
    close(one.attention, whole.attention, **rounding)


def test_states_are_the_mean_over_the_tokens_of_a_phrase(model, drawn):
    found = read_case_vectors(
        model, drawn.texts, drawn.cases[:2], states=True, workers=1, progress=False
    ).states
    case = drawn.cases[1]
    row = model.tokenizer(drawn.texts[case.text].text, return_offsets_mapping=True)
    with torch.no_grad():
        layers = model.network(
            torch.tensor([row["input_ids"]]), output_hidden_states=True
        ).hidden_states
    mine = [
        n
        for n, (start, stop) in enumerate(row["offset_mapping"])
        if start < case.words[1] and stop > case.words[0]
    ]
    for layer, states in enumerate(layers):
        np.testing.assert_allclose(found[1, 2, layer], states[0, mine].mean(0).numpy(), atol=2e-3)


def test_one_pass_of_a_text_however_many_cases(model, drawn):
    nominal, relational = pools(drawn.texts[0].text, ())
    many = [
        Case(0, a, b, c) for a, b in permutations(nominal, 2) for c in relational if apart(a, b, c)
    ]
    assert len(many) > 20
    with Passes(model) as passes:
        found = read_case_vectors(
            model, drawn.texts, [*many, *drawn.cases], workers=1, progress=False
        )
    assert passes.texts == len(drawn.texts)
    assert passes.batches < len(drawn.texts)  # texts of one length go together
    assert len(found.attention) == len(many) + len(drawn.cases)


def cached(folder: Path) -> list[Path]:
    """The files with vectors in a cache."""
    return sorted(folder.glob("*/arrays.npz"))


def test_an_interrupted_run_resumes(monkeypatch, tmp_path, model, drawn):
    monkeypatch.setattr(vectors_module, "SHARD", 3)
    plain = read_case_vectors(model, drawn.texts, drawn.cases, workers=2, progress=False)
    first = read_case_vectors(
        model, drawn.texts, drawn.cases, cache=tmp_path, workers=2, progress=False
    )
    assert len(cached(tmp_path)) == 4
    shutil.rmtree(cached(tmp_path)[1].parent)
    with Passes(model) as passes:
        again = read_case_vectors(
            model, drawn.texts, drawn.cases, cache=tmp_path, workers=2, progress=False
        )
    assert passes.texts in (3, len(drawn.texts) - 9)
    assert len(cached(tmp_path)) == 4
    for one in (first, again):
        assert (one.attention == plain.attention).all()
        assert (one.seen == plain.seen).all()
    for shard in cached(tmp_path):
        np.load(shard, allow_pickle=False)


@pytest.mark.parametrize("how", ["cut", "empty", "changed", "gone", "list"])
def test_a_damaged_entry_is_read_again(monkeypatch, tmp_path, model, drawn, how):
    monkeypatch.setattr(vectors_module, "SHARD", 3)
    plain = read_case_vectors(model, drawn.texts, drawn.cases, workers=1, progress=False)
    asked = model, drawn.texts, drawn.cases
    read_case_vectors(*asked, cache=tmp_path, workers=1, progress=False)
    path = cached(tmp_path)[0]
    if how == "gone":
        path.unlink()
    elif how == "list":
        (path.parent / "entry.json").write_text("[1]")
    elif how == "changed":  # a valid file with other numbers
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        np.savez(path, **arrays | {"array attention": arrays["array attention"] + 1})
    else:
        path.write_bytes(path.read_bytes()[:-9] if how == "cut" else b"")
    for expected in ({3, len(drawn.texts) - 9}, {0}):
        with Passes(model) as passes:
            again = read_case_vectors(*asked, cache=tmp_path, workers=1, progress=False)
        assert passes.texts in expected
        assert (again.attention == plain.attention).all()
        assert (again.seen == plain.seen).all()


def test_vectors_are_cached_by_all_they_are_made_from(monkeypatch, tmp_path, model, drawn):
    texts, cases = drawn.texts, drawn.cases
    left = tiny("bert")
    left.tokenizer.truncation_side = "left"
    note = {"note": np.arange(3)}
    noted_ = [replace(text, annotations={**text.annotations, **note}) for text in texts]
    others = [
        (model, texts, cases[:-1], {}),
        (model, texts, [*cases[1:], cases[0]], {}),
        (model, texts, cases, {"mean": False}),
        (model, texts, cases, {"states": True}),
        (model.randomized(1), texts, cases, {}),
        (replace(model, limit=20), texts, cases, {}),
        (left, texts, cases, {}),
        (model, [replace(text, label="a") for text in texts], cases, {}),
        (model, [replace(text, id=f"a{text.id}") for text in texts], cases, {}),
        (model, noted_, cases, {}),
    ]
    quiet = {"workers": 1, "progress": False}
    read_case_vectors(model, texts, cases, cache=tmp_path, **quiet)
    count = len(cached(tmp_path))
    for reader, some, asked, options in others:
        found = read_case_vectors(reader, some, asked, cache=tmp_path, **options, **quiet)
        truth = read_case_vectors(reader, some, asked, **options, **quiet)
        assert (found.attention == truth.attention).all()
        assert (found.states is None) == (truth.states is None)
        assert len(cached(tmp_path)) > count
        count = len(cached(tmp_path))
    named = [replace(case, relation="renamed") for case in cases]  # no vector depends on a name
    where = [replace(text, annotations={**text.annotations, "where": "row 3"}) for text in texts]
    read_case_vectors(
        attlas.load((model.network, model.tokenizer)), where, named, cache=tmp_path, **quiet
    )
    assert len(cached(tmp_path)) == count
    monkeypatch.setattr("attlas.experiments.workspace.source_digest", lambda: "other code")
    read_case_vectors(model, texts, cases, cache=tmp_path, **quiet)
    assert len(cached(tmp_path)) > count


def test_a_cache_sees_global_spans(tmp_path):
    banded, texts = tiny("longformer"), list(related_texts("embedded:relations"))[:12]
    wide = [replace(text, annotations={**text.annotations, "global": [(0, 25)]}) for text in texts]
    cases, quiet = gold_cases(texts, True), {"workers": 1, "progress": False}
    first = read_case_vectors(banded, texts, cases, cache=tmp_path, **quiet).attention
    second = read_case_vectors(banded, wide, cases, cache=tmp_path, **quiet).attention
    assert (second == read_case_vectors(banded, wide, cases, **quiet).attention).all()
    assert not np.allclose(first, second)


def test_a_cache_is_shared_and_nothing_else_in_it_is_touched(tmp_path, model, drawn):
    left, mine = tmp_path / ".attlas-abcdefgh.tmp", tmp_path / "mine.txt"
    left.write_text("another process's")
    mine.write_text("mine")
    models = [attlas.load((model.network, model.tokenizer)), tiny("bert")]
    quiet = {"cache": tmp_path, "workers": 1, "progress": False}
    with ThreadPoolExecutor(2) as pool:
        found = list(
            pool.map(lambda one: read_case_vectors(one, drawn.texts, drawn.cases, **quiet), models)
        )
    assert (found[0].attention == found[1].attention).all()
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {left.name, mine.name}
    assert len(cached(tmp_path)) == 1


def test_the_model_is_digested_once_for_all_shards(monkeypatch, tmp_path, model, drawn):
    monkeypatch.setattr(vectors_module, "SHARD", 3)
    calls, plain = [], attlas.Model.identity
    monkeypatch.setattr(
        attlas.Model, "identity", lambda one, *known: (calls.append(1), plain(one, *known))[1]
    )
    read_case_vectors(model, drawn.texts, drawn.cases, cache=tmp_path, workers=1, progress=False)
    assert len(calls) == 1


def test_a_failing_pass_is_no_shard(monkeypatch, tmp_path, model, drawn):
    monkeypatch.setattr(vectors_module, "SHARD", 3)
    seen: list[int] = []
    between_units = DenseAttention.between_units

    def fail(layer, members, mean):
        seen.append(1)
        if len(seen) > 10:
            raise RuntimeError("the machine stops")
        return between_units(layer, members, mean)

    with monkeypatch.context() as patch:
        patch.setattr(DenseAttention, "between_units", fail)
        with pytest.raises(RuntimeError, match="the machine stops"):
            read_case_vectors(
                model, drawn.texts, drawn.cases, cache=tmp_path, workers=1, progress=False
            )
    assert len(cached(tmp_path)) < 4
    found = read_case_vectors(
        model, drawn.texts, drawn.cases, cache=tmp_path, workers=1, progress=False
    )
    plain = read_case_vectors(model, drawn.texts, drawn.cases, workers=1, progress=False)
    assert (found.attention == plain.attention).all()


def test_phrases_that_were_cut_off_are_left_out_and_counted(model, work):
    short = replace(model, limit=8)
    text = text_of(
        "Ann hired Ben , and much later Kim hired Sam .",
        ("Ann", "Ben", "hired", "boss"),
        ("Kim", "Sam", "hired", "boss"),
    )
    cases = gold_cases([text], True)
    found = read_case_vectors(short, [text], cases, workers=1, progress=False)
    assert found.seen.tolist() == [False, False]
    assert (found.attention == 0).all()
    roomy = replace(model, limit=16)
    found = read_case_vectors(roomy, [text], cases, workers=1, progress=False)
    assert found.seen.tolist() == [True, False]
    assert (found.attention[1] == 0).all()
    assert found.unseen == 1
    kept = read_sample(work, roomy, [text], cases)
    lengths = kept.vectors.lengths
    assert [case.head for case in kept.cases] == [(0, 3)]
    assert kept.unseen == 1
    assert lengths.counts["truncated"] == 1
    with pytest.raises(CorpusError, match=r"none of the 2 triples can be used.*4 tokens"):
        read_sample(work, replace(model, limit=4), [text], cases)


def test_a_phrase_that_is_cut_in_the_middle_is_not_seen(model):
    text = Text("t", "the cat unbelievable")
    case = Case(0, (0, 3), (8, 20), (4, 7))
    pieces = len(model.tokenizer(text.text)["input_ids"])
    assert read_case_vectors(model, [text], [case], workers=1, progress=False).seen.all()
    assert read_case_vectors(
        replace(model, limit=pieces), [text], [case], workers=1, progress=False
    ).seen.all()
    assert not read_case_vectors(
        replace(model, limit=pieces - 1), [text], [case], workers=1, progress=False
    ).seen.any()


def test_texts_of_which_the_tokenizer_leaves_nothing_and_no_cases_at_all(model):
    texts = [Text("0", "\u200d"), Text("1", "Ann hired Ben")]
    cases = [Case(0, (0, 1), (0, 1), (0, 1)), Case(1, (0, 3), (10, 13), (4, 9))]
    for states in (False, True):
        found = read_case_vectors(model, texts, cases, states=states, workers=1, progress=False)
        assert found.seen.tolist() == [False, True]
        assert (found.attention[0] == 0).all()
    assert len(read_case_vectors(model, texts, [], workers=1, progress=False).attention) == 0
    assert len(read_case_vectors(model, [], [], workers=1, progress=False).attention) == 0


def test_counts_are_those_of_a_study(model, work):
    """A text without a token is excluded, one without a triple is read all the same."""
    long = "Ann hired Ben and " * 9
    texts = [
        Text("0", "\u200d"),
        text_of("Ann hired Ben", ("Ann", "Ben", "hired", "boss")),
        Text("2", long),
    ]
    short = replace(model, limit=12)
    lengths = read_sample(work, short, texts, gold_cases(texts, True)).vectors.lengths
    assert lengths.excluded == [0]
    assert (
        lengths.counts == attlas.study(short, texts, "entropy", progress=False).manifest["counts"]
    )
    assert lengths.counts["quarantined"] == lengths.counts["truncated"] == 1


def test_a_longformer_gives_the_same_from_its_band():
    banded = tiny("longformer")
    text = Text("t", "the cat sat with the dog and Ann hired Ben in the old town")
    cases = [Case(0, (0, 7), (17, 24), (8, 11)), Case(0, (29, 32), (39, 42), (33, 38))]
    found = read_case_vectors(banded, [text], cases, workers=1, progress=False)
    layers = attlas.testing.stream(banded, [text])[0]
    batch = layers[0].batch
    for number, case in enumerate(cases):
        tokens = {
            name: [
                n
                for n in range(batch.n_tokens)
                if not batch.special[0, n]
                and batch.offsets[0, n, 0] < span[1]
                and batch.offsets[0, n, 1] > span[0]
            ]
            for name, span in zip("htr", case.spans, strict=True)
        }
        for direction, name in enumerate(DIRECTIONS):
            cells = [
                layer.dense().weights[0][:, tokens[name[0]]][:, :, tokens[name[2]]].sum(-1).mean(-1)
                for layer in layers
            ]
            np.testing.assert_allclose(
                found.attention[number, direction], torch.cat(cells).numpy(), atol=1e-5
            )


# cases


def test_negatives_are_no_triples_and_depend_on_text_and_seed_alone():
    texts = related_texts("embedded:relations")[:60]
    gold = gold_cases(texts, True)
    found = negatives(texts, gold, 3, 0)
    triples = {
        case.text: {other[1:4] for other in map(tuple_of, gold) if other[0] == case.text}
        for case in gold
    }
    assert len(found) > 2.5 * len(gold)
    for case in found:
        assert not case.related
        assert tuple_of(case)[1:4] not in triples[case.text]
        assert apart(*case.spans)
        for other in gold:  # nor one whose phrases are cut otherwise
            if other.text == case.text:
                assert any(
                    apart(mine, theirs)
                    for mine, theirs in zip(case.spans, other.spans, strict=True)
                )
        text = texts[case.text].text
        assert all(0 <= start < stop <= len(text) for start, stop in case.spans)
        nominal, relational = pools(text, relations_in(texts[case.text]).triples)
        assert case.head in nominal
        assert case.tail in nominal
        assert case.words in relational
    assert len(set(map(tuple_of, found))) == len(found)
    each = Counter(case.text for case in found)
    assert max(each.values()) <= 3 * max(Counter(case.text for case in gold).values())
    order = np.random.default_rng(1).permutation(len(texts)).tolist()
    turned = [texts[place] for place in order]
    moved = negatives(turned, gold_cases(turned, True), 3, 0)
    assert {(order[case.text], *case.spans) for case in moved} == {
        (case.text, *case.spans) for case in found
    }
    assert negatives(texts, gold, 3, 1) != found
    assert negatives(texts[:5], gold_cases(texts[:5], True), 3, 0) == [
        case for case in found if case.text < 5
    ]


def tuple_of(case: Case) -> tuple[object, ...]:
    return case.text, case.head, case.tail, case.words


def test_negatives_of_pairs_have_no_words_and_are_no_pairs():
    texts = related_texts(rows(12, worded=False))
    gold = gold_cases(texts, False)
    found = negatives(texts, gold, 4, 0)
    assert found
    assert all(case.words is None for case in found)
    assert not {tuple_of(case) for case in found} & {tuple_of(case) for case in gold}


def test_no_triple_of_another_row_of_the_same_text_is_a_negative():
    """FewRel and SemEval have one row per triple: a text of several triples is repeated."""
    string = "Ann met Ben."
    texts = [
        text_of(string, ("Ann", "Ben", None, "a"), id="0"),
        text_of(string, ("Ben", "Ann", None, "b"), id="1"),
    ]
    found = negatives(texts, gold_cases(texts, False), 5, 0)
    gold = {(case.head, case.tail) for case in gold_cases(texts, False)}
    assert not [case for case in found if (case.head, case.tail) in gold]


def test_published_negatives_may_repeat_and_be_triples():
    texts = [text_of("Ann hired Ben today", ("Ann", "Ben", "hired", "boss"))]
    gold = gold_cases(texts, True)
    found = negatives(texts, gold, 200, 0, published=True)
    assert len(found) == 200
    assert len(set(found)) < 200
    assert tuple_of(gold[0]) in {tuple_of(case) for case in found}
    assert all(apart(*case.spans) and not case.related for case in found)


def test_units_of_the_paper_are_words_and_glued_phrases():
    text = text_of(
        "Maria Lund moved to New York City with Tom",
        ("Maria Lund", "New York City", "moved to", "home"),
    )
    nominal, relational = unit_pools(tagged(text.text), gold_cases([text], True))
    assert [text.text[slice(*span)] for span in nominal] == ["Maria Lund", "New York City", "Tom"]
    assert [text.text[slice(*span)] for span in relational] == ["moved to", "Tom"]


def test_first_occurrences_as_the_paper_looks_for_them():
    text = Text("t", "Ann saw Ben, and Ben hired Ann.")
    case = Case(0, (17, 20), (27, 30), (21, 26), "boss")
    moved = first_occurrences([text], [case])[0]
    assert moved == Case(0, (8, 11), (0, 3), (21, 26), "boss")
    assert first_occurrences([text], [replace(case, words=None)])[0].words is None


def test_negatives_of_a_document_come_from_the_sentences_of_its_triples():
    string = "Ann hired Ben. The dog saw the cat. Tom left."
    triple = Triple((0, 3), (10, 13), "boss")
    text = Text("d", string, annotations={RELATIONS: Relations((triple,), sentences=(0, 15, 36))})
    found = negatives([text], gold_cases([text], False), 3, 0)
    assert {span for case in found for span in case.spans} <= {(0, 3), (10, 13)}


def test_related_texts_need_triples_and_good_rows():
    with pytest.raises(CorpusError, match="no triples"):
        related_texts(["Ann hired Ben"])
    with pytest.raises(CorpusError, match="no triples"):
        related_texts([{"text": "Ann hired Ben", "triples": []}])
    with pytest.raises(CorpusError, match="empty"):
        related_texts([*rows(2), {"text": "", "triples": []}])
    absent = {"head": "Ann", "tail": "Zoe", "relation": "boss"}
    over = {"head": "Ann hired", "tail": "hired Ben", "relation": "boss"}
    given_ = related_texts(
        [
            {
                "text": "Ann hired Ben",
                "triples": [absent, over, {"head": "Ann", "tail": "Ben", "relation": "boss"}],
            }
        ]
    )
    assert count_unusable(given_) == {"not in the text": 1, "overlap": 1}
    assert len(gold_cases(given_, False)) == 1
    assert not has_words(given_)


# linear readers


def blobs(
    rng: np.random.Generator, cases: int, features: int, classes: int
) -> tuple[np.ndarray, list[str]]:
    """Cases of classes that overlap, uneven, with correlated features of uneven scale."""
    of = np.concatenate(
        [
            np.arange(classes),
            rng.choice(classes, cases - classes, p=(p := np.arange(1, classes + 1)) / p.sum()),
        ]
    )
    mix = rng.normal(size=(features, features)) / 2
    x = (rng.normal(size=(cases, features)) + np.eye(classes, features)[of] * 1.5) @ mix + 3
    return x.astype(np.float32), [f"c{number}" for number in of]


@pytest.mark.parametrize("penalty", [0.05, 1.0])
@pytest.mark.parametrize("even", [False, True])
def test_multinomial_is_scikit_learns(penalty, even):
    x, names = blobs(np.random.default_rng(3), 150, 6, 4)
    classes = np.array([int(name[1:]) for name in names])
    theirs = LogisticRegression(
        C=penalty, class_weight="balanced" if even else None, tol=1e-8, max_iter=5000
    )
    theirs.fit(x.astype(np.float64), classes)
    weights = balanced(classes) if even else np.full(len(x), 1 / len(x))
    found = multinomial(x, classes, penalty, weights, tolerance=1e-7)
    assert found.converged
    scores = x @ found.weights[:-1] + found.weights[-1]
    np.testing.assert_allclose(
        scores - scores.mean(1, keepdims=True),
        (s := theirs.decision_function(x)) - s.mean(1, keepdims=True),
        atol=5e-4,
    )
    coef = found.weights[:-1].T
    np.testing.assert_allclose(coef - coef.mean(0), theirs.coef_ - theirs.coef_.mean(0), atol=5e-4)


def test_fit_reader_is_scikit_learns_before_it_is_calibrated():
    x, names = blobs(np.random.default_rng(4), 150, 5, 3)
    for whiten in (False, True):
        reader = fit_reader(x, names, (x, names), by_macro_f1, (0.3,), whiten=whiten)
        mean, scale, axes = whitening(x) if whiten else (0, 1, np.eye(5))
        theirs = LogisticRegression(C=0.3, class_weight="balanced", tol=1e-8, max_iter=5000)
        theirs.fit(((x - mean) / scale) @ axes, names)
        plain = replace(reader, temperature=1.0)
        np.testing.assert_allclose(
            plain.probabilities(x), theirs.predict_proba(((x - mean) / scale) @ axes), atol=5e-3
        )
        assert reader.classes == ("c0", "c1", "c2")
        assert reader.converged
        assert reader.steps > 3


def test_whitening_folds_into_the_coefficients():
    rng = np.random.default_rng(5)
    x, names = blobs(rng, 120, 6, 3)
    x = np.concatenate(
        [x, np.full((120, 1), 7, np.float32), x[:, :1] * 1000], 1
    )  # constant, and the same twice
    mean, scale, axes = whitening(x)
    inner = (((x - mean) / scale) @ axes).astype(np.float32)
    spread = np.cov(inner.T, bias=True)
    assert np.abs(spread - np.diag(np.diag(spread))).max() < 1e-2
    assert np.diag(spread).max() <= 1.0001
    reader = fit_reader(x, names, (x, names), by_macro_f1, (1.0,))
    classes = np.unique(names, return_inverse=True)[1].astype(np.int64)
    solved = multinomial(inner, classes, 1.0, balanced(classes))
    np.testing.assert_allclose(
        reader.decision(x), inner @ solved.weights[:-1] + solved.weights[-1], atol=5e-3
    )


def log_loss(
    reader: LinearReader, x: np.ndarray, names: list[str], weights: np.ndarray | float = 1.0
) -> float:
    chances = reader.probabilities(x)[
        np.arange(len(x)), [reader.classes.index(name) for name in names]
    ]
    return float(-(np.log(np.maximum(chances, 1e-12)) * weights).sum())


@pytest.mark.parametrize("classes", [2, 4])
def test_calibration_improves_dev_log_loss(classes):
    rng = np.random.default_rng(6)
    both, answers = blobs(rng, 150, 8, classes)
    x, names, y, labels = both[:60], answers[:60], both[60:], answers[60:]
    reader = fit_reader(x, names, (x, names), by_macro_f1, (300.0,))  # sure of too much
    plain = replace(reader, temperature=1.0, offset=0.0)
    found = calibrate(plain, y, labels)
    number = np.array([int(name[1:]) for name in labels])
    weights = balanced(number) if classes == 2 else 1 / len(labels)
    mine = log_loss(found, y, labels, weights)
    assert mine <= log_loss(plain, y, labels, weights)
    best = minimize_scalar(
        lambda t: log_loss(replace(found, temperature=float(np.exp(t))), y, labels, weights),
        (-3, 3),
    )
    assert mine <= best.fun + 1e-4
    if classes > 2:
        assert (found.predict(y) == plain.predict(y)).all()
        assert found.offset == 0
    np.testing.assert_allclose(found.probabilities(y).sum(1), 1)
    assert calibrate(plain, y, ["never learnt"] * len(y)) is plain


def test_the_best_penalty_on_dev_is_kept_the_stronger_of_equals():
    x, names = blobs(np.random.default_rng(7), 80, 4, 3)
    values = {0.01: 1.0, 0.1: 2.0, 1.0: 2.0, 10.0: 0.0}
    reader = fit_reader(
        x, names, (x, names), lambda reader, *_: values[reader.penalty], (10.0, 0.1, 1.0, 0.01)
    )
    assert reader.penalty == 0.1
    with pytest.raises(CorpusError, match="penalties is empty"):
        fit_reader(x, names, (x, names), by_balanced_accuracy, ())
    with pytest.raises(CorpusError, match=r"all 80 cases are .*at least two"):
        fit_reader(x, ["a"] * 80, (x, names), by_balanced_accuracy)
    with pytest.raises(CorpusError, match="no cases"):
        fit_reader(x[:0], [], (x, names), by_balanced_accuracy)


def test_judges_weigh_classes_the_same():
    reader = LinearReader(("a", "b"), np.array([[0.0], [1.0]]), np.zeros(2), np.ones(1), 1.0)
    x = np.array([[1.0], [1.0], [1.0], [-1.0], [1.0]])
    names = np.array(["b", "b", "b", "a", "a"])
    assert by_balanced_accuracy(reader, x, names) == 0.75
    assert by_macro_f1(reader, x, names) == pytest.approx((2 / 3 + 6 / 7) / 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_published_reader_is_saga_on_what_is_there(classes):
    x, names = blobs(np.random.default_rng(8), 90, 4, classes)
    reader = fit_published(x, names, True)
    with (
        pytest.warns(Warning, match=r"max_iter|converge")
        if reader.steps == 100
        else pytest.MonkeyPatch.context()
    ):
        theirs = LogisticRegression(
            solver="saga", max_iter=100, class_weight="balanced", random_state=0
        ).fit(x, names)
    np.testing.assert_allclose(reader.probabilities(x), theirs.predict_proba(x), atol=1e-5)
    assert reader.temperature == 1
    assert reader.offset == 0


# scores


@given(strategies.generators, st.integers(2, 40))
@settings(max_examples=30)
def test_scores_are_scikit_learns(rng, size):
    related = rng.random(size) < 0.6
    related[:2] = True, False
    gold = rng.choice(list("abcd"), related.sum())
    named = rng.choice(list("abcde"), related.sum())
    right, text = rng.random(size) < 0.7, rng.integers(0, 5, size)
    answers = Answers(text, related, right, gold, named)
    found = answers.scores()
    expected = precision_recall_fscore_support(
        gold, named, labels=np.unique(gold), average="macro", zero_division=0
    )
    np.testing.assert_allclose(
        [found["precision"], found["recall"], found["f1"]], expected[:3], atol=1e-9
    )
    yes = np.where(right, related, ~related)
    assert found["binary_accuracy"] == pytest.approx(balanced_accuracy_score(related, yes))


def told_of(rng: np.random.Generator, texts: int, skill: float) -> Answers:
    gold = np.tile(list("abc"), texts)[:texts]  # readers are compared on the same cases
    named = np.where(rng.random(texts) < skill, gold, rng.choice(list("abc"), texts))
    related = np.tile([True, False], texts)
    return Answers(
        np.repeat(np.arange(texts), 2), related, rng.random(2 * texts) < skill, gold, named
    )


def test_intervals_hold_the_point_shrink_and_compare_the_same_texts():
    rng = np.random.default_rng(0)
    widths = []
    for texts in (40, 640):
        good, poor = told_of(rng, texts, 0.9), told_of(rng, texts, 0.4)
        rows_ = intervals({"good": good, "poor": poor}, texts, "good")
        for name in ("good", "poor"):
            for score in ("binary_accuracy", "f1"):
                row = rows_[name]
                assert row[f"{score}_low"] <= row[score] <= row[f"{score}_high"]
                assert (
                    row[f"{score}_ahead_low"] <= row[f"{score}_ahead"] <= row[f"{score}_ahead_high"]
                )
        assert rows_["poor"]["f1_ahead"] == pytest.approx(good.scores()["f1"] - poor.scores()["f1"])
        assert (
            rows_["good"]["f1_ahead"]
            == rows_["good"]["f1_ahead_low"]
            == rows_["good"]["f1_ahead_high"]
            == 0
        )
        assert rows_["poor"]["f1_ahead_low"] > 0
        widths.append(rows_["good"]["f1_high"] - rows_["good"]["f1_low"])
        assert intervals({"good": good, "poor": poor}, texts, "good") == rows_
    assert widths[1] < widths[0] / 2


def found_of(*spans: tuple[int, int], relation: str = "r", related: float = 1.0) -> ExtractedTriple:
    return ExtractedTriple(
        spans[0], spans[1], spans[2] if len(spans) > 2 else None, relation, related, 1.0
    )


def test_matches_by_hand():
    text = "Ann Lee was born in Oslo"
    gold = Triple((0, 7), (20, 24), "born", (12, 19))
    assert exact(text, found_of((0, 7), (20, 24), (12, 19)), gold)
    assert exact(text, found_of((0, 7), (20, 24)), gold)  # no words to compare
    assert not exact(text, found_of((0, 3), (20, 24), (12, 19)), gold)
    assert not exact(text, found_of((0, 7), (20, 24), (8, 19)), gold)
    assert lenient(text, found_of((0, 3), (20, 24), (8, 19)), gold)
    assert not lenient(text, found_of((20, 24), (0, 7), (12, 19)), gold)
    assert lenient("listen to silent", found_of((0, 6), (7, 9)), Triple((10, 16), (7, 9), "r"))


def test_precision_recall_and_f1_by_hand():
    text = "a b c d e f"
    a, b, c, d = (0, 1), (2, 3), (4, 5), (6, 7)
    gold = [Triple(a, b, "x"), Triple(c, d, "x"), Triple(b, c, "y")]
    found = [
        found_of(a, b, relation="x"),
        found_of(c, d, relation="y"),
        found_of(a, d, relation="x"),
    ]
    row = extraction_scores([text], [found], [gold], exact)
    assert row["precision"] == row["recall"] == row["f1"] == pytest.approx(1 / 3)
    assert (row["predicted"], row["gold"]) == (3, 3)
    assert row["macro_precision"] == pytest.approx((1 / 2 + 0) / 2)
    assert row["macro_recall"] == pytest.approx((1 / 2 + 0) / 2)
    open_ = extraction_scores([text], [found], [gold], exact, relation=False)
    assert open_["precision"] == open_["recall"] == pytest.approx(2 / 3)
    twice = [found_of(a, b, relation="x"), found_of(a, b, relation="x")]
    assert extraction_scores([text], [twice], [gold], exact)["precision"] == 0.5
    assert extraction_scores([text], [twice], [gold], lenient)["precision"] == 1
    nothing = extraction_scores([text], [[]], [gold], exact)
    assert (nothing["precision"], nothing["recall"], nothing["f1"], nothing["macro_f1"]) == (
        0,
        0,
        0,
        0,
    )
    assert extraction_scores([text], [found], [[]], exact)["f1"] == 0
    assert extraction_scores([], [], [], exact)["f1"] == 0


@given(strategies.generators, st.booleans(), st.booleans())
@settings(max_examples=80)
def test_matching_is_its_slow_twin(rng, strict, relation):
    texts = ["abc abd xyz abc ab", "the cat the dog"]

    def span(text):
        start = int(rng.integers(0, len(text) - 4))
        return start, start + int(rng.integers(1, 4))

    found = [
        [
            ExtractedTriple(
                span(t),
                span(t),
                span(t) if rng.random() < 0.5 else None,
                str(rng.choice(["r", "s"])),
                1.0,
                1.0,
            )
            for _ in range(rng.integers(0, 5))
        ]
        for t in texts
    ]
    gold = [
        [
            Triple(
                span(t),
                span(t),
                str(rng.choice(["r", "s"])),
                span(t) if rng.random() < 0.5 else None,
            )
            for _ in range(rng.integers(0, 4))
        ]
        for t in texts
    ]
    for mine, theirs in zip(found, gold, strict=True):  # some that are right
        mine += [
            ExtractedTriple(t.head, t.tail, t.words, t.relation, 1.0, 1.0)
            for t in theirs
            if rng.random() < 0.5
        ]
    row = extraction_scores(texts, found, gold, exact if strict else lenient, relation)
    counts = np.sum(
        [scores_slowly(*one, strict, relation) for one in zip(texts, found, gold, strict=True)], 0
    )
    predicted, all_gold = sum(map(len, found)), sum(map(len, gold))
    assert row["precision"] == pytest.approx(counts[0] / predicted if predicted else 0)
    missed = all_gold - counts[1]
    sums = (
        (counts[1], all_gold) if strict else (counts[0], counts[0] + missed)
    )  # as published, every right prediction counts
    assert row["recall"] == pytest.approx(sums[0] / sums[1] if sums[1] else 0)


# candidates from plain text


def sentences_of(extractor, strings):
    """Sentences with their candidates and the attention between these."""
    made = [next(iter(sentences_in(0, string, extractor.setup_))) for string in strings]
    inputs = [(number, Text(str(number), one.text)) for number, one in enumerate(made)]
    mean = extractor.convention != "published"
    for units in read_units(
        extractor.model_, inputs, {n: one.spans for n, one in enumerate(made)}, mean=mean
    ):
        yield made[units.index], units


def check_candidates(extractor, strings, monkeypatch, reach=40):
    monkeypatch.setattr(extraction, "REACH", reach)
    how = extractor.readers_, extractor.setup_
    rng = np.random.default_rng(0)
    total = 0
    for number, (sentence, units) in enumerate(sentences_of(extractor, strings)):
        if number % 2:
            units = replace(units, seen=units.seen & (rng.random(len(units.seen)) < 0.7))
        slow = candidates_slowly(extractor, sentence, units, reach)
        triples, chances = candidates(sentence, units, *how, 0.0)
        assert len({triple[:2] for triple in triples}) == len(triples)
        assert {triple[:2] for triple in triples} == {*slow}
        for triple, chance in zip(triples, chances, strict=True):
            mine = slow[triple[:2]]
            assert chance == pytest.approx(max(mine.values()), abs=1e-4)
            assert mine[triple[2] if extractor.uses_relation_words_ else None] == pytest.approx(
                max(mine.values()), abs=1e-4
            )
        some, likely = candidates(sentence, units, *how, 0.5)
        assert [*zip(some, likely, strict=True)] == [
            pair for pair in zip(triples, chances, strict=True) if pair[1] >= 0.5
        ]
        total += len(triples)
    assert total > 5


@pytest.mark.parametrize("reach", [3, 40])
def test_candidates_are_those_of_all_vectors(known, monkeypatch, reach):
    check_candidates(known.extractor, [text.text for text in known.test[:8]], monkeypatch, reach)


@pytest.mark.parametrize(
    "options", [{"directions": ("r-t", "h-t")}, {"convention": "published"}, {"worded": False}]
)
def test_candidates_of_other_readers(model, monkeypatch, options):
    worded = options.get("worded", True)
    others = {name: value for name, value in options.items() if name != "worded"}
    made = RelationExtractor(model, negatives=1, grid=(0.1,), workers=1, progress=False, **others)
    made.fit(rows(24, worded=worded), rows(9, 1, worded=worded))
    assert made.uses_relation_words_ == worded
    check_candidates(made, [row["text"] for row in rows(3, 5)], monkeypatch)


def test_a_direction_given_twice_is_read_twice_or_refused(model, monkeypatch):
    made = RelationExtractor(
        model, directions=("h-t", "h-t", "h-r"), negatives=1, grid=(0.1,), workers=1, progress=False
    )
    try:
        made.fit(rows(24), rows(9, 1))
    except MeasureError:
        return
    check_candidates(made, [row["text"] for row in rows(3, 5)], monkeypatch)


def test_of_candidates_that_join_the_same_the_likeliest_stays(known):
    how = known.extractor.readers_, known.extractor.setup_
    for sentence, units in sentences_of(known.extractor, [text.text for text in known.test[:6]]):
        triples, chances = candidates(sentence, units, *how, 0.0)
        kept = []
        for number in sorted(range(len(triples)), key=lambda n: -chances[n]):
            head, tail = (units.spans[part] for part in triples[number][:2])
            for other in kept:
                one, two = (units.spans[part] for part in triples[other][:2])
                if (not apart(head, one) and not apart(tail, two)) or (
                    not apart(head, two) and not apart(tail, one)
                ):
                    break
            else:
                kept.append(number)
        found = list(best_triples(sentence, units, *how, 0.0))
        assert [(one.head, one.tail, one.related) for one in found] == [
            (units.spans[triples[n][0]], units.spans[triples[n][1]], chances[n]) for n in kept
        ]
        features = candidate_features(units, np.array([triples[number] for number in kept]), how[1])
        named = known.extractor.readers_.named.probabilities(features)
        assert [one.named for one in found] == pytest.approx(named.max(1).tolist())
        assert [one.relation for one in found] == np.array(known.extractor.classes_)[
            named.argmax(1)
        ].tolist()


# controls


def test_distances_by_hand():
    text = Text("t", "Ann hired old Ben , there")  # six words
    surface = Surface([text])
    found = surface.distance([Case(0, (0, 3), (10, 17), (4, 9)), Case(0, (10, 17), (0, 3), (4, 9))])
    assert found.shape[1] == 1 + 3 * 4 + 3 * (2 + len(GAPS) + 1) + 6
    width = 2 + len(GAPS) + 1

    def parts(row):
        row = row.tolist()
        head, row = row[1:5], row[5:]
        tail_gap, words_gap, row = row[:width], row[width : 2 * width], row[2 * width :]
        tail, row = row[:4], row[4:]
        return (
            head,
            tail_gap,
            words_gap,
            tail,
            row[:width],
            row[width : width + 4],
            row[width + 4 :],
        )

    head, to_tail, to_words, tail, tail_to_words, words, order = parts(found[0])
    assert found[0, 0] == pytest.approx(np.log1p(6))
    assert head == [1, 0, 1, 0]
    assert tail == pytest.approx([2, 2 / 6, 0, 0])
    assert words == pytest.approx([1, 1 / 6, 0, 0])
    assert (to_tail[0], to_words[0], tail_to_words[0]) == (2, 1, -1)
    assert to_tail[1] == pytest.approx(np.log1p(2))
    assert sum(to_tail[2:]) == sum(to_words[2:]) == sum(tail_to_words[2:]) == 1
    assert to_tail[2:].index(1) == [*GAPS].index(2) + 1
    orders = [*permutations(range(3))]
    assert orders[order.index(1)] == (0, 2, 1)  # head, words, tail
    head, to_tail, to_words, tail, tail_to_words, words, order = parts(found[1])
    assert (to_tail[0], to_words[0], tail_to_words[0]) == (-2, -1, 1)
    assert orders[order.index(1)] == (1, 2, 0)
    assert surface.distance([Case(0, (0, 3), (10, 17), None)]).shape[1] == 1 + 2 * 4 + width + 2


def test_parts_of_speech_by_hand():
    text = Text("t", "The dog chased Ann")
    found = Surface([text]).tags([Case(0, (0, 7), (15, 18), (8, 14))])[0].reshape(3, 4, len(TAGS))
    tags = [[[TAGS[n] for n in np.flatnonzero(row)] for row in part] for part in found]
    assert tags[0] == [["NOUN"], [""], ["VERB"], ["NOUN", "DET"]]
    assert tags[1] == [["PROPN"], ["VERB"], [""], ["PROPN"]]
    assert tags[2] == [["VERB"], ["NOUN"], ["PROPN"], ["VERB"]]


def test_bags_by_hand():
    texts = [Text("0", "Ann was Hired by Ben"), Text("1", "Ben hired Ann")]
    cases = [Case(0, (0, 3), (17, 20), (4, 16)), Case(1, (0, 3), (10, 13), (4, 9))]
    surface = Surface(texts)
    assert surface.strings(cases[0]) == ["was", "hired", "by", "= was hired by"]
    vocabulary = surface.vocabulary(cases)
    assert next(iter(vocabulary)) == "hired"
    known_ = {"hired": 0, "by": 1, "= hired": 2, "none": 3}
    assert surface.bag(cases, known_).tolist() == [[1, 1, 0, 0], [1, 0, 1, 0]]
    pairs = [replace(case, words=None) for case in cases]
    assert surface.strings(pairs[0]) == ["< head first", "was", "hired", "by"]
    assert surface.strings(Case(1, (10, 13), (0, 3), None)) == ["< tail first", "hired"]
    assert surface.strings(Case(1, (0, 3), (3, 9), None)) == ["< head first"]
    assert len(surface.vocabulary(cases, 1)) == 1
    triples = [cases[0], replace(cases[1], relation="boss")]  # words of triples come first
    assert {*surface.vocabulary(triples, 2)} == {"hired", "= hired"}


def test_word_vectors_are_means_over_the_words_of_a_phrase(model):
    texts = [Text("0", "the cat sat with Ann"), Text("1", "Ann saw the cat")]
    cases = [Case(0, (0, 7), (17, 20), (8, 11)), Case(1, (8, 15), (0, 3), (4, 7))]
    found = Surface(texts).embeddings(cases, model).reshape(2, 3, -1)
    table = dict(
        zip(
            words := ["the", "cat", "sat", "Ann", "saw"], ModelVectors(model).of(words), strict=True
        )
    )
    np.testing.assert_allclose(found[0, 0], (table["the"] + table["cat"]) / 2, atol=1e-6)
    np.testing.assert_allclose(found[0, 0], found[1, 0], atol=1e-6)  # whatever the text around it
    np.testing.assert_allclose(found[0, 2], table["sat"], atol=1e-6)


def phrased(*counts: tuple[str, str, int]) -> Sample:
    texts, cases = [], []
    for relation, words, count in counts:
        for _ in range(count):
            texts.append(Text(str(len(texts)), f"Ann {words} Ben"))
            cases.append(
                Case(
                    len(cases),
                    (0, 3),
                    (5 + len(words), 8 + len(words)),
                    (4, 4 + len(words)),
                    relation,
                )
            )
    blank = np.zeros((len(cases), 6, 1), np.float32)
    return Sample(texts, tuple(cases), CaseVectors(blank, np.ones(len(cases), bool)), 0)


@pytest.mark.parametrize("seed", range(5))
def test_held_out_phrases_leave_the_most_frequent_one(seed):
    of = phrased(
        ("boss", "hired", 6),
        ("boss", "paid", 3),
        ("boss", "led", 2),
        ("spouse", "wed", 2),
        ("spouse", "married", 2),
        ("pupil", "taught", 4),
        ("pupil", "paid", 1),
    )
    found = held_out_phrases(of, seed)
    assert not {"hired", "taught"} & found
    assert len(found & {"wed", "married"}) < 2
    assert "led" in found
    assert found == held_out_phrases(of, seed)
    assert held_out_phrases(phrased(("boss", "hired", 4), ("pupil", "taught", 3))) == frozenset()


def answers_of(part: Part, readers: dict[str, Readers]) -> dict[str, Answers]:
    return {
        name: Answers.by(one, part.features[name].features, part.sample)
        for name, one in readers.items()
    }


def test_kinds_of_features_and_their_controls(evidence, work):
    train, tune = evidence.train, evidence.tune
    assert HEAD_TAIL in feature_kinds(True)
    assert HEAD_TAIL not in feature_kinds(False)
    assert [*train.features] == [*tune.features] == [*feature_kinds(True)] == [*FEATURE_KINDS]
    made = work_module.fit_all(work, train, tune).readers
    assert {*made} == {*FEATURE_KINDS}
    assert (
        made[ATTENTION].named.coef == evidence.readers.named.coef
    ).all()  # as the estimator's own
    answers = answers_of(tune, made)
    assert answers[BAG].scores()["f1"] == 1  # the words say it
    shape = {name: train.features[name].features.shape[1] for name in (ATTENTION, BAG, BOTH)}
    assert shape[BOTH] == shape[ATTENTION] + shape[BAG]
    assert list(train.sample.cases) == list(train.random.cases)
    assert not np.allclose(train.features[RANDOM].features, train.features[ATTENTION].features)
    expected = attention_features(train.sample.vectors, train.setup, ("h-t", "t-h"))
    assert (train.features[HEAD_TAIL].features == expected).all()
    table = each_relation(answers, {"boss": "employer"}, ATTENTION)
    assert table["relation"].tolist() == ["boss", "spouse", "teacher"]
    assert table["n"].tolist() == [5, 5, 5]
    assert table["name"].tolist() == ["employer", "", ""]
    own = answers[ATTENTION]
    labels = precision_recall_fscore_support(
        own.gold, own.named, labels=["boss", "spouse", "teacher"], zero_division=0
    )
    np.testing.assert_allclose(
        table[["precision", "recall", "f1"]].to_numpy(), np.array(labels[:3]).T, atol=1e-9
    )


def test_phrases_not_learnt_from_are_scored_apart(evidence):
    train, tune = evidence.train, evidence.tune
    whole = dict.fromkeys(FEATURE_KINDS, evidence.readers)

    def readers(*phrases: str) -> dict[str, LinearReader]:
        jobs = unseen_jobs(train, tune, frozenset(phrases), whole)
        return {name: fitted(job) for name, job in jobs.items()}

    few = readers("nothing of this")
    assert {*few} == {*FEATURE_KINDS}
    assert all(
        reader.penalty == evidence.readers.named.penalty for reader in few.values()
    )  # nothing to tune on
    scores = unseen_scores(tune, few, frozenset({"nothing of this"}))
    assert scores == {"cases": 0, "phrases": 0, "relations": 0}
    assert all(reader.classes == ("spouse", "teacher") for reader in readers("hired").values())


def test_held_out_phrases_are_tuned_on_or_scored_never_both():
    names = [f"phrase {number}" for number in range(21)]
    first, second = halves(names)
    assert first | second == {*names}
    assert not first & second
    assert abs(len(first) - len(second)) <= 1
    assert halves(reversed(names)) == (first, second)


# interpretation


def test_a_planted_head_enters_first():
    rng = np.random.default_rng(0)
    groups = np.tile(np.arange(6), 3)  # three directions of six heads
    names = rng.choice(list("abc"), 150)
    x = rng.normal(size=(150, 18)).astype(np.float32)
    x[:, groups == 4] += np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2]])[
        np.array(["abc".index(n) for n in names])
    ]
    x[:, 2] += (names == "a") * 0.8  # and a weaker one
    x[:, groups == 1] *= 1000
    order = heads_order(x, names.tolist(), groups)
    assert order[:2] == [4, 2]
    assert sorted(order) == list(range(6))


def test_merges_are_scipys(small):
    reader = small.readers_.named
    vectors = reader.coef.astype(np.float64) * reader.scale
    vectors = vectors - vectors.mean(0)
    np.testing.assert_allclose(merges(reader, "ward"), linkage(vectors, "ward"), rtol=1e-4)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert merges(reader)[0, 2] == pytest.approx(
        min(1 - unit[a] @ unit[b] for a in range(3) for b in range(a)), rel=1e-4
    )
    with pytest.raises(MeasureError, match="cosine or ward"):
        merges(reader, "single")
    frame = merges_frame(reader, {"boss": "employer"})
    assert frame["linkage"].value_counts().to_dict() == {"cosine": 2, "ward": 2}
    assert {"employer", "spouse", "teacher"} == {*frame["left_name"], *frame["right_name"]} - {""}
    assert frame["node"].tolist() == [3, 4, 3, 4]


def test_tables_of_interpretation(evidence, model, work, monkeypatch):
    monkeypatch.setattr(interpret_module, "FEW", (0.3,))
    train, tune, readers = evidence.train, evidence.tune, evidence.readers
    own, random = (Sides(train.features[name], tune.features[name]) for name in (ATTENTION, RANDOM))
    directions = directions_table(work, own, random, readers, DIRECTIONS)
    assert directions["direction"].tolist() == [*DIRECTIONS]
    scores = [
        f"{score}_{way}"
        for way in ("alone", "without", "alone_random")
        for score in ("binary_accuracy", "f1")
    ]
    assert directions.columns.tolist() == ["direction", "weight_related", "weight_named", *scores]
    weights = np.abs(
        (readers.related.coef[1] - readers.related.coef[0]) * readers.related.scale
    ).reshape(6, -1)
    np.testing.assert_allclose(directions["weight_related"], weights.mean(1), rtol=1e-5)
    assert directions[scores].to_numpy().min() >= 0
    assert directions[scores].to_numpy().max() <= 1
    states = tuple(part.sample.vectors.states for part in (train, tune))
    layers = layers_table(work, own, random, states, (3, 4))
    assert layers.columns.tolist() == ["layer", "reader", "relation", "f1"]
    assert layers.groupby("reader").size().to_dict() == dict.fromkeys(
        (ATTENTION, RANDOM, "hidden_states", "hidden_states_few"), 9
    )
    path, entered = path_table(work, own, (3, 4))
    assert path["heads"].tolist() == [1, 2, 4, 8, 12]
    assert (path["f1_random_low"] <= path["f1_random_high"]).all()
    assert path["f1"].iloc[-1] == path["f1_random"].iloc[-1]
    assert sorted(zip(entered["layer"], entered["head"], strict=True)) == [
        (n // 4, n % 4) for n in range(12)
    ]
    merged = merged_table(work, own, readers.named)
    assert merged["classes"].tolist() == [3, 2]
    heads, shared = heads_table(readers.named, (3, 4), {})
    assert len(heads) == 3 * 5
    assert (heads.groupby("relation")["share"].sum() <= 1).all()
    assert (heads["share_uniform"] == 1 / 12).all()
    assert len(shared) == 3
    assert shared["p"].between(0, 1).all()
    assert similarity_table(
        model, train.sample, {ATTENTION: readers.named}
    ).empty  # too few relations


def test_relations_of_like_words_have_like_coefficients_or_not(known):
    sample = sample_of(known.extractor, known.train)
    table = similarity_table(
        known.extractor.model_, sample, {ATTENTION: known.extractor.readers_.named}, draws=50
    )
    assert table.columns.tolist() == ["reader", "correlation", "p", "relations"]
    assert table["relations"].tolist() == [4]
    assert table["correlation"].between(-1, 1).all()
    assert table["p"].between(1 / 51, 1).all()


# the extractor


def test_what_was_learnt(known):
    fitted = known.extractor
    assert fitted.uses_relation_words_
    assert fitted.classes_.tolist() == ["born_in", "capital_of", "married_to", "works_for"]
    assert fitted.n_features_in_ == 6 * 6 * 12 == len(fitted.get_feature_names_out())
    assert fitted.get_feature_names_out()[[0, 12, 72]].tolist() == ["h-r 0 0", "h-r 1 0", "r-t 0 0"]
    assert fitted.readers_.related.converged
    assert fitted.readers_.named.converged
    scores = fitted.answers(known.test).scores()
    assert scores["binary_accuracy"] > 0.75
    assert scores["f1"] > 0.75
    assert fitted.score(known.test) == scores["f1"]
    assert all(0 < threshold < 1 or threshold == 0 for threshold in fitted.thresholds_)


def test_found_triples_are_phrases_of_the_text(known):
    for text, found in zip(known.test[:20], known.extractor.predict(known.test[:20]), strict=True):
        for one in found:
            record = one.record(text.text)
            assert {"head", "relation_words", "tail", "relation", "probability"} <= {*record}
            assert text.text[slice(*one.head)] == record["head"]
            assert apart(one.head, one.tail, one.words)
            assert one.related >= known.extractor.thresholds_[0]
            assert one.named >= known.extractor.thresholds_[1]
            assert record["probability"] == pytest.approx(one.related * one.named)
            json.dumps(record)
    assert sum(map(len, known.extractor.predict(known.test[:20]))) > 5


def test_the_likeliest_triple_is_first(known):
    """What is printed is `probability`, so that is what goes down."""
    text = " ".join(text.text for text in known.test[:12])
    found = [one.probability for one in known.extractor.extract(text)]
    assert len(found) > 3
    assert found == sorted(found, reverse=True)


def test_a_document_has_the_triples_of_its_sentences(known):
    strings = [text.text for text in known.test[:6]]
    document = "\n\n".join(strings)
    starts = np.cumsum([0, *(len(string) + 2 for string in strings)])
    alone = known.extractor.predict(strings)
    expected = set()
    for start, mine in zip(starts[:-1].tolist(), alone, strict=True):
        for one in mine:
            moved = [
                None if span is None else (span[0] + start, span[1] + start)
                for span in (one.head, one.tail, one.words)
            ]
            expected.add((*moved, one.relation, round(one.related, 4)))
    found = known.extractor.extract(document)
    assert {
        (one.head, one.tail, one.words, one.relation, round(one.related, 4)) for one in found
    } == expected
    assert expected


def test_texts_come_in_order_and_alone_as_together(known, monkeypatch):
    monkeypatch.setattr(extraction, "CHUNK", 3)
    texts = known.test[:10]
    made = copy.copy(known.extractor)
    made.workers = 3
    pairs = list(made.predict_iter(iter(texts)))
    assert [text.id for text, _ in pairs] == [text.id for text in texts]
    for (_, mine), theirs in zip(
        pairs, [known.extractor.predict([text])[0] for text in texts], strict=True
    ):
        assert [(one.head, one.tail, one.words, one.relation) for one in mine] == [
            (one.head, one.tail, one.words, one.relation) for one in theirs
        ]
        assert [one.related for one in mine] == pytest.approx(
            [one.related for one in theirs], abs=1e-5
        )


def test_texts_are_read_as_they_are_wanted(known, monkeypatch):
    monkeypatch.setattr(extraction, "CHUNK", 2)
    taken: list[int] = []

    def endless():
        number = 0
        while True:
            taken.append(number)
            yield Text(str(number), known.test[number % 5].text)
            number += 1

    found = known.extractor.predict_iter(endless())
    for _ in range(4):
        next(found)
    found.close()
    assert len(taken) < 20


@pytest.mark.parametrize(
    "string",
    [
        "👍 ❤️ 👩‍👩‍👧",
        "and of the",
        "run",
        "...",
        "Ann",
        "\u200d \u200d",
        "世界 カタカナ",
        "Ann hired " * 3,
    ],
)
def test_odd_texts_have_few_triples_or_none(known, string):
    for one in known.extractor.extract(string):
        assert 0 <= one.head[0] < one.head[1] <= len(string)


def test_an_empty_text_is_one_clear_error(known):
    for string in ("", "  \n"):
        with pytest.raises(CorpusError, match="the text is empty"):
            known.extractor.extract(string)
    assert known.extractor.predict([]) == []


def test_a_text_of_5000_words(small):
    """Sentences that never end are cut, and candidates stay few: seconds, not minutes."""
    strings = [f"{NAMES[n % 10]} hired {NAMES[(n + 3) % 10]}" for n in range(1667)]
    plain, endless = ". ".join(strings) + ".", " and ".join(strings[:100])
    with Passes(small.model_) as passes:
        began = time.process_time()
        found = small.extract(plain)
        assert time.process_time() - began < 20
    assert passes.texts == len(strings)
    assert len({one.head for one in found}) == len(found)
    began = time.process_time()
    many = small.extract(endless)
    assert time.process_time() - began < 1.5  # sentences of 120 words with 1,800 candidates each
    assert all(endless[slice(*one.head)] in NAMES for one in many)


def test_sentences_of_bad_arguments(model):
    bad = {
        "convention": ({"convention": "loose"}, "loose"),
        "parser": ({"parser": "stanza"}, "stanza.*rules or spacy"),
        "negatives": ({"negatives": 0}, "negatives is 0"),
        "grid": ({"grid": ()}, "grid is"),
        "penalty": ({"grid": (1.0, 0.0)}, "grid is"),
        "direction": ({"directions": ("h-t", "x-y")}, "'x-y'.*h-r, r-t"),
    }
    for options, message in bad.values():
        with pytest.raises(MeasureError, match=message):
            RelationExtractor(model, workers=1, **options).fit(rows(12))
    with pytest.raises(MeasureError, match=r"'h-r' cannot be read.*no relation words"):
        RelationExtractor(model, workers=1, directions=("h-r",)).fit(rows(12, worded=False))
    with pytest.raises(CorpusError, match="no triples"):
        RelationExtractor(model, workers=1).fit(["Ann hired Ben"])
    with pytest.raises(CorpusError, match="at least two relations"):
        RelationExtractor(model, workers=1, grid=(1.0,)).fit(rows(30)[::3], rows(30, 1)[::3])
    with pytest.raises(CorpusError, match="at least two relations"):
        RelationExtractor(model, workers=1).fit(rows(2))
    bare = [
        {"text": f"{a} {b}", "triples": [{"head": a, "tail": b, "relation": "ab"[n % 2]}]}
        for n, (a, b) in enumerate(permutations(NAMES[:4], 2))
    ]
    with pytest.raises(AttlasError):
        RelationExtractor(model, workers=1).fit(
            [
                dict(
                    row,
                    triples=row["triples"]
                    + [
                        {
                            **row["triples"][0],
                            "head": row["triples"][0]["tail"],
                            "tail": row["triples"][0]["head"],
                        }
                    ],
                )
                for row in bare
            ]
        )
    with pytest.raises(MeasureError, match="not been fitted"):
        RelationExtractor(model).predict(["Ann hired Ben"])


def test_a_split_without_triples_says_so(model):
    """The dev part of texts of which few have triples may have none; nothing is truncated."""
    plain = [{"text": f"the dog number {n} sat", "triples": []} for n in range(30)]
    with pytest.raises(CorpusError) as error:
        RelationExtractor(model, workers=1, progress=False).fit(
            [row | {"id": str(n)} for n, row in enumerate(rows(3) + plain)]
        )
    assert "lie beyond" not in str(error.value)


def test_thresholds_are_cautious_where_nothing_can_be_found(model):
    """No candidate is a triple of dev, so every threshold gives F1 0; the loosest is useless."""
    odd = [
        [
            {**row, "triples": [{**row["triples"][0], "head": "In the", "tail": "left the"}]}
            for row in rows(count, seed)
        ]
        for count, seed in ((24, 0), (9, 1))
    ]
    made = RelationExtractor(model, negatives=2, grid=(0.1,), workers=1, progress=False).fit(*odd)
    assert made.thresholds_[0] >= 0.5


def test_thresholds_are_the_best_of_all_on_dev(small):
    texts = related_texts(rows(12, 1))
    gold, strings = [relations_in(text).triples for text in texts], [text.text for text in texts]

    def f1(related, named):
        made = copy.copy(small)
        made.thresholds_ = related, named
        return extraction_scores(strings, made.predict(texts), gold, exact)["f1"]

    mine = f1(*small.thresholds_)
    assert all(
        f1(related, named) <= mine + 1e-9
        for related in (0.05, 0.3, 0.5, 0.7, 0.95)
        for named in (0.0, 0.4, 0.7)
    )


def test_penalties_may_be_an_array(model):
    RelationExtractor(model, negatives=1, grid=np.array([0.1, 1.0]), workers=1, progress=False).fit(
        rows(18), rows(6, 1)
    )


@pytest.mark.parametrize("dev", [None, rows(9, 1)])
def test_a_seed_below_zero_is_refused(model, dev):
    with pytest.raises(AttlasError, match="seed"):
        RelationExtractor(model, workers=1, progress=False, seed=-1).fit(rows(24), dev)


def test_no_workers_are_refused(small, model, tmp_path):
    folder = small.save(tmp_path / "kept")
    with pytest.raises(AttlasError, match="workers is 0"):
        RelationExtractor.load(folder, model, workers=0).predict(["Ann hired Ben today."])


def test_triples_without_words_are_an_error_or_left_out(small):
    """An extractor that reads relation words cannot score triples without: an error says so."""
    for mixed in (rows(6, 3, worded=False), rows(6, 3) + rows(6, 4, worded=False)):
        try:
            value = small.score(mixed)
        except AttlasError as error:
            assert "words" in str(error)  # noqa: PT017
        else:
            assert 0 <= value <= 1


def test_an_extractor_is_an_estimator(small, model):
    made = RelationExtractor(model, negatives=3, seed=5)
    again = clone(made)
    assert again is not made
    assert again.get_params(deep=False) == made.get_params(deep=False)
    assert again.model is model
    assert not hasattr(clone(small), "readers_")
    assert made.set_params(negatives=4).negatives == 4


def test_fitting_again_gives_the_same(small, model):
    other = RelationExtractor(model, negatives=2, grid=(0.1, 1.0), workers=3, progress=False).fit(
        rows(36), rows(12, 1)
    )
    assert (other.readers_.named.coef == small.readers_.named.coef).all()
    assert other.thresholds_ == small.thresholds_


# keeping


@pytest.mark.parametrize("convention", ["sound", "published"])
def test_saved_and_loaded_bit_for_bit(tmp_path, model, small, convention):
    made = small
    if convention == "published":
        made = RelationExtractor(model, convention=convention, workers=1, progress=False).fit(
            rows(24), rows(9, 1)
        )
        assert made.thresholds_ == (0.7, 0.2)
    made.save(tmp_path / "kept")
    again = RelationExtractor.load(tmp_path / "kept", model, workers=1)
    strings = [row["text"] for row in rows(9, 7)]
    made_, again_ = copy.copy(made), copy.copy(again)
    made_.thresholds_ = again_.thresholds_ = (0.0, 0.0)
    assert made_.predict(strings) == again_.predict(strings)
    assert again.score(rows(9, 7)) == made.score(rows(9, 7))
    assert again.thresholds_ == made.thresholds_
    assert again.classes_.tolist() == made.classes_.tolist()
    mine, theirs = made.get_params(deep=False), again.get_params(deep=False)
    assert [mine[name] for name in ("convention", "negatives", "parser", "seed")] == [
        theirs[name] for name in ("convention", "negatives", "parser", "seed")
    ]
    assert [*theirs["grid"]] == [*mine["grid"]]
    assert sorted(path.suffix for path in (tmp_path / "kept").iterdir()) == [
        ".json",
        ".safetensors",
    ]
    assert not any(
        b"pickle" in path.read_bytes() or path.read_bytes()[:2] == b"\x80\x04"
        for path in (tmp_path / "kept").iterdir()
    )


def test_the_embedded_model_is_found_by_its_name(tmp_path, known):
    known.extractor.save(tmp_path / "kept")
    again = RelationExtractor.load(tmp_path / "kept", workers=1)
    assert again.predict(known.test[:3]) == known.extractor.predict(known.test[:3])


def test_another_model_is_refused_by_what_differs(tmp_path, model, small):
    small.save(tmp_path / "kept")
    left = tiny("bert")
    left.tokenizer.truncation_side = "left"
    for other, parts in (
        (tiny("bert", seed=3), "weights"),
        (left, "tokenizer"),
        (replace(model, limit=9), "max_length"),
    ):
        with pytest.raises(ModelError, match=rf"another model \(differs in {parts}\)"):
            RelationExtractor.load(tmp_path / "kept", other)
    again = RelationExtractor.load(tmp_path / "kept", attlas.load((model.network, model.tokenizer)))
    assert again.model_identity_ == small.model_identity_
    assert set(again.model_identity_) == set(model.identity()) - {"device"}


def test_extractors_of_earlier_versions_are_read(tmp_path, model, small):
    """They have no checksum and other digests; weights and max_length are compared."""
    about = small.save(tmp_path / "kept") / "extractor.json"
    content = json.loads(about.read_text())
    del content["files"], content["task"]
    weights = model.weights_sha256()
    digests = {"weights": weights, "model": "0" * 64, "tokenizer": "1" * 64}
    content["identity"] = {**digests, "device": "cuda", "max_length": model.max_length}
    about.write_text(json.dumps(content))
    again = RelationExtractor.load(tmp_path / "kept", model, workers=1)
    assert again.score(rows(9, 7)) == small.score(rows(9, 7))
    once_more = RelationExtractor.load(again.save(tmp_path / "again"), model)
    assert once_more.model_identity_ == content["identity"]
    for other, part in ((tiny("bert", seed=3), "weights"), (replace(model, limit=9), "max_length")):
        with pytest.raises(ModelError, match=rf"another model \(differs in {part}\)"):
            RelationExtractor.load(tmp_path / "kept", other)


def test_an_extractor_is_saved_over_an_extractor_and_nothing_else(tmp_path, model, small):
    for name in ("extractor.json", "readers.safetensors", "a.txt"):
        content = '{"kind": "mine"}'
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(content)
        with pytest.raises(
            StudyError, match=rf"is not empty \(it has {name}\) and holds no relation"
        ):
            small.save(folder)
        assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(name, content)]
    folder = small.save(tmp_path / "kept")
    (folder / "notes.txt").write_text("mine")
    changed = RelationExtractor.load(folder, model)
    changed.thresholds_ = (0.25, 0.5)
    changed.save(folder)
    assert RelationExtractor.load(folder, model).thresholds_ == (0.25, 0.5)
    assert (folder / "notes.txt").read_text() == "mine"


def broken(path: Path, how: str) -> None:
    about = path / "extractor.json"
    if how == "cut":
        about.write_text(about.read_text()[:-40])
    elif how == "arrays":
        arrays = path / "readers.safetensors"
        arrays.write_bytes(arrays.read_bytes()[:200])
    elif how == "a byte":  # of a number, so that the file can still be read
        arrays = path / "readers.safetensors"
        data = arrays.read_bytes()
        arrays.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif how == "no arrays":
        (path / "readers.safetensors").unlink()
    elif how == "list":
        about.write_text("[1, 2]")
    elif how == "old":
        about.write_text(
            json.dumps(json.loads(about.read_text()) | {"kind": "attlas relation extractor 0"})
        )
    elif how == "readers":
        about.write_text(json.dumps(json.loads(about.read_text()) | {"readers": []}))
    elif how == "parameter":
        content = json.loads(about.read_text())
        content["parameters"]["depth"] = 3
        about.write_text(json.dumps(content))
    else:
        content = json.loads(about.read_text())
        del content[how.removeprefix("without ")]
        about.write_text(json.dumps(content))


MISSING = [
    f"without {name}"
    for name in ("model", "identity", "parameters", "worded", "thresholds", "shape", "readers")
]


@pytest.mark.parametrize(
    "how", ["cut", "arrays", "a byte", "no arrays", "list", "old", "readers", "parameter", *MISSING]
)
def test_a_broken_folder_is_one_clear_error(tmp_path, model, small, how):
    folder = small.save(tmp_path / "kept")
    broken(folder, how)
    with pytest.raises(StudyError, match=r"kept.*attlas relations fit"):
        RelationExtractor.load(folder, None if how == "without model" else model)


def test_no_folder_is_one_clear_error(tmp_path):
    with pytest.raises(StudyError, match="nowhere"):
        RelationExtractor.load(tmp_path / "nowhere")


# pairs without relation words


def test_pairs_of_phrases_end_to_end(model, tmp_path):
    made = RelationExtractor(model, negatives=2, grid=(0.3,), workers=1, progress=False)
    made.fit(fewrel_rows(36), fewrel_rows(12, 1))
    assert not made.uses_relation_words_
    assert made.n_features_in_ == 2 * 12
    assert made.get_feature_names_out()[12] == "t-h 0 0"
    assert 0 <= made.score(fewrel_rows(9, 2)) <= 1
    made.thresholds_ = (0.0, 0.0)
    found = made.extract("Ann hired Ben.")
    assert found
    assert all(one.words is None for one in found)
    assert found[0].record("Ann hired Ben.")["relation_words"] is None
    made.save(tmp_path)
    assert RelationExtractor.load(tmp_path, model, workers=1).extract("Ann hired Ben.") == found
    assert 0 <= made.score(rows(9, 3)) <= 1  # words that are there are not looked at


# from file to report


TRIPLE = {"head": "Kim", "tail": "Sam", "relation": "boss", "relation_words": "hired"}
BEYOND = [
    {"id": "long", "text": "The cat sat. " * 200 + "Kim hired Sam.", "triples": [TRIPLE]},
    {
        "id": "absent",
        "text": "Ann hired Ben when Tom left.",
        "triples": [TRIPLE, {**TRIPLE, "head": "Ann", "tail": "Ben"}],
    },
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A model's folder, files of triples, and an extractor fitted and scored from them."""
    place = tmp_path_factory.mktemp("relations")
    tiny("bert", num_hidden_layers=1).save(place / "model")
    for name, (count, seed) in {"train": (30, 0), "dev": (24, 1), "test": (24, 2)}.items():
        (place / f"{name}.jsonl").write_text(
            "\n".join(map(json.dumps, rows(count, seed) + (BEYOND if name == "train" else [])))
        )
    (place / "names.json").write_text(json.dumps({"boss": ["employer", "who hires"]}))
    fitted = attlas.run(fit_of(place), place / "out", **QUIET)
    scored = attlas.run(score_of(place), place / "out/scored", **QUIET)
    return SimpleNamespace(place=place, fitted=fitted, scored=scored)


QUIET = {"workers": 1, "progress": False}


def fit_of(place: Path, **other: object) -> attlas.FitRelations:
    files = {name: place / f"{name}.jsonl" for name in ("train", "dev")}
    given = {**files, "model": str(place / "model"), "names": place / "names.json", **other}
    return attlas.FitRelations(**given)  # type: ignore[arg-type]


def score_of(place: Path, **other: object) -> attlas.ScoreRelations:
    given = {"extractor": place / "out", "test": place / "test.jsonl", **other}
    return attlas.ScoreRelations(**given)  # type: ignore[arg-type]


def test_results_say_what_others_rely_on(home):
    for done, part in ((home.fitted, "dev"), (home.scored, "test")):
        result = done.result
        assert {"binary_accuracy", "precision", "recall", "f1", "controls", "extraction"} <= {
            *result
        }
        assert {
            RANDOM,
            BAG,
            "head_tail",
            "distance",
            "part_of_speech",
            "word_embeddings",
            BOTH,
        } <= {*result["controls"]}
        for row in [
            result,
            *(result["controls"][name] for name in FEATURE_KINDS if name != ATTENTION),
        ]:
            assert row["f1_low"] <= row["f1_high"]
            assert 0 <= row["binary_accuracy"] <= 1
        assert result["controls"][BAG]["f1_ahead"] == pytest.approx(
            result["f1"] - result["controls"][BAG]["f1"]
        )
        assert {*result["extraction"]} == {"exact", "published", "published_any_relation"}
        assert (
            result["extraction"]["exact"]["recall"] <= result["extraction"]["published"]["recall"]
        )
        assert (
            result["extraction"]["published"]["recall"]
            <= result["extraction"]["published_any_relation"]["recall"]
        )
        assert result["triples"][part] == 24
        assert {"relations", "relations_each", "relations_extraction", "relation_texts"} <= {
            *done.tables
        }
        json.dumps(result)
    both = {row["text"] for row in rows(30)} & {row["text"] for row in rows(24, 2)}
    assert home.scored.result["texts"] == {"test": 24, "in_both": len(both), "tuned_on": 0}
    assert home.scored.result["relations_never_learnt"] == []
    texts = related_texts(home.place / "test.jsonl")
    learnt = related_texts(home.place / "train.jsonl")
    assert in_both([text.number for text in learnt], texts) == len(
        both
    )  # as version 0.1.0 saved them
    assert in_both(sorted(text_digests(learnt)), texts * 2) == len(both)
    assert home.fitted.result["f1"] == pytest.approx(
        RelationExtractor.load(home.place / "out").score(home.place / "dev.jsonl")
    )
    assert home.scored.result["f1"] == pytest.approx(
        RelationExtractor.load(home.place / "out").score(home.place / "test.jsonl")
    )


def test_triples_that_cannot_be_used_are_counted(home):
    assert home.fitted.result["lost"] == {
        "train": {"not read by the model": 1, "not in the text": 1},
        "dev": {},
    }
    assert home.fitted.result["triples"] == {"train": 31, "dev": 24}
    assert home.fitted.table("relations_each")["name"].tolist() == ["employer", "", ""]


def test_what_was_done_is_remembered(home):
    with Passes(loaded := attlas.load(home.place / "model")) as passes:
        again = attlas.run(fit_of(home.place, model=loaded), home.place / "out", **QUIET)
        scored = attlas.run(score_of(home.place, model=loaded), home.place / "out/scored", **QUIET)
    assert passes.texts == 0
    assert again.manifest == home.fitted.manifest
    assert scored.manifest == home.scored.manifest
    with pytest.raises(StudyError, match="another test set"):
        attlas.run(
            score_of(home.place, test=home.place / "dev.jsonl"), home.place / "out/scored", **QUIET
        )
    with pytest.raises(StudyError, match=r"fresh|folder"):
        attlas.run(fit_of(home.place, train=home.place / "dev.jsonl"), home.place / "out", **QUIET)


@pytest.mark.slow
def test_an_interrupted_fit_loses_one_reader(home, tmp_path, monkeypatch):
    """What was read and fitted before is found again; the bytes are those of an undisturbed run."""
    loaded = attlas.load(home.place / "model")
    done, real = [], fitting.fitted

    def fit(job: fitting.ReaderJob) -> LinearReader:
        if len(done) == 5:
            raise KeyboardInterrupt
        done.append(job)
        return real(job)

    with monkeypatch.context() as patch:
        patch.setattr(fitting, "fitted", fit)
        with pytest.raises(KeyboardInterrupt):
            attlas.run(fit_of(home.place, model=loaded), tmp_path / "out", **QUIET)
    count = 5
    monkeypatch.setattr(fitting, "fitted", lambda job: (done.append(job), real(job))[1])
    with Passes(loaded) as passes:
        again = attlas.run(fit_of(home.place, model=loaded), tmp_path / "out", **QUIET)
    assert (
        passes.texts <= 24 * 2 + 1
    )  # extraction and pictures only: no phrases of train and dev again
    assert len(done) - count == 2 * len(FEATURE_KINDS) - count
    assert again.result == home.fitted.result
    saved = "files/extractor/readers.safetensors"
    assert (tmp_path / "out" / saved).read_bytes() == (home.place / "out" / saved).read_bytes()


@pytest.mark.slow
def test_weights_and_texts_are_hashed_once(home, tmp_path, monkeypatch):
    calls, plain = [], attlas.Model.weights_sha256
    monkeypatch.setattr(
        attlas.Model, "weights_sha256", lambda one: (calls.append(1), plain(one))[1]
    )
    texts: Counter[str] = Counter()
    rule = feed.dispatch(Text)
    feed.register(Text, lambda text, put: (texts.update([text.id]), rule(text, put))[1])
    try:
        given = {name: related_texts(home.place / f"{name}.jsonl") for name in ("train", "dev")}
        attlas.run(fit_of(home.place, **given), tmp_path / "out", **QUIET)
    finally:
        feed.register(Text, rule)
    assert len(calls) == 1
    assert set(texts.values()) == {1}
    assert len(texts) == 30 + len(BEYOND) + 24


def test_another_extractor_in_the_same_folder_is_scored_anew(home, tmp_path):
    """Scores are those of the readers: others with the same texts and thresholds run again."""
    shutil.copytree(home.place / "out", tmp_path / "out")
    saved = tmp_path / "out/files/extractor"
    arrays = load_file(saved / "readers.safetensors")
    for name in ("named/coef", "named/intercept"):
        arrays[name] = -arrays[
            name
        ]  # as other directions, penalties or a convention would change them
    (saved / "readers.safetensors").write_bytes(save(arrays))
    with pytest.raises(StudyError, match=r"readers.safetensors has changed since it was written"):
        RelationExtractor.load(tmp_path / "out")
    about = json.loads((saved / "extractor.json").read_text())
    about["files"] = {"readers.safetensors": sha256(save(arrays)).hexdigest()}
    (saved / "extractor.json").write_text(json.dumps(about))
    expected = RelationExtractor.load(tmp_path / "out").score(home.place / "test.jsonl")
    assert expected < home.scored.result["f1"]
    try:
        done = attlas.run(
            score_of(home.place, extractor=tmp_path / "out"), tmp_path / "out/scored", **QUIET
        )
    except StudyError:
        return  # refused as another study, with --fresh to go on: honest too
    assert done.result["f1"] == pytest.approx(expected)


def test_an_extractor_that_was_saved_alone_is_scored_or_refused(home, tmp_path):
    """`RelationExtractor.save` writes no controls; `ScoreRelations` needs them."""
    RelationExtractor.load(home.place / "out").save(tmp_path / "alone")
    try:
        done = attlas.run(score_of(home.place, extractor=tmp_path / "alone"), **QUIET)
    except StudyError as error:
        assert "attlas relations fit" in str(error)  # noqa: PT017
    else:
        assert done.result["f1"] == pytest.approx(home.scored.result["f1"])


def test_a_shorter_model_is_found_again(home, tmp_path):
    """What was fitted with --max-length is loaded with it."""
    short = attlas.load(home.place / "model", max_length=100)
    made = RelationExtractor(short, negatives=1, grid=(0.3,), workers=1, progress=False).fit(
        rows(24), rows(9, 1)
    )
    made.save(tmp_path / "short")
    again = RelationExtractor.load(tmp_path / "short", workers=1)
    assert again.model_.max_length == 100
    assert again.predict(["Ann hired Ben today."]) == made.predict(["Ann hired Ben today."])


@pytest.mark.slow
def test_an_extractor_that_is_gone_is_named_and_fitted_again_with_fresh(home, tmp_path):
    shutil.copytree(home.place / "out", tmp_path / "out")
    (tmp_path / "out/files/extractor/readers.safetensors").unlink()
    with pytest.raises(
        StudyError, match=r"readers.safetensors is missing; run the command again with fresh=True"
    ):
        attlas.run(fit_of(home.place), tmp_path / "out", **QUIET)
    attlas.run(fit_of(home.place), tmp_path / "out", **QUIET, fresh=True)
    RelationExtractor.load(tmp_path / "out")


# the command line


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """The command line in this process: exit code, output and error."""
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["attlas", "relations", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return SimpleNamespace(code=end.value.code or 0, out=printed.out, error=printed.err)

    return run


def test_fit_score_and_extract_print_json(command, home, tmp_path):
    shutil.copytree(home.place / "out", tmp_path / "out")
    done = command(
        "fit",
        "--model",
        home.place / "model",
        "--train",
        home.place / "train.jsonl",
        "--dev",
        home.place / "dev.jsonl",
        "--out",
        "out",
        "--names",
        home.place / "names.json",
        "--no-report",
        "--json",
        "--workers",
        1,
    )
    assert done.code == 0, done.error
    assert {"binary_accuracy", "precision", "recall", "f1", "controls", "study"} <= {
        *json.loads(done.out)
    }
    assert json.loads(done.out)["f1"] == pytest.approx(home.fitted.result["f1"])
    done = command(
        "score",
        "--extractor",
        "out",
        "--test",
        home.place / "test.jsonl",
        "--no-report",
        "--json",
        "--workers",
        1,
    )
    assert done.code == 0, done.error
    assert json.loads(done.out)["f1"] == pytest.approx(home.scored.result["f1"])
    assert json.loads(done.out)["study"] == "out/scored"
    lower(tmp_path / "out")
    done = command("extract", "Ann hired Ben, and Ben taught Tom.", "--extractor", "out", "--json")
    assert done.code == 0, done.error
    found = json.loads(done.out)
    assert found
    for one in found:
        assert {"head", "relation_words", "tail", "relation", "probability"} <= {*one}
        assert 0 <= one["probability"] <= 1
    done = command("extract", "Ann hired Ben, and Ben taught Tom.", "--extractor", "out")
    *triples, last = done.out.splitlines()
    assert len(triples) == len(found)
    assert last.split()[:4] == ["next", "attlas", "relations", "score"]
    (tmp_path / "texts.jsonl").write_text(
        '{"text": "Ann hired Ben."}\n{"text": ""}\n{"text": "Ida taught Ole."}\n'
    )
    done = command("extract", "--data", "texts.jsonl", "--extractor", "out")
    assert done.code == 0, done.error
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["text"] for line in lines] == ["Ann hired Ben.", "Ida taught Ole."]
    assert "empty" in done.error


def lower(folder: Path) -> None:
    """Thresholds at which something is always found."""
    path = extractor_folder(folder) / "extractor.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"thresholds": [0.01, 0.0]}))


@pytest.mark.slow
def test_mistakes_are_one_line_and_exit_code_two(command, home, tmp_path):
    (tmp_path / "plain.jsonl").write_text('{"text": "Ann hired Ben."}\n')
    (tmp_path / "broken.jsonl").write_text(
        '{"text": "Ann hired Ben.", "triples": [{"head": "Ann"}]}\n'
    )
    one = [json.dumps(row) for row in rows(60)[::3]]
    (tmp_path / "one.jsonl").write_text("\n".join(one))
    model, train, out = home.place / "model", home.place / "train.jsonl", home.place / "out"
    fit = ("fit", "--model", model, "--out", "mistake")
    mistakes = {
        "plain.jsonl has no triples": (*fit, "--train", "plain.jsonl"),
        "broken.jsonl": (*fit, "--train", "broken.jsonl"),
        "nowhere.jsonl": (*fit, "--train", "nowhere.jsonl"),
        "at least two relations": (*fit, "--train", "one.jsonl"),
        "h-t,x-y": (*fit, "--train", train, "--directions", "h-t,x-y"),
        "convention": (*fit, "--train", train, "--convention", "loose"),
        "parser is 'none'": (*fit, "--train", train, "--parser", "none"),
        "names.tsv": (*fit, "--train", train, "--names", "names.tsv"),
        "there is no file 'nowhere'": ("score", "--extractor", "nowhere", "--test", train),
        "holds no relation extractor (File": (
            "score",
            "--extractor",
            home.place / "model",
            "--test",
            train,
        ),
        "test.jsonl": ("score", "--extractor", out, "--test", "no-test.jsonl"),
        "--data": ("extract", "--extractor", out),
        "or a file": ("extract", "--extractor", out, "Ann hired Ben.", "--data", "plain.jsonl"),
        "the text is empty": ("extract", "--extractor", out, ""),
        "there is no folder nowhere": ("extract", "--extractor", "nowhere", "Ann hired Ben."),
        "--html": ("extract", "--extractor", out, "--data", "plain.jsonl", "--html", "page.html"),
        "another model": (
            "extract",
            "--extractor",
            out,
            "--model",
            "embedded:long",
            "Ann hired Ben.",
        ),
        "--test": ("score", "--extractor", out),
    }
    for message, arguments in mistakes.items():
        done = command(*arguments)
        assert done.code == 2, (message, done)
        lines = [line for line in done.error.splitlines() if line.startswith("attlas:")]
        assert len(lines) == 1, (message, done.error)
        assert "Traceback" not in done.error
        assert message in lines[0], (message, lines)
        assert not done.out, (message, done.out)


def test_fields_know_what_the_rest_knows():
    """The fields import nothing heavy, so they list parsers and directions themselves."""
    assert (*PARSERS,) == experiment_module.PARSERS
    assert experiment_module.DIRECTIONS == DIRECTIONS


def test_help_names_the_verbs(command):
    done = command("--help")
    assert all(verb in done.out for verb in ("fit", "score", "extract"))
