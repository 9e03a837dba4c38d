"""Attention Understands Semantic Relations (Chizhikova et al. 2022): tables and figures.

The published train file is not publicly available: the validation file is the training data (3,494
sentences instead of about 9,500), and a part of the test file is the test data (1,900 of 4,750).
The embedded model replaces bert-base-cased. FewRel, SemEval-2010 Task 8 and Re-DocRED are
additional data sets. Random weights and other controls come with every number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from attlas.corpora.splits import split
from attlas.experiments.run import run
from attlas.models import Model, load
from attlas.papers.data import check_choice, data_folder, require_file
from attlas.papers.markdown import header, row as table_row
from attlas.papers.parts import Recipe, Reproduction, run_reproduction
from attlas.relations.candidates import related_texts, relations_in
from attlas.relations.experiment import FitRelations, ScoreRelations
from attlas.relations.extractor import RelationExtractor
from attlas.relations.matching import fact_scores
from attlas.relations.section import SECTIONS
from attlas.studies import Study
from attlas.support.errors import AttlasError
from attlas.support.progress import progress_bar
from attlas.views.report import write_charts

SEED = 0
PARTS = ("trex", "published", "redocred", "fewrel", "semeval")
PUBLISHED: dict[str, Any] = {
    "binary_accuracy": {"attention": 0.902, "random_model": 0.498},
    "f1": {"attention": 0.863, "random_model": 0.018},
    "precision": {"attention": 0.867, "random_model": 0.026},
    "recall": {"attention": 0.861, "random_model": 0.024},
    "extraction": {
        "T-REx": (0.220, 0.534, 0.312),
        "T-REx, REBEL": (0.223, 0.375, 0.276),
        "DocRED": (0.259, 0.175, 0.208),
        "DocRED, REBEL": (0.594, 0.437, 0.503),
    },
}
POSTER = "means over relations, relation not compared"
READERS = {
    "attention": "attention, six directions",
    "random_model": "the same of random weights",
    "relation_words": "relation words (bag of words)",
    "head_tail": "attention between head and tail only",
    "distance": "distances and order only",
    "part_of_speech": "parts of speech only",
    "word_embeddings": "word embeddings only",
    "attention_and_words": "attention and relation words",
}


def reproduce(
    data_root: str | Path,
    out: str | Path = "runs/relations",
    *,
    model: Any = None,
    parts: Sequence[str] = PARTS,
    workers: int | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> Reproduction:
    """Run the parts one by one; finished experiments are reused. `log` gets progress lines."""
    check_choice("part", parts, PARTS)
    root, loaded = data_folder(data_root), load(model)
    recipe = _Run(
        root=root,
        reproduction=Reproduction(loaded.name, PARTS, PUBLISHED, Path(out).expanduser()),
        model=loaded,
        model_parts=loaded.identity(),
        options={"workers": workers, "fresh": fresh, "progress": progress},
        log=log,
    )
    return run_reproduction(recipe, [name for name in PARTS if name in parts])


@dataclass(kw_only=True)
class _Run(Recipe):
    """One reproduction under way."""

    name = "relations"
    model: Model

    def both(
        self, name: str, train: Any, test: Any, names: Path | None = None, **how: Any
    ) -> tuple[Study, Study]:
        """Fit on `train`, with a fifth of it as dev, and score on `test`."""
        folder, scoring = self.inside(name), self.inside(f"{name}-scored")
        fit = FitRelations(train=train, model=self.model, names=names, seed=SEED, **how)
        fitted = run(fit, folder, log=self.log, **self.options)
        score = ScoreRelations(extractor=folder, test=test, model=self.model)
        scored = run(score, scoring, log=self.log, **self.options)
        for one in (fitted, scored):
            one.report(one.folder / "report.html")
            pictures = self.picture_folder(one.folder.name)
            self.add_pictures(*write_charts(one, SECTIONS, pictures, "png"))
        self.part.results[name] = {"fitted": fitted.result, "scored": scored.result}
        return fitted, scored

    def trex_files(self) -> tuple[Path, Path, Path]:
        """Train and test files, and the names of relations."""
        root = self.root
        return (
            require_file(root, "trex95", "train.jsonl"),
            require_file(root, "trex95", "dev.jsonl"),
            require_file(root, "trex95", "relations.jsonl"),
        )

    def trex(self) -> None:
        """The tables and figures of the poster on its own data, with controls."""
        train, dev, names = self.trex_files()
        fitted, scored = self.both("trex", train, dev, names, interpret=True)
        self.part.lines += [
            "### Related or not, and which relation: T-REx, 95 relations",
            "",
            *_score_lines(scored, published=True),
            *_unseen_lines(scored),
            "",
            *_extraction_lines(scored),
            "",
            *_interpretation_lines(fitted),
            "",
            *_best_lines(scored),
            "",
        ]

    def published(self) -> None:
        """As published: unscaled sums, an unconverged solver, single words as negatives."""
        train, dev, names = self.trex_files()
        _, scored = self.both("trex-published", train, dev, names, convention="published")
        self.part.lines += [
            "### The same, as published",
            "",
            *_score_lines(scored, published=True),
            "",
            *_extraction_lines(scored),
            "",
        ]

    def redocred(self) -> None:
        """The extractor of T-REx on the documents of Re-DocRED, sentence by sentence."""
        texts = related_texts(require_file(self.root, "redocred", "dev_revised.jsonl"))
        if not self.use("trex"):
            raise AttlasError(
                "part redocred uses the extractor of part trex; run both (--parts trex,redocred)"
            )
        train, _, names = self.trex_files()
        folder, how = self.inside("trex"), {**self.options, "fresh": False}
        fit = FitRelations(train=train, model=self.model, names=names, interpret=True, seed=SEED)
        run(fit, folder, **how)  # reuses it, and refuses another or a damaged one
        fitted = RelationExtractor.load(folder, self.model, workers=self.options["workers"])
        known = set(fitted.classes_.tolist())
        predictions = []
        with progress_bar("extracting triples", wanted=self.options["progress"]) as report:
            for _, triples in fitted.predict_iter(texts):
                predictions.append(triples)
                report(len(predictions), len(texts))
        gold, strings = [relations_in(text) for text in texts], [text.text for text in texts]
        rows = {
            name: fact_scores(strings, predictions, gold, known, lenient)
            for name, lenient in (("exact spans", False), ("published match", True))
        }
        self.part.results["redocred"] = rows
        out = [
            "### Documents: the extractor of T-REx on Re-DocRED",
            "",
            *header("", "precision", "recall", "F1", "predicted", "facts", "within a sentence"),
        ]
        out += [
            table_row(
                f"ours, {name}",
                *_three(row),
                *(f"{row[count]:,}" for count in ("predicted", "gold", "within")),
            )
            for name, row in rows.items()
        ]
        out += [
            table_row(f"published, {name} ({POSTER})", *_published_extraction(name), "", "", "")
            for name in ("DocRED", "DocRED, REBEL")
        ]
        out += [
            "",
            "Only relations that the extractor knows are counted, among predictions and facts; "
            f"{len(texts)} documents, ours over all facts and with the relation compared. "
            "Sentences are read one by one, so facts across sentences are missed. The published "
            "numbers are on DocRED before its revision, where many facts are not annotated.",
            "",
        ]
        self.part.lines += out

    def fewrel(self) -> None:
        """Pairs of phrases, 64 relations, a fifth of the rows for testing."""
        self._pairs(
            "fewrel",
            require_file(self.root, "fewrel", "train_relations_subset.jsonl"),
            require_file(self.root, "fewrel", "pid2name.json"),
            "FewRel, 64 relations, lower-cased",
        )

    def semeval(self) -> None:
        """Pairs of nominals, 9 relations with directions and Other."""
        self._pairs(
            "semeval",
            require_file(self.root, "semeval2010_task8", "train.jsonl"),
            None,
            "SemEval-2010 Task 8, 19 classes",
        )
        self.part.lines += [
            "F1 is the mean over 19 classes, including `Other`, which counts as related here; the "
            "official score of the task is over nine relations, without `Other`.",
            "",
        ]

    def _pairs(self, name: str, path: Path, names: Path | None, title: str) -> None:
        texts = [
            replace(text, label=relations_in(text).triples[0].relation)
            for text in related_texts(path)
            if relations_in(text).triples
        ]
        first, second = split(texts, 0.2, SEED)
        _, scored = self.both(name, first, second, names)
        self.part.lines += [
            f"### {title}: attention between head and tail alone",
            "",
            *(line.replace("six directions", "both directions") for line in _score_lines(scored)),
            "",
            "Relation words are not annotated here: the bag of words has the words between head "
            "and tail, and which comes first. A random fifth of the rows is the test set.",
            "",
        ]


def _three(row: dict[str, Any], prefix: str = "") -> list[str]:
    return [f"{row[f'{prefix}{name}']:.3f}" for name in ("precision", "recall", "f1")]


def _published_extraction(name: str) -> list[str]:
    return [f"{value:.3f}" for value in PUBLISHED["extraction"][name]]


def _score_lines(scored: Study, published: bool = False) -> list[str]:
    """Binary accuracy and F1 of every kind of features, with intervals, and published ones."""
    table = scored.table("relations")
    out = header(
        *("features", "related or not [95% CI]", "precision", "recall", "F1 [95% CI]"),
        "attention is ahead by (F1)",
        *(["published: accuracy, F1"] if published else []),
    )
    for row in table.to_dict("records"):
        name = row["reader"]
        ahead = "" if name == "attention" else _difference(row, "f1_ahead")
        cells = [
            READERS[name],
            _with(row, "binary_accuracy"),
            f"{row['precision']:.3f}",
            f"{row['recall']:.3f}",
            _with(row, "f1"),
            ahead,
        ]
        if published:
            known = PUBLISHED["binary_accuracy"].get(name)
            cells.append("-" if known is None else f"{known:.3f}, {PUBLISHED['f1'][name]:.3f}")
        out.append(table_row(*cells))
    result = scored.result
    best = result["best_control"]
    lost = (
        ", ".join(f"{count} {reason}" for reason, count in result["lost"]["test"].items()) or "none"
    )
    adds = result["controls"][best]
    out += [
        "",
        f"Attention minus the best control ({READERS[best]}): F1 {_difference(adds, 'f1_ahead')}. "
        "Attention and relation words together minus the best control: F1 "
        f"{_difference(adds, 'both_f1_ahead')}, related or not "
        f"{_difference(adds, 'both_binary_accuracy_ahead')}. "
        f"{result['triples']['test']:,} triples of {result['texts']['test']:,} texts; triples "
        f"excluded: {lost}; texts also in the training data: {result['texts']['in_both']}.",
    ]
    return out


def _difference(row: dict[str, Any], name: str) -> str:
    value, low, high = (_signed(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    return f"{value} [{low}, {high}]"


def _with(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"


def _unseen_lines(scored: Study) -> list[str]:
    if "relations_unseen" not in scored.tables:
        return []
    table = scored.table("relations_unseen")
    first = table.iloc[0]
    out = [
        "",
        f"Held-out relation phrases ({int(first['cases'])} triples, {int(first['phrases'])} "
        f"phrases, {int(first['relations'])} relations):",
        "",
        *header("features", "F1 [95% CI]", "attention is ahead by", "accuracy"),
    ]
    return out + [
        table_row(
            READERS[row["reader"]],
            _with(row, "f1"),
            _difference(row, "f1_ahead"),
            f"{row['accuracy']:.3f}",
        )
        for row in table.to_dict("records")
    ]


def _extraction_lines(scored: Study) -> list[str]:
    """Triples from plain text."""
    titles = {
        "exact": "exact spans, relation compared",
        "published": "the published match, relation compared",
        "published_any_relation": "the published match, relation not compared (as on the poster)",
    }
    out = [
        "Triples from plain text:",
        "",
        *header(
            *("match", "precision", "recall", "F1", "macro precision", "macro recall", "macro F1"),
            *("predicted", "triples"),
        ),
    ]
    for row in scored.table("relations_extraction").to_dict("records"):
        scores = [*_three(row), *_three(row, "macro_")]
        counts = (f"{int(row[name]):,}" for name in ("predicted", "gold"))
        out.append(table_row(titles[row["match"]], *scores, *counts))
    for name in ("T-REx", "T-REx, REBEL"):
        known = _published_extraction(name)
        out.append(table_row(f"published, {name}", "", "", "", *known, "", ""))
    return out


def _interpretation_lines(fitted: Study) -> list[str]:
    """Directions, layers, heads and merged classes, on the texts that penalties were tuned on."""
    return [
        "These are on the fifth of the train file that penalties were tuned on, so slightly above "
        "the test scores.",
        "",
        *_direction_lines(fitted),
        *_layer_lines(fitted),
        "F1 by number of heads (chosen by a group penalty; at random):",
        "",
        *_path_lines(fitted.table("relations_path"), "heads", "chosen"),
        "F1 by number of classes (merged by the tree of coefficients; at random into groups of the "
        "same sizes):",
        "",
        *_path_lines(fitted.table("relations_merged"), "classes", "by the tree"),
        *_similarity_lines(fitted),
    ]


def _direction_lines(fitted: Study) -> list[str]:
    columns = {
        "weight_related": ("weight, related", ".4f"),
        "weight_named": ("weight, named", ".3f"),
        "binary_accuracy_alone": ("accuracy alone", ".3f"),
        "f1_alone": ("F1 alone", ".3f"),
        "f1_alone_random": ("F1 alone, random weights", ".3f"),
        "f1_without": ("F1 without it", ".3f"),
    }
    out = [
        "Directions (x-y: x attends to y; h head, t tail, r relation words):",
        "",
        *header("direction", *(title for title, _ in columns.values())),
    ]
    for row in fitted.table("relations_directions").to_dict("records"):
        cells = (format(row[name], digits) for name, (_, digits) in columns.items())
        out.append(table_row(row["direction"], *cells))
    return [*out, ""]


def _layer_lines(fitted: Study) -> list[str]:
    readers = {
        "attention": "attention",
        "random_model": "attention, random weights",
        "hidden_states": "hidden states",
        "hidden_states_few": "hidden states, as many features",
    }
    layers = fitted.table("relations_layers").groupby(["layer", "reader"])["f1"].mean().unstack()
    depth = fitted.table("relations_depth").set_index("layer")
    out = [
        "Macro F1 of the features of one layer, and the weight of the layer among all:",
        "",
        *header("layer", "weight, related", "weight, named", *readers.values()),
    ]
    for layer, row in layers.iterrows():
        related, named = (depth.loc[layer, f"weight_{name}"] for name in ("related", "named"))
        scores = (f"{row[name]:.3f}" for name in readers)
        out.append(table_row(layer, f"{related:.4f}", f"{named:.3f}", *scores))
    return [*out, ""]


def _path_lines(table: pd.DataFrame, of: str, title: str) -> list[str]:
    rows = table.to_dict("records")
    cells = ((int(row[of]), f"{row['f1']:.3f}", f"{row['f1_random']:.3f}") for row in rows)
    return [*header(of, title, "at random"), *(table_row(*each) for each in cells), ""]


def _similarity_lines(fitted: Study) -> list[str]:
    rows = fitted.table("relations_likeness").to_dict("records")
    correlations = (
        f"{READERS[row['reader']]} {row['correlation']:.2f} (p = {row['p']:.3f})" for row in rows
    )
    heads: pd.DataFrame = fitted.table("relation_heads")
    top = heads[heads["rank"] == 0]
    shares = top["share"].mean(), top["share"].max(), top["share_uniform"].iloc[0]
    mean, most, uniform = (f"{100 * share:.1f}%" for share in shares)
    return [
        "Do relations with similar coefficients have similar words? Spearman's correlation of "
        f"distances: {'; '.join(correlations)}.",
        f"The strongest head of a relation has {mean} of its weight on average, {most} at most "
        f"({uniform} if all heads had the same weight).",
    ]


def _best_lines(scored: Study) -> list[str]:
    """The relations with the highest and the lowest F1."""
    table = scored.table("relations_each").sort_values("f1", ascending=False)
    return [f"Highest F1: {_listed(table.head(8))}. Lowest F1: {_listed(table.tail(8))}."]


def _listed(rows: pd.DataFrame) -> str:
    return ", ".join(
        f"{row['relation']} {row['name']} {row['f1']:.2f}" for row in rows.to_dict("records")
    )


def _signed(value: float | None) -> str:
    """A difference with its sign; a dash if it is missing."""
    return "-" if value is None else f"{value:+.3f}"
