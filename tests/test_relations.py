"""Relations from attention: vectors, readers, candidates and scores against plain loops; extractor, pipeline and command line as a user meets them."""

from __future__ import annotations

import copy
import io
import json
import shutil
import sys
from collections import Counter
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, precision_recall_fscore_support

import attlas
from attlas.cli import main
from attlas.core.annotations import RELATIONS, Relations, Triple
from attlas.core.errors import AttlasError, CorpusError, MeasureError, ModelError, StudyError
from attlas.core.text import Text
from attlas.corpora import read
from attlas.probes.between import between_units
from attlas.probes.relations import extractor as extractor_module
from attlas.probes.relations import vectors as vectors_module
from attlas.probes.relations.cases import (
    Case,
    apart,
    first_occurrences,
    gold_cases,
    has_words,
    lost,
    negatives,
    noted,
    pools,
    related_texts,
    unit_pools,
)
from attlas.probes.relations.controls import GAPS, TAGS, Surface
from attlas.probes.relations.evidence import (
    ATTENTION,
    BAG,
    BOTH,
    RANDOM,
    UNSEEN,
    Evidence,
    each_relation,
    fit_unseen,
    fit_ways,
    held_out_phrases,
    unseen_scores,
    ways,
)
from attlas.probes.relations.extractor import RelationExtractor, Sentence
from attlas.probes.relations.interpret import (
    directions_table,
    heads_order,
    heads_table,
    layers_table,
    likeness,
    merged_table,
    merges,
    merges_frame,
    path_table,
)
from attlas.probes.relations.linear import (
    LinearReader,
    accuracy,
    balanced,
    calibrate,
    fit_published,
    fit_reader,
    macro_f1,
    multinomial,
    whitening,
)
from attlas.probes.relations.matching import Found, exact, extraction_scores, lenient
from attlas.probes.relations.pipeline import fit_relations, score_relations
from attlas.probes.relations.reading import FLOOR, Sample, Told, attention_features, intervals, sample
from attlas.probes.relations.tagging import tagged
from attlas.probes.relations.vectors import DIRECTIONS, CaseVectors, Units, case_vectors, gather, read_units
from attlas.probes.vectors import ModelVectors
from attlas.testing import tiny
from tests import strategies, twins

NAMES = "Ann Ben Eve Tom Kim Sam Lea Ida Una Ole".split()
STATED = (("taught", "teacher"), ("was married to", "spouse"), ("hired", "boss"))


def rows(count: int, seed: int = 0, worded: bool = True) -> list[dict[str, object]]:
    """Sentences of one triple each, of three relations; the words say which."""
    rng = np.random.default_rng(seed)
    out = []
    for number in range(count):
        head, tail, other = rng.permutation(NAMES)[:3].tolist()
        words, relation = STATED[number % 3]
        triple = {"head": head, "tail": tail, "relation": relation} | ({"relation_words": words} if worded else {})
        text = f"In the old town {head} {words} {tail} before {other} left the house."
        out.append({"id": f"{seed}-{number}", "text": text, "triples": [triple]})
    return out


def fewrel_rows(count: int, seed: int = 0) -> list[dict[str, object]]:
    out = []
    for row in rows(count, seed):
        tokens = str(row["text"]).rstrip(".").split() + ["."]
        triple = row["triples"][0]  # type: ignore[index]
        places = [tokens.index(triple[part]) for part in ("head", "tail")]
        pair = {key: [triple[part], "Q", [[place]]] for key, part, place in zip("ht", ("head", "tail"), places, strict=True)}  # fmt: skip
        out.append({"relation": triple["relation"], "tokens": tokens, **pair})
    return out


def text_of(string: str, *triples: tuple[str, str, str | None, str], id: str = "t") -> Text:
    """A text whose phrases are where their strings first stand."""

    def span(part: str | None) -> tuple[int, int] | None:
        return None if part is None else (string.index(part), string.index(part) + len(part))

    made = tuple(Triple(span(head), span(tail), relation, span(words)) for head, tail, words, relation in triples)  # type: ignore[arg-type]
    return Text(id, string, annotations={RELATIONS: Relations(made)})


