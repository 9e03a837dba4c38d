"""Attention Understands Semantic Relations (Chizhikova et al. 2022): tables and figures.

The published train file is not publicly available: the validation file is the training data (3,494
sentences instead of about 9,500), and a part of the test file is the test data (1,900 of 4,750).
The embedded model replaces bert-base-cased. FewRel, SemEval-2010 Task 8 and Re-DocRED are
additional data sets. Random weights and other controls come with every number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from attlas.corpora.splits import split
from attlas.experiments.run import run
from attlas.models import Model, load
from attlas.papers import PAPERS
from attlas.papers.data import check_inputs, published, require_file
from attlas.papers.markdown import table
from attlas.papers.parts import Recipe, Reproduction, run_recipe
from attlas.relations.candidates import related_texts, relations_in
from attlas.relations.experiment import FitRelations, ScoreRelations
from attlas.relations.extractor import RelationExtractor
from attlas.relations.matching import fact_scores
from attlas.relations.section import SECTIONS
from attlas.relations.section.names import READERS
from attlas.studies import Study
from attlas.support.errors import AttlasError
from attlas.support.progress import progress_bar
from attlas.views.report import write_charts

SEED = 0
PARTS = PAPERS["relations"].parts
PUBLISHED: dict[str, Any] = {
    **published("relations", "features").to_dict(),
    "extraction": {
        name: row for name, *row in published("relations_extraction").itertuples(False, None)
    },
}
POSTER = "means over relations, relation not compared"


def reproduce(
    data_root: str | Path,
    out: str | Path = "runs/relations",
    *,
    model: Any = None,
    parts: Sequence[str] = PARTS,
    **options: Any,
) -> Reproduction:
    """Run the parts one by one; finished experiments are reused. Options: see `run_options`."""
    root = check_inputs("relations", data_root, parts)
    loaded = load(model)
    return run_recipe(_Run, root, out, parts, PUBLISHED, loaded, options, model=loaded)


@dataclass(kw_only=True)
class _Run(Recipe):
    """One reproduction under way."""

    name = "relations"
    model: Model

    def both(
        self, name: str, train: Any, test: Any, names: Path | None = None, **how: Any
    ) -> tuple[Study, Study]:
        """Fit on `train`, with a fifth of it as dev, and score on `test`."""
        folder = self.inside(name)
        fit = FitRelations(train=train, model=self.model, names=names, seed=SEED, **how)
        fitted = run(fit, folder, log=self.log, **self.options)
        score = ScoreRelations(extractor=folder, test=test, model=self.model)
        scored = run(score, self.inside(f"{name}-scored"), log=self.log, **self.options)
        for one in (fitted, scored):
            one.report(one.folder / "report.html")
            pictures = self.picture_folder(one.folder.name)
            self.add_pictures(*write_charts(one, SECTIONS, pictures, "png"))
        self.part.results[name] = {"fitted": fitted.result, "scored": scored.result}
        return fitted, scored

    def trex_files(self) -> tuple[Path, ...]:
        """Train and test files, and the names of relations."""
        names = ("train", "dev", "relations")
        return tuple(require_file(self.root, "trex95", f"{name}.jsonl") for name in names)

    def trex(self) -> None:
        """The tables and figures of the poster on its own data, with controls."""
        fitted, scored = self.both("trex", *self.trex_files(), interpret=True)
        self.show(
            "Related or not, and which relation: T-REx, 95 relations",
            *_score_blocks(scored, PUBLISHED_SCORES),
            *_unseen_blocks(scored),
            *_extraction_blocks(scored),
            *_interpretation_blocks(fitted),
            _best(scored),
        )

    def published(self) -> None:
        """As published: unscaled sums, an unconverged solver, single words as negatives."""
        _, scored = self.both("trex-published", *self.trex_files(), convention="published")
        self.show(
            "The same, as published",
            *_score_blocks(scored, PUBLISHED_SCORES),
            *_extraction_blocks(scored),
        )

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
        scores = {
            name: fact_scores(strings, predictions, gold, known, lenient)
            for name, lenient in (("exact spans", False), ("published match", True))
        }
        self.part.results["redocred"] = scores
        rows = [{"title": f"ours, {name}", **row} for name, row in scores.items()]
        self.show(
            "Documents: the extractor of T-REx on Re-DocRED",
            table(
                pd.DataFrame([*rows, *_published_rows("DocRED", f" ({POSTER})")]),
                ("", "{title}"),
                *THREE,
                ("predicted", "{predicted:,.0f}"),
                ("facts", "{gold:,.0f}"),
                ("within a sentence", "{within:,.0f}"),
                missing="",
            ),
            "Only relations that the extractor knows are counted, among predictions and facts; "
            f"{len(texts)} documents, ours over all facts and with the relation compared. "
            "Sentences are read one by one, so facts across sentences are missed. The published "
            "numbers are on DocRED before its revision, where many facts are not annotated.",
        )

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
            "F1 is the mean over 19 classes, including `Other`, which counts as related here; the "
            "official score of the task is over nine relations, without `Other`.",
        )

    def _pairs(self, name: str, path: Path, names: Path | None, title: str, note: str = "") -> None:
        texts = [
            replace(text, label=relations_in(text).triples[0].relation)
            for text in related_texts(path)
            if relations_in(text).triples
        ]
        first, second = split(texts, 0.2, SEED)
        _, scored = self.both(name, first, second, names)
        self.show(
            f"{title}: attention between head and tail alone",
            *_score_blocks(scored, attention="attention, both directions"),
            "Relation words are not annotated here: the bag of words has the words between head "
            "and tail, and which comes first. A random fifth of the rows is the test set.",
            note,
        )


Blocks = Iterator[str | list[str]]
F1 = ("F1 [95% CI]", "{f1:.3f} [{f1_low:.3f}, {f1_high:.3f}]")
THREE = (("precision", "{precision:.3f}"), ("recall", "{recall:.3f}"), ("F1", "{f1:.3f}"))
PUBLISHED_SCORES = (
    "published: accuracy, F1",
    "{binary_accuracy_published:.3f}, {f1_published:.3f}",
)


def _published_rows(data: str, suffix: str = "", prefix: str = "") -> list[dict[str, Any]]:
    """Published precision, recall and F1 of triples from text, of the authors and of REBEL."""
    scores = published("relations_extraction", "data").add_prefix(prefix)
    return [
        {"title": f"published, {name}{suffix}", **scores.loc[name]}
        for name in (data, f"{data}, REBEL")
    ]


def _score_blocks(scored: Study, *more: tuple[str, str], **titles: str) -> Blocks:
    """Binary accuracy and F1 of every kind of features, with intervals, and published ones."""
    rows = scored.table("relations").merge(
        published("relations"),
        left_on="reader",
        right_on="features",
        how="left",
        suffixes=("", "_published"),
    )
    rows["ahead"] = [_difference(row, "f1_ahead") for row in rows.to_dict("records")]
    rows.loc[rows["reader"] == "attention", "ahead"] = ""
    yield table(
        rows.assign(title=rows["reader"].map(READERS | titles)),
        ("features", "{title}"),
        (
            "related or not [95% CI]",
            "{binary_accuracy:.3f} [{binary_accuracy_low:.3f}, {binary_accuracy_high:.3f}]",
        ),
        *THREE[:2],
        F1,
        ("attention is ahead by (F1)", "{ahead}"),
        *more,
    )
    result = scored.result
    best = result["best_control"]
    lost = [f"{count} {reason}" for reason, count in result["lost"]["test"].items()]
    adds = result["controls"][best]
    yield (
        f"Attention minus the best control ({READERS[best]}): F1 {_difference(adds, 'f1_ahead')}. "
        "Attention and relation words together minus the best control: F1 "
        f"{_difference(adds, 'both_f1_ahead')}, related or not "
        f"{_difference(adds, 'both_binary_accuracy_ahead')}. "
        f"{result['triples']['test']:,} triples of {result['texts']['test']:,} texts; triples "
        f"excluded: {', '.join(lost) or 'none'}; texts also in the training data: "
        f"{result['texts']['in_both']}."
    )


def _difference(row: dict[str, Any], name: str) -> str:
    """A difference with its interval; dashes if it is missing."""
    value, low, high = (
        "-" if row[f"{name}{end}"] is None else f"{row[f'{name}{end}']:+.3f}"
        for end in ("", "_low", "_high")
    )
    return f"{value} [{low}, {high}]"


def _unseen_blocks(scored: Study) -> Blocks:
    if "relations_unseen" not in scored.tables:
        return
    rows = scored.table("relations_unseen")
    first = rows.iloc[0]
    yield (
        f"Held-out relation phrases ({int(first['cases'])} triples, {int(first['phrases'])} "
        f"phrases, {int(first['relations'])} relations):"
    )
    yield table(
        rows.assign(title=rows["reader"].map(READERS)),
        ("features", "{title}"),
        F1,
        ("attention is ahead by", "{f1_ahead:+.3f} [{f1_ahead_low:+.3f}, {f1_ahead_high:+.3f}]"),
        ("accuracy", "{accuracy:.3f}"),
    )


def _extraction_blocks(scored: Study) -> Blocks:
    """Triples from plain text."""
    titles = {
        "exact": "exact spans, relation compared",
        "published": "the published match, relation compared",
        "published_any_relation": "the published match, relation not compared (as on the poster)",
    }
    yield "Triples from plain text:"
    rows = scored.table("relations_extraction")
    theirs = pd.DataFrame(_published_rows("T-REx", prefix="macro_"))
    yield table(
        pd.concat([rows.assign(title=rows["match"].map(titles)), theirs]),
        ("match", "{title}"),
        *THREE,
        *((f"macro {title}", template.replace("{", "{macro_")) for title, template in THREE),
        ("predicted", "{predicted:,.0f}"),
        ("triples", "{gold:,.0f}"),
        missing="",
    )


def _interpretation_blocks(fitted: Study) -> Blocks:
    """Directions, layers, heads and merged classes, on the texts that penalties were tuned on."""
    yield (
        "These are on the fifth of the train file that penalties were tuned on, so slightly above "
        "the test scores."
    )
    yield "Directions (x-y: x attends to y; h head, t tail, r relation words):"
    yield table(
        fitted.table("relations_directions"),
        ("direction", "{direction}"),
        ("weight, related", "{weight_related:.4f}"),
        ("weight, named", "{weight_named:.3f}"),
        ("accuracy alone", "{binary_accuracy_alone:.3f}"),
        ("F1 alone", "{f1_alone:.3f}"),
        ("F1 alone, random weights", "{f1_alone_random:.3f}"),
        ("F1 without it", "{f1_without:.3f}"),
    )
    layers = fitted.table("relations_layers").groupby(["layer", "reader"])["f1"].mean().unstack()
    yield "Macro F1 of the features of one layer, and the weight of the layer among all:"
    yield table(
        layers.join(fitted.table("relations_depth").set_index("layer")).reset_index(),
        ("layer", "{layer}"),
        ("weight, related", "{weight_related:.4f}"),
        ("weight, named", "{weight_named:.3f}"),
        ("attention", "{attention:.3f}"),
        ("attention, random weights", "{random_model:.3f}"),
        ("hidden states", "{hidden_states:.3f}"),
        ("hidden states, as many features", "{hidden_states_few:.3f}"),
    )
    yield "F1 by number of heads (chosen by a group penalty; at random):"
    yield _path(fitted.table("relations_path"), "heads", "chosen")
    yield (
        "F1 by number of classes (merged by the tree of coefficients; at random into groups of the "
        "same sizes):"
    )
    yield _path(fitted.table("relations_merged"), "classes", "by the tree")
    yield _similarity(fitted)


def _path(rows: pd.DataFrame, of: str, title: str) -> list[str]:
    return table(rows, (of, f"{{{of}:.0f}}"), (title, "{f1:.3f}"), ("at random", "{f1_random:.3f}"))


def _similarity(fitted: Study) -> list[str]:
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


def _best(scored: Study) -> str:
    """The relations with the highest and the lowest F1."""
    rows = scored.table("relations_each").sort_values("f1", ascending=False)
    first, last = (
        ", ".join(f"{row['relation']} {row['name']} {row['f1']:.2f}" for row in some)
        for some in (rows.head(8).to_dict("records"), rows.tail(8).to_dict("records"))
    )
    return f"Highest F1: {first}. Lowest F1: {last}."
