"""Visualizations for interpreting Longformer predictions (Hou 2022): Figures 4 to 8, Tables 1 to 4.

The cs.AI and cs.PL papers of Hou (2022) are not publicly available: cs.AI and cs.CL replace them,
and the embedded model, lengthened, replaces Longformer. The notes are the published ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from attlas.core.importance import importance_of, received_by
from attlas.core.text import Text
from attlas.corpora import split
from attlas.corpora.splits import label_names
from attlas.experiments.run import run
from attlas.finetune.experiment import Finetune
from attlas.lengthen.experiment import Lengthen
from attlas.measures.heatmap import Heatmap
from attlas.measures.importance import Importance, from_0_to_1
from attlas.measures.position_bias import PositionBias
from attlas.measures.section import profiles, text_overlay, tokens as token_charts
from attlas.measures.section.findings import position_bias_findings, position_period
from attlas.measures.topk import TopK
from attlas.measures.totals import Totals
from attlas.models import Model, load
from attlas.models.predict import head_inputs, logits_of
from attlas.papers import longformer_tables
from attlas.papers.data import check_inputs, labelled_jsonl, sst
from attlas.papers.markdown import table
from attlas.papers.parts import Recipe, Reproduction, run_recipe
from attlas.stats.correlations import spearman
from attlas.stats.intervals import wilson
from attlas.stats.scores import majority_share, mcc_and_accuracy
from attlas.studies import Study, study
from attlas.views.overlay import overlay
from attlas.views.picture import text_svg, write_picture

SEED = 0
LENGTH, WINDOW, MAX_LENGTH = 4096, 256, 2048
EPOCHS, BATCH, LEARNING_RATE = 2, 4, 1e-4
SHORT_EPOCHS = 3
PUBLISHED_ACCURACY = 0.980  # cs.AI against cs.PL, Longformer-base, 1,070 papers
TASKS = {
    "arxiv_long": "arXiv papers, cs.AI (0) against cs.CL (1)",
    "mock_notes": "Mock clinical notes",
    "sst": "Short texts: sentences of SST, negative (0) and positive (1)",
}
MEASURES = (Totals(), TopK(), Heatmap(), PositionBias())
ABLATION = {"arxiv_long": 2, "mock_notes": 0}  # texts on which every head is switched off in turn


def reproduce(
    data_root: str | Path,
    out: str | Path = "runs/longformer",
    *,
    model: Any = None,
    tasks: Sequence[str] = tuple(TASKS),
    **options: Any,
) -> Reproduction:
    """Lengthen, fine-tune, read attention and draw, task by task.

    Finished experiments are reused. Options: see `run_options`.
    """
    root = check_inputs("longformer", data_root, tasks)
    for name in tasks:
        _texts(root, name)  # a missing file is reported before an hour of work
    published = {"accuracy": PUBLISHED_ACCURACY}
    loaded = load(model, task="auto")
    return run_recipe(_Run, root, out, tasks, published, loaded, options, model=model)


NEW_HEAD = ("LABEL_0", "LABEL_1")


@dataclass(kw_only=True)
class _Run(Recipe):
    """One reproduction under way."""

    name = "longformer"
    announces = False
    model: Any

    @classmethod
    def subject(cls, model: Model) -> str:
        length = f"lengthened to {LENGTH:,} tokens, window {WINDOW}"
        return f"{model.name}, {length}; of SST {model.name} itself"

    @cached_property
    def long_model(self) -> Path:
        """The folder of the lengthened model."""
        short = load(self.model, task="auto")
        if short.task != "classify":  # a new head: fine-tuning draws its own for its labels
            short = load(self.model, task="classify", labels=NEW_HEAD)
        experiment = Lengthen(model=short, length=LENGTH, window=WINDOW)
        return run(experiment, self.inside("model-long"), fresh=self.options["fresh"]).folder

    def run_part(self, name: str) -> None:
        """Accuracy, figures and tables of a task; short texts have no figures of long ones."""
        self.log(TASKS[name])
        train, test = _texts(self.root, name)
        classifier, said = TRAINED[name](self, name, train, test)
        importance = None
        results: dict[str, Any] = {"said": said}
        if name == "sst":
            texts = [test[at] for at in np.random.default_rng(SEED).permutation(len(test))]
        else:
            example = _example(classifier, test)
            texts = [example, *(text for text in test if text.id != example.id)]
            corpus, results = self._figures(name, classifier, texts)
            results["said"] = {**said, **results["said"]}
            importance = importance_of(_importance(corpus))
        folder = self.inside(f"{name}-explained")
        study = longformer_tables.explained(
            classifier, texts, name, folder, importance, self.options
        )
        self.add_pictures(*longformer_tables.pictures(study, self.picture_folder(name)))
        results["agreement"] = longformer_tables.tables(study, name)
        self.part.results[name] = results
        self.show(
            TASKS[name],
            [f"- {what}: {value}" for what, value in results["said"].items()],
            *longformer_tables.blocks(results["agreement"]),
            *_list_blocks(results),
        )

    def tuned(self, name: str, **tuning: Any) -> Model:
        """The fine-tuned classifier of a task."""
        finetune = Finetune(**tuning, seed=SEED)
        study = run(finetune, self.inside(f"{name}-model"), **self.options)
        return load(study.folder, task="classify")

    def _figures(
        self, name: str, classifier: Model, ordered: list[Text]
    ) -> tuple[Study, dict[str, Any]]:
        """Draw the figures: a pass over all texts, and one over the first with whole lists."""
        example = ordered[0]
        measures: list[Any] = [Importance(accumulate="grad", ablation=ABLATION[name]), *MEASURES]
        corpus = study(classifier, ordered, measures, self.inside(f"{name}-study"), **self.options)
        corpus.report(corpus.folder / "report.html")
        whole, folder = [TopK(shown=MAX_LENGTH)], self.inside(f"{name}-example")
        lists = study(classifier, [example], whole, folder, **self.options).table("topk")
        lists = lists[lists["layers"] == "all"]
        for title, chart in _charts(corpus, lists, example.id).items():
            self.draw(chart, f"{name}/{title}")
        self.add_pictures(*_overlays(corpus, example, self.picture_folder(name)))
        bias, said = position_bias_findings(corpus), _heads(corpus)
        if bias:
            said = {"position bias": bias[0], **said}
        return corpus, {"said": said, "example": example.id, "lists": _named_lists(lists)}


def _texts(root: Path, name: str) -> tuple[list[Text], list[Text]]:
    """Texts to train on and to look at."""
    if name == "sst":
        return sst(root, "train"), sst(root, "dev")
    if name == "mock_notes":
        notes = labelled_jsonl(root, name, "notes")
        return notes, notes
    return labelled_jsonl(root, name, "train"), labelled_jsonl(root, name, "dev")


def _papers(
    recipe: _Run, name: str, train: list[Text], test: list[Text]
) -> tuple[Model, dict[str, str]]:
    """Fine-tune on the papers; accuracy compared with a bag of words."""
    fitted, dev = split(train, 0.1, SEED)
    classifier = recipe.tuned(
        name,
        texts=fitted,
        dev=dev,
        model=recipe.long_model,
        epochs=EPOCHS,
        batch_size=BATCH,
        learning_rate=LEARNING_RATE,
        max_length=MAX_LENGTH,
    )
    accuracy, majority = _accuracy(classifier, train, test)
    bag = make_pipeline(
        TfidfVectorizer(min_df=2, sublinear_tf=True), LogisticRegression(C=10, max_iter=1000)
    )
    bag.fit([text.text for text in train], [str(text.label) for text in train])
    words = bag.score([text.text for text in test], [str(text.label) for text in test])
    return classifier, {
        "accuracy": f"{accuracy} on {len(test)} papers (the first "
        f"{MAX_LENGTH:,} tokens of each); published {PUBLISHED_ACCURACY:.3f} on 1,070 papers of "
        "cs.AI and cs.PL by Longformer-base",
        "controls": f"a bag of words (TF-IDF, logistic regression, whole papers) {words:.3f}; "
        f"majority class {majority:.3f}",
    }


def _notes(
    recipe: _Run, name: str, train: list[Text], test: list[Text]
) -> tuple[Model, dict[str, str]]:
    """Fit the last layer alone on twelve notes; each is scored by a layer fitted on the others."""
    classifier = recipe.tuned(
        name, texts=train, dev=train, model=recipe.long_model, head_only=True, max_length=LENGTH
    )
    known = [str(text.label) for text in test]
    predictions = cross_val_predict(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        head_inputs(classifier, test),
        known,
        cv=LeaveOneOut(),
    )
    right = int(np.sum(predictions == np.array(known)))
    most = max(known.count(label) for label in set(known))
    return classifier, {
        "accuracy": f"{right} of {len(known)} notes, each by a last layer fitted on the other "
        f"{len(known) - 1} (the rest of the model is not trained)",
        "controls": f"majority class {most} of {len(known)}; heads are ranked by the loss on the "
        "notes that the last layer was fitted on",
    }


def _sentences(
    recipe: _Run, name: str, train: list[Text], test: list[Text]
) -> tuple[Model, dict[str, str]]:
    """Fine-tune on sentences; the model is not lengthened."""
    classifier = recipe.tuned(name, texts=train, model=recipe.model, epochs=SHORT_EPOCHS)
    accuracy, majority = _accuracy(classifier, train, test)
    said = f"{accuracy} on {len(test)} sentences; majority class {majority:.3f}"
    return classifier, {"accuracy": said}


TRAINED = {"arxiv_long": _papers, "mock_notes": _notes, "sst": _sentences}


def _accuracy(classifier: Model, train: list[Text], test: list[Text]) -> tuple[str, float]:
    """Accuracy with its interval, and the share of the majority class."""
    names = label_names(train, test=test)
    wanted = np.array([names.index(str(text.label)) for text in test])
    accuracy = mcc_and_accuracy(wanted, logits_of(classifier, test))["accuracy"]
    low, high = wilson(accuracy, len(test))
    return f"{accuracy:.3f} [{low:.3f}, {high:.3f}]", majority_share(wanted)


def _list_blocks(results: dict[str, Any]) -> Iterator[str | list[str]]:
    """The lists of one text, and what is on both."""
    for by in ("type", "position") if "lists" in results else ():
        lists = results["lists"]
        yield (
            f"Most often on lists by {by}, one text ({results['example']}), all layers and heads; "
            "expected by chance in brackets:"
        )
        pairs = zip(lists[f"attended {by}"], lists[f"attending {by}"], strict=False)
        yield table(
            [{"rank": rank, "pair": pair} for rank, pair in enumerate(pairs, 1)],
            ("", "{rank}"),
            ("attended to", "{pair[0]}"),
            ("attending", "{pair[1]}"),
        )
        yield f"On both lists: {', '.join(lists[f'both {by}']) or 'none'}."


def _example(classifier: Model, texts: list[Text]) -> Text:
    """The first text of label 1 that is classified correctly, as in Hou (2022); else the first."""
    positive = [text for text in texts if str(text.label) == "1"][:8]
    logits = logits_of(classifier, positive)
    names = {str(label): number for label, number in classifier.network.config.label2id.items()}
    right = [
        text
        for text, row in zip(positive, logits, strict=True)
        if row.argmax() == names.get("1", 1)
    ]
    return right[0] if right else texts[0]


def _charts(corpus: Study, lists: pd.DataFrame, example: str) -> dict[str, Any]:
    """Figures 4 to 7."""
    grids, uniform = corpus.table("heatmap_texts"), corpus.table("heatmap_uniform")
    all_types = corpus.table("topk_types")
    types, positions = (lists[lists["by"] == by] for by in ("type", "position"))
    attending = types[types["direction"] == "attending"]
    often = attending["string"].iloc[0] if len(attending) else ""
    instances = positions[(positions["direction"] == "attending") & (positions["string"] == often)]
    out: dict[str, Any] = {
        "figure4a-heads-example": profiles.head_pictures(grids[grids["text"] == example], uniform),
        "figure4b-heads-corpus": profiles.head_pictures(corpus.table("heatmap"), uniform),
        "figure4c-heads-corpus-scaled": profiles.head_pictures(
            corpus.table("heatmap"), None, _importance(corpus)
        ),
        "figure5ac-lists-by-type": token_charts.top_bars(types, "type"),
        "figure5bd-lists-by-position": token_charts.top_bars(positions, "position"),
        "figure5-corpus-by-type": token_charts.top_bars(
            all_types[all_types["layers"] == "all"], "type"
        ),
        "figure6-instances": token_charts.instances(instances, often),
        "position-bias": token_charts.by_position(
            corpus.table("position_bias"), "position", position_period(corpus)
        ),
    }
    for by, column, rows in (("type", "string", types), ("position", "token", positions)):
        first = rows[rows["rank"] < 10]
        attended, attending = (
            set(first[first["direction"] == direction][column])
            for direction in ("attended", "attending")
        )
        both = first.assign(both=first[column].isin(attended & attending))
        if both["both"].any():
            out[f"figure7-both-by-{by}"] = token_charts.on_both_lists(both, by)
    return out


def _overlays(corpus: Study, example: Text, folder: Path) -> list[Path]:
    """Figure 8: the example shaded by the last layer, all layers, and heads by importance."""
    ((group, row),) = corpus.first(1)
    tokens = corpus.tokens("totals", group, row["text"])
    names = [
        f"L{layer}.H{head}" for layer in range(corpus.n_layers) for head in range(corpus.n_heads)
    ]
    values = (
        corpus.table("totals_heads", text=row["text"])[names]
        .to_numpy(dtype=np.float64)
        .T.reshape(corpus.n_layers, corpus.n_heads, -1)
    )
    weighted = received_by(values, importance=importance_of(_importance(corpus)))[None, None]
    uniform = tokens["uniform"].to_numpy()
    shown = {
        "figure8a-last-layer": overlay(row["content"], tokens, values[-1:], uniform),
        "figure8b-all-layers": text_overlay(corpus, row, group),
        "figure8c-all-layers-scaled": overlay(row["content"], tokens, weighted, uniform),
    }
    out = []
    for name, one in shown.items():
        out += write_picture(text_svg(one, f"{name}: {example.id}"), folder / name, "png")
    return out


def _heads(corpus: Study) -> dict[str, str]:
    table = _importance(corpus)
    ours, theirs = (
        ", ".join(
            f"L{int(row.layer)}.H{int(row.head)}" for row in table.nlargest(3, column).itertuples()
        )
        for column in ("taylor", "taylor_grad")
    )
    alike = {
        name: spearman(table["taylor"], table[name]) for name in ("taylor_grad", "gate", "ablation")
    }
    measured = "" if pd.isna(alike["ablation"]) else f", measured ablation {alike['ablation']:.2f}"
    return {
        "most important heads": f"{ours} by gradient times parameter, which scales the figures; "
        f"{theirs} by the published accumulation",
        "agreement of rankings of heads (Spearman)": "published accumulation "
        f"{alike['taylor_grad']:.2f}, gradient times gate {alike['gate']:.2f}{measured}",
    }


def _importance(corpus: Study) -> pd.DataFrame:
    """The table with importance by gradient times parameter of each text."""
    table = corpus.table("importance")
    return table.assign(importance=from_0_to_1(table["taylor"].to_numpy()))


def _named_lists(lists: pd.DataFrame) -> dict[str, list[str]]:
    """The first ten of each list as they are printed, and what is on both."""
    out: dict[str, list[str]] = {}
    for by in ("type", "position"):
        keys = {}
        for direction in ("attended", "attending"):
            rows = lists[
                (lists["by"] == by) & (lists["direction"] == direction) & (lists["rank"] < 10)
            ]
            name = rows["string"] + ("@" + rows["token"].astype(str) if by == "position" else "")
            out[f"{direction} {by}"] = [
                f"{one} {count:,} ({chance:,.0f})"
                for one, count, chance in zip(name, rows["count"], rows["chance"], strict=True)
            ]
            keys[direction] = list(name)
        out[f"both {by}"] = [one for one in keys["attended"] if one in keys["attending"]]
    return out