@pytest.fixture(scope="module")
def model() -> attlas.Model:
    return tiny("bert")


@pytest.fixture(scope="module")
def known(minilm: attlas.Model) -> SimpleNamespace:
    """Embedded sentences of a few relations, and an extractor that learnt from some of them."""
    wanted = ("born_in", "works_for", "married_to", "capital_of")
    texts = [text for text in read("embedded:relations") if {t.relation for t in noted(text).triples} <= {*wanted}]
    train, test = texts[:90], texts[90:]
    made = RelationExtractor(minilm, negatives=2, grid=(0.03, 0.3), workers=1, progress=False)
    return SimpleNamespace(train=train, test=test, extractor=made.fit(train))


@pytest.fixture(scope="module")
def small(model: attlas.Model) -> RelationExtractor:
    """An extractor of a model that knows nothing: for whatever only needs its shape."""
    return RelationExtractor(model, negatives=2, grid=(0.1, 1.0), workers=1, progress=False).fit(rows(36), rows(12, 1))


@pytest.fixture(scope="module")
def evidence(small: RelationExtractor, model: attlas.Model) -> SimpleNamespace:
    random = model.randomized(0)
    train = Evidence.read(small, related_texts(rows(36)), random, states=True)
    tune = Evidence.read(small, related_texts(rows(15, 1)), random, 1, train.vocabulary, states=True)
    return SimpleNamespace(train=train, tune=tune, readers=small.readers_)


class Passes:
    """How many texts, and batches, went through a network while it is open."""

    def __init__(self, model: attlas.Model) -> None:
        self.model, self.texts, self.batches = model, 0, 0

    def __enter__(self) -> Passes:
        def note(module: object, args: object, kwargs: dict[str, torch.Tensor]) -> None:
            self.texts += len(kwargs["input_ids"])
            self.batches += 1

        self.hook = self.model.part.register_forward_pre_hook(note, with_kwargs=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.hook.remove()


# attention between units


def units_slowly(head, members, mean):
    tokens = [[token for token, mine in enumerate(unit) if mine] for unit in members]
    out = [[0.0] * len(tokens) for _ in tokens]
    for one, queries in enumerate(tokens):
        for other, keys in enumerate(tokens):
            for query in queries:
                for key in keys:
                    out[one][other] += head[query][key] / (len(queries) if mean else 1)
    return out


@given(st.one_of(strategies.dense_layers(), strategies.banded_layers()), strategies.generators, st.integers(1, 4), st.booleans())  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_between_units_is_its_slow_twin(made, rng, units, mean):
    texts, n = len(made.weights), made.weights.shape[-1]
    members = rng.random((texts, units, n)) < rng.choice([0.0, 0.3, 0.8], (texts, units, 1))
    found = between_units(made.layer, torch.from_numpy(members), mean)
    expected = twins.each_head(units_slowly, made.weights, members.tolist(), mean=mean)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


# triple vectors


class Slow:
    """The library's own forward pass for each triple, weights put out, loops over characters, tokens and cells."""

    def __init__(self, model: attlas.Model) -> None:
        self.tokenizer, self.limit = model.tokenizer, model.max_length
        self.network = copy.deepcopy(model.network)
        self.network.set_attn_implementation("eager")

    def vector(self, text: str, case: Case, mean: bool) -> list[float] | None:
        """The triple's vector; None if a phrase has no token, or was cut."""
        whole = self.tokenizer(text, return_offsets_mapping=True)
        row = self.tokenizer(text, return_offsets_mapping=True, truncation=True, max_length=self.limit)
        marks = {self.tokenizer.cls_token_id, self.tokenizer.sep_token_id}

        def tokens(encoded, span):
            found = []
            for token, (number, (start, stop)) in enumerate(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)):  # fmt: skip
                if number not in marks and any(span[0] <= character < span[1] for character in range(start, stop)):
                    found.append(token)
            return found

        parts = {name: tokens(row, span) for name, span in zip("htr", case.spans, strict=False)}
        if any(len(found) != len(tokens(whole, span)) or not found for found, span in zip(parts.values(), case.spans, strict=True)):  # fmt: skip
            return None
        with torch.no_grad():
            layers = self.network(torch.tensor([row["input_ids"]]), output_attentions=True).attentions
        out = []
        for name in ("h-r", "r-t", "h-t", "r-h", "t-r", "t-h") if "r" in parts else ("h-t", "t-h"):
            givers, takers = parts[name[0]], parts[name[2]]
            for layer in layers:
                for head in layer[0].double().tolist():
                    total = sum(head[query][key] for query in givers for key in takers)
                    out.append(total / len(givers) if mean else total)
        return out


