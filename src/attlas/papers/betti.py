"""Betti numbers of attention graphs (Kushnareva et al., arXiv 2207.01903): Table 1, Figure 1.

The authors tune on the public dev sets and test on hidden ones; here the public texts are split so
that nothing is chosen on the texts it is scored on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attlas.core.text import Text
from attlas.corpora import labelled, split
from attlas.experiments.run import run
from attlas.finetune.experiment import Finetune
from attlas.finetune.work import HELD_OUT as HELD_OUT_FILE
from attlas.models.load import load
from attlas.papers.data import (
    check_choice,
    check_inputs,
    cola,
    exclude,
    labelled_jsonl,
    labelled_tsv,
    published,
)
from attlas.papers.markdown import table
from attlas.papers.parts import Recipe, Reproduction, run_recipe
from attlas.studies import Study
from attlas.studies.folder import STATES
from attlas.topology.experiment import Topology
from attlas.topology.section.charts import CLASSIFIERS, head_maps
from attlas.views.numbers import head_name, number, percent

SEED = 0
HELD_OUT = 0.2  # of the texts for fine-tuning, where the classifier needs texts it has not seen
LEARNING_RATE = 1e-4
CONVENTIONS = ("published", "sound")
COLUMNS = {
    "published": "ours, as published",
    "sound": "ours, classifier fitted on texts held out of fine-tuning",
    "seen": "the same model, classifier fitted on as many texts of its fine-tuning",
}


@dataclass(frozen=True)
class Parts:
    """A task's texts: to fine-tune on, to choose by, to score on."""

    train: list[Text]
    dev: list[Text]
    test: list[Text]


def _cola(root: Path) -> Parts:
    test = cola(root, "in_domain_dev") + cola(root, "out_of_domain_dev")
    train, dev = split(exclude(cola(root, "in_domain_train"), test), 0.1, SEED)
    return Parts(train, dev, test)


def _imdb(root: Path) -> Parts:
    test = labelled_jsonl(root, "imdb", "dev_le128")
    train, dev = split(exclude(labelled_jsonl(root, "imdb", "train_le128"), test), 0.2, SEED)
    return Parts(train, dev, test)


def _sms(root: Path) -> Parts:
    rest, test = split(labelled_tsv(root, "sms_spam", "train", "sms"), 0.1, SEED)
    train, dev = split(rest, 1 / 9, SEED)
    return Parts(train, dev, test)


@dataclass(frozen=True)
class Task:
    """One part of the table; published values are of BERT-base on `n` texts."""

    title: str
    parts: Callable[[Path], Parts]
    epochs: int
    n: int
    note: str = ""


TASKS = {
    "cola": Task(
        "CoLA, public dev sentences",
        _cola,
        4,
        1043,
        " The published numbers are on the sentences that C and max_iter were chosen on; on the "
        "hidden test set the published MCC is 0.492 (model), 0.508 (all heads), 0.463 (12), "
        "0.456 (3), 0.385 (1).",
    ),
    "sms_spam": Task("SMS spam", _sms, 3, 556),
    "imdb": Task("IMDB, at most 128 tokens", _imdb, 4, 1415),
}
PUBLISHED: dict[str, dict[str, dict[str, float]]] = {
    name: {
        row.classifier: {"mcc": row.mcc, "accuracy": row.accuracy / 100}
        for row in rows.itertuples()
    }
    for name, rows in published("betti").groupby("task", sort=False)
}


