"""Attention Understands Semantic Relations (Chizhikova, Murzakhmetov, Serikov, Shavrina and Burtsev 2022): the poster's tables and figures, published beside ours,
random weights and every other control beside both.

The paper's own train file is not to be had: its validation file is learnt from (3,494 sentences instead of about 9,500) and a part of its test file scored on (1,900 of 4,750).
The embedded model stands in for bert-base-cased. FewRel, SemEval-2010 Task 8 and Re-DocRED are new evidence.
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
from attlas.papers.parts import Recipe, Reproduction, run_reproduction
from attlas.relations.candidates import noted, related_texts
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
    say: Callable[[str], None] = lambda line: None,
) -> Reproduction:
    """Run the parts one by one; finished experiments are found again. `say` hears what is run."""
    check_choice("part", parts, PARTS)
    root, loaded = data_folder(data_root), load(model)
    recipe = _Run(
        root=root,
        reproduction=Reproduction(loaded.name, PARTS, PUBLISHED, Path(out).expanduser()),
        model=loaded,
        model_parts=loaded.identity(),
        options={"workers": workers, "fresh": fresh, "progress": progress},
        say=say,
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
        """Fit on one, tuned on a fifth of it, and score on the other."""
        place, scoring = self.inside(name), self.inside(f"{name}-scored")
        fit = FitRelations(train=train, model=self.model, names=names, seed=SEED, **how)
        fitted = run(fit, place, say=self.say, **self.options)
        score = ScoreRelations(extractor=place, test=test, model=self.model)
        scored = run(score, scoring, say=self.say, **self.options)
        for one in (fitted, scored):
            one.report(one.folder / "report.html")
            pictures = self.picture_folder(one.folder.name)
            self.add_pictures(*write_charts(one, SECTIONS, pictures, "png"))
        self.part.results[name] = {"fitted": fitted.result, "scored": scored.result}
        return fitted, scored

    def trex_files(self) -> tuple[Path, Path, Path]:
        """Texts to learn from, texts to score on, and what relations are called."""
        root = self.root
        return (
            require_file(root, "trex95", "train.jsonl"),
            require_file(root, "trex95", "dev.jsonl"),
            require_file(root, "trex95", "relations.jsonl"),
        )

    def trex(self) -> None:
        """The poster's tables and figures on its own data, with what it left out."""
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
        """The same the paper's way: unscaled sums, an unconverged solver, single words as negatives; its random control the same way, the others tuned."""
        train, dev, names = self.trex_files()
        _, scored = self.both("trex-published", train, dev, names, convention="published")
        self.part.lines += [
            "### The same, the paper's way",
            "",
            *_score_lines(scored, published=True),
            "",
            *_extraction_lines(scored),
            "",
        ]

    def redocred(self) -> None:
        """The extractor of T-REx on documents, sentence by sentence (the poster's second data set, in its revised form)."""
        texts = related_texts(require_file(self.root, "redocred", "dev_revised.jsonl"))
        if not self.use("trex"):
            raise AttlasError(
                "part redocred uses the extractor of part trex; run that first (--parts trex,redocred)"
            )
        train, _, names = self.trex_files()
        place, how = self.inside("trex"), {**self.options, "fresh": False}
        fit = FitRelations(train=train, model=self.model, names=names, interpret=True, seed=SEED)
        run(fit, place, **how)  # finds it again, and refuses another one or a damaged one
        fitted = RelationExtractor.load(place, self.model, workers=self.options["workers"])
        known = set(fitted.classes_.tolist())
        found = []
        with progress_bar("extracting triples", wanted=self.options["progress"]) as report:
            for _, triples in fitted.predict_iter(texts):
                found.append(triples)
                report(len(found), len(texts))
        gold, strings = [noted(text) for text in texts], [text.text for text in texts]
        rows = {
            name: fact_scores(strings, found, gold, known, lenient)
            for name, lenient in (("exact spans", False), ("published match", True))
        }
        self.part.results["redocred"] = rows
        out = [
            "### Documents: the extractor of T-REx on Re-DocRED",
            "",
            "| | precision | recall | F1 | predicted | facts | of them within a sentence |",
            "|---|---|---|---|---|---|---|",
        ]
        out += [
            f"| ours, {name} | {_three(row)} | {row['predicted']:,} | {row['gold']:,} | {row['within']:,} |"
            for name, row in rows.items()
        ]
        out += [
            f"| poster, {name} (means over relations, relation not compared) | {' | '.join(f'{value:.3f}' for value in PUBLISHED['extraction'][name])} | | | |"
            for name in ("DocRED", "DocRED, REBEL")
        ]
        out += [
            "",
            f"Only relations that the extractor knows are counted, on both sides; {len(texts)} documents, ours over all facts and with the relation compared. Sentences are read one by one, so that facts across sentences are missed. The poster's DocRED was not yet revised: there many facts are not annotated.",
            "",
        ]
        self.part.lines += out

    def fewrel(self) -> None:
        """Pairs of phrases, 64 relations, a fifth of the rows to score on."""
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
            "F1 is the mean over 19 classes, `Other` among them, which counts as related here; the task's official score takes nine relations and leaves `Other` out.",
            "",
        ]

    def _pairs(self, name: str, path: Path, names: Path | None, title: str) -> None:
        texts = [
            replace(text, label=noted(text).triples[0].relation)
            for text in related_texts(path)
            if noted(text).triples
        ]
        first, second = split(texts, 0.2, SEED)
        _, scored = self.both(name, first, second, names)
        self.part.lines += [
            f"### {title}: attention between head and tail alone",
            "",
            *(line.replace("six directions", "both directions") for line in _score_lines(scored)),
            "",
            "Relation words are not annotated here: the bag holds the words between head and tail, and which comes first. A random fifth of the rows was scored on.",
            "",
        ]


