"""The tree probe against plain loops: spanning trees, vectors, weights on disk, scores, UAS."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn.base import clone

import attlas
from attlas import Model, Text
from attlas.core.annotations import GLOBAL_SPANS, ROOT, WHERE
from attlas.experiments.probe import workspace_of
from attlas.models.vectors import GloveVectors, ModelVectors
from attlas.support.errors import CorpusError, MeasureError, ModelError, StudyError
from attlas.support.fingerprint import sha256
from attlas.testing import tiny
from attlas.tree import word_attention as weights_module
from attlas.tree.data import IGNORED, sentence_of
from attlas.tree.probe import UNSEEN, TreeProbe
from attlas.tree.scorers import (
    AttentionScorer,
    AttentionWordsScorer,
    DistanceWordsScorer,
    Given,
    Scorer,
    distance_features,
)
from attlas.tree.spanning import spanning_tree
from attlas.tree.word_attention import WordAttention, read_word_attention
from tests.builders.trees import WORDS, corpus, text
from tests.twins.tree import (
    HEADS,
    SIZE,
    attention_slowly,
    best_slowly,
    block_slowly,
    is_tree,
    total,
    uas_slowly,
    vectors_of,
)

# spanning trees


def best_by_networkx(scores: np.ndarray) -> float:
    n, found = scores.shape[1], []
    for child in range(n):  # the one word on ROOT
        graph = nx.DiGraph([(ROOT, child, {"weight": scores[0, child]})])
        pairs = [
            (head, word) for head, word in itertools.permutations(range(n), 2) if word != child
        ]
        graph.add_weighted_edges_from(
            [(head, word, scores[head + 1, word]) for head, word in pairs]
        )
        tree = nx.maximum_spanning_arborescence(graph)
        found.append(sum(weight for *_, weight in tree.edges(data="weight")))
    return max(found)


@given(st.integers(1, 5), st.integers(0, 10**6), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_the_spanning_tree_is_the_best_of_all_trees(
    n: int, seed: int, ties: bool, forbidden: bool
) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(-2, 2, (n + 1, n)).astype(float) if ties else rng.normal(size=(n + 1, n))
    if forbidden:
        scores[rng.random(scores.shape) < 0.3] = -np.inf
    best = best_slowly(scores)
    if best == -np.inf:
        with pytest.raises(MeasureError, match="no tree with one word on ROOT"):
            spanning_tree(scores)
        return
    heads = spanning_tree(scores).tolist()
    assert is_tree(heads)
    assert total(scores, heads) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 7, 12, 18])
def test_the_spanning_tree_is_that_of_networkx(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(3):
        scores = rng.normal(size=(n + 1, n))
        heads = spanning_tree(scores).tolist()
        assert is_tree(heads)
        assert total(scores, heads) == pytest.approx(best_by_networkx(scores), abs=1e-9)


def greedy_tree(scores: np.ndarray, order: Sequence[int]) -> list[int]:
    heads = [int(scores[0].argmax())]  # the word on ROOT, then words one by one at their best place
    out = {heads[0]: ROOT}
    for word in order:
        if word not in out:
            out[word] = max(out, key=lambda head: scores[head + 1, word])
    return [out[word] for word in range(len(order))]


@given(st.integers(2, 40), st.integers(0, 10**6))
@settings(max_examples=30)
def test_the_spanning_tree_is_at_least_as_good_as_a_greedy_one(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n + 1, n))
    heads = spanning_tree(scores).tolist()
    assert is_tree(heads)
    assert (
        total(scores, heads)
        >= total(scores, greedy_tree(scores, rng.permutation(n).tolist())) - 1e-9
    )


@pytest.mark.parametrize(
    ("scores", "match"),
    [
        (np.zeros((3, 3)), r"shape \[3, 3\]"),
        (np.full((3, 2), np.nan), "NaN"),
        (np.full((3, 2), -np.inf), "no tree"),
    ],
)
def test_scores_of_no_tree_are_refused(scores: np.ndarray, match: str) -> None:
    with pytest.raises(MeasureError, match=match):
        spanning_tree(scores)


def test_no_words_are_no_tree() -> None:
    assert spanning_tree(np.zeros((1, 0))).tolist() == []


# vectors


def test_model_vectors_are_means_of_standardised_embeddings() -> None:
    model = tiny("bert")
    table = model.network.get_input_embeddings().weight.detach().double().numpy()
    table = (table - table.mean(0)) / table.std(0)
    vectors = ModelVectors(model)
    found = vectors.of(["cat", "catx", "cat", "\u200b"])
    ids = {
        word: model.tokenizer(word, add_special_tokens=False)["input_ids"]
        for word in ("cat", "catx")
    }
    assert len(ids["catx"]) > 1
    np.testing.assert_allclose(found[0], table[ids["cat"]].mean(0), atol=1e-5)
    np.testing.assert_allclose(found[1], table[ids["catx"]].mean(0), atol=1e-5)
    np.testing.assert_array_equal(found[2], found[0])
    np.testing.assert_array_equal(found[3], 0)  # the tokenizer drops it
    assert vectors.of([]).shape == (0, vectors.size) == (0, 32)
    assert vectors.of(["\u200b"]).tolist() == [[0.0] * 32]


@pytest.mark.parametrize("packed", [False, True])
def test_glove_vectors_are_read_and_standardised(tmp_path: Path, packed: bool) -> None:
    lines = "the 1 5 2\ncat 3 5 2.5\n. . . 2 5 1\n"
    path = tmp_path / f"glove.txt{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(lines.encode()) if packed else lines.encode())
    vectors = GloveVectors(path)
    table = np.array([[1, 5, 2], [3, 5, 2.5], [2, 5, 1]])
    wanted = (table - table.mean(0)) / np.where(table.std(0) > 0, table.std(0), 1)
    np.testing.assert_allclose(
        vectors.of(["Cat", "the", "dog", ". . ."]),
        [*wanted[[1, 0]], [0, 0, 0], wanted[2]],
        atol=1e-6,
    )
    assert (vectors.size, vectors.name) == (3, path.name)


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        ("the 1 2\ncat 3 x\n", "line 2: it is not a word"),
        ("the 1 2\ncat 3\n", "line 2: it does not have 2 numbers"),
        ("the 1 2\ncat 3 4 5\n", "line 2: it does not have 2 numbers"),
        ("the 1 2\ncat 3 nan\n", "line 2: it is not a word"),
        ("the\n", "line 1: it is not a word"),
        ("", "is empty"),
    ],
)
def test_malformed_vectors_are_refused_with_their_line(
    tmp_path: Path, lines: str, match: str
) -> None:
    (tmp_path / "glove.txt").write_text(lines)
    with pytest.raises(CorpusError, match=match):
        GloveVectors(tmp_path / "glove.txt").of(["the"])


def test_vectors_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="cannot be read"):
        GloveVectors(tmp_path / "none.txt").of(["the"])


# attention between words on disk


def gather(
    model: Model, texts: list[Text], cache: Path, workers: int | None = None
) -> WordAttention:
    return read_word_attention(workspace_of(cache, workers, False), model, texts)


@pytest.mark.parametrize("family", ["bert", "longformer", "gpt2"])
def test_weights_on_disk_are_those_of_loops(family: str, tmp_path: Path) -> None:
    model, texts = tiny(family), corpus(12)
    kept = gather(model, texts, tmp_path / "kept", workers=2)
    assert kept.unseen == 0
    for place, one in enumerate(texts):
        block = kept.read([place])[0].float().numpy()
        np.testing.assert_allclose(block, block_slowly(model, one), atol=6e-4)
    if family == "gpt2":  # which has no [CLS] and no [SEP]
        assert not kept.read([0])[0, :, -4:].any()


def test_texts_of_one_word_count_are_read_together(tmp_path: Path) -> None:
    texts = [text(number, WORDS[number : number + 4]) for number in range(5)]
    kept = gather(tiny("bert"), texts, tmp_path)
    together = kept.read([3, 1, 4])
    assert together.shape == (3, 4, 8, 12)
    for place, one in enumerate([3, 1, 4]):
        torch.testing.assert_close(together[place], kept.read([one])[0], rtol=0, atol=0)


def entries(cache: Path) -> list[Path]:
    return sorted(path for path in cache.iterdir() if (path / "entry.json").is_file())


class Written:
    """Which texts go through the model again while it is open, by the number of their shard."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dies_from: int = 10**9) -> None:
        self.shards: list[int] = []
        plain = weights_module.pass_counts

        def noted(read: int, texts: Sequence[Any], quarantined: int) -> dict[str, int]:
            self.shards.append(texts[0].index // 4)
            if self.shards[-1] >= dies_from:
                raise KeyboardInterrupt
            return plain(read, texts, quarantined)

        monkeypatch.setattr(weights_module, "pass_counts", noted)


def same_blocks(one: WordAttention, two: WordAttention) -> None:
    assert one.words.tolist() == two.words.tolist()
    assert one.missing == two.missing
    for place in range(len(one.words)):
        torch.testing.assert_close(one.read([place]), two.read([place]), rtol=0, atol=0)


def test_a_killed_pass_resumes_with_the_missing_shards(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weights_module, "SHARD_TEXTS", 4)
    model, texts = tiny("bert"), corpus(14)
    whole = gather(model, texts, tmp_path / "whole", workers=1)
    assert len(entries(tmp_path / "whole")) == 4
    with monkeypatch.context() as patch:
        Written(patch, dies_from=2)
        with pytest.raises(KeyboardInterrupt):
            gather(model, texts, tmp_path / "killed", workers=1)
    done = {path.name for path in entries(tmp_path / "killed")}
    assert len(done) == 2
    assert done < {path.name for path in entries(tmp_path / "whole")}
    left = tmp_path / "killed" / ".attlas-abcdefgh.tmp"  # of another process, which may be at work
    left.mkdir()
    written = Written(monkeypatch)
    again = gather(model, texts, tmp_path / "killed", workers=2)
    assert sorted(written.shards) == [2, 3]
    assert left.is_dir()
    same_blocks(again, whole)


def damaged(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        changed = bytes([data[0] ^ 1]) + data[1:]
        path.write_bytes({"cut": data[:-2], "empty": b"", "changed": changed}[how])


@pytest.mark.parametrize("how", ["cut", "empty", "changed", "gone"])
@pytest.mark.parametrize("name", ["words.f16", "words.json", "entry.json"])
def test_a_damaged_entry_is_made_again(
    name: str,
    how: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weights_module, "SHARD_TEXTS", 4)
    model, texts = tiny("bert"), corpus(10)
    whole = gather(model, texts, tmp_path / "whole")
    kept = gather(model, texts, tmp_path / "kept")
    damaged(kept.entries[1] / name, how)
    written = Written(monkeypatch)
    again = gather(model, texts, tmp_path / "kept")
    assert written.shards == [1]
    same_blocks(again, whole)
    gather(model, texts, tmp_path / "kept")
    assert written.shards == [1]


def test_an_entry_counts_everything_it_was_made_from(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, texts = tiny("longformer"), [text(number, WORDS[:6]) for number in range(3)]
    left = tiny("longformer")
    left.tokenizer.truncation_side = "left"
    first = texts[0]
    others = [
        (tiny("longformer", seed=1), texts),
        (replace(model, limit=5), texts),
        (replace(model, global_tokens="special"), texts),
        (left, texts),
        (model, [*texts[:2], text(2, WORDS[1:7])]),
        (model, [text(0, WORDS[:6], [1, 2, 3, 4, ROOT, 4]), *texts[1:]]),
        (model, [replace(first, label="a"), *texts[1:]]),
        (model, [replace(first, id="a"), *texts[1:]]),
        (model, [text(0, WORDS[:6], **{GLOBAL_SPANS: [(0, 7)]}), *texts[1:]]),
        (model, [text(0, WORDS[:6], rationale=[(0, 7)]), *texts[1:]]),
        (model, [text(0, WORDS[:6], note=np.arange(3)), *texts[1:]]),
        (model, [text(0, WORDS[:6], note=np.arange(1, 4)), *texts[1:]]),
    ]
    gather(model, texts, tmp_path / "kept")
    for number, (reader, some) in enumerate(others, 2):
        found = gather(reader, some, tmp_path / "kept")
        assert len(entries(tmp_path / "kept")) == number
        same_blocks(found, gather(reader, some, tmp_path / str(number)))
    moved = [replace(one, annotations={**one.annotations, WHERE: "row 3"}) for one in texts]
    gather(attlas.load((model.network, model.tokenizer)), moved, tmp_path / "kept")
    assert len(entries(tmp_path / "kept")) == len(others) + 1  # names and places do not count
    monkeypatch.setattr("attlas.experiments.workspace.source_digest", lambda: "other code")
    gather(model, texts, tmp_path / "kept")
    assert len(entries(tmp_path / "kept")) == len(others) + 2


def test_a_cache_may_hold_other_files_and_leaves_them(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    (tmp_path / ".attlas-abcdefgh.tmp").write_text("another process's")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    gather(tiny("bert"), corpus(3), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_two_passes_at_once_share_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is locked; who comes second with an entry leaves the first one's as it is."""
    monkeypatch.setattr(weights_module, "SHARD_TEXTS", 2)
    models, texts = [tiny("bert") for _ in range(3)], corpus(12)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda model: gather(model, texts, tmp_path, workers=1), models))
    assert len(entries(tmp_path)) == 6
    assert len(list(tmp_path.iterdir())) == 6
    for one in found[1:]:
        same_blocks(one, found[0])


def test_the_model_is_digested_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_module, "SHARD_TEXTS", 2)
    calls, plain = [], Model.identity
    monkeypatch.setattr(Model, "identity", lambda *given: (calls.append(1), plain(*given))[1])
    gather(tiny("bert"), corpus(9), tmp_path)
    assert len(calls) == 1


def test_an_entry_that_changes_while_it_is_read_is_one_clear_error(tmp_path: Path) -> None:
    kept = gather(tiny("bert"), corpus(3), tmp_path)
    path = kept.entries[0] / "words.f16"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(StudyError, match="shorter than its index"):
        kept.read([2])
    path.unlink()
    with pytest.raises(StudyError, match=r"words\.f16 cannot be read"):
        kept.read([2])


def test_words_that_the_model_does_not_see_are_counted(tmp_path: Path) -> None:
    model = tiny("bert", max_position_embeddings=8)
    texts = [
        text(
            0,
            ["the", "cat", "sat", "on", "the", "mat", ".", "good"],
            [1, 2, ROOT, 5, 5, 2, 2, 7 - 1],
        ),
        text(1, ["the", "\u200b", "dog"], [2, 2, ROOT]),
        text(2, ["\u200b"], [ROOT]),
        text(3, ["he", "sat"], [1, ROOT]),
    ]
    kept = gather(model, texts, tmp_path / "kept")
    assert kept.words.tolist() == [6, 2, 0, 2]
    assert kept.missing == ((6, 7), (1,), (0,), ())
    assert kept.unseen == 4
    study = attlas.study(model, texts, ["entropy"], tmp_path / "study", progress=False)
    assert kept.counts == study.manifest["counts"]
    assert (kept.counts["read"], kept.counts["analysed"], kept.counts["quarantined"]) == (4, 3, 1)
    assert list(kept.quarantine) == [
        json.loads(line) for line in study.quarantine.read_text().splitlines()
    ]
    probe = TreeProbe(model, "attention", epochs=1, cache=tmp_path / "cache").fit(texts)
    assert probe.unseen_ == 4
    scores = probe.evaluate(texts)
    assert (scores.unseen, scores.headless, scores.punctuation) == (4, 0, 0)
    assert scores.counts.tolist() == [6, 2, 0, 2]
    for heads, one in zip(probe.predict(texts, "tree"), kept.missing, strict=True):
        assert [word for word, head in enumerate(heads) if head == UNSEEN] == list(one)
        assert list(heads).count(ROOT) == (1 if heads != (UNSEEN,) else 0)


def test_a_word_whose_head_was_not_seen_is_neither_learnt_nor_scored() -> None:
    one = text(0, ["the", "cat", "sat", ".", "."], [1, 4, 1, 1, ROOT])
    sentence = sentence_of(one, 0, (1,))
    assert sentence.words == ("the", "sat", ".", ".")
    assert sentence.heads.tolist() == [IGNORED, IGNORED, IGNORED, 0]
    assert (sentence.unseen, sentence.headless, sentence.punctuation) == (1, 3, 1)
    assert not sentence.scored.any()


# scores


def random_given(
    n: int, rng: np.random.Generator
) -> tuple[Given, np.ndarray, np.ndarray, np.ndarray]:
    """Attention [head, word, word], ends [head, word, 4], vectors [word, size]; and as a batch."""
    maps, ends, vectors = (
        rng.random((HEADS, n, n)),
        rng.random((HEADS, n, 4)),
        rng.normal(size=(n, SIZE)),
    )
    pairs = np.concatenate([maps, maps.transpose(0, 2, 1)]).transpose(1, 2, 0)
    batch = Given(*(torch.tensor(part[None]) for part in (pairs, ends.transpose(1, 2, 0), vectors)))
    return batch, maps, ends, vectors


def perturbed_scorer(scorer: Scorer, seed: int) -> dict[str, np.ndarray]:
    """Random weights in a scorer; the same as arrays."""
    generator = torch.Generator().manual_seed(seed)
    scorer.double()
    with torch.no_grad():
        for parameter in scorer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return {name: parameter.detach().numpy() for name, parameter in scorer.named_parameters()}


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("n", [1, 2, 6])
def test_scores_from_attention_are_those_of_loops(n: int, words: bool, published: bool) -> None:
    batch, maps, ends, vectors = random_given(n, np.random.default_rng(n))
    scorer = (AttentionWordsScorer if words else AttentionScorer)(HEADS, SIZE, published)
    own = perturbed_scorer(scorer, n)
    found = scorer(batch)[0].detach().numpy()
    np.testing.assert_allclose(
        found, attention_slowly(maps, ends, vectors, own, words, published), atol=1e-10
    )


@pytest.mark.parametrize("published", [False, True])
def test_scores_from_distances_are_those_of_loops(published: bool) -> None:
    n, rng = 5, np.random.default_rng(0)
    batch, *_, vectors = random_given(n, rng)
    scorer = DistanceWordsScorer(0, SIZE, published)
    own = perturbed_scorer(scorer, 0)
    found = scorer(batch)[0].detach().numpy()
    for candidate, word in itertools.product(range(n + 1), range(n)):
        if candidate == word + 1:
            assert found[candidate, word] == -np.inf
            continue
        offset = candidate - 1 - word
        far = [
            max(offset, 0) / n,
            max(-offset, 0) / n,
            *(offset == near for near in (0, -1, 1, -2, 2)),
            0,
        ]
        far = [0] * 7 + [1] if candidate == 0 else far
        both = vectors_of(vectors, candidate, word, published)
        hidden = (
            own["candidate.weight"] @ both[:SIZE]
            + own["word.weight"] @ both[SIZE:]
            + own["candidate.bias"]
        )
        hidden += own["distance.weight"] @ np.array(far, dtype=float)
        assert found[candidate, word] == pytest.approx(
            (own["out.weight"] @ np.tanh(hidden))[0], abs=1e-6
        )
    assert distance_features(n).shape == (n + 1, n, 8)


def test_a_text_scores_the_same_whatever_stands_beside_it(tmp_path: Path) -> None:
    texts = [text(number, WORDS[number : number + 5]) for number in range(6)]
    probe = TreeProbe(tiny("bert"), epochs=2, cache=tmp_path).fit(texts)
    alone = [probe.predict([one], "tree")[0] for one in texts]
    assert probe.predict(texts, "tree") == alone


# the probe


def looking(model: Model, count: int, head: int) -> list[Text]:
    """Texts in which each word's head is the other word that it attends to most in one head."""
    out, rng = [], np.random.default_rng(5)
    for number in range(count):
        words = [
            str(word)
            for word in rng.choice([word for word in WORDS if word != "."], rng.integers(2, 9))
        ]
        looks = block_slowly(model, Text("", words=tuple(words)))[
            :, : len(words), head
        ] - 2 * np.eye(len(words))
        out.append(text(number, words, looks.argmax(1).tolist()))
    return out


def test_a_tree_that_one_head_holds_is_found(tmp_path: Path) -> None:
    model = tiny("bert", num_hidden_layers=1)
    texts = looking(model, 200, head=1)
    probe = TreeProbe(model, "attention", epochs=40, learning_rate=0.5, cache=tmp_path).fit(
        texts[:150]
    )
    assert probe.score(texts[150:]) > 0.95
    assert probe.scorer_.weights.argmax() == 4 + 1  # u of head 1: the word attends to its head


@pytest.mark.parametrize("family", ["bert", "longformer", "gpt2"])
@pytest.mark.parametrize("convention", ["sound", "published"])
def test_uas_is_that_of_loops(family: str, convention: str, tmp_path: Path) -> None:
    texts, model = corpus(30), tiny(family)
    for features in ("attention", "attention_words", "distance_words"):
        probe = TreeProbe(model, features, convention=convention, epochs=2, cache=tmp_path).fit(
            texts
        )
        scores = probe.evaluate(texts)
        assert (scores.uas, scores.scored) == pytest.approx(uas_slowly(texts, probe.predict(texts)))
        trees = probe.predict(texts, "tree")
        assert all(is_tree(heads) for heads in trees)
        assert scores.tree_uas == pytest.approx(uas_slowly(texts, trees)[0])
        assert scores.punctuation == sum((one.words or ()).count(".") for one in texts)
        assert probe.score(texts) == scores.uas


def test_baselines_learn_nothing() -> None:
    texts = [
        text(0, ["the", "cat", "sat"], [1, 2, ROOT]),
        text(1, ["he"], [ROOT]),
        text(2, ["sat", "he", "."], [ROOT, 0, 0]),
    ]
    right = TreeProbe(tiny("bert"), "right_branching").fit(texts)
    assert right.predict(texts) == [(1, 2, -1), (-1,), (1, 2, -1)]
    assert right.evaluate(texts).hits.tolist() == [3, 1, 0]
    before = TreeProbe(tiny("bert"), "previous_word")
    assert before.predict(texts, "tree") == [(-1, 0, 1), (-1,), (-1, 0, 1)]
    assert before.evaluate(texts).to_dict() == {
        "uas": 3 / 6,
        "tree_uas": 3 / 6,
        "texts": 3,
        "scored": 6,
        "punctuation": 1,
        "unseen": 0,
        "headless": 0,
    }


def test_the_same_seed_gives_the_same_probe(tmp_path: Path) -> None:
    texts, model = corpus(60), tiny("bert")
    for features in ("attention_words", "distance_words"):
        make = TreeProbe(model, features, epochs=3, cache=tmp_path)
        one, two, other = (
            clone(make).fit(texts),
            clone(make).fit(texts),
            clone(make).set_params(seed=1).fit(texts),
        )
        weights, again, third = (
            list(probe.scorer_.state_dict().values()) for probe in (one, two, other)
        )
        assert all(torch.equal(left, right) for left, right in zip(weights, again, strict=True))
        assert not all(torch.equal(left, right) for left, right in zip(weights, third, strict=True))
        assert one.history_ == two.history_


@pytest.mark.parametrize("features", ["attention", "attention_words", "distance_words"])
@pytest.mark.parametrize("convention", ["sound", "published"])
def test_a_probe_is_saved_and_read_again(features: str, convention: str, tmp_path: Path) -> None:
    texts, model = corpus(30), tiny("bert")
    probe = TreeProbe(
        model, features, convention=convention, epochs=2, seed=4, cache=tmp_path / "cache"
    ).fit(texts)
    again = TreeProbe.load(probe.save(tmp_path / "probe"), model, cache=tmp_path / "cache")
    assert again.predict(texts) == probe.predict(texts)
    assert (again.features, again.convention, again.seed) == (features, convention, 4)
    assert (again.epoch_, again.history_) == (probe.epoch_, probe.history_)
    assert {path.name for path in (tmp_path / "probe").iterdir()} == {
        "probe.json",
        "probe.safetensors",
    }
    with pytest.raises(ModelError, match="was fitted on the"):
        TreeProbe.load(tmp_path / "probe", tiny("bert", seed=1))


def test_what_is_no_saved_probe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no tree probe"):
        TreeProbe.load(tmp_path, tiny("bert"))
    (tmp_path / "probe.json").write_text(json.dumps({"format": "another"}))
    with pytest.raises(ModelError, match="holds no tree probe"):
        TreeProbe.load(tmp_path, tiny("bert"))
    (tmp_path / "probe.json").write_text("[1]")
    with pytest.raises(ModelError, match="holds no tree probe"):
        TreeProbe.load(tmp_path, tiny("bert"))


@pytest.fixture(scope="module")
def fitted() -> TreeProbe:
    return TreeProbe(tiny("bert"), epochs=1, progress=False).fit(corpus(12))


@pytest.mark.parametrize("how", ["cut", "empty", "changed", "gone"])
def test_a_damaged_probe_is_refused(how: str, fitted: TreeProbe, tmp_path: Path) -> None:
    folder = fitted.save(tmp_path / "probe")
    path = folder / "probe.safetensors"
    data = path.read_bytes()
    if how == "changed":  # in a number, so that the file can still be read
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        damaged(path, how)
    with pytest.raises(ModelError, match="holds no tree probe") as caught:
        TreeProbe.load(folder, fitted.model)
    assert "\n" not in str(caught.value)
    if how != "gone":
        assert "has changed since it was written" in str(caught.value)


def test_a_probe_of_another_model_is_refused_by_what_differs(
    fitted: TreeProbe,
    tmp_path: Path,
) -> None:
    folder, model = fitted.save(tmp_path / "probe"), fitted.model
    left, cased = tiny("bert"), tiny("bert")
    left.tokenizer.truncation_side = "left"
    cased.network.config.layer_norm_eps *= 2
    for other, parts in {
        "weights": (tiny("bert", seed=1), "weights"),
        "limit": (replace(model, limit=5), "max_length"),
        "tokenizer": (left, "tokenizer"),
        "config": (cased, "config"),
        "dtype": (attlas.load((tiny("bert").network.double(), model.tokenizer)), "weights, dtype"),
    }.values():
        with pytest.raises(ModelError, match=rf"fitted on the model .* \(differs in {parts}\)"):
            TreeProbe.load(folder, other)
    again = TreeProbe.load(folder, attlas.load((model.network, model.tokenizer)))
    assert "device" not in again.fitted_on_["model"]["identity"]
    assert again.fitted_on_ == fitted.fitted_on_


def test_what_was_noted_is_the_model_at_the_time_of_fitting(tmp_path: Path) -> None:
    model = tiny("bert")
    probe = TreeProbe(model, "attention", epochs=1).fit(corpus(6))
    with torch.no_grad():
        next(model.network.parameters()).mul_(2)
    with pytest.raises(ModelError, match="differs in weights"):
        TreeProbe.load(probe.save(tmp_path / "probe"), model)


def test_probes_of_earlier_versions_are_read(fitted: TreeProbe, tmp_path: Path) -> None:
    """They have no checksum, and know a model by its weights and vectors by their table."""
    folder, model = fitted.save(tmp_path / "probe"), fitted.model
    path = folder / "probe.json"
    about = json.loads(path.read_text())
    del about["files"]
    table = sha256(ModelVectors(model).table.numpy().data).hexdigest()
    about["model"] = {"name": model.name, "weights": model.weights_sha256()}
    about["vectors"] = {"name": "input embeddings", "digest": table}
    path.write_text(json.dumps(about))
    again = TreeProbe.load(folder, replace(model, limit=50))
    assert again.predict(corpus(4)) == fitted.predict(corpus(4))
    assert TreeProbe.load(again.save(tmp_path / "again"), model).fitted_on_ == again.fitted_on_
    with pytest.raises(ModelError, match=r"fitted on the model .*differs in weights"):
        TreeProbe.load(folder, tiny("bert", seed=1))
    with pytest.raises(ModelError, match=r"fitted on the vectors .*differs in content"):
        TreeProbe.load(folder, model, vectors=ModelVectors(tiny("bert", seed=1)))


def test_vectors_with_their_words_in_another_order_are_others(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("cat 1 2\ndog 3 5\nmat 4 4\n")
    (tmp_path / "b.txt").write_text("dog 1 2\nmat 3 5\ncat 4 4\n")
    model, vectors = tiny("bert"), GloveVectors(tmp_path / "a.txt")
    folder = TreeProbe(model, vectors=vectors, epochs=1).fit(corpus(9)).save(tmp_path / "probe")
    shutil.copy(tmp_path / "a.txt", tmp_path / "c.txt")
    TreeProbe.load(folder, model, vectors=GloveVectors(tmp_path / "c.txt"))
    message = r"fitted on the vectors 'a.txt', not 'b.txt' \(differs in content\)"
    with pytest.raises(ModelError, match=message):
        TreeProbe.load(folder, model, vectors=GloveVectors(tmp_path / "b.txt"))


def test_a_probe_is_saved_over_a_probe_and_nothing_else(fitted: TreeProbe, tmp_path: Path) -> None:
    for name in ("probe.json", "notes.txt", "probe.safetensors"):
        content = '{"format": "mine"}'
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(content)
        with pytest.raises(
            StudyError, match=rf"is not empty \(it has {name}\) and holds no tree probe"
        ):
            fitted.save(folder)
        assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(name, content)]
    other = TreeProbe(fitted.model, "attention", epochs=1).fit(corpus(6))
    folder = other.save(tmp_path / "probe")
    (folder / "notes.txt").write_text("mine")
    fitted.save(folder)
    assert TreeProbe.load(folder, fitted.model).predict(corpus(3)) == fitted.predict(corpus(3))
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_save_that_was_killed_is_refused_and_can_be_repeated(
    fitted: TreeProbe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at each move, into a new folder and over another probe."""
    other = TreeProbe(fitted.model, "attention", epochs=1).fit(corpus(6))
    expected, before = fitted.predict(corpus(3)), other.predict(corpus(3))
    for over in (False, True):
        for last in range(3):
            folder = tmp_path / f"{over} {last}"
            if over:
                other.save(folder)
            with monkeypatch.context() as patch:
                moves = itertools.count()

                def move(source: Path, target: Path, moves: Any = moves, last: int = last) -> None:
                    if next(moves) == last:
                        raise KeyboardInterrupt
                    os.replace(source, target)

                patch.setattr("attlas.support.files.move", move)
                try:
                    fitted.save(folder)
                except KeyboardInterrupt:
                    done = False
                else:
                    done = True
            try:
                found = TreeProbe.load(folder, fitted.model).predict(corpus(3))
            except ModelError:
                assert not done
            else:
                assert found == (expected if done else before)
            fitted.save(folder)
            assert TreeProbe.load(folder, fitted.model).predict(corpus(3)) == expected


def test_the_random_control_keeps_the_vectors_of_the_trained_model(tmp_path: Path) -> None:
    model, texts = tiny("bert"), corpus(20)
    vectors = ModelVectors(model)
    probe = TreeProbe(model.randomized(0), vectors=vectors, epochs=1, cache=tmp_path / "cache").fit(
        texts
    )
    assert probe._vectors() is vectors
    folder = probe.save(tmp_path / "probe")
    with pytest.raises(ModelError, match="was fitted on the vectors"):
        TreeProbe.load(folder, model.randomized(0))
    again = TreeProbe.load(folder, model.randomized(0), vectors=vectors)
    assert again.predict(texts) == probe.predict(texts)


def test_without_a_cache_the_folder_goes_with_the_probe() -> None:
    texts = corpus(6)
    probe = TreeProbe(tiny("bert"), "attention", epochs=1).fit(texts)
    folder = probe._folder
    probe.score(texts)
    assert len(entries(folder)) == 1  # found again
    probe.score(texts[:2])
    assert probe._folder == folder
    assert len(entries(folder)) == 2
    del probe
    assert not folder.exists()


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"features": "words"}, "features is 'words'; it must be attention or"),
        ({"convention": "mine"}, "convention is 'mine'"),
        ({"epochs": 0}, "epochs is 0"),
        ({"learning_rate": -1.0}, "learning_rate is -1"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters: dict[str, Any], match: str) -> None:
    with pytest.raises(MeasureError, match=match):
        TreeProbe(tiny("bert"), **parameters).fit(corpus(2))
    with pytest.raises(MeasureError, match="decode is 'best'"):
        TreeProbe(tiny("bert")).predict(corpus(2), "best")


@pytest.mark.parametrize(
    ("texts", "match"),
    [
        ([], "the list of texts is empty"),
        (["a cat"], "the list of texts is of str"),
        ([Text("a", "a cat")], "text 'a' has no words"),
        ([Text("a", words=("a", "cat"))], "text 'a' has no dependency tree"),
        ([text(0, ["a", "cat"], [1])], "has 2 words, but its tree has 1 heads"),
        ([text(0, ["a", "cat"], [1, 2])], "the head of word 1 is 2"),
        ([text(0, ["a", "cat"], [0, ROOT])], "the head of word 0 is 0"),
        ([text(0, ["."], [ROOT])], "no text has a word to train on"),
    ],
)
def test_texts_that_cannot_be_learnt_from_are_refused(texts: list[Any], match: str) -> None:
    with pytest.raises(CorpusError, match=match):
        TreeProbe(tiny("bert"), "attention").fit(texts)


def test_baselines_score_the_words_that_attention_sees() -> None:
    """Of a sentence that is cut, all probes score the same words."""
    texts = [
        text(
            0,
            ["the", "cat", "sat", "on", "the", "mat", "and", "the", "dog"],
            [1, 2, ROOT, 5, 5, 2, 8, 8, 2],
        )
    ] * 4
    texts = [
        Text(str(n), words=one.words, annotations=one.annotations) for n, one in enumerate(texts)
    ]
    short = replace(tiny("bert"), limit=7)
    found = {
        name: TreeProbe(short, name, epochs=1, progress=False).fit(texts).evaluate(texts)
        for name in (
            "attention",
            "attention_words",
            "distance_words",
            "right_branching",
            "previous_word",
        )
    }
    assert {tuple(one.counts.tolist()) for one in found.values()} == {(3, 3, 3, 3)}
    assert {(one.unseen, one.headless) for one in found.values()} == {(16, 8)}
