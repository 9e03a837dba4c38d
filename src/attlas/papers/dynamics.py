"""Understanding Attention for Text Classification (Sun and Lu 2020): Table 2, Figures 2 to 5.

The test files of SST and IMDB and the second half of 20 Newsgroups are not included, so splits
differ: SST is scored on its dev file, with a tenth of its train file as dev; of IMDB's 25,000
training reviews those of at most 350 tokens (mean length 183, as published), and the posts of the
"bydate" train part of 20 Newsgroups, without quotes and signatures, are split in the published
proportions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attlas.core.text import Text
from attlas.corpora.corpus import Corpus
from attlas.corpora.rows import jsonl_rows
from attlas.corpora.splits import split
from attlas.corpora.synthetic import synthetic
from attlas.dynamics.classifier import AttentionClassifier
from attlas.dynamics.experiment import Dynamics
from attlas.dynamics.ragged import words_of
from attlas.dynamics.scores import least_separation
from attlas.dynamics.section import SECTIONS, tokens as token_charts
from attlas.experiments.run import run
from attlas.models import load
from attlas.papers import PAPERS
from attlas.papers.data import (
    check_inputs,
    fields_of,
    labelled_jsonl,
    published as published_values,
    require_file,
    sst,
)
from attlas.papers.markdown import table
from attlas.papers.parts import Recipe, Reproduction, run_recipe
from attlas.studies.opened import Study
from attlas.views.report import write_charts

PARTS = PAPERS["dynamics"].parts
SETS = PARTS[:4]
Splits = tuple[list[Text], list[Text], list[Text]]  # train, dev, test
Blocks = Iterator[str | list[str]]
SCALES = (0.001, 1.0, 10.0, 20.0, 50.0, 100.0, 10000.0)
MODELS = {
    ("dot", "none"): "DP",
    ("dot", "lstm"): "DP-L",
    ("dot", "affine"): "DP-A",
    ("additive", "none"): "AD",
}
TITLES = {
    "sst": "SST",
    "news1": "20News I (hockey against baseball)",
    "imdb": "IMDB",
    "news2": "20News II (motorcycles, medicine, guns)",
}
PUBLISHED: dict[str, dict[float, tuple[float, ...]]] = {}  # test accuracy in %, as in MODELS
for _name, _scale, *_row in published_values("dynamics").itertuples(False, None):
    PUBLISHED.setdefault(_name, {})[_scale] = tuple(_row)
KINDS = {
    "sst": "265 negative, 1,384 neutral, 412 positive",
    "news1": "557 negative, 1,011 neutral, 957 positive",
    "imdb": "1,900 negative, 5,968 neutral, 2,163 positive",
    "news2": "49, 268 and 192 of classes, 164 neutral",
}
SEEDS = {"sst": 3, "news1": 3, "imdb": 1, "news2": 3}
LONGEST = {"imdb": 350, "news": 2000}  # tokens
SHORTEST = 5
SHARES = {  # test of all, dev of the rest
    "imdb": (4363 / 25879, 4304 / 21516),
    "news1": (387 / 1933, 310 / 1546),
    "news2": (274 / 2814, 240 / 2540),
}
TRAINED: dict[str, Any] = {
    "epochs": 40,
    "patience": 10,
    "by_encoder": {"lstm": {"epochs": 15, "patience": 5}},
}
LARGE: dict[str, Any] = {
    "epochs": 20,
    "patience": 5,
    "by_encoder": {"lstm": {"epochs": 8, "patience": 2}},
}


LEAST = "of the class with the lowest separation"
UNSAID = ("epochs", "patience", "vectors")  # options that progress lines do not show


def reproduce(
    data_root: str | Path,
    out: str | Path = "runs/dynamics-paper",
    *,
    parts: Sequence[str] = PARTS,
    seeds: int | None = None,
    **options: Any,
) -> Reproduction:
    """Run the parts one by one; finished experiments are reused. Options: see `run_options`."""
    root = check_inputs("dynamics", data_root, parts)
    published = {
        name: {
            f"{scale:g}": dict(zip(MODELS.values(), row, strict=True))
            for scale, row in rows.items()
        }
        for name, rows in PUBLISHED.items()
    }
    subject = "attention classifiers from scratch"
    return run_recipe(_Run, root, out, parts, published, subject, options, seeds=seeds)


def texts_of(root: Path, name: str) -> Splits:
    """The train, dev and test texts of a data set."""
    if name == "sst":
        train, dev = split([_spaced(one) for one in sst(root, "train")], 0.1)
        return train, dev, [_spaced(one) for one in sst(root, "dev")]
    if name == "imdb":
        texts = [
            Text(one.id, one.text.replace("<br />", " "), one.label)
            for one in labelled_jsonl(root, "imdb", "train_full")
        ]
        texts = [one for one in texts if len(words_of(one.text)) <= LONGEST["imdb"]]
    else:
        texts = newsgroups(
            root,
            {
                "news1": ("rec.sport.baseball", "rec.sport.hockey"),
                "news2": ("rec.motorcycles", "sci.med", "talk.politics.guns"),
            }[name],
        )
    test_share, dev_share = SHARES[name]
    rest, test = split(texts, test_share)
    return *split(rest, dev_share), test


def newsgroups(root: Path, groups: Sequence[str]) -> list[Text]:
    """Posts of some groups, without quotes and signatures; the label is the group."""
    path = require_file(root, "newsgroups5", "train.jsonl")
    out = []
    for _, row in fields_of(jsonl_rows(path), path, "id", "group", "body"):
        if row["group"] in groups:
            body = own_words(str(row["body"]))
            if SHORTEST <= len(words_of(body)) <= LONGEST["news"]:
                out.append(Text(str(row["id"]), body, str(row["group"])))
    return out


def own_words(body: str) -> str:
    """A post without quotes, attributions and signature.

    >>> own_words("A B writes:\\n> hello\\nI agree.\\n--\\nC D")
    'I agree.'
    """
    kept = [
        line
        for line in body.split("\n")
        if not re.match(r"\s*(>|:|\||\w{1,3}>)", line)
        and not re.search(r"(writes|wrote|says):?\s*$|^In article|^In <", line)
    ]
    return re.split(r"\n--+ *\n", "\n".join(kept))[0]


def _sst(root: Path) -> Splits:
    return texts_of(root, "sst")


def _synthetic(options: Mapping[str, Any], _: Path) -> Splits:
    rest, test = split(synthetic(**options), 0.2)
    return *split(rest, 0.1), test


def _spaced(text: Text) -> Text:
    """A text that is already tokenised, with its tokens as words."""
    return Text(text.id, label=text.label, words=tuple(text.text.split()))


@dataclass(kw_only=True)
class _Run(Recipe):
    """One reproduction under way."""

    name = "dynamics"
    seeds: int | None

    def depends_on(self, part: str) -> Any:
        if part in ("differences", "flow"):  # of other parts; of one classifier
            return None
        seeds = self.seeds or SEEDS.get(part, SEEDS["sst"])
        return {"seeds": seeds, "model": load() if part == "frozen" else None}

    def _run(self, name: str, texts: Splits, **how: Any) -> Study:
        """Run one grid; a finished one is reused."""
        train, dev, test = _named(name, texts)
        how["by_encoder"] = _plain(how.get("by_encoder", {}))
        grid = Dynamics(train=train, dev=dev, test=test, **how)
        return run(grid, self.inside(name), log=self.log, **self.options)

    def run_part(self, name: str) -> None:
        if name in SETS:
            self._table(name)
        else:
            super().run_part(name)

    def _table(self, name: str) -> None:
        """A quarter of Table 2, with the separation of each cell, and figures of this data set."""
        seeds = self.seeds or SEEDS[name]
        pairs = ["+".join(model) for model in MODELS]
        how = LARGE if name == "imdb" else TRAINED
        grid = self._run(
            name, texts_of(self.root, name), models=pairs, scales=SCALES, seeds=seeds, **how
        )
        study = with_published(grid, published_of(name))
        study.report(study.folder / "report.html")
        self.add_pictures(*write_charts(study, SECTIONS, self.picture_folder(name), "png"))
        self.part.results[name] = study.result
        self.show(TITLES[name], *table_blocks(name, study))
        if name == "sst":
            self._as_in_the_notebook(seeds)
        tokens = study.table("dynamics_tokens")
        for attention, encoder, scale in _figures(name):
            words = _of_cell(tokens, attention, encoder, scale)
            title = f"{name}-{attention}-{encoder}-{scale:g}"
            self.draw(token_charts.tokens(words), f"{title}-scores")
            if name == "sst":
                self.draw(token_charts.weights(words), f"{title}-weights")

    def _as_in_the_notebook(self, seeds: int) -> None:
        """As in the authors' notebook: trained on all of train, epoch and accuracy on dev."""
        train, dev = ([_spaced(one) for one in sst(self.root, name)] for name in ("train", "dev"))
        accuracies = [
            float(
                AttentionClassifier(
                    scale=10.0, epochs=40, seed=seed, progress=self.options["progress"]
                )
                .fit(train, dev=dev)
                .history_["dev_accuracy"]
                .max()
            )
            for seed in range(seeds)
        ]
        self.part.results["notebook"] = accuracies
        self.part.lines += [
            "As in the authors' notebook (DP, scale 10, all of the train file, the epoch chosen on "
            "the dev file), accuracy on dev: "
            f"{', '.join(f'{100 * one:.1f}' for one in accuracies)} with {seeds} seeds; published: "
            "80.05, and 81.8 on the test file. The table above is scored on dev, with a tenth "
            "fewer training texts.",
            "",
        ]

    def flow(self) -> None:
        """The terms of the gradient flow on SST, checked by automatic differentiation."""
        train, dev, _ = texts_of(self.root, "sst")
        blocks: list[str | list[str]] = []
        for scale in (1.0, 10.0, 100.0):
            classifier = AttentionClassifier(
                scale=scale, epochs=20, record=1, progress=self.options["progress"]
            ).fit(train, dev=dev)
            ragged, _ = classifier.training_texts()
            worst = classifier.check_flow()
            terms = classifier.flow_[classifier.flow_["epoch"].isin([0, 1, 5, 20])]
            blocks += [
                f"scale {scale:g}: sums of terms and automatic differentiation differ by at most "
                f"{worst:.1e} of the largest rate, over {len(ragged.words):,} words and "
                f"{len(ragged):,} texts. Means over the words of each kind, times 10,000:",
                _flow_table(terms),
            ]
            self.part.results[f"flow-{scale:g}"] = {
                "difference": worst,
                "terms": terms.to_dict("records"),
            }
        self.show("What moves the scores: SST, scaled dot-product", *blocks)

    def penalty(self) -> None:
        """What a penalty on |V.W| does where the scale is large."""
        how = {"scales": (100.0,), "epochs": 40, "patience": 10}
        self._compare(
            "A penalty on |V.W|: SST, scaled dot-product, scale 100",
            {
                f"{penalty:g}": (f"penalty-{penalty:g}", _sst, {**how, "vw_penalty": penalty})
                for penalty in (0.0, 0.0001, 0.001, 0.01, 0.1)
            },
            ("penalty", "{run}"),
            ("accuracy", "{accuracy}"),
            ("size of V.W", "{vw[size]}"),
            ("size of the gap", "{gap[size]}"),
            ("separation", "{separation[spread]}"),
            (LEAST, "{separation_least[spread]}"),
            note=f"Means over {self._seeds} seeds, with the lowest and the highest; V.W and gap "
            "are absolute values, as their signs are random.",
        )

    def frozen(self) -> None:
        """Future work of Sun and Lu (2020): frozen word vectors and a frozen model."""
        glove = require_file(self.root, "glove50", "glove.6B.50d.top20k.txt")
        given: dict[str, dict[str, Any]] = {
            "trained from scratch": {},
            "GloVe's, frozen": {"encoders": ("vectors",), "vectors": glove},
            "the embedded model's input embeddings, frozen": {"encoders": ("vectors",)},
            "the embedded model's hidden states, frozen": {"encoders": ("model",)},
        }
        how = {"scales": (10.0,), "epochs": 40, "patience": 10}
        self._compare(
            "Frozen vectors: SST, scaled dot-product, scale 10",
            {
                title: (f"frozen-{number}", _sst, {**how, **own})
                for number, (title, own) in enumerate(given.items())
            },
            ("vectors", "{run}"),
            ("accuracy", "{accuracy}"),
            ("separation", "{separation[spread]}"),
            ("before training", "{separation_untrained[mean]}"),
            (LEAST, "{separation_least[spread]}"),
            ("by scores in context", "{separation_local[spread]}"),
            ("polarity: positive against negative words", "{polarity_auc[mean]}"),
            note=f"Means over {self._seeds} seeds, with the lowest and the highest.",
        )

    def synthetic(self) -> None:
        """Synthetic corpora: as published, with noise, unbalanced, and with three classes."""
        corpora: dict[str, dict[str, Any]] = {
            "as published": {},
            "a tenth of the texts have the other class's words": {"noise": 0.1},
            "classes 1 : 2": {"ratio": (1, 2)},
            "classes 1 : 5": {"ratio": (1, 5)},
            "classes 2 : 1": {"ratio": (2, 1)},
            "classes 2 : 5": {"ratio": (2, 5)},
            "three classes": {"classes": 3},
        }
        how = {"scales": (1.0, 10.0, 100.0), "epochs": 10, "rule": "balanced"}
        self._compare(
            "Synthetic corpora, scaled dot-product",
            {
                title: (f"synthetic-{number}", partial(_synthetic, options), how)
                for number, (title, options) in enumerate(corpora.items())
            },
            ("corpus", "{run}"),
            ("scale", "{scale:g}"),
            ("accuracy", "{accuracy}"),
            ("separation", "{separation[spread]}"),
            (LEAST, "{separation_least[spread]}"),
            ("by frequency alone", "{separation_count[mean]}"),
            ("V.W", "{vw[signed]}"),
            ("gap", "{gap[signed]}"),
            note="12,000 texts each, a fifth of them for testing; Adagrad, up to ten epochs (Sun "
            f"and Lu 2020: SGD, 500 epochs, 4 starts); means over {self._seeds} seeds, with the "
            "lowest and the highest. Kinds of words by the rule `balanced`.",
        )

    def _compare(
        self,
        title: str,
        runs: Mapping[str, tuple[str, Callable[[Path], Splits], dict[str, Any]]],
        *columns: tuple[str, str],
        note: str,
    ) -> None:
        """Run small grids, each with its name, texts and options: one row per grid and scale."""
        rows = []
        for run_title, (name, texts, how) in runs.items():
            shown = {key: value for key, value in how.items() if key not in UNSAID}
            self.log(f"{name}: {', '.join(f'{key} {value}' for key, value in shown.items())}")
            study = self._run(name, texts(self.root), seeds=self._seeds, **how)
            self.part.results[name] = study.result
            for scale, cell in study.table("dynamics").groupby("scale"):
                values = {one: _Values(cell[one]) for one in cell.select_dtypes("number")}
                accuracy = _percent(cell["accuracy"])
                rows.append({**values, "run": run_title, "scale": scale, "accuracy": accuracy})
        self.show(title, table(rows, *columns), note)

    def differences(self) -> None:
        """How far the reproduced cells of Table 2 are from the published ones."""
        apart: list[float] = []
        for name, part in self.use(*SETS).items():
            apart += differences_of(name, pd.DataFrame(part.results[name]["cells"]))
        if apart:
            self.part.results["difference"] = float(np.mean(apart))
            self.show("All data sets", f"{_difference(apart)}.")

    @property
    def _seeds(self) -> int:
        return self.seeds or SEEDS["sst"]


