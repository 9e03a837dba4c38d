"""Write `old_folders/`: result folders of every kind, as Attlas made them before format 2.

Run only with the code of commit ae133d3; what it wrote is kept in the tree, to test that later code
opens it:

    python -m tests.golden.make_old_folders

File names in them are relative to the folder they were made in, which held `inputs/`. Two things
were changed: `report.html` of topology is excluded for its size, and the absolute path of the base
model in `finetune.json` is made relative. `predictions.json` has what the saved estimators and
models predict.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from tests.golden.predictions import PREDICTIONS
from tests.golden.scenario import Command, put_inputs, run_command

OLD = Path(__file__).parent / "old_folders"

_TREES = "--train trees-train.conllu --test trees-test.conllu --model model --workers 1 --no-report"
_TEXTS = "--train train.jsonl --dev dev.jsonl --test test.jsonl --workers 1"
_STUDY = "study --data reviews.jsonl --label label --model model --workers 1 --no-report --measures"
_RELATIONS = (
    "--train relations-train.jsonl --dev relations-dev.jsonl --model model --workers 1 --no-report"
)
_GRID = "--scales 1,10 --attention dot,additive --epochs 3 --dim 16 --batch-size 12 --no-report"

COMMANDS = (
    Command(
        "study",
        f"{_STUDY} surface,entropy,positions,totals,topk,position_bias,head_distance,"
        "importance,betti",
        "study",
    ),
    Command(
        "explain",
        "explain --data reviews.jsonl --label label --model model --workers 1 --no-report "
        "--method integrated_gradients,attention_all_scaled,random",
        "explain",
    ),
    Command("syntax", f"probe syntax {_TREES} --min-cases 10", "syntax"),
    Command("tree", f"probe tree {_TREES}", "tree"),
    Command("coreference", f"probe coreference {_TREES}", "coreference"),
    Command("relations", f"relations fit {_RELATIONS} --interpret", "relations"),
    Command(
        "relations_scored",
        "relations score --extractor relations --test relations-test.jsonl --workers 1 --no-report",
        "relations_scored",
    ),
    Command(
        "topology", f"topology {_TEXTS} --model model --frozen frozen --thresholds 0.1", "topology"
    ),
    Command("dynamics", f"dynamics {_TEXTS} --encoders none,lstm {_GRID}", "dynamics"),
    Command(
        "finetuned",
        "finetune --data train.jsonl --dev dev.jsonl --model model --epochs 1 --batch-size 8 "
        "--hold-out 0.2",
        "finetuned",
    ),
    Command("long", "lengthen --model model --length 256 --window 16", "long"),
    # what the tour leaves: a study, with experiments in folders inside its own
    Command("tour", f"{_STUDY} surface,entropy --task base", "tour"),
    Command("tour_syntax", f"probe syntax {_TREES} --min-cases 10", "tour/syntax"),
    Command("tour_coreference", f"probe coreference {_TREES}", "tour/coreference"),
    Command("tour_dynamics", f"dynamics {_TEXTS} {_GRID}", "tour/dynamics"),
)


def interrupted_study() -> None:
    """A study that was stopped after the first of its two shards."""
    import attlas
    from attlas.studies.store import ShardStore

    write = ShardStore.write

    def stop(store: ShardStore, index: int, *parts: object) -> None:
        if index:
            raise KeyboardInterrupt
        write(store, index, *parts)  # type: ignore[arg-type]

    ShardStore.write = stop  # type: ignore[method-assign, assignment]
    try:
        texts = [f"a cat {number}" for number in range(520)]
        attlas.study(
            "model", texts, ["surface", "entropy"], "interrupted", workers=1, progress=False
        )
    except KeyboardInterrupt:
        pass
    finally:
        ShardStore.write = write  # type: ignore[method-assign]


def estimators() -> None:
    """What estimators save by themselves."""
    import attlas
    from attlas.dynamics import AttentionClassifier
    from attlas.relations import RelationExtractor
    from attlas.tree import TreeProbe

    model = attlas.load("model")
    trees = list(attlas.read("trees-train.conllu"))[:12]
    TreeProbe(model, "attention_words", epochs=2, workers=1, progress=False).fit(trees).save(
        "tree_probe"
    )
    texts = list(attlas.read("train.jsonl", label="label"))
    AttentionClassifier(epochs=2, dim=8, batch_size=12).fit(texts).save("attention_classifier")
    extractor = RelationExtractor(model, grid=(0.3,), workers=1, progress=False)
    extractor.fit(attlas.read("relations-train.jsonl"), attlas.read("relations-dev.jsonl")).save(
        "relation_extractor"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        put_inputs(folder)
        given = {path.name for path in folder.iterdir()}
        for command in COMMANDS:
            print(command.name, flush=True)
            run_command(command, folder)
        os.chdir(folder)
        interrupted_study()
        estimators()
        predictions = {name: predict() for name, predict in PREDICTIONS.items()}
        os.chdir(OLD.parent)
        (folder / "topology/report.html").unlink()
        record = folder / "finetuned/finetune.json"
        record.write_text(record.read_text().replace(f"{folder}/", ""))
        for path in folder.rglob("*"):
            if path.is_file() and str(folder).encode() in path.read_bytes():
                raise RuntimeError(f"{path.relative_to(folder)} holds an absolute path")
        shutil.rmtree(OLD, ignore_errors=True)
        OLD.mkdir()
        for path in sorted(folder.iterdir()):
            if path.name not in given:
                shutil.copytree(path, OLD / path.name)
        (OLD / "predictions.json").write_text(json.dumps(predictions, indent=1) + "\n")


if __name__ == "__main__":
    main()