def _rows(name: str, results: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row per classifier: scores as published, and those of each column."""
    for row, title in CLASSIFIERS.items():
        scores = {column: _scores(result, row) for column, result in results.items()}
        yield {"title": title, "theirs": PUBLISHED[name].get(row), **scores}


def _scores(result: dict[str, Any], row: str) -> dict[str, Any] | None:
    if row == "all":
        return result
    if row == "model":
        return result["model"]
    return result["heads"].get(row) or result["controls"].get(row)


def _remark(name: str, result: dict[str, Any]) -> str:
    gap, correlation = result["difference_from_model"], result["maps"]["pearson"]
    best = head_name(dict(zip(("layer", "head"), result["heads"]["1"]["chosen"][0], strict=True)))
    difference = ""
    if gap is not None:
        interval = f"[{gap['low']:+.3f}, {gap['high']:+.3f}]"
        difference = f" all heads minus the model: {gap['mcc']:+.3f} {interval};"
    maps = (
        "the maps of single heads are flat"
        if correlation is None
        else f"the maps of single heads on train and on test correlate by {number(correlation, 3)}"
    )
    return (
        f"- {COLUMNS[name]}: {result['texts']['train']:,} training texts;{difference} {maps}; "
        f"best head on train {best}; accuracy of the majority class "
        f"{percent(result['majority_accuracy'], 1)}"
    )


def reproduce(
    data_root: str | Path,
    out: str | Path = "runs/betti",
    *,
    model: Any = None,
    tasks: Sequence[str] = tuple(TASKS),
    conventions: Sequence[str] = CONVENTIONS,
    **options: Any,
) -> Reproduction:
    """Fine-tune, extract, classify and compare, task by task; finished experiments are reused.

    Options: see `run_options`.
    """
    root = check_inputs("betti", data_root, tasks)
    check_choice("convention", conventions, CONVENTIONS)
    for name in tasks:
        TASKS[name].parts(root)  # a missing file is reported before an hour of work
    loaded = load(model, task="auto")  # so is a model that is missing
    own = {"conventions": [name for name in CONVENTIONS if name in conventions]}
    return run_recipe(_Run, root, out, tasks, PUBLISHED, loaded, options, model=model, **own)


@dataclass(kw_only=True)
class _Run(Recipe):
    """One reproduction under way."""

    name = "betti"
    announces = False
    model: Any
    conventions: list[str]

    def depends_on(self, part: str) -> Any:
        return {"conventions": self.conventions}

    def run_part(self, name: str) -> None:
        """A task's part of Table 1, and Figure 1."""
        task, results = TASKS[name], {}
        parts = task.parts(self.root)
        for convention in self.conventions:
            self.log(f"{task.title}, {convention}")
            for column, study in self._experiments(name, parts, convention):
                results[column] = study.result
                self.draw(head_maps(study.table("topology_heads")), f"figure1-{name}-{column}")
        self.part.results[name] = results
        sizes = next(iter(results.values()))["texts"]
        cell = "{OF[mcc]:.3z} [{OF[mcc_low]:.3z}, {OF[mcc_high]:.3z}] ({OF[accuracy]:.1p})"
        self.show(
            task.title,
            f"MCC [95% CI] (accuracy in %) on {sizes['test']:,} test texts, model "
            f"{self.reproduction.model}; published: BERT-base on {task.n:,}.{task.note}",
            table(
                _rows(name, results),
                ("", "{title}"),
                ("published", "{theirs[mcc]:.3z} ({theirs[accuracy]:.1p})"),
                *((COLUMNS[column], cell.replace("OF", column)) for column in results),
                missing="",
            ),
            [_remark(column, result) for column, result in results.items()],
        )

    def _experiments(self, name: str, parts: Parts, convention: str) -> Iterator[tuple[str, Study]]:
        """Fine-tune and run the experiments of one convention.

        In the sound one, the classifier is also fitted on as many texts as were held out, but
        seen in fine-tuning.
        """
        sound = convention == "sound"
        tuned = run(
            Finetune(
                texts=parts.train,
                dev=parts.dev,
                model=self.model,
                epochs=TASKS[name].epochs,
                learning_rate=LEARNING_RATE,
                hold_out=HELD_OUT if sound else 0.0,
                seed=SEED,
            ),
            self.inside(f"{name}-model-{convention}"),
            **self.options,
        )
        fitted = {convention: parts.train}
        if sound:
            held_out = labelled(tuned.folder / HELD_OUT_FILE)
            seen = exclude(parts.train, held_out)
            fitted = {
                "sound": held_out,
                "seen": split(seen, len(held_out) / len(seen), SEED)[1],
            }
        for column, texts in fitted.items():
            topology = Topology(
                train=texts,
                dev=parts.dev,
                test=parts.test,
                model=tuned.folder,
                controls=column != "seen",
                seed=SEED,
            )
            out = self.inside(f"{name}-topology-{column}")
            yield column, run(topology, out, cache=self.folder / STATES, **self.options)