PIECES = ("the", "cat", "unbelievable", "Ann", "Ann", "naïve", "e\u0301clair", "世界", "👍🏽", "x_y", "Zürich's", "don't", "—", "[SEP]")  # fmt: skip


@st.composite
def texts_with_cases(draw: st.DrawFn) -> tuple[str, list[Case]]:
    """A text with repeated, split and odd words, and cases of phrases of it: whole words, several, or parts of one."""
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
@settings(max_examples=40, deadline=None)
def test_gather_is_one_slow_pass_for_each_triple(made, mean, limit):
    model = replace(SLOW_MODEL, max_length=limit) if limit else SLOW_MODEL
    slow, (string, cases) = Slow(model), made
    found = gather(model, [Text("t", string)], cases, mean=mean, workers=1, progress=False)
    for number, case in enumerate(cases):
        expected = slow.vector(string, case, mean)
        assert found.seen[number] == (expected is not None)
        np.testing.assert_allclose(found.attention[number].ravel(), 0 if expected is None else expected, atol=1e-5)


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
    texts = related_texts(rows(9) + [{"text": "Ann knew 世界 and hired a cat there.", "triples": [{"head": "Ann", "tail": "a cat", "relation": "boss", "relation_words": "hired"}]}])  # fmt: skip
    gold = gold_cases(texts, True)
    return SimpleNamespace(texts=texts, cases=gold + negatives(texts, gold, 3, 0))


def test_vectors_do_not_depend_on_neighbours_order_or_workers(monkeypatch, model, drawn):
    whole = gather(model, drawn.texts, drawn.cases, workers=1, progress=False)
    assert whole.seen.all()
    assert whole.attention.shape == (len(drawn.cases), 6, 12)
    alone = [gather(model, drawn.texts, [case], workers=1, progress=False).attention[0] for case in drawn.cases[::4]]
    np.testing.assert_allclose(whole.attention[::4], alone, atol=1e-6)
    turned = gather(model, drawn.texts, drawn.cases[::-1], workers=1, progress=False)
    np.testing.assert_allclose(turned.attention[::-1], whole.attention, atol=1e-6)
    monkeypatch.setattr(vectors_module, "SHARD", 3)
    one, three = (gather(model, drawn.texts, drawn.cases, workers=n, progress=False, states=True) for n in (1, 3))
    assert (one.attention == three.attention).all()
    assert (one.states == three.states).all()
    assert one.states is not None
    assert one.states.shape == (len(drawn.cases), 3, 4, 32)
    np.testing.assert_allclose(one.attention, whole.attention, atol=1e-6)


def test_states_are_the_mean_over_the_tokens_of_a_phrase(model, drawn):
    found = gather(model, drawn.texts, drawn.cases[:2], states=True, workers=1, progress=False).states
    case = drawn.cases[1]
    row = model.tokenizer(drawn.texts[case.text].text, return_offsets_mapping=True)
    with torch.no_grad():
        layers = model.network(torch.tensor([row["input_ids"]]), output_hidden_states=True).hidden_states
    mine = [n for n, (start, stop) in enumerate(row["offset_mapping"]) if start < case.words[1] and stop > case.words[0]]  # fmt: skip
    for layer, states in enumerate(layers):
        np.testing.assert_allclose(found[1, 2, layer], states[0, mine].mean(0).numpy(), atol=2e-3)


