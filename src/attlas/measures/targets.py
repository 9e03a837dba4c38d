"""How much does each head attend to the words that a user names?

Two controls: uniform attention, and other words that occur about as often. How often a word occurs
is known only at the end of a pass, so a sample of word types is kept: all function words, and the
types with the smallest hashes, which are the same ones however the texts are divided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import regex
import torch
from torch import Tensor

from attlas.core.annotations import Coreference, Relations
from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.measure import BatchReport, Measure, Outputs, Shape, check_bytes, head_frame
from attlas.core.states import Moments, State, TypeSample
from attlas.core.text import Text
from attlas.language.lists import fold, languages, stopwords
from attlas.language.words import Span, given_spans
from attlas.support.arrays import Array, Floats
from attlas.support.errors import MeasureError
from attlas.support.options import option

NEGATION = "no not never none nothing nobody nowhere neither nor cannot without"
LONGEST_LIST = 10_000  # characters of a list of words
LONGEST_PATTERN = 200  # characters
LONGEST_WORD = 100  # characters of a word that a pattern is compared with
SECONDS = 1.0  # that a pattern may take for one word
MATCHED = 20  # other types that a target type is compared with
FACTOR = 2.0  # how much more or less often they may occur


def target_mass(layer: Attention, target: Tensor, n_words: Tensor) -> Tensor:
    """Mean mass of a row on a target word, all of its tokens: [text, head]; NaN without one.

    `target` marks the tokens of target words ([text, token]), `n_words` counts the words ([text]).
    """
    mass = (layer.received * target.to(layer.received)[:, None]).sum(-1)
    known = n_words.where(n_words > 0, torch.nan).to(mass)
    return mass / (layer.n_tokens * known)[:, None]


def type_mass(layer: Attention, types: Tensor, count: int) -> Tensor:
    """Mean mass of a row on the tokens of each type, summed over texts: [type, head].

    `types` is the type of each token ([text, token]), -1 for one that does not count.
    """
    text, token = (types >= 0).nonzero(as_tuple=True)
    received = layer.received
    rows = received[text.clamp(max=len(received) - 1), :, token].double() / layer.n_tokens
    return rows.new_zeros(count, rows.shape[1]).index_add_(0, types[text, token], rows)


@cache
def function_words() -> frozenset[str]:
    """The function words of all languages that have a list."""
    return frozenset(word for language in languages() for word in stopwords(language))


@lru_cache(maxsize=2**16)
def matches(pattern: str, word: str) -> bool:
    """Whether a whole word matches a pattern; an error if that takes too long.

    >>> matches("un.*able", "Unbearable"), matches("un", "unable")
    (True, False)
    """
    try:
        found = _compiled(pattern).fullmatch(word[:LONGEST_WORD], timeout=SECONDS)
    except TimeoutError as error:
        raise MeasureError(
            f"the pattern {pattern!r} takes more than {SECONDS:g} s for the word "
            f"{word[:LONGEST_WORD]!r}; write it without repetitions inside repetitions"
        ) from error
    return found is not None and len(word) <= LONGEST_WORD


@cache
def _compiled(pattern: str) -> Any:
    try:
        return regex.compile(pattern, regex.IGNORECASE)
    except regex.error as error:
        raise MeasureError(
            f"pattern is {pattern!r}, which is not a regular expression: {error}"
        ) from error


def annotated_spans(text: Text, name: str) -> list[Span]:
    """The spans of a text, in characters, under the name of an annotation; none without it.

    Mentions of `coreference` are spans, and so are the phrases of `relations`.
    """
    found = text.annotations.get(name, ())
    if isinstance(found, Coreference):
        words = given_spans(text.words or ())
        return [(words[one.start][0], words[one.stop - 1][1]) for one in found.mentions]
    if isinstance(found, Relations):
        return [span for one in found.triples for span in (one.head, one.tail)]
    try:
        return [(int(start), int(stop)) for start, stop in found]
    except (TypeError, ValueError) as error:
        raise MeasureError(
            f"annotation {name!r} of text {text.id!r} is not a list of spans; "
            "give pairs of characters (start, stop)"
        ) from error


@dataclass(frozen=True)
class Marks:
    """The target words of a batch, and its other words by type."""

    target: Tensor  # text token, bool
    n_words: Tensor  # text: target words
    targets: Counter[str]  # occurrences by type
    others: Counter[str]  # words that are not targets
    types: list[list[str]]  # text token: the type of a word that is not a target, or ""


@dataclass
class Pending:
    """What the layers of the current batch have given so far to the types that are sampled."""

    kept: list[str]
    types: Tensor  # text token: its index in `kept`, or -1
    mass: list[Floats] = field(default_factory=list)  # of heads, of uniform attention, by layer

    @classmethod
    def of(cls, sample: TypeSample, marks: Marks) -> Pending:
        kept = [name for name in sample.smallest(marks.others) if name in marks.others]
        index = {name: number for number, name in enumerate(kept)}
        types = [[index.get(name, -1) for name in row] for row in marks.types]
        shape, device = marks.target.shape, marks.target.device
        return cls(kept, torch.tensor(types, dtype=torch.long, device=device).reshape(shape))


@dataclass
class TargetsState(State):
    """Means over texts with a target, and samples of types."""

    mean: Moments  # layer head
    uniform: Moments  # layer head
    difference: Moments  # layer head: of the two, text by text
    words: TypeSample  # of target types: occurrences
    others: TypeSample  # occurrences, then the mass of heads, then that of uniform attention
    pending: Pending | None = field(default=None, metadata={"parameter": True})


@dataclass(frozen=True, kw_only=True)
class Targets(Measure[TargetsState]):
    """Each head's mean attention to words that are named, with two controls.

    `target` is the mean mass that a row gives to a target word (all of its tokens), averaged over
    the target words of a text and then over the texts that have one. Targets are `words` (a list
    with blanks), words of which `pattern` matches the whole, or the words in annotated `spans`
    (`rationale`, `global`, `coreference`, `relations`, or the name of an annotation of one's own);
    without any of these, words of negation. Case does not count.

    `target_uniform` is what uniform attention gives to the same words. `target_matched` is what
    they would get if they were attended to as much, relative to uniform attention, as other words
    that occur about as often: for each target type the 20 nearest types by log frequency among
    those that occur at most twice and at least half as often, out of all function words and `types`
    other types drawn by hash. Words without a letter or digit are not among them.
    """

    name: ClassVar[str] = "targets"
    clause: ClassVar[str] = (
        "the mean share of a head's attention that goes to chosen words, compared with uniform "
        "attention and with other words that occur about as often"
    )
    own: ClassVar[bool] = True
    words: str = option("", "Words, separated by blanks.")
    pattern: str = option("", "Regular expression that matches whole words.")
    spans: str = option("", "Annotation with spans of the text.")
    types: int = option(500, "Word types sampled as controls.", at_least=10, at_most=10_000)

    def __post_init__(self) -> None:
        super().__post_init__()
        named = [name for name in ("words", "pattern", "spans") if getattr(self, name).strip()]
        if len(named) > 1:
            raise MeasureError(f"targets has {' and '.join(named)}; give one of them")
        if not named:
            object.__setattr__(self, "words", NEGATION)
        for name, most in (("words", LONGEST_LIST), ("pattern", LONGEST_PATTERN)):
            if len(getattr(self, name)) > most:
                raise MeasureError(f"{name} of targets is longer than {most:,} characters")
        if self.pattern:
            _compiled(self.pattern)

    def start(self, model: Shape) -> TargetsState:
        shape = (model.n_layers, model.n_heads)
        width, always = 1 + 2 * model.n_layers * model.n_heads, function_words()
        most = 8 * width * (self.types + len(always))
        check_bytes("targets", most, f"lower types from {self.types}")
        return TargetsState(
            mean=Moments.zeros(*shape),
            uniform=Moments.zeros(*shape),
            difference=Moments.zeros(*shape),
            words=TypeSample(1, size=self.types),
            others=TypeSample(width, size=self.types, always=always),
        )

    def update(self, state: TargetsState, layer: Attention) -> None:
        marks, uniform = self._marks(layer.batch), layer.uniform
        values = target_mass(layer, marks.target, marks.n_words)
        control = target_mass(uniform, marks.target, marks.n_words)
        state.mean.add(layer.index, values)
        state.uniform.add(layer.index, control.expand(-1, layer.n_heads))
        state.difference.add(layer.index, values - control)
        if state.pending is None:
            state.pending = Pending.of(state.others, marks)
        kept, types = state.pending.kept, state.pending.types
        for one in (layer, uniform):
            mass = type_mass(one, types, len(kept)).expand(-1, layer.n_heads)
            state.pending.mass.append(mass.cpu().numpy())

    def finish_batch(self, state: TargetsState, batch: Batch, outputs: Outputs) -> BatchReport:
        marks, pending, state.pending = self._marks(batch), state.pending, None
        if pending is not None and pending.kept:
            counts = np.array([[marks.others[name]] for name in pending.kept])
            rows = np.concatenate([counts, *pending.mass[::2], *pending.mass[1::2]], axis=1)
            state.others.add(pending.kept, rows)
        state.words.add(list(marks.targets), np.array([[n] for n in marks.targets.values()]))
        without = int((marks.n_words == 0).sum())
        return BatchReport(counts=Counter({"without_target": without}))

    def _marks(self, batch: Batch) -> Marks:
        return batch.once(("targets", self), lambda: self._marked(batch))

    def _marked(self, batch: Batch) -> Marks:
        target, n_words, types = [], [], []
        targets: Counter[str] = Counter()
        others: Counter[str] = Counter()
        for text, words in enumerate(batch.words):
            folded = [fold(string) for string in words.strings]
            chosen = self._chosen(batch, text, folded)
            plain = [
                "" if mine or source < 0 or not any(map(str.isalnum, word)) else word
                for word, mine, source in zip(folded, chosen, words.source, strict=True)
            ]
            targets.update(word for word, mine in zip(folded, chosen, strict=True) if mine)
            others.update(filter(None, plain))
            target.append([chosen[word] for word in words.of])
            n_words.append(sum(chosen))
            types.append([plain[word] for word in words.of])
        device = batch.ids.device
        marked = torch.tensor(target, dtype=torch.bool, device=device).reshape(batch.ids.shape)
        counts = torch.tensor(n_words, dtype=torch.float64, device=device)
        return Marks(marked, counts, targets, others, types)

    def _chosen(self, batch: Batch, text: int, folded: Sequence[str]) -> list[bool]:
        """Which words of a text are targets."""
        words = batch.words[text]
        ordinary = [source >= 0 for source in words.source]
        if self.words:
            named = frozenset(map(fold, self.words.split()))
            return [own and word in named for own, word in zip(ordinary, folded, strict=True)]
        if self.pattern:
            return [
                own and matches(self.pattern, word)
                for own, word in zip(ordinary, folded, strict=True)
            ]
        inside = set(_words_in(batch, text, annotated_spans(batch.texts[text], self.spans)))
        return [own and word in inside for word, own in enumerate(ordinary)]

    def result(self, state: TargetsState) -> dict[str, pd.DataFrame]:
        mean, uniform = state.mean.average(), state.uniform.average()
        targets, matched = _matched_types(state)
        ratio, error = _matched_ratio(state, targets, matched)
        columns = {
            "target": mean,
            "target_uniform": uniform,
            "target_matched": ratio * uniform,
            "target_error": state.mean.error(),
            "target_difference_error": state.difference.error(),
            "target_matched_difference_error": _difference_error(state, ratio, error),
            "target_texts": state.mean.count,
        }
        names, counts = state.words.table()
        words = {
            "string": np.array(names, dtype=object),
            "occurrences": counts[:, 0].astype(np.int64),
            "matched": np.array([len(some) for some in matched], dtype=np.int64),
        }
        order = np.argsort(-counts[:, 0], kind="stable")
        return {
            "targets": head_frame(mean.shape[0], mean.shape[1], columns),
            "targets_words": pd.DataFrame(words).iloc[order].reset_index(drop=True),
        }


def _words_in(batch: Batch, text: int, spans: Sequence[Span]) -> Iterator[int]:
    """The words of a text with a token in one of the spans."""
    of, offsets = batch.words[text].of, batch.offsets[text]
    for start, stop in spans:
        inside = (offsets[:, 0] < stop) & (offsets[:, 1] > start)
        yield from of[inside].tolist()


def _matched_types(state: TargetsState) -> tuple[Floats, list[Array]]:
    """The occurrences of each target type, and the other types of about the same frequency."""
    counts = state.words.table()[1][:, 0]
    others = state.others.table()[1][:, 0]
    far = [np.abs(np.log(others / count)) for count in counts]
    near = [np.argsort(one, kind="stable")[:MATCHED] for one in far]
    limit = np.log(FACTOR) + 1e-9
    return counts, [some[one[some] <= limit] for some, one in zip(near, far, strict=True)]


def _matched_ratio(
    state: TargetsState, counts: Floats, matched: Sequence[Array]
) -> tuple[Floats, Floats]:
    """What matched types receive relative to uniform attention, with its error: [layer, head].

    Target types are weighted by their occurrences; those that one is matched with share its weight
    equally.
    """
    shape = state.mean.count.shape
    totals = state.others.table()[1]
    weights = np.zeros(len(totals))
    for count, some in zip(counts, matched, strict=True):
        weights[some] += count / max(len(some), 1)
    if not weights.sum():
        return np.full(shape, np.nan), np.full(shape, np.nan)
    weights = (weights / weights.sum())[:, None, None]
    mass, uniform = totals[:, 1:].reshape(len(totals), 2, *shape).swapaxes(0, 1)
    ratios = np.divide(mass, uniform, out=np.zeros(mass.shape), where=uniform > 0)
    ratio = (weights * ratios).sum(0)
    rest = 1 - (weights**2).sum()
    spread = (weights**2 * (ratios - ratio) ** 2).sum(0)
    return ratio, np.sqrt(spread / rest) if rest > 1e-9 else np.full(shape, np.nan)


def _difference_error(state: TargetsState, ratio: Floats, error: Floats) -> Floats:
    """The standard error of target - target_matched: over texts, and over the types matched with.

    The covariance of a text's target and uniform follows from the variance of their difference.
    """
    mean, uniform, apart = (
        one.error() ** 2 for one in (state.mean, state.uniform, state.difference)
    )
    covariance = (mean + uniform - apart) / 2
    over_texts = np.maximum(mean + ratio**2 * uniform - 2 * ratio * covariance, 0)
    out: Floats = np.sqrt(over_texts + (error * state.uniform.average()) ** 2)
    return out
