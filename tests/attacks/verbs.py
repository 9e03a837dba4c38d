"""Every verb that writes, on the least input that it accepts: what the attacks run."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

import attlas
from attlas.corpora.sources import embedded_file
from attlas.testing import tiny
from tests.builders.folders import contents, results
from tests.builders.runs import QUIET, Files, files_in, reviews

QUIETLY = "--no-report --out {out}"  # where a command says nothing else: pages take long
SMALL = {"num_hidden_layers": 1, "num_attention_heads": 2}


@dataclass(frozen=True)
class Verb:
    """A command that writes to `out`; `{home}` in it is the folder of its inputs."""

    line: str
    moments: int = 8  # how often it is killed
    folder: bool = True  # whether `out` is a result folder, and not a file or folder of pages

    def words(self, home: Path, out: Path | str = "out") -> list[str]:
        line = self.line if "{out}" in self.line else f"{self.line} {QUIETLY}"
        return [word.format(home=home, out=out) for word in shlex.split(line)]

    def prepare(self, out: Path) -> Path:
        """Make the folder of a page, which must be there."""
        if not self.folder:
            out.mkdir(parents=True, exist_ok=True)
        return out

    def results(self, out: Path) -> Files:
        """The bytes of what it made, apart from pages and manifests, which say how long it took."""
        return results(out) if self.folder else files_in(out)

    def names(self, out: Path) -> set[str]:
        return set(contents(out))


VERBS = {
    "study": Verb(
        "study --data {home}/labelled.jsonl --model {home}/classifier --workers 1 --no-report"
        " --measures entropy,surface,totals,topk,importance --out {out}",
        moments=12,
    ),
    "study with report": Verb(
        "study --data {home}/texts.txt --model {home}/model --measures entropy --out {out}", 4
    ),
    "study of shards": Verb(
        "study --data {home}/many.txt --model {home}/model --workers 2 --no-report"
        " --measures entropy,totals --out {out}",
        moments=12,
    ),
    "study until": Verb(
        "study --data {home}/many.txt --model {home}/model --workers 2 --no-report"
        " --measures surface,entropy --until 0.03 --out {out}",
    ),
    "study by": Verb(
        "study --data {home}/labelled.jsonl --label label --by label --model {home}/classifier"
        " --measures surface,entropy --no-report --out {out}",
    ),
    "look": Verb("look 'a cat sat' --model {home}/model --html {out}/page.html", 4, folder=False),
    "report": Verb(
        "report {home}/study --out {out}/page.html --charts {out}/charts --format json",
        4,
        folder=False,
    ),
    "report tables": Verb(
        "report {home}/study --out {out}/page.html --tables {out}/tables", 4, folder=False
    ),
    "explain": Verb(
        "explain --data {home}/texts.txt --model {home}/classifier --methods saliency,rollout"
        " --draws 1 --permutations 2"
    ),
    "topology": Verb(
        "topology --train {home}/labelled.jsonl --test {home}/test.jsonl --dev {home}/dev.jsonl"
        " --model {home}/classifier --thresholds 0.1 --no-controls"
    ),
    "finetune": Verb("finetune --data {home}/labelled.jsonl --model {home}/classifier --head-only"),
    "finetune all": Verb(
        "finetune --data {home}/labelled.jsonl --model {home}/classifier --epochs 2"
    ),
    "compare": Verb("compare {home}/study {home}/study"),
    "lengthen": Verb("lengthen --model {home}/model --length 600 --window 8"),
    "probe syntax": Verb(
        "probe syntax --train {home}/train.conllu --test {home}/test.conllu --model {home}/model"
        " --min-cases 2"
    ),
    "probe tree": Verb(
        "probe tree --train {home}/train.conllu --test {home}/test.conllu --model {home}/model"
    ),
    "probe coreference": Verb(
        "probe coreference --train {home}/train.conllu --test {home}/test.conllu"
        " --model {home}/model"
    ),
    "relations fit": Verb(
        "relations fit --train {home}/triples.jsonl --dev {home}/more.jsonl --model {home}/model"
    ),
    "relations score": Verb(
        "relations score --extractor {home}/extractor --test {home}/more.jsonl"
    ),
    "dynamics": Verb(
        "dynamics --train {home}/labelled.jsonl --dev {home}/dev.jsonl --test {home}/test.jsonl"
        " --scales 1,10 --epochs 2 --dim 2 --workers 1"
    ),
}


def make_home(home: Path) -> Path:
    """Fill a folder with the inputs of all verbs."""
    home.mkdir(parents=True, exist_ok=True)
    tiny("bert", **SMALL).save(home / "model")
    labels = {"id2label": {0: "a", 1: "b"}, "label2id": {"a": 0, "b": 1}}
    tiny("bert", "classify", **SMALL, **labels).save(home / "classifier")
    (home / "texts.txt").write_text("a cat sat on a mat\nit was a good film\nthe dog saw it\n")
    (home / "many.txt").write_text(
        "".join(f"{row['text']} {n}\n" for n, row in enumerate(reviews(1100)))
    )
    for seed, (name, count) in enumerate({"labelled": 24, "dev": 10, "test": 12}.items()):
        rows = "".join(json.dumps(row) + "\n" for row in reviews(count, seed))
        (home / f"{name}.jsonl").write_text(rows)
    stories = embedded_file("sentences").read_text().split("# newdoc")[1:]
    for name, some in {"train": stories[:3], "test": stories[3:5]}.items():
        (home / f"{name}.conllu").write_text("".join(f"# newdoc{story}" for story in some))
    rows = embedded_file("relations").read_text().splitlines(keepends=True)
    (home / "triples.jsonl").write_text("".join(rows[:16]))
    (home / "more.jsonl").write_text("".join(rows[16:24]))
    files = {"train": home / "triples.jsonl", "dev": home / "more.jsonl", "model": home / "model"}
    attlas.run(attlas.FitRelations(**files), home / "extractor", **QUIET)
    attlas.study(home / "model", home / "texts.txt", ["entropy", "totals"], home / "study", **QUIET)
    compile_kernels(home)
    return home


def compile_kernels(home: Path) -> None:
    """Compile what numba compiles on first use (7 s for topology), which no attack should time."""
    files = {"train": home / "labelled.jsonl", "test": home / "test.jsonl"}
    options = {"model": home / "classifier", "thresholds": (0.1,), "controls": False}
    attlas.run(attlas.Topology(**files, **options), home / "topology", **QUIET)