def test_one_pass_of_a_text_however_many_cases(model, drawn):
    nominal, relational = pools(drawn.texts[0].text, ())
    many = [Case(0, a, b, c) for a, b in permutations(nominal, 2) for c in relational if apart(a, b, c)]
    assert len(many) > 20
    with Passes(model) as passes:
        found = gather(model, drawn.texts, [*many, *drawn.cases], workers=1, progress=False)
    assert passes.texts == len(drawn.texts)
    assert passes.batches < len(drawn.texts)  # texts of one length go together
    assert len(found.attention) == len(many) + len(drawn.cases)


def test_a_run_that_was_stopped_goes_on(monkeypatch, tmp_path, model, drawn):
    monkeypatch.setattr(vectors_module, "SHARD", 3)
    plain = gather(model, drawn.texts, drawn.cases, workers=2, progress=False)
    first = gather(model, drawn.texts, drawn.cases, cache=tmp_path, workers=2, progress=False)
    shards = sorted(tmp_path.glob("*/vectors-*.npz"))
    assert len(shards) == 4
    shards[1].unlink()
    with Passes(model) as passes:
        again = gather(model, drawn.texts, drawn.cases, cache=tmp_path, workers=2, progress=False)
    assert passes.texts == 3
    for one in (first, again):
        assert (one.attention == plain.attention).all()
        assert (one.seen == plain.seen).all()
    with Passes(model) as passes:  # other cases, another pooling, are other vectors
        gather(model, drawn.texts, drawn.cases[:-1], cache=tmp_path, workers=1, progress=False)
        gather(model, drawn.texts, drawn.cases, mean=False, cache=tmp_path, workers=1, progress=False)
        gather(model.randomized(1), drawn.texts, drawn.cases, cache=tmp_path, workers=1, progress=False)
    assert passes.texts == 2 * len(drawn.texts)
    for shard in tmp_path.glob("*/*.npz"):
        np.load(shard, allow_pickle=False)


def test_a_failing_pass_is_no_shard(monkeypatch, tmp_path, model, drawn):
    monkeypatch.setattr(vectors_module, "SHARD", 3)
    seen: list[int] = []

    def fail(layer, members, mean):
        seen.append(1)
        if len(seen) > 10:
            raise RuntimeError("the machine stops")
        return between_units(layer, members, mean)

    with monkeypatch.context() as patch:
        patch.setattr(vectors_module, "between_units", fail)
        with pytest.raises(RuntimeError, match="the machine stops"):
            gather(model, drawn.texts, drawn.cases, cache=tmp_path, workers=1, progress=False)
    assert len(list(tmp_path.glob("*/*.npz"))) < 4
    found = gather(model, drawn.texts, drawn.cases, cache=tmp_path, workers=1, progress=False)
    plain = gather(model, drawn.texts, drawn.cases, workers=1, progress=False)
    assert (found.attention == plain.attention).all()


def test_phrases_that_were_cut_off_are_left_out_and_counted(model):
    short = replace(model, max_length=8)
    text = text_of("Ann hired Ben , and much later Kim hired Sam .", ("Ann", "Ben", "hired", "boss"), ("Kim", "Sam", "hired", "boss"))  # fmt: skip
    cases = gold_cases([text], True)
    found = gather(short, [text], cases, workers=1, progress=False)
    assert found.seen.tolist() == [False, False] or found.seen.tolist() == [True, False]
    assert (found.attention[~found.seen] == 0).all()
    assert found.unseen == (~found.seen).sum()
    roomy = replace(model, max_length=16)
    kept = sample(roomy, [text], cases, workers=1, progress=False)
    assert [case.head for case in kept.cases] == [(0, 3)]
    assert kept.unseen == 1
    with pytest.raises(CorpusError, match="none of the 2 triples is left.*4 tokens"):
        sample(replace(model, max_length=4), [text], cases, workers=1, progress=False)


def test_a_phrase_that_is_cut_in_the_middle_is_not_seen(model):
    text = Text("t", "the cat unbelievable")
    case = Case(0, (0, 3), (8, 20), (4, 7))
    pieces = len(model.tokenizer(text.text)["input_ids"])
    assert gather(model, [text], [case], workers=1, progress=False).seen.all()
    assert gather(replace(model, max_length=pieces), [text], [case], workers=1, progress=False).seen.all()
    assert not gather(replace(model, max_length=pieces - 1), [text], [case], workers=1, progress=False).seen.any()


