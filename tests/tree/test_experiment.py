"""Tree: inputs are hashed once, attention is read once, a kill loses one fit, counts add up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import attlas
from attlas import Model, Text
from attlas.core.annotations import DEPENDENCIES, ROOT, Dependencies
from attlas.support.errors import CorpusError
from attlas.support.fingerprint import feed
from attlas.testing import tiny
from attlas.tree import word_attention, work
from attlas.tree.work import PROBES

FITS = sum(
    len(rates) for name, rates in PROBES.items() if "attention" in name or "distance" in name
)


def trees(count: int, start: int = 0) -> list[Text]:
    return list(attlas.read("embedded:sentences"))[start : start + count]


def tree(**options: Any) -> attlas.Tree:
    return attlas.Tree(**{"train": trees(6), "test": trees(4, 6), "model": tiny("bert"), **options})


@pytest.fixture
def hashed() -> Iterator[Counter[str]]:
    """How often each text is hashed."""
    counts: Counter[str] = Counter()
    plain = feed.dispatch(Text)

    def counting(text: Text, put: Callable[[bytes], object]) -> None:
        counts[text.id] += 1
        plain(text, put)

    feed.register(Text, counting)
    yield counts
    feed.register(Text, plain)


class Calls:
    """How often a function is called; from the call `dies_at` on it raises."""

    def __init__(
        self, patch: pytest.MonkeyPatch, owner: Any, name: str, dies_at: int = 10**9
    ) -> None:
        self.count, plain = 0, getattr(owner, name)

        def noted(*given: Any, **options: Any) -> Any:
            self.count += 1
            if self.count >= dies_at:
                raise KeyboardInterrupt
            return plain(*given, **options)

        patch.setattr(owner, name, noted)


def test_weights_and_treebank_are_hashed_once(
    tmp_path: Path, hashed: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For both models, both sides and all fits; from files as from memory."""
    tiny("bert").save(tmp_path / "m")
    for number, model in enumerate((tiny("bert"), "m")):
        with monkeypatch.context() as patch:
            weights, tokens = Calls(patch, Model, "weights_sha256"), Calls(patch, Model, "identity")
            hashed.clear()
            attlas.run(tree(model=model), tmp_path / str(number), progress=False)
        assert weights.count == 1
        assert tokens.count == 2  # of the model, and of the one with random weights
        assert set(hashed.values()) == {1}
        assert len(hashed) == 10


def test_a_killed_run_loses_one_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = attlas.run(tree(), tmp_path / "whole", workers=1, progress=False)
    with monkeypatch.context() as patch:
        Calls(patch, work, "fit", dies_at=5)
        with pytest.raises(KeyboardInterrupt):
            attlas.run(tree(), tmp_path / "out", workers=1, progress=False)
    fits, blocks = Calls(monkeypatch, work, "fit"), Calls(monkeypatch, word_attention, "word_block")
    again = attlas.run(tree(), tmp_path / "out", workers=1, progress=False)
    assert FITS == 9
    assert (fits.count, blocks.count) == (FITS - 4, 0)
    assert again.result == whole.result
    assert not (tmp_path / "out" / "states").exists()


def test_conventions_share_attention_in_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = Calls(monkeypatch, word_attention, "word_block")
    for number, convention in enumerate(("sound", "published")):
        attlas.run(
            tree(convention=convention),
            tmp_path / str(number),
            cache=tmp_path / "cache",
            progress=False,
        )
        assert blocks.count == 2 * (6 + 4)


def test_a_text_without_a_token_is_excluded_with_a_reason(tmp_path: Path) -> None:
    empty = Text(
        "empty",
        words=("\u200b",),
        annotations={DEPENDENCIES: Dependencies((ROOT,), ("root",), ("",))},
    )
    test = [*trees(3, 6), empty]
    done = attlas.run(tree(test=test), tmp_path / "tree", progress=False)
    syntax = attlas.Syntax(train=trees(6), test=test, model=tiny("bert"), min_cases=1)
    other = attlas.run(syntax, tmp_path / "syntax", progress=False)
    study = attlas.study(tiny("bert"), test, ["entropy"], tmp_path / "study", progress=False)
    counts = study.manifest["counts"]
    assert (counts["read"], counts["analysed"], counts["quarantined"]) == (4, 3, 1)
    for one in (done, other):
        assert one.manifest["counts"] == one.result["counts"] == counts
        assert one.quarantine.read_bytes() == study.quarantine.read_bytes()
    row = json.loads(done.quarantine.read_text())
    assert (row["id"], row["reason"]) == ("empty", "the tokenizer makes no token of it")
    assert done.result["words"]["unseen"] == 1


def test_texts_without_a_word_to_score_end_before_any_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = Dependencies((ROOT, 0), ("punct", "punct"), ("", ""))
    texts = [Text(str(n), words=(".", "!"), annotations={DEPENDENCIES: marks}) for n in range(3)]
    fits = Calls(monkeypatch, work, "fit")
    with pytest.raises(CorpusError, match="all are punctuation or were truncated"):
        attlas.run(tree(test=texts), progress=False)
    assert fits.count == 0


def test_vectors_are_a_file_or_an_object(tmp_path: Path) -> None:
    from attlas.models.vectors import GloveVectors

    path = tmp_path / "glove.txt"
    path.write_text("the 1 2\na 3 5\nof 4 4\n")
    done = attlas.run(tree(vectors=path), tmp_path / "out", progress=False)
    assert done.result["vectors"] == "glove.txt"
    again = attlas.run(tree(vectors=GloveVectors(path)), tmp_path / "out", progress=False)
    assert again.manifest == done.manifest
