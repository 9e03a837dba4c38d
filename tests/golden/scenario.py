"""The commands that goldens, old folders and `make same` run on `inputs/`: every verb.

    python -m tests.golden.scenario FOLDER [NAME ...]

runs them in FOLDER with the `attlas` on the path; what each prints goes to FOLDER/NAME.stdout.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

INPUTS = Path(__file__).parent / "inputs"
MEASURES = (
    "surface,entropy,positions,totals,topk,heatmap,position_bias,head_distance,special_gradient,importance,"
    "explanations,betti,digraph,barcode,templates"
)
METHODS = (  # without occlusion, whose near ties differ between CPUs; `make same` has it
    "integrated_gradients,saliency,input_x_gradient,deeplift,gradient_shap,attention_last,"
    "attention_all,attention_last_scaled,attention_all_scaled,cls_row,rollout,attention_x_gradient,"
    "gradient_rollout,random"
)
SENTENCE = "In March Anna Weber joined Corwin Steel, and the old mill was made of oak."


@dataclass(frozen=True)
class Command:
    """One call of the command line; `out` is the folder it writes, if any."""

    name: str
    arguments: str
    out: str | None = None
    more: tuple[str, ...] = ()

    @property
    def line(self) -> list[str]:
        out = [] if self.out is None else ["--out", self.out]
        return [*self.arguments.split(), *self.more, *out, "--json"]


_TRAINED = "--train train.jsonl --dev dev.jsonl --test test.jsonl --workers 1"
_TREES = "--train trees-train.conllu --test trees-test.conllu --model model --workers 1 --no-report"


def _relations(convention: str, out: str) -> tuple[Command, ...]:
    """An extractor fitted, scored and used."""
    fit = (
        "relations fit --train relations-train.jsonl --dev relations-dev.jsonl --model model "
        "--interpret --workers 1"
    )
    score = f"relations score --extractor {out} --test relations-test.jsonl --workers 1 --no-report"
    return (
        Command(f"{out}_fit", f"{fit} --no-report --convention {convention}", out),
        Command(f"{out}_score", score, f"{out}_scored"),
        Command(f"{out}_extract", f"relations extract --extractor {out}", more=(SENTENCE,)),
    )


# commands of one scenario run one after the other, those of different ones in any order
SCENARIOS: dict[str, tuple[Command, ...]] = {
    "measures": (Command("measures", "measures"),),
    "look": (Command("look", "look --model model", more=(SENTENCE,)),),
    "study": (
        Command(
            "study",
            f"study --data reviews.jsonl --label label --model model --measures {MEASURES} "
            "--workers 1 --no-report",
            "study",
        ),
    ),
    "long": (
        Command("lengthen", "lengthen --model model --length 384 --window 16", "long"),
        Command("long_look", "look --model long", more=(SENTENCE,)),
        Command(
            "long_study",
            "study --data test.jsonl --label label --model long --global-tokens special "
            "--measures surface,entropy,positions,totals,topk,heatmap,position_bias,betti "
            "--workers 1 --no-report",
            "long_study",
        ),
    ),
    "finetune": (
        Command(
            "finetune",
            "finetune --data train.jsonl --dev dev.jsonl --model model --epochs 2 --batch-size 8 "
            "--learning-rate 0.001 --hold-out 0.2",
            "finetuned",
        ),
        Command(
            "finetune_head",
            "finetune --data train.jsonl --dev dev.jsonl --model model --head-only",
            "head_only",
        ),
    ),
    "topology": (
        Command(
            "topology",
            f"topology {_TRAINED} --model model --frozen frozen "
            "--features betti,digraph,barcode,templates --thresholds 0.025,0.1,0.5",
            "topology",
        ),
    ),
    "explain": (
        Command(
            "explain",
            f"explain --data reviews.jsonl --label label --model model --method {METHODS} "
            "--workers 1 --no-report --faithfulness remove,mask",
            "explain",
        ),
    ),
    "syntax": (Command("syntax", f"probe syntax {_TREES} --min-cases 10", "syntax"),),
    "tree": (Command("tree", f"probe tree {_TREES}", "tree"),),
    "coreference": (Command("coreference", f"probe coreference {_TREES}", "coreference"),),
    "relations": _relations("published", "relations"),  # its penalty is fixed
    "dynamics": (
        Command(
            "dynamics",
            f"dynamics {_TRAINED} --model model --vectors model --scales 1,10 "
            "--encoders none,affine,lstm,vectors,model --attention dot,additive --epochs 3 "
            "--dim 16 --batch-size 12 --no-report",
            "dynamics",
        ),
    ),
}

# run by `make same` alone: what another CPU decides otherwise
EXACT: dict[str, tuple[Command, ...]] = {
    "sound": _relations("sound", "sound"),  # penalties are nearly tied on dev
    "occlusion": (
        Command(
            "occlusion",
            "explain --data reviews.jsonl --label label --model model "
            "--method integrated_gradients,occlusion --workers 1 --no-report",
            "occlusion",
        ),
    ),
}
ALL = SCENARIOS | EXACT


def put_inputs(folder: Path) -> None:
    """Copy models and texts into a folder; commands name them by their place in it."""
    shutil.copytree(INPUTS, folder, dirs_exist_ok=True)


def run_command(command: Command, folder: Path) -> str:
    """What one command prints, run in a folder, in this process with one thread."""
    import torch
    from threadpoolctl import threadpool_limits

    from attlas.cli import main

    torch.set_num_threads(1)  # sums come in one order
    printed, messages = io.StringIO(), io.StringIO()
    before, arguments = Path.cwd(), sys.argv
    os.chdir(folder)
    sys.argv = ["attlas", *command.line]
    try:
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(messages),
            threadpool_limits(1),
        ):
            try:
                main()
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(
                        f"attlas {' '.join(command.line)}: {messages.getvalue()}"
                    ) from None
    finally:
        sys.argv = arguments
        os.chdir(before)
    return printed.getvalue()


def run_scenario(name: str, folder: Path) -> dict[str, str]:
    """What each command of a scenario printed."""
    return {command.name: run_command(command, folder) for command in ALL[name]}


def main(folder: Path, names: Iterable[str]) -> None:
    import time

    warnings.simplefilter("ignore")
    folder.mkdir(parents=True, exist_ok=True)
    put_inputs(folder)
    for name in names:
        began = time.process_time()
        for command, printed in run_scenario(name, folder).items():
            (folder / f"{command}.stdout").write_text(printed, encoding="utf-8")
        print(f"{name}: {time.process_time() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or ALL)