def test_texts_of_which_the_tokenizer_leaves_nothing_and_no_cases_at_all(model):
    texts = [Text("0", "\u200d"), Text("1", "Ann hired Ben")]
    cases = [Case(0, (0, 1), (0, 1), (0, 1)), Case(1, (0, 3), (10, 13), (4, 9))]
    for states in (False, True):
        found = gather(model, texts, cases, states=states, workers=1, progress=False)
        assert found.seen.tolist() == [False, True]
        assert (found.attention[0] == 0).all()
    assert len(gather(model, texts, [], workers=1, progress=False).attention) == 0


def test_a_longformer_gives_the_same_from_its_band():
    banded = tiny("longformer")
    text = Text("t", "the cat sat with the dog and Ann hired Ben in the old town")
    cases = [Case(0, (0, 7), (17, 24), (8, 11)), Case(0, (29, 32), (39, 42), (33, 38))]
    found = gather(banded, [text], cases, workers=1, progress=False)
    layers = attlas.testing.stream(banded, [text])[0]
    batch = layers[0].batch
    for number, case in enumerate(cases):
        tokens = {name: [n for n in range(batch.n_tokens) if not batch.special[0, n] and batch.offsets[0, n, 0] < span[1] and batch.offsets[0, n, 1] > span[0]] for name, span in zip("htr", case.spans, strict=True)}  # fmt: skip
        for direction, name in enumerate(DIRECTIONS):
            cells = [layer.dense().weights[0][:, tokens[name[0]]][:, :, tokens[name[2]]].sum(-1).mean(-1) for layer in layers]  # fmt: skip
            np.testing.assert_allclose(found.attention[number, direction], torch.cat(cells).numpy(), atol=1e-5)


# cases


def test_negatives_are_no_triples_and_depend_on_text_and_seed_alone():
    texts = related_texts("embedded:relations")[:60]
    gold = gold_cases(texts, True)
    found = negatives(texts, gold, 3, 0)
    triples = {case.text: {other[1:4] for other in map(tuple_of, gold) if other[0] == case.text} for case in gold}
    assert len(found) > 2.5 * len(gold)
    for case in found:
        assert not case.related
        assert tuple_of(case)[1:4] not in triples[case.text]
        assert apart(*case.spans)
        text = texts[case.text].text
        assert all(0 <= start < stop <= len(text) for start, stop in case.spans)
        nominal, relational = pools(text, noted(texts[case.text]).triples)
        assert case.head in nominal
        assert case.tail in nominal
        assert case.words in relational
    assert len(set(map(tuple_of, found))) == len(found)
    each = Counter(case.text for case in found)
    assert max(each.values()) <= 3 * max(Counter(case.text for case in gold).values())
    order = np.random.default_rng(1).permutation(len(texts)).tolist()
    turned = [texts[place] for place in order]
    moved = negatives(turned, gold_cases(turned, True), 3, 0)
    assert {(order[case.text], *case.spans) for case in moved} == {(case.text, *case.spans) for case in found}
    assert negatives(texts, gold, 3, 1) != found
    assert negatives(texts[:5], gold_cases(texts[:5], True), 3, 0) == [case for case in found if case.text < 5]


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
    """FewRel and SemEval have a row for each triple: a text of several triples stands several times."""
    string = "Ann met Ben."
    texts = [text_of(string, ("Ann", "Ben", None, "a"), id="0"), text_of(string, ("Ben", "Ann", None, "b"), id="1")]
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
    text = text_of("Maria Lund moved to New York City with Tom", ("Maria Lund", "New York City", "moved to", "home"))
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
    given_ = related_texts([{"text": "Ann hired Ben", "triples": [absent, over, {"head": "Ann", "tail": "Ben", "relation": "boss"}]}])  # fmt: skip
    assert lost(given_) == {"not in the text": 1, "overlap": 1}
    assert len(gold_cases(given_, False)) == 1
    assert not has_words(given_)