def _three(row: dict[str, Any]) -> str:
    return " | ".join(f"{row[name]:.3f}" for name in ("precision", "recall", "f1"))


def _score_lines(scored: Study, published: bool = False) -> list[str]:
    """Binary accuracy and F1 of every way of reading, with intervals; the poster's beside."""
    table = scored.table("relations")
    out = [
        "| read from | related or not [95 %] | precision | recall | F1 [95 %] | attention is ahead by (F1) |"
        + (" poster: accuracy, F1 |" if published else ""),
        "|---|---|---|---|---|---|" + ("---|" if published else ""),
    ]
    for row in table.to_dict("records"):
        name = row["reader"]
        ahead = (
            ""
            if name == "attention"
            else f"{row['f1_ahead']:+.3f} [{row['f1_ahead_low']:+.3f}, {row['f1_ahead_high']:+.3f}]"
        )
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
        out.append(f"| {' | '.join(cells)} |")
    result = scored.result
    best = result["best_control"]
    lost = (
        ", ".join(f"{count} {reason}" for reason, count in result["lost"]["test"].items()) or "none"
    )
    adds = result["controls"][best]
    out += [
        "",
        f"What attention adds over the best control ({READERS[best]}): F1 {_signed(adds['f1_ahead'])} [{_signed(adds['f1_ahead_low'])}, {_signed(adds['f1_ahead_high'])}]. {result['triples']['test']:,} triples of {result['texts']['test']:,} texts; triples lost: {lost}; texts also learnt from: {result['texts']['in_both']}. What attention adds to the best control: attention and relation words together are ahead of it by F1 {_signed(adds['both_f1_ahead'])} [{_signed(adds['both_f1_ahead_low'])}, {_signed(adds['both_f1_ahead_high'])}], and in related or not by {_signed(adds['both_binary_accuracy_ahead'])} [{_signed(adds['both_binary_accuracy_ahead_low'])}, {_signed(adds['both_binary_accuracy_ahead_high'])}].",
    ]
    return out