def _named(name: str, texts: Splits) -> tuple[Corpus, Corpus, Corpus]:
    """Train, dev and test texts as corpora with a name."""
    title = TITLES.get(name, name)
    train, dev, test = texts
    return Corpus(title, lambda: train), Corpus(title, lambda: dev), Corpus(title, lambda: test)


def _plain(by_encoder: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Options of some encoders only, as the experiment takes them."""
    return [
        f"{encoder}.{name}={value}"
        for encoder, options in by_encoder.items()
        for name, value in options.items()
    ]


@dataclass(eq=False)
class Compared(Study):
    """A finished grid with published accuracies next to its own."""

    published: Mapping[tuple[str, str, float], float] = field(default_factory=dict)

    def table(
        self, name: str, columns: list[str] | None = None, text: str | None = None
    ) -> pd.DataFrame:
        frame = super().table(name, columns, text)
        if name != "dynamics_summary" or columns is not None:
            return frame
        cells = frame[["attention", "encoder", "scale"]].itertuples(index=False, name=None)
        return frame.assign(published=[self.published.get(cell, np.nan) for cell in cells])


def with_published(study: Study, published: Mapping[tuple[str, str, float], float]) -> Compared:
    """The same grid, with published accuracies in tables, result and report."""
    out = Compared(study.folder, study.manifest, published=published)
    cells = [
        {**cell, "published": published.get((cell["attention"], cell["encoder"], cell["scale"]))}
        for cell in study.result["cells"]
    ]
    out.result = {**study.result, "cells": cells}
    return out


def _trained(name: str) -> str:
    """How long classifiers were trained."""
    how = LARGE if name == "imdb" else TRAINED
    own = how["by_encoder"]["lstm"]
    return (
        f"Up to {how['epochs']} epochs, stopped after {how.get('patience')} without improvement on "
        f"dev (LSTM: {own['epochs']} and {own.get('patience')}); L2 penalty of "
        f"{AttentionClassifier().l2:g} on the matrices of encoders and of additive attention."
    )


def _figures(name: str) -> list[tuple[str, str, float]]:
    """The cells in Figures 2 to 5 of Sun and Lu (2020)."""
    shown = [("dot", "none", 10.0)]
    return [*shown, ("dot", "none", 100.0), ("additive", "none", 10.0)] if name == "sst" else shown


def table_blocks(name: str, study: Study) -> Blocks:
    """A data set in numbers, its quarter of Table 2, and the separation of each cell."""
    result, rows = study.manifest["dynamics"], study.table("dynamics")
    seeds = int(rows["seed"].nunique())
    sizes = ", ".join(f"{result['texts'][part]:,} {part}" for part in ("train", "dev", "test"))
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(result["kinds"].items()))
    over = f"Means of {seeds} seeds with their standard deviations" if seeds > 1 else "One seed"
    yield (
        f"{sizes} texts; {result['vocabulary']:,} known words, "
        f"{100 * result['unknown']['test']:.1f}% of the test tokens are unknown. {over}; published "
        f"in brackets. Kinds of words: {kinds} (published: {KINDS[name]}). {_trained(name)}"
    )
    yield from accuracy_blocks(name, study.table("dynamics_summary"))
    yield from separation_blocks(rows, study.table("dynamics_tokens"))


def published_of(name: str) -> dict[tuple[str, str, float], float]:
    """The accuracies of a quarter of Table 2, from 0 to 1, by attention, encoder and scale."""
    return {
        (*model, float(scale)): known / 100
        for scale, row in PUBLISHED[name].items()
        for model, known in zip(MODELS, row, strict=True)
    }


def differences_of(name: str, summary: pd.DataFrame) -> list[float]:
    """How many points each cell with a scale of 10 and more is from the published one."""
    ours = summary.set_index(["attention", "encoder", "scale"])["accuracy"]
    return [
        100 * abs(float(ours.loc[cell]) - known)
        for cell, known in published_of(name).items()
        if cell[2] >= 10
    ]


def _by_scale(scales: Iterable[float], cell: Callable[[str, str, float], str]) -> list[str]:
    """A table of cells: one row per scale, one column per model."""
    rows = [
        {"scale": scale} | {title: cell(*model, scale) for model, title in MODELS.items()}
        for scale in scales
    ]
    return table(
        rows, ("scale", "{scale:g}"), *((title, f"{{{title}}}") for title in MODELS.values())
    )


def accuracy_blocks(name: str, summary: pd.DataFrame) -> Blocks:
    """A quarter of Table 2, ours with published in brackets, and how far they differ."""
    ours, theirs = summary.set_index(["attention", "encoder", "scale"]), published_of(name)

    def cell(*of: Any) -> str:
        mean, spread = (100 * ours.loc[of, one] for one in ("accuracy", "accuracy_sd"))
        deviation = "" if pd.isna(spread) else f" ± {spread:.1f}"
        return f"{mean:.1f}{deviation} ({100 * theirs[of]:.1f})"

    yield _by_scale(PUBLISHED[name], cell)
    yield (
        f"{_difference(differences_of(name, summary))}; majority class: "
        f"{100 * float(summary['majority'].iloc[0]):.1f}."
    )


def _difference(points: Sequence[float]) -> str:
    return (
        "Mean absolute difference from published for scales of 10 and more: "
        f"{np.mean(points):.2f} points over {len(points)} cells (largest {max(points):.1f})"
    )


def _of_cell(frame: pd.DataFrame, attention: str, encoder: str, scale: float) -> pd.DataFrame:
    """The rows of one cell of a grid."""
    model = (frame["attention"] == attention) & (frame["encoder"] == encoder)
    return frame[model & (frame["scale"] == scale)]


def separation_blocks(rows: pd.DataFrame, tokens: pd.DataFrame) -> Blocks:
    """How well attention separates polarity words from neutral ones, with controls, and the gap."""

    def cell(*of: Any) -> str:
        own, least = _of_cell(rows, *of), least_separation(_of_cell(tokens, *of))
        spread = _Values(own["separation"])["spread"]
        return f"{spread}; {least:.2f}; {own['gap'].abs().mean():.1f}"

    yield _by_scale(dict.fromkeys(rows["scale"]), cell)
    frequent = _of_cell(rows, "dot", "none", 10)["separation_frequent"].mean()
    ends = ", with the lowest and the highest of the seeds" if rows["seed"].nunique() > 1 else ""
    yield (
        "In each cell: separation (AUC of attention scores, polarity against neutral words; chance "
        f"0.5){ends}; {LEAST} (first seed); the absolute gap between classes, in standard "
        f"deviations. Controls: before training {rows['separation_untrained'].mean():.2f}, by "
        f"frequency alone {rows['separation_count'].iloc[0]:.2f}. With neutral words of more than "
        f"five occurrences only, DP at scale 10 has {frequent:.2f}."
    )


def _flow_table(terms: pd.DataFrame) -> list[str]:
    sides = terms["side"].map({"polarity": "ds", "attention": "da"})
    names = sides + " " + terms["term"].replace("sum", "in total")
    named = terms.assign(name=names, mean=1e4 * terms["mean"])
    return table(
        named.pivot(index=["epoch", "kind"], columns="name", values="mean").reset_index(),
        ("epoch", "{epoch}"),
        ("words", "{kind}"),
        *((name, f"{{{name}:.2f}}") for name in dict.fromkeys(names)),
    )


@dataclass(frozen=True)
class _Values:
    """A column of the classifiers of one cell, as it is shown."""

    values: pd.Series[Any]

    def __getitem__(self, form: str) -> str:
        """`mean`; `size`, of absolute values; `spread` and `signed` add the range."""
        values, sign = self.values, "+" if form == "signed" else ""
        if values.isna().all():
            return "-"
        if form == "size":
            return f"{values.abs().mean():.2f}"
        ends = f" ({values.min():{sign}.2f} to {values.max():{sign}.2f})"
        mean = f"{values.mean():{sign}.2f}"
        return mean if form == "mean" or len(values) == 1 else mean + ends


def _percent(accuracies: pd.Series[Any]) -> str:
    values = 100 * accuracies
    return f"{values.mean():.1f}" + (f" ± {values.std():.1f}" if len(values) > 1 else "")