# linear readers


def blobs(rng: np.random.Generator, cases: int, features: int, classes: int) -> tuple[np.ndarray, list[str]]:
    """Cases of classes that overlap, uneven, with correlated features of uneven scale."""
    of = np.concatenate([np.arange(classes), rng.choice(classes, cases - classes, p=(p := np.arange(1, classes + 1)) / p.sum())])  # fmt: skip
    mix = rng.normal(size=(features, features)) / 2
    x = (rng.normal(size=(cases, features)) + np.eye(classes, features)[of] * 1.5) @ mix + 3
    return x.astype(np.float32), [f"c{number}" for number in of]


@pytest.mark.parametrize("penalty", [0.05, 1.0])
@pytest.mark.parametrize("even", [False, True])
def test_multinomial_is_scikit_learns(penalty, even):
    x, names = blobs(np.random.default_rng(3), 150, 6, 4)
    classes = np.array([int(name[1:]) for name in names])
    theirs = LogisticRegression(C=penalty, class_weight="balanced" if even else None, tol=1e-8, max_iter=5000)
    theirs.fit(x.astype(np.float64), classes)
    weights = balanced(classes) if even else np.full(len(x), 1 / len(x))
    found = multinomial(x, classes, penalty, weights, tolerance=1e-7)
    assert found.converged
    scores = x @ found.weights[:-1] + found.weights[-1]
    np.testing.assert_allclose(scores - scores.mean(1, keepdims=True), (s := theirs.decision_function(x)) - s.mean(1, keepdims=True), atol=0.02)  # fmt: skip
    coef = found.weights[:-1].T
    np.testing.assert_allclose(coef - coef.mean(0), theirs.coef_ - theirs.coef_.mean(0), atol=0.02)


def test_fit_reader_is_scikit_learns_before_it_is_calibrated():
    x, names = blobs(np.random.default_rng(4), 150, 5, 3)
    for whiten in (False, True):
        reader = fit_reader(x, names, (x, names), macro_f1, (0.3,), whiten=whiten)
        mean, scale, axes = whitening(x) if whiten else (0, 1, np.eye(5))
        theirs = LogisticRegression(C=0.3, class_weight="balanced", tol=1e-8, max_iter=5000)
        theirs.fit(((x - mean) / scale) @ axes, names)
        plain = replace(reader, temperature=1.0)
        np.testing.assert_allclose(plain.probabilities(x), theirs.predict_proba(((x - mean) / scale) @ axes), atol=5e-3)
        assert reader.classes == ("c0", "c1", "c2")
        assert reader.converged
        assert reader.steps > 3


def test_whitening_folds_into_the_coefficients():
    rng = np.random.default_rng(5)
    x, names = blobs(rng, 120, 6, 3)
    x = np.concatenate([x, np.full((120, 1), 7, np.float32), x[:, :1] * 1000], 1)  # constant, and the same twice
    mean, scale, axes = whitening(x)
    inner = (((x - mean) / scale) @ axes).astype(np.float32)
    spread = np.cov(inner.T, bias=True)
    assert np.abs(spread - np.diag(np.diag(spread))).max() < 1e-2
    assert np.diag(spread).max() <= 1.0001
    reader = fit_reader(x, names, (x, names), macro_f1, (1.0,))
    classes = np.unique(names, return_inverse=True)[1].astype(np.int64)
    solved = multinomial(inner, classes, 1.0, balanced(classes))
    np.testing.assert_allclose(reader.decision(x), inner @ solved.weights[:-1] + solved.weights[-1], atol=5e-3)


def log_loss(reader: LinearReader, x: np.ndarray, names: list[str], weights: np.ndarray | float = 1.0) -> float:
    chances = reader.probabilities(x)[np.arange(len(x)), [reader.classes.index(name) for name in names]]
    return float(-(np.log(chances) * weights).sum())