def _with(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"


def _unseen_lines(scored: Study) -> list[str]:
    if "relations_unseen" not in scored.tables:
        return []
    table = scored.table("relations_unseen")
    first = table.iloc[0]
    out = [
        "",
        f"Relation phrases that were held out of training ({int(first['cases'])} triples, {int(first['phrases'])} phrases, {int(first['relations'])} relations):",
        "",
        "| read from | F1 [95 %] | attention is ahead by | accuracy |",
        "|---|---|---|---|",
    ]
    return out + [
        f"| {READERS[row['reader']]} | {_with(row, 'f1')} | {row['f1_ahead']:+.3f} [{row['f1_ahead_low']:+.3f}, {row['f1_ahead_high']:+.3f}] | {row['accuracy']:.3f} |"
        for row in table.to_dict("records")
    ]


def _extraction_lines(scored: Study) -> list[str]:
    """Triples from plain text."""
    titles = {
        "exact": "exact spans, relation compared",
        "published": "the paper's match, relation compared",
        "published_any_relation": "the paper's match, relation left open (as the poster counts)",
    }
    out = [
        "Triples from plain text:",
        "",
        "| match | precision | recall | F1 | macro precision | macro recall | macro F1 | predicted | triples |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in scored.table("relations_extraction").to_dict("records"):
        macro = " | ".join(f"{row[f'macro_{name}']:.3f}" for name in ("precision", "recall", "f1"))
        out.append(
            f"| {titles[row['match']]} | {_three(row)} | {macro} | {int(row['predicted']):,} | {int(row['gold']):,} |"
        )
    for name in ("T-REx", "T-REx, REBEL"):
        out.append(
            f"| poster, {name} | | | | {' | '.join(f'{value:.3f}' for value in PUBLISHED['extraction'][name])} | | |"
        )
    return out


def _interpretation_lines(fitted: Study) -> list[str]:
    """Directions, layers, heads, merged classes, in numbers (on the texts that penalties were tuned on)."""
    study = fitted
    out = [
        "These are on the fifth of the train file that penalties were tuned on, so a little above the test.",
        "",
        "Directions (x-y: x attends to y; h head, t tail, r relation words):",
        "",
        "| direction | weight, related | weight, named | accuracy alone | F1 alone | F1 alone, random weights | F1 without it |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in study.table("relations_directions").to_dict("records"):
        out.append(
            f"| {row['direction']} | {row['weight_related']:.4f} | {row['weight_named']:.3f} | {row['binary_accuracy_alone']:.3f} | {row['f1_alone']:.3f} | {row['f1_alone_random']:.3f} | {row['f1_without']:.3f} |"
        )
    layers = study.table("relations_layers").groupby(["layer", "reader"])["f1"].mean().unstack()
    depth = study.table("relations_depth").set_index("layer")
    out += [
        "",
        "Macro F1 of one layer's readers, and the weight of the layer in the readers of all:",
        "",
        "| layer | weight, related | weight, named | attention | random weights' attention | hidden states | hidden states, as many features |",
        "|---|---|---|---|---|---|---|",
    ]
    out += [
        f"| {layer} | {depth.loc[layer, 'weight_related']:.4f} | {depth.loc[layer, 'weight_named']:.3f} | {' | '.join(f'{row[name]:.3f}' for name in ('attention', 'random_model', 'hidden_states', 'hidden_states_few'))} |"
        for layer, row in layers.iterrows()
    ]
    out += [
        "",
        "F1 by number of heads (chosen by a penalty on whole heads; drawn at random):",
        "",
        "| heads | chosen | at random |",
        "|---|---|---|",
    ]
    out += [
        f"| {int(row['heads'])} | {row['f1']:.3f} | {row['f1_random']:.3f} |"
        for row in study.table("relations_path").to_dict("records")
    ]
    out += [
        "",
        "F1 by number of classes (merged as the tree of coefficients says; at random into groups of the same sizes):",
        "",
        "| classes | by the tree | at random |",
        "|---|---|---|",
    ]
    out += [
        f"| {int(row['classes'])} | {row['f1']:.3f} | {row['f1_random']:.3f} |"
        for row in study.table("relations_merged").to_dict("records")
    ]
    alike = study.table("relations_likeness").to_dict("records")
    out += [
        "",
        "Do relations with like coefficients have like words? Spearman's correlation of distances: "
        + "; ".join(
            f"{READERS[row['reader']]} {row['correlation']:.2f} (p {row['p']:.3f})" for row in alike
        )
        + ".",
    ]
    heads: pd.DataFrame = study.table("relation_heads")
    top = heads[heads["rank"] == 0]
    out += [
        f"The strongest head of a relation has {100 * top['share'].mean():.1f} % of its weight on average, {100 * top['share'].max():.1f} % at most ({100 * top['share_uniform'].iloc[0]:.1f} % if all weighed the same)."
    ]
    return out


def _best_lines(scored: Study) -> list[str]:
    """The relations that are read best and worst."""
    table = scored.table("relations_each").sort_values("f1", ascending=False)
    return [f"Read best: {_said(table.head(8))}. Read worst: {_said(table.tail(8))}."]


def _said(rows: pd.DataFrame) -> str:
    return ", ".join(
        f"{row['relation']} {row['name']} {row['f1']:.2f}" for row in rows.to_dict("records")
    )


def _signed(value: float | None) -> str:
    """A difference with its sign; a dash where there is none."""
    return "-" if value is None else f"{value:+.3f}"