@pytest.mark.parametrize("classes", [2, 4])
def test_calibration_improves_dev_log_loss(classes):
    rng = np.random.default_rng(6)
    x, names = blobs(rng, 60, 8, classes)
    y, told = blobs(rng, 90, 8, classes)
    reader = fit_reader(x, names, (x, names), macro_f1, (300.0,))  # sure of too much
    plain = replace(reader, temperature=1.0, offset=0.0)
    found = calibrate(plain, y, told)
    number = np.array([int(name[1:]) for name in told])
    weights = balanced(number) if classes == 2 else 1 / len(told)
    mine = log_loss(found, y, told, weights)
    assert mine <= log_loss(plain, y, told, weights)
    best = minimize_scalar(lambda t: log_loss(replace(found, temperature=float(np.exp(t))), y, told, weights), (-3, 3))
    assert mine <= best.fun + 1e-4
    if classes > 2:
        assert (found.predict(y) == plain.predict(y)).all()
        assert found.offset == 0
    np.testing.assert_allclose(found.probabilities(y).sum(1), 1)
    assert calibrate(plain, y, ["never learnt"] * len(y)) is plain


def test_the_best_penalty_on_dev_is_kept_the_stronger_of_equals():
    x, names = blobs(np.random.default_rng(7), 80, 4, 3)
    values = {0.01: 1.0, 0.1: 2.0, 1.0: 2.0, 10.0: 0.0}
    reader = fit_reader(x, names, (x, names), lambda reader, *_: values[reader.penalty], (10.0, 0.1, 1.0, 0.01))
    assert reader.penalty == 0.1
    with pytest.raises(CorpusError, match="no penalty"):
        fit_reader(x, names, (x, names), accuracy, ())
    with pytest.raises(CorpusError, match="nothing to tell apart.*at least two"):
        fit_reader(x, ["a"] * 80, (x, names), accuracy)
    with pytest.raises(CorpusError, match="no case"):
        fit_reader(x[:0], [], (x, names), accuracy)


def test_judges_weigh_classes_the_same():
    reader = LinearReader(("a", "b"), np.array([[0.0], [1.0]]), np.zeros(2), np.ones(1), 1.0)
    x = np.array([[1.0], [1.0], [1.0], [-1.0], [1.0]])
    names = np.array(["b", "b", "b", "a", "a"])
    assert accuracy(reader, x, names) == 0.75
    assert macro_f1(reader, x, names) == pytest.approx((2 / 3 + 6 / 7) / 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_published_reader_is_saga_on_what_is_there(classes):
    x, names = blobs(np.random.default_rng(8), 90, 4, classes)
    reader = fit_published(x, names, True)
    with pytest.warns(Warning, match="max_iter|converge") if reader.steps == 100 else pytest.MonkeyPatch.context():
        theirs = LogisticRegression(solver="saga", max_iter=100, class_weight="balanced", random_state=0).fit(x, names)
    np.testing.assert_allclose(reader.probabilities(x), theirs.predict_proba(x), atol=1e-5)
    assert reader.temperature == 1
    assert reader.offset == 0


# scores


@given(strategies.generators, st.integers(2, 40))
@settings(max_examples=30, deadline=None)
def test_scores_are_scikit_learns(rng, size):
    related = rng.random(size) < 0.6
    related[:2] = True, False
    gold = rng.choice(list("abcd"), related.sum())
    named = rng.choice(list("abcde"), related.sum())
    right, text = rng.random(size) < 0.7, rng.integers(0, 5, size)
    told = Told(text, related, right, gold, named)
    for weights in (None, rng.integers(0, 4, 5).astype(float) + 1):
        each = None if weights is None else weights[text]
        found = told.scores(weights)
        mine = None if each is None else each[related]
        expected = precision_recall_fscore_support(gold, named, labels=np.unique(gold), average="macro", zero_division=0, sample_weight=mine)  # fmt: skip
        np.testing.assert_allclose([found["precision"], found["recall"], found["f1"]], expected[:3], atol=1e-9)
        yes = np.where(right, related, ~related)
        assert found["binary_accuracy"] == pytest.approx(balanced_accuracy_score(related, yes, sample_weight=each))


def told_of(rng: np.random.Generator, texts: int, skill: float) -> Told:
    gold = rng.choice(list("abc"), texts)
    named = np.where(rng.random(texts) < skill, gold, rng.choice(list("abc"), texts))
    related = np.tile([True, False], texts)
    return Told(np.repeat(np.arange(texts), 2), related, rng.random(2 * texts) < skill, gold, named)


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
                assert row[f"{score}_ahead_low"] <= row[f"{score}_ahead"] <= row[f"{score}_ahead_high"]
        assert rows_["poor"]["f1_ahead"] == pytest.approx(good.scores()["f1"] - poor.scores()["f1"])
        assert rows_["good"]["f1_ahead"] == rows_["good"]["f1_ahead_low"] == rows_["good"]["f1_ahead_high"] == 0
        assert rows_["poor"]["f1_ahead_low"] > 0
        widths.append(rows_["good"]["f1_high"] - rows_["good"]["f1_low"])
        assert intervals({"good": good, "poor": poor}, texts, "good") == rows_
    assert widths[1] < widths[0] / 2


def found_of(*spans: tuple[int, int], relation: str = "r", related: float = 1.0) -> Found:
    return Found(spans[0], spans[1], spans[2] if len(spans) > 2 else None, relation, related, 1.0)


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
    found = [found_of(a, b, relation="x"), found_of(c, d, relation="y"), found_of(a, d, relation="x")]
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
    assert (nothing["precision"], nothing["recall"], nothing["f1"], nothing["macro_f1"]) == (0, 0, 0, 0)
    assert extraction_scores([text], [found], [[]], exact)["f1"] == 0
    assert extraction_scores([], [], [], exact)["f1"] == 0


def jaccard_slowly(one, other):
    if one in other or other in one:
        return True
    both = [character for character in set(one + other) if character in one and character in other]
    return 1 - len(both) / len(set(one + other)) < 0.4


def scores_slowly(text, found, gold, strict, relation):
    """Right predictions and found triples of one text, counted one by one."""
    right, hits, taken = 0, set(), set()
    for one in found:
        ok = False
        for number, triple in enumerate(gold):
            pairs = [(one.head, triple.head), (one.tail, triple.tail)]
            if one.words and triple.words:
                pairs.append((one.words, triple.words))
            if strict:
                same = all(left == right_ for left, right_ in pairs) and number not in taken
            else:
                same = all(jaccard_slowly(text[slice(*left)], text[slice(*right_)]) for left, right_ in pairs)
            if same and (not relation or one.relation == triple.relation):
                ok = True
                hits.add(number)
                if strict:
                    taken.add(number)
                    break
        right += ok
    return right, len(hits)


@given(strategies.generators, st.booleans(), st.booleans())
@settings(max_examples=80, deadline=None)
def test_matching_is_its_slow_twin(rng, strict, relation):
    texts = ["abc abd xyz abc ab", "the cat the dog"]

    def span(text):
        start = int(rng.integers(0, len(text) - 4))
        return start, start + int(rng.integers(1, 4))

    def triple(kind, text, *more):
        return kind(span(text), span(text), *more)

    found = [[Found(span(t), span(t), span(t) if rng.random() < 0.5 else None, str(rng.choice(["r", "s"])), 1.0, 1.0) for _ in range(rng.integers(0, 5))] for t in texts]  # fmt: skip
    gold = [[Triple(span(t), span(t), str(rng.choice(["r", "s"])), span(t) if rng.random() < 0.5 else None) for _ in range(rng.integers(0, 4))] for t in texts]  # fmt: skip
    for mine, theirs in zip(found, gold, strict=True):  # some that are right
        mine += [Found(t.head, t.tail, t.words, t.relation, 1.0, 1.0) for t in theirs if rng.random() < 0.5]
    row = extraction_scores(texts, found, gold, exact if strict else lenient, relation)
    counts = np.sum([scores_slowly(*one, strict, relation) for one in zip(texts, found, gold, strict=True)], 0)
    predicted, all_gold = sum(map(len, found)), sum(map(len, gold))
    assert row["precision"] == pytest.approx(counts[0] / predicted if predicted else 0)
    assert row["recall"] == pytest.approx(counts[1] / all_gold if all_gold else 0)
