"""The command line as a user meets it: real processes, honest exit codes, one clear line for a
mistake.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers

import attlas
from attlas.support import files
from attlas.support.json import to_json
from attlas.testing import tiny
from attlas.testing.verbs import commands
from attlas.views import numbers
from tests.builders.pages import drawn_before, findings, n_pictures
from tests.builders.processes import CommandOutput, Run
from tests.builders.studies import measured

LIGHT = """
import sys
from attlas.cli import main
for arguments in {!r}:
    sys.argv = ["attlas", *arguments.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, arguments
    heavy = {{"torch", "transformers", "pandas", "numba", "altair"}} & set(sys.modules)
    assert not heavy, (arguments, heavy)
    print(end="\\0")
"""


def test_help_and_measures_do_not_import_torch() -> None:
    words = {
        "--help": "study",
        "measures": "surface",
        "finetune --help": "--hold-out",
        "topology --help": "--thresholds",
        "reproduce --help": "betti",
        "reproduce betti --help": "--data-root",
        "reproduce longformer --help": "--data-root",
        "reproduce bert --help": "--parts",
        "probe --help": "coreference",
        "probe syntax --help": "--min-cases",
        "probe tree --help": "--vectors",
        "probe coreference --help": "--tokens",
        "lengthen --help": "--window",
    }
    done = subprocess.run(
        [sys.executable, "-c", LIGHT.format([*words])], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for message, word in zip(done.stdout.split("\0")[:-1], words.values(), strict=True):
        assert word in message


@pytest.mark.slow
def test_a_study_of_ones_own_things(
    attlas_anew: Run, attlas_command: Run, tmp_path: Path, tiny_folder: Path
) -> None:
    pd.DataFrame(
        {"review": ["a good film .", "not very good", "it was bad , very bad"], "stars": [5, 2, 1]}
    ).to_csv(tmp_path / "reviews.csv", index=False)
    command = [
        "study",
        "--data",
        "reviews.csv",
        "--text",
        "review",
        "--model",
        tiny_folder,
        "--out",
        "runs/reviews",
    ]
    done = attlas_anew(*command)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "3 of 3 read" in done.stdout
    assert "runs/reviews/report.html" in done.stdout
    assert (tmp_path / "runs/reviews/report.html").stat().st_size > 500_000
    again = attlas_command(*command, "--json", "--no-report")
    content = json.loads(again.stdout)
    assert content["counts"]["analysed"] == 3
    assert set(content["tables"]) >= {"surface", "entropy", "positions", "totals", "texts"}
    page = attlas_command(
        "report",
        "runs/reviews",
        "--out",
        "page.html",
        "--charts",
        "pictures",
        "--format",
        "svg",
        "--json",
    )
    content = json.loads(page.stdout)
    assert (tmp_path / content["report"]).is_file()
    assert len(content["charts"]) == n_pictures(attlas.Study.open(tmp_path / "runs/reviews"))
    assert "pictures/surface-heads-next.svg" in content["charts"]  # every choice of a menu
    assert all((tmp_path / path).read_text().startswith("<svg") for path in content["charts"])


@pytest.mark.parametrize(
    "words",
    [
        ["study", "--data", "embedded:messages"],
        ["study", "--data", "embedded:messages", "--by", "label"],
        ["look", "a cat"],
    ],
)
def test_a_misspelt_model_folder_is_refused_before_a_model_library_is_imported(
    words: list[str], tmp_path: Path
) -> None:
    (done,) = commands(tmp_path, [*words, "--model", "./runs/none"])
    assert (done.code, done.out) == (2, "")
    assert done.error.startswith("attlas: there is no folder runs/none; give a folder with config")
    assert done.error.count("\n") == 1
    assert not {*done.heavy} & {"torch", "transformers"}
    assert done.seconds < 1.5


@pytest.mark.parametrize("name", ["no-such-org/no-such-model", "no such model"])
def test_an_unknown_hub_name_is_refused_before_a_model_library_is_imported(
    name: str, tmp_path: Path
) -> None:
    look, experiment = commands(
        tmp_path,
        ["look", "a cat", "--model", name],
        ["probe", "syntax", "--train", "embedded:sentences", "--model", name, "--out", "out"],
    )
    for done in (look, experiment):
        assert (done.code, done.out) == (2, "")
        assert done.error.startswith(f"attlas: {name!r} is neither a local folder nor a model that")
        assert done.error.count("\n") == 1
        assert not {*done.heavy} & {"torch", "transformers"}
        assert done.seconds < 1.5


BAD_INPUTS = {
    "no such file": (["--data", "nowhere.csv"], "there is no file nowhere.csv"),
    "no such column": (
        ["--data", "good.csv", "--text", "body"],
        "no column 'body'; its columns are text, label",
    ),
    "an empty file": (["--data", "empty.csv"], "holds no texts"),
    "a header alone": (["--data", "header.csv"], "holds no texts"),
    "an empty text": (["--data", "blank.csv"], "row 1 (line 2): the text is empty"),
    "labels missing": (["--data", "nolabel.csv", "--label", "label"], "no label in 'label'"),
    "a malformed JSON line": (["--data", "bad.jsonl"], "line 1: it is not JSON"),
    "invalid UTF-8": (["--data", "bytes.txt"], "line 1: the text is not valid UTF-8"),
    "an unknown ending": (["--data", "data.xyz"], "'.xyz'; a corpus is one of .csv"),
    "too long": (["--data", "long.csv", "--long", "error"], "1202 tokens, but the model takes 512"),
    "an unknown measure": (
        ["--data", "good.csv", "--measures", "surface,charm"],
        "no measure 'charm'; the measures are surface, entropy, positions, totals",
    ),
    "an unknown engine": (
        ["--data", "good.csv", "--engine", "warp"],
        "engine is 'warp'; it must be local",
    ),
    "pickled weights": (
        ["--data", "good.csv", "--model", "pickled"],
        "only pickled weights (pytorch_model.bin)",
    ),
    "a hub id without a network": (
        ["--data", "good.csv", "--model", "bert-base-uncased"],
        "neither a local folder nor a model that could be downloaded",
    ),
    "not a model": (["--data", "good.csv", "--model", "taken"], "has no config.json"),
    "a folder of someone else": (
        ["--data", "good.csv", "--out", "taken"],
        "taken is not empty (it has",
    ),
    "a hub data set without a network": (
        ["--data", "hub:nobody/nothing"],
        "hub:nobody/nothing cannot be fetched",
    ),
    "an unknown option": (["--data", "good.csv", "--fast"], "No such option: --fast"),
    "no data": ([], "Missing option '--data'"),
}


def write_bad_inputs(folder: Path) -> None:
    for name, content in {
        "good.csv": "text,label\na cat,1\n",
        "empty.csv": "",
        "header.csv": "text,label\n",
        "blank.csv": "text,label\n   ,1\n",
        "nolabel.csv": "text,label\na cat,\n",
        "bad.jsonl": "{oops\n",
        "data.xyz": "",
        "long.csv": "text\n" + "a cat " * 600 + "\n",
    }.items():
        (folder / name).write_text(content)
    (folder / "bytes.txt").write_bytes(b"\xfa\xff\xfe\n")
    for name in ("pickled", "taken"):
        (folder / name).mkdir()
    (folder / "pickled" / "config.json").write_text('{"model_type": "bert"}')
    torch.save({}, folder / "pickled" / "pytorch_model.bin")
    (folder / "taken" / "notes.txt").write_text("mine")


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_input_is_one_clear_line_and_nothing_is_written(
    case: str, attlas_command: Run, tmp_path: Path
) -> None:
    write_bad_inputs(tmp_path)
    arguments, message = BAD_INPUTS[case]
    before = sorted(path for path in tmp_path.rglob("*"))
    done = attlas_command("study", *arguments, *([] if "--out" in arguments else ["--out", "out"]))
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_rows_left_out_are_said(attlas_command: Run, tmp_path: Path, tiny_folder: Path) -> None:
    (tmp_path / "mixed.txt").write_bytes(b"a cat\nnul \x00 byte\n\xff\xff\na dog\n")
    done = attlas_command(
        "study", "--data", "mixed.txt", "--model", tiny_folder, "--out", "out", "--no-report"
    )
    assert done.returncode == 0
    assert "2 rows were excluded; see out/quarantine.jsonl" in done.stderr
    assert [
        json.loads(line)["where"]
        for line in (tmp_path / "out/quarantine.jsonl").read_text().splitlines()
    ] == [
        "mixed.txt, line 2",
        "mixed.txt, line 3",
    ]


def test_look(attlas_command: Run, tmp_path: Path, tiny_folder: Path) -> None:
    done = attlas_command(
        "look", "the cat sat on it", "--model", tiny_folder, "--html", "look.html", "--layer", "1"
    )
    assert done.returncode == 0, done.stderr
    assert "[CLS] the cat sat on it [SEP]" in done.stdout
    assert "layer 1" in done.stdout
    assert '<script type="module">' in (tmp_path / "look.html").read_text()
    content = json.loads(
        attlas_command("look", "the cat sat", "--model", tiny_folder, "--json").stdout
    )
    assert content["tokens"] == ["[CLS]", "the", "cat", "sat", "[SEP]"]
    assert sum(content["received"]["all"]) == pytest.approx(5, abs=1e-3)
    for wrong, message in (
        (["a", "--layer", "9"], "there is no layer 9; the model has layers 0 to 2"),
        ([" "], "the text is empty"),
    ):
        done = attlas_command("look", *wrong, "--model", tiny_folder)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert message in done.stderr


def test_report_of_what_is_no_study(attlas_command: Run, tmp_path: Path) -> None:
    for folder, message in (
        ("nowhere", "there is no study folder nowhere"),
        (".", "holds no study"),
    ):
        done = attlas_command("report", folder)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert message in done.stderr


THREADS = """
import sys
from attlas.cli import main
sys.argv = ["attlas", "measures"]
try:
    main()
except SystemExit:
    import torch
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only GNU's OpenMP says what it was set to")
@pytest.mark.parametrize("own", ["active", None])
def test_idle_threads_of_torch_sleep_unless_the_user_says_otherwise(own: str | None) -> None:
    environment = {**os.environ, "OMP_DISPLAY_ENV": "true"}
    environment.pop("OMP_WAIT_POLICY", None)
    environment |= {} if own is None else {"OMP_WAIT_POLICY": own}
    command = [sys.executable, "-c", THREADS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    policies = re.findall("OMP_WAIT_POLICY = '(.*)'", done.stderr)
    assert set(policies) == {(own or "passive").upper()}


def test_report_prints_the_card_of_a_head(
    inside: Callable[..., CommandOutput], tmp_path: Path
) -> None:
    study = measured()
    for name in ("L1H2", "L1.H2"):
        shown = inside("report", study.folder, "--head", name)
        assert shown.code == 0, shown.error
        assert shown.out.startswith(study.head("L1H2").sentence)
        assert f"next      attlas report {study.folder}" in shown.out
    printed = inside("report", study.folder, "--head", "L1H2", "--json")
    assert json.loads(printed.out) == to_json(study.head(1, 2).to_dict())
    assert not (study.folder / "report.html").exists()
    for wrong, message in (
        (["--head", "2.10"], "'2.10' is not a head; write it as L2H10, counted from 0"),
        (["--head", "L9H0"], "there is no head L9H0: "),
        (["--head", "L1H2", "--charts", "c"], "--head prints and writes no page"),
    ):
        refused = inside("report", study.folder, *wrong)
        assert (refused.code, refused.error.count("\n")) == (2, 1)
        assert message in refused.error


@pytest.mark.slow
def test_interrupting_says_how_to_go_on(tmp_path: Path, tiny_folder: Path) -> None:
    (tmp_path / "many.txt").write_text(
        "\n".join(f"a cat sat on the mat number {number}" for number in range(20_000))
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "attlas",
            "study",
            "--data",
            "many.txt",
            "--model",
            str(tiny_folder),
            "--out",
            "out",
            "--measures",
            "surface",
        ],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # which a shell's background job would ignore
    )
    deadline = time.monotonic() + 60
    while not any((tmp_path / "out/states").glob("*/entry.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (
        message.strip().splitlines()[-1]
        == "attlas: interrupted; run the same command again to resume"
    )
    assert "Traceback" not in message


PARTS = (
    "long",
    "finetune",
    "explain",
    "topology",
    "syntax",
    "tree",
    "coreference",
    "relations",
    "dynamics",
)
SHOWN = (  # sections of all five papers
    *("betti", "topology"),
    *("heatmap", "position_bias", "totals", "topk", "explanations", "agreement", "faithfulness"),
    *("surface", "head_distance", "special_gradient", "syntax", "coreference", "tree"),
    *("dynamics", "dynamics_flow"),
    *("relations", "relation_texts"),
)


@pytest.mark.slow
def test_tour_shows_five_papers_on_one_page_and_resumes(
    attlas_command: Run, tmp_path: Path, tiny_folder: Path
) -> None:
    tour = ["tour", "--model", tiny_folder, "--out", "tour"]
    result = attlas_command(*tour)
    assert result.returncode == 0, result.stderr
    steps = result.stderr.splitlines()
    assert [line.split("  ")[0] for line in steps] == [f"{n}/10" for n in range(1, 11)]
    assert "140 of 140 read" in result.stdout
    *_, folder, page, last = result.stdout.splitlines()
    assert (folder, page) == ("folder    tour", "report    tour/report.html")
    assert last == "next      attlas serve tour"
    shown = re.findall(r'<section id="(\w+)"', (tmp_path / "tour/report.html").read_text())
    assert set(SHOWN) <= set(shown)
    assert len(shown) == len(set(shown))

    made = {name: tmp_path / "tour/parts" / name / "manifest.json" for name in PARTS}
    before = {name: path.stat().st_mtime_ns for name, path in made.items()}
    shutil.rmtree(tmp_path / "tour/parts/dynamics")  # as if interrupted before the last part
    assert attlas_command(*tour).returncode == 0
    after = {name: path.stat().st_mtime_ns for name, path in made.items()}
    assert {name for name in PARTS if before[name] != after[name]} == {"dynamics"}
    drawn = (tmp_path / "tour/report.html").stat().st_ino
    assert attlas_command(*tour).returncode == 0
    assert (tmp_path / "tour/report.html").stat().st_ino == drawn  # found, not drawn again
    again = attlas_command("report", "tour", "--out", "again.html")
    assert again.returncode == 0, again.stderr
    same = re.findall(r'<section id="(\w+)"', (tmp_path / "again.html").read_text())
    assert same == shown


@pytest.fixture(scope="session")
def small_classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a head."""
    folder = tmp_path_factory.mktemp("models") / "small-classifier"
    tiny("bert", "classify", num_hidden_layers=1).save(folder)
    return folder


def reviews(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Texts and labels; the text says its label, and texts of one label are longer."""
    draw = np.random.default_rng(seed)
    words = ["the", "cat", "dog", "film", "was", "very", "it", "is", "not", "with"]
    out = []
    for number in range(count):
        label = "bad" if number % 2 else "good"
        length = draw.integers(3, 6) if number % 2 else draw.integers(7, 11)
        out.append(
            (" ".join([*draw.choice(words, length), label]) + f" {1000 * seed + number:04d}", label)
        )
    return out


def write_reviews(path: Path, count: int, seed: int = 0) -> None:
    pd.DataFrame(reviews(count, seed), columns=["review", "stars"]).to_csv(path, index=False)


ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}  # tiny matrices gain nothing from more
COLUMNS = ["--text", "review", "--label", "stars"]
SCORES = {"mcc", "mcc_low", "mcc_high", "accuracy", "accuracy_low", "accuracy_high", "n"}


@pytest.mark.slow
def test_finetune_then_topology(
    attlas_command: Run, inside: Callable[..., CommandOutput], tmp_path: Path, small_folder: Path
) -> None:
    for seed, (name, count) in enumerate({"train": 40, "dev": 16, "test": 20}.items()):
        write_reviews(tmp_path / f"{name}.csv", count, seed)
    command: list[Any] = [
        "finetune",
        "--data",
        "train.csv",
        "--dev",
        "dev.csv",
        *COLUMNS,
        "--model",
        small_folder,
    ]
    command += [
        "--out",
        "tuned",
        "--epochs",
        "2",
        "--learning-rate",
        "0.003",
        "--batch-size",
        "8",
        "--hold-out",
        "0.2",
    ]
    done = attlas_command(*command, "--json", **ONE_THREAD)
    assert done.returncode == 0, done.stderr
    assert (
        done.stderr.splitlines()[1]
        == "Finetune 2/3: training on 32 texts (at most 2 epochs, batch size 8)"
    )
    content = json.loads(done.stdout)
    assert content["study"] == "tuned"
    assert content["status"] == "complete"
    assert content["labels"] == ["bad", "good"]
    assert content["counts"] == {"fitted": 32, "dev": 16, "held_out": 8, "truncated": 0}
    assert set(content["scores"]) == {"mcc", "accuracy"}
    output = inside(*command)  # the same again: what was done, in words
    assert (output.code, output.error) == (0, "")
    first = [line.split()[0] for line in output.out.splitlines() if line]
    assert first[:4] == ["epoch", "1", "2", "Warning:"]  # few texts
    assert first[-3:] == ["model", "report", "next"]
    assert "Fine-tuning (16 dev texts)" in output.out
    study = attlas.Study.open(tmp_path / "tuned")
    mcc = numbers.decimal(content["scores"]["mcc"])
    (claim,) = [one for one in findings(study) if one.startswith("The fine-tuned model predicts")]
    assert f"majority class 0.50, MCC {mcc} (n = 16)." in claim
    assert len((tmp_path / "tuned/held_out.jsonl").read_text().splitlines()) == 8

    command = [
        "topology",
        "--model",
        "tuned",
        "--train",
        "train.csv",
        "--dev",
        "dev.csv",
        "--test",
        "test.csv",
        *COLUMNS,
    ]
    command += ["--out", "topology", "--thresholds", "0.05, 0.1,0.25"]
    done = attlas_command(*command, "--json", **ONE_THREAD)
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [
        f"Topology {n}/4" for n in range(1, 5)
    ]
    content = json.loads(done.stdout)
    assert set(content) >= SCORES | {
        "heads",
        "controls",
        "model",
        "texts",
        "maps",
        "report",
        "study",
        "classifier",
    }
    assert set(content["heads"]) == {"12", "3", "1"}
    assert set(content["controls"]) == {"random_model", "frozen_model", "length_only"}
    for part in (content["model"], *content["heads"].values(), *content["controls"].values()):
        assert set(part) >= SCORES
    assert content["texts"] == {"train": 40, "dev": 16, "test": 20}
    assert content["controls"]["length_only"]["mcc"] == 1.0  # lengths do not overlap
    assert "Topological classifier" in (tmp_path / content["report"]).read_text(encoding="utf-8")
    output = inside(*command)
    assert (output.code, output.error) == (0, "")
    assert "control: random weights" in output.out
    assert numbers.number(content["mcc"], 3) in output.out
    assert "Topological classifier (16 dev texts, 20 test texts)" in output.out
    assert "Note: The model itself: MCC " in output.out
    assert "nan" not in output.out
    refused = inside(*command, "--seed", "5")
    assert refused.code == 2
    assert "topology was made with another seed;" in refused.error
    fewer = inside(*command, "--no-controls", "--fresh", "--json")
    assert json.loads(fewer.out)["controls"] == {}


def test_finetune_the_head_alone(
    inside: Callable[..., CommandOutput], tmp_path: Path, small_folder: Path
) -> None:
    write_reviews(tmp_path / "train.csv", 40)
    done = inside(
        "finetune",
        "--data",
        "train.csv",
        *COLUMNS,
        "--model",
        small_folder,
        "--out",
        "tuned",
        "--head-only",
    )
    assert done.code == 0, done.error
    titles, *lines = done.out.splitlines()
    assert titles.split() == ["C", "MCC", "accuracy", "majority", "class"]
    assert [line.split()[0] for line in lines[:4]] == ["0.01", "0.1", "1", "10"]
    assert "Weak: The fine-tuned model predicts labels: accuracy on dev 1.00 [" in done.out
    assert "Warning: With fewer than 30 texts" in done.out
    assert attlas.Study.open("tuned").result["counts"]["fitted"] == 36


def write_data(root: Path) -> None:
    """CoLA, IMDB and SMS spam as small as can be; some files packed, some texts in more than one
    part.
    """

    def packed(path: Path, content: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content.encode()))

    def rows(texts: list[tuple[str, str]]) -> str:
        return "".join(
            f"gj04\t{int(label == 'good')}\t{'' if label == 'good' else '*'}\t{text}\n"
            for text, label in texts
        )

    dev = reviews(12, 1)
    packed(root / "cola/in_domain_train.tsv.gz", rows(reviews(50) + dev[:4]))
    packed(root / "cola/in_domain_dev.tsv.gz", rows(dev))
    packed(root / "cola/out_of_domain_dev.tsv.gz", rows(reviews(12, 2)))
    for name, texts in (
        ("train_le128", reviews(40, 3) + reviews(16, 4)[:2]),
        ("dev_le128", reviews(16, 4)),
    ):
        (root / "imdb").mkdir(exist_ok=True)
        lines = [
            {
                "id": f"{name}/{number}",
                "label": int(label == "good"),
                "rating": 9,
                "n_tokens": 9,
                "text": f"{text} <br /> !",
            }
            for number, (text, label) in enumerate(texts)
        ]
        (root / f"imdb/{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    messages = reviews(60, 5) + reviews(60, 5)[:10]  # some come twice
    packed(
        root / "sms_spam/train.tsv.gz",
        "".join(f'{"ham" if label == "good" else "spam"}\t"{text}\n' for text, label in messages),
    )


@pytest.mark.slow
def test_reproduce_betti(
    attlas_command: Run,
    inside: Callable[..., CommandOutput],
    tmp_path: Path,
    small_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_data(tmp_path / "data")
    command = [
        "reproduce",
        "betti",
        "--data-root",
        "data",
        "--model",
        small_folder,
        "--out",
        "betti",
    ]
    done = attlas_command(*command, **ONE_THREAD)
    assert done.returncode == 0, done.stderr
    titles = ("CoLA, public dev sentences", "SMS spam", "IMDB, at most 128 tokens")
    assert done.stderr.splitlines() == [
        f"{title}, {way}" for title in titles for way in ("published", "sound")
    ]
    out = tmp_path / "betti"
    table = (out / "betti.md").read_text()
    assert table.strip() in done.stdout
    assert [
        line.removeprefix("### ") for line in table.splitlines() if line.startswith("###")
    ] == list(titles)
    for published in (
        ".559 (82.0)",
        ".549 (81.1)",
        ".950 (98.9)",
        ".606 (92.3)",
        ".833 (91.7)",
        ".735 (86.9)",
    ):
        assert published in table
    assert "nan" not in table
    for row in [
        line
        for line in table.splitlines()
        if line.startswith(("| control", "| the model", "| topology"))
    ]:
        assert row.count("[") == (2 if row.startswith("| control") else 3), (
            row
        )  # each number with its interval
    pictures = sorted(path.name for path in out.glob("*.png"))
    assert pictures == sorted(
        f"figure1-{task}-{column}.png"
        for task in ("cola", "sms_spam", "imdb")
        for column in ("published", "sound", "seen")
    )
    for name in pictures:
        assert (out / name).read_bytes().startswith(b"\x89PNG")
        assert f"betti/{name}" in done.stdout

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("it was run again")

    monkeypatch.setattr("attlas.finetune.training.Trainer", refuse)
    monkeypatch.setattr("attlas.topology.classifier.TopologyClassifier.fit", refuse)
    monkeypatch.setattr("attlas.views.charts.export", drawn_before(out))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    began = time.process_time()
    again = inside(*command, "--json")
    assert again.code == 0
    assert time.process_time() - began < 20
    assert {
        path: path.read_bytes() for path in out.rglob("*") if path.is_file()
    }.keys() == before.keys()
    assert (out / "betti.md").read_text() == table
    content = json.loads(again.out)
    assert content == json.loads((out / "betti.json").read_text())
    text = json.dumps(content)
    assert all(
        name in text for name in ("cola", "sms_spam", "imdb", "published", "sound", "random_model")
    )
    tuned = json.loads((out / "parts/cola-model-sound/finetune.json").read_text())
    held = [
        json.loads(line)["text"]
        for line in (out / "parts/cola-model-sound/held_out.jsonl").read_text().splitlines()
    ]
    fitted = json.loads((out / "parts/cola-topology-sound/result.json").read_text())["texts"][
        "train"
    ]
    assert len(held) == tuned["counts"]["held_out"] == fitted == 9  # a fifth of 45
    assert tuned["counts"]["fitted"] == 36
    assert not (out / "parts/cola-model-published/held_out.jsonl").exists()
    ours = content["ours"]["cola"]
    assert {name: found["texts"]["train"] for name, found in ours.items()} == {
        "published": 45,
        "sound": 9,
        "seen": 9,
    }
    assert ours["seen"]["model"] == ours["sound"]["model"]


def test_no_text_of_a_task_is_on_two_sides(tmp_path: Path) -> None:
    from attlas.papers.betti import TASKS

    write_data(tmp_path)
    sizes = {}
    for name, task in TASKS.items():
        parts = task.parts(tmp_path)
        sizes[name] = [len(part) for part in (parts.train, parts.dev, parts.test)]
        train, dev, test = (
            {one.text for one in part} for part in (parts.train, parts.dev, parts.test)
        )
        assert not train & dev
        assert not train & test
        assert not dev & test
        for part in (parts.train, parts.dev, parts.test):
            assert len({one.label for one in part}) == 2
            assert len({one.id for one in part}) == len(part)
    assert sizes["cola"] == [45, 5, 24]
    assert sizes["imdb"] == [32, 8, 16]
    assert sum(sizes["sms_spam"]) == 70
    assert next(iter(TASKS["sms_spam"].parts(tmp_path).test)).text.startswith(
        '"'
    )  # no quoting in that file


def test_lengthen_finds_a_finished_model_and_refuses_another(
    inside: Callable[..., CommandOutput],
    tmp_path: Path,
    tiny_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = ["lengthen", "--model", tiny_folder, "--length", "600", "--out", "long", "--window"]
    made = inside(*command, "16", "--json")
    assert made.code == 0, made.error
    long = tmp_path / "long"
    manifest = json.loads((long / "manifest.json").read_text())
    assert (manifest["kind"], manifest["status"]) == ("lengthen", "complete")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(manifest["files"])
    assert {path.name for path in long.iterdir()} == {
        *manifest["files"],
        ".lock",
        "log.txt",
        "manifest.json",
    }
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in long.iterdir()}
    shutil.copytree(tiny_folder, tmp_path / "copy")
    for model in (tiny_folder, "copy"):  # the same model under another name
        again = inside("lengthen", "--model", model, *command[3:], "16", "--json")
        assert again.out == made.out
    for other, named in (("32", "window"), ("16", "value of skip")):
        refused = inside(*command, other, *(["--skip", "1"] if "skip" in named else []))
        assert refused.code == 2
        assert f"long was made with another {named}; pass fresh=True (--fresh)" in refused.error
    tokenizer = tmp_path / "copy/tokenizer_config.json"
    tokenizer.write_text(
        json.dumps({**json.loads(tokenizer.read_text()), "truncation_side": "left"})
    )
    refused = inside("lengthen", "--model", "copy", *command[3:], "16")
    assert "long was made with another model (tokenizer); " in refused.error
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in long.iterdir()} == before
    (long / "notes.txt").write_text("mine")
    fresh = inside(*command, "32", "--fresh")
    assert fresh.code == 0, fresh.error
    assert set(attlas.load(long).network.config.attention_window) == {32}
    assert (long / "notes.txt").read_text() == "mine"
    (long / "model.safetensors").write_bytes(b"damaged")
    damaged = inside(*command, "32")
    assert "model.safetensors has changed since it was written; " in damaged.error


def test_a_lengthened_model_is_loaded_and_has_no_report(
    inside: Callable[..., CommandOutput], tmp_path: Path, tiny_folder: Path
) -> None:
    made = inside(
        "lengthen", "--model", tiny_folder, "--length", "600", "--window", "16", "--out", "long"
    )
    assert made.code == 0, made.error
    last = "next      attlas look --file TEXT.txt --model long --html look.html"
    assert made.out.splitlines() == ["model     long", last]
    assert (
        transformers.AutoModel.from_pretrained(tmp_path / "long").config.attention_window
        == [16] * 3
    )
    assert not (tmp_path / "long/report.html").exists()
    opened = attlas.Study.open(tmp_path / "long")
    assert (opened.tables, opened.result["length"]) == ([], 600)
    assert "long" in opened._repr_html_()
    refused = inside("report", "long")
    assert (refused.code, refused.error) == (
        2,
        "attlas: long holds no tables: it is the result of lengthen\n",
    )


@pytest.mark.parametrize("number", [1, 2, 4, 6, 8])
def test_lengthen_can_be_run_again_after_a_full_disk(
    number: int,
    inside: Callable[..., CommandOutput],
    tmp_path: Path,
    tiny_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = [
        "lengthen",
        "--model",
        tiny_folder,
        "--length",
        "600",
        "--window",
        "16",
        "--out",
        "long",
    ]
    left, move = [number], files.move

    def full(source: Path, target: Path) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        move(source, target)

    with monkeypatch.context() as patch:
        for place in ("attlas.support.files", "attlas.studies.folder", "attlas.models.model"):
            patch.setattr(f"{place}.move", full)
        stopped = inside(*command)
    assert stopped.code == 2
    assert "no space is left to write" in stopped.error
    done = inside(*command)
    assert done.code == 0, done.error
    assert attlas.load(tmp_path / "long").max_length == 600
    assert not [path for path in (tmp_path / "long").rglob("*") if files.is_temporary(path)]


@pytest.mark.slow
def test_a_long_model_is_made_and_looks_at_a_long_text(
    inside: Callable[..., CommandOutput], tmp_path: Path, tiny_folder: Path
) -> None:
    made = inside(
        "lengthen",
        "--model",
        tiny_folder,
        "--length",
        "1500",
        "--window",
        "16",
        "--out",
        "long",
        "--json",
    )
    assert made.code == 0, made.error
    assert json.loads(made.out)["length"] == 1500
    (tmp_path / "paper.txt").write_text(
        "\n\n".join("the cat saw a very good film , it was not bad ." for _ in range(150))
    )
    look = [
        "look",
        "--file",
        "paper.txt",
        "--model",
        "long",
        "--html",
        "look.html",
        "--heads",
        "heads.svg",
    ]
    output = inside(*look)
    assert output.code == 0, output.error
    assert "more tokens; write the whole text with --html" in output.out
    assert "tokens beyond the model's maximum length were truncated" in output.out
    assert "<svg" in (tmp_path / "heads.svg").read_text()
    assert "saw" in (tmp_path / "look.html").read_text()
    assert "heads.svg already exists" in inside(*look, "--json").error
    content = json.loads(inside(*look, "--force", "--json").out)
    assert len(content["tokens"]) == 1500
    assert len(content["attends_to"]) == len(content["words"])
    data = [
        {"id": "one", "text": "it was good " * 300, "label": 1},
        {"id": "two", "text": "a cat", "label": 0},
    ]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
    command = [
        "study",
        "--data",
        "texts.jsonl",
        "--model",
        "long",
        "--measures",
        "totals,topk,heatmap,position_bias",
        "--global-tokens",
        "special",
        "--out",
        "runs/long",
    ]
    done = inside(*command)
    assert done.code == 0, done.error
    assert "Ordinary tokens at positions that are multiples of 520 receive" in done.out
    assert (tmp_path / "runs/long/report.html").is_file()


@pytest.mark.slow
def test_explain(
    inside: Callable[..., CommandOutput], tmp_path: Path, small_classifier: Path
) -> None:
    """From a file to the numbers that machines read: one text is empty, one has no keyword, one a
    rationale.
    """
    rows = [
        {"id": "one", "text": "a good film , it was good", "label": "1", "rationale": [[2, 11]]},
        {"id": "empty", "text": "  ", "label": "0"},
        {"id": "stops", "text": "it was the", "label": "0", "rationale": []},
        {"id": "bad", "text": "the dog saw a bad cat .", "label": "0", "rationale": [[14, 21]]},
        {"id": "short", "text": "good", "label": "1"},
    ]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [
        "explain",
        "--data",
        "texts.jsonl",
        "--label",
        "label",
        "--model",
        small_classifier,
        "--task",
        "classify",
        "--out",
        "runs/why",
    ]
    methods = "integrated_gradients,attention_all,attention_all_scaled,random"
    done = inside(*command, "--method", methods, "--faithfulness", "remove,mask", "--json")
    assert done.code == 0, done.error
    found = json.loads(done.out)
    assert found["texts"] == 4
    assert found["gap"]["median"] <= found["gap"]["max"] <= 0.01
    assert 9 <= found["evaluations"] <= 500
    counts = found["counts"]
    assert {
        name: counts[name]
        for name in (
            "read",
            "quarantined",
            "explained",
            "unexplained",
            "not_converged",
            "not_compared",
        )
    } == {
        "read": 5,
        "quarantined": 1,
        "explained": 4,
        "unexplained": 0,
        "not_converged": 0,
        "not_compared": 2,
    }
    assert list(found["agreement"]) == ["attention_all", "attention_all_scaled", "random"]
    one = found["agreement"]["attention_all"]["keywords"]["sound"]["tau"]
    assert set(one) == {"value", "chance", "low", "high", "texts"}
    assert one["texts"] == 2  # the others have fewer than two keywords
    assert set(found["faithfulness"]) == {"remove", "mask"}
    assert found["plausibility"]["attention_all"]["auprc"]["texts"] == 2
    assert not (tmp_path / "runs/why/parts").exists()
    again = inside(*command, "--method", methods, "--faithfulness", "remove,mask")
    assert again.code == 0, again.error
    for message in (
        "Integrated gradients needed",
        "Warning: Nothing beyond the control: Agreement with attention",
        "runs/why/report.html",
    ):
        assert message in again.out, message
    assert "1 rows were excluded" in again.error
    alone = inside(
        *command[:-1],
        "runs/one",
        "--method",
        "saliency",
        "--faithfulness",
        "none",
        "--json",
        "--no-report",
    )
    assert alone.code == 0, alone.error
    assert list(json.loads(alone.out)["agreement"]) == [
        "attention_last",
        "attention_all",
    ]  # one method is compared with attention
    (tmp_path / "plain.csv").write_text("text\na cat sat\n")
    nothing = inside(
        "explain",
        "--data",
        "plain.csv",
        "--model",
        small_classifier,
        "--task",
        "classify",
        "--target",
        "label",
        "--out",
        "runs/none",
    )
    assert (nothing.code, nothing.out) == (2, "")
    assert "the target is 'label', but no text has one" in nothing.error


@pytest.mark.slow
def test_reproduce_longformer(
    inside: Callable[..., CommandOutput],
    tmp_path: Path,
    small_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for folder, names in (("arxiv_long", {"train": 24, "dev": 6}), ("mock_notes", {"notes": 6})):
        (tmp_path / "data" / folder).mkdir(parents=True)
        for seed, (name, count) in enumerate(names.items()):
            rows = [
                {"id": f"{name}-{number}", "label": int(label == "good"), "text": text}
                for number, (text, label) in enumerate(reviews(count, seed))
            ]
            (tmp_path / "data" / folder / f"{name}.jsonl").write_text(
                "".join(json.dumps(row) + "\n" for row in rows)
            )
    (tmp_path / "data" / "sst").mkdir()
    for seed, (name, count) in enumerate({"train": 40, "dev": 6}.items()):
        lines = [f"{int(label == 'good')}\t{text}" for text, label in reviews(count, seed)]
        (tmp_path / "data" / "sst" / f"{name}_binary.tsv").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(
        "attlas.papers.longformer_tables.EXPLAINED", {"arxiv_long": 2, "mock_notes": 2, "sst": 2}
    )
    monkeypatch.setattr("attlas.papers.longformer_tables.OTHERS", ("gradient_rollout", "occlusion"))
    command = [
        "reproduce",
        "longformer",
        "--data-root",
        "data",
        "--model",
        small_folder,
        "--out",
        "out",
        "--workers",
        "1",
    ]
    done = inside(*command)
    assert done.code == 0, done.error
    assert [line.partition(":")[0] for line in done.error.splitlines()] == [
        "arXiv papers, cs.AI (0) against cs.CL (1)",
        "Mock clinical notes",
        "Short texts",
    ]
    for message in (
        "published 0.980",
        "a bag of words",
        "majority class 0.500",
        "majority class 3 of 6",
        "most important heads: L0.H",
        "| last layer, scaled | masked | tau | .742 |",
        "| all layers, unscaled | unmasked | cosine | .170 |",
        "| all layers, scaled | masked | tau | .795-.800 |",
        "| last layer, unscaled | masked | jaccard | - |",  # SST is not in the paper
        "| removed | occlusion |",
        "| masked | gradient rollout |",
    ):
        assert message in done.out, message
    assert (tmp_path / "out/longformer.md").read_text().strip() in done.out
    for name in (
        "figure4a-heads-example",
        "figure4b-heads-corpus",
        "figure5ac-lists-by-type",
        "figure5bd-lists-by-position",
        "figure6-instances",
        "figure8a-last-layer",
        "figure8c-all-layers-scaled",
    ):
        for task in ("arxiv_long", "mock_notes"):
            assert (tmp_path / f"out/{task}/{name}.png").read_bytes().startswith(b"\x89PNG")
    for name in (
        "tables-agreement",
        "figure9-attribution",
        "figure10-11-one-text",
        "figure16-17-corpus",
    ):
        for task in ("arxiv_long", "mock_notes", "sst"):
            assert (tmp_path / f"out/{task}/{name}.png").read_bytes().startswith(b"\x89PNG")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("it was run again")

    monkeypatch.setattr("attlas.finetune.training.Trainer", refuse)
    monkeypatch.setattr("attlas.studies.shard_job.differentiate", refuse)
    monkeypatch.setattr("attlas.views.charts.export", drawn_before(tmp_path / "out"))
    again = inside(*command, "--json")
    assert again.code == 0, again.error
    assert json.loads(again.out) == to_json(
        json.loads((tmp_path / "out/longformer.json").read_text())
    )


WRONG_CALLS: dict[str, tuple[list[str], str]] = {
    "finetune: no data": (["finetune"], "Missing option '--data'"),
    "finetune: no such file": (
        ["finetune", "--data", "nowhere.csv"],
        "there is no file 'nowhere.csv'",
    ),
    "finetune: no label column": (
        ["finetune", "--data", "good.csv", "--label", "stars"],
        "no column 'stars'; its columns are text, label",
    ),
    "finetune: one label": (
        ["finetune", "--data", "good.csv"],
        "all texts have the label 1; a classifier needs at least two",
    ),
    "finetune: a label is missing": (
        ["finetune", "--data", "nolabel.csv"],
        "row 1 (line 2): it has no label in 'label'",
    ),
    "finetune: an unknown label in dev": (
        ["finetune", "--data", "two.csv", "--dev", "three.csv"],
        "labels that no training text has: c",
    ),
    "finetune: no epochs": (
        ["finetune", "--data", "two.csv", "--epochs", "0"],
        "epochs is 0; it must be a whole number at least 1",
    ),
    "finetune: epochs that are no number": (
        ["finetune", "--data", "two.csv", "--epochs", "x"],
        "Invalid value for '--epochs'",
    ),
    "finetune: a learning rate of 0": (
        ["finetune", "--data", "two.csv", "--learning-rate", "0"],
        "learning_rate is 0.0",
    ),
    "finetune: all held out": (
        ["finetune", "--data", "two.csv", "--hold-out", "1"],
        "hold_out is 1.0; it must be a number at least 0 and below 1",
    ),
    "finetune: no such model": (
        ["finetune", "--data", "two.csv", "--model", "./nowhere"],
        "there is no folder nowhere",
    ),
    "finetune: not a model": (
        ["finetune", "--data", "two.csv", "--model", "taken"],
        "has no config.json",
    ),
    "finetune: a folder of someone else": (
        ["finetune", "--data", "two.csv", "--out", "taken"],
        "taken is not empty (it has notes.txt) and holds no results of Attlas",
    ),
    "topology: no test": (["topology", "--train", "two.csv"], "Missing option '--test'"),
    "topology: no such file": (
        ["topology", "--train", "two.csv", "--test", "nowhere.csv"],
        "there is no file 'nowhere.csv'",
    ),
    "topology: one label": (
        ["topology", "--train", "good.csv", "--test", "two.csv", "--dev", "good.csv"],
        "label",
    ),
    "topology: an unknown label in dev": (
        ["topology", "--train", "two.csv", "--test", "two.csv", "--dev", "three.csv"],
        "no training text has: c",
    ),
    "topology: an unknown label in test": (
        ["topology", "--train", "two.csv", "--dev", "two.csv", "--test", "three.csv"],
        "no training text has: c",
    ),
    "topology: thresholds that are no numbers": (
        ["topology", "--train", "two.csv", "--test", "two.csv", "--thresholds", "a,b"],
        "thresholds is 'a,b'; it must be a list, each a number above 0",
    ),
    "topology: a threshold of 0": (
        ["topology", "--train", "two.csv", "--test", "two.csv", "--thresholds", "0"],
        "thresholds is '0'; it must be a list, each a number above 0",
    ),
    "topology: no thresholds": (
        ["topology", "--train", "two.csv", "--test", "two.csv", "--thresholds", ","],
        "thresholds is ','; it must be a list",
    ),
    "topology: an unknown kind": (
        ["topology", "--train", "two.csv", "--test", "two.csv", "--features", "betti,betty"],
        "features are some of betti, digraph, barcode, templates, not betty",
    ),
    "topology: a folder of someone else": (
        ["topology", "--train", "two.csv", "--test", "two.csv", "--out", "taken"],
        "taken is not empty (it has",
    ),
    "topology: no such frozen model": (
        ["topology", "--train", "two.csv", "--test", "two.csv", "--frozen", "./nowhere"],
        "there is no folder nowhere",
    ),
    "explain: no data": (["explain"], "Missing option '--data'"),
    "explain: no such file": (
        ["explain", "--data", "nowhere.csv"],
        "there is no file 'nowhere.csv'",
    ),
    "explain: a model without a head": (
        ["explain", "--data", "two.csv"],
        "gives no answer to explain; fit a classification head with: attlas finetune",
    ),
    "explain: no such method": (
        ["explain", "--data", "two.csv", "--task", "classify", "--method", "magic"],
        "methods is 'magic'; it must be a list, each all or integrated_gradients",
    ),
    "explain: a method twice": (
        ["explain", "--data", "two.csv", "--task", "classify", "--method", "rollout,rollout"],
        "methods is 'rollout,rollout'; name each once",
    ),
    "explain: no such class": (
        ["explain", "--data", "two.csv", "--task", "classify", "--target", "sad"],
        "there is no class 'sad', but the model knows LABEL_0, LABEL_1",
    ),
    "explain: no such baseline": (
        ["explain", "--data", "two.csv", "--task", "classify", "--baseline", "noise"],
        "baseline is 'noise'; it must be padding or mask or zero or mean",
    ),
    "explain: no such kind of tokens": (
        ["explain", "--data", "two.csv", "--task", "classify", "--keep", "nouns"],
        "keep is 'nouns'; each must be all or ordinary or words or keywords",
    ),
    "explain: stop words of no known language": (
        ["explain", "--data", "two.csv", "--task", "classify", "--keep", "keywords:xx"],
        "xx",
    ),
    "explain: a tolerance of 0": (
        ["explain", "--data", "two.csv", "--task", "classify", "--tolerance", "0"],
        "tolerance is 0.0; it must be a number above 0",
    ),
    "explain: a p of 1": (
        ["explain", "--data", "two.csv", "--task", "classify", "--p", "1"],
        "p is 1.0; it must be a number above 0 and below 1",
    ),
    "explain: tokens taken away by no known way": (
        ["explain", "--data", "two.csv", "--task", "classify", "--faithfulness", "burn"],
        "faithfulness is 'burn'; it must be a list, each remove or mask or none",
    ),
    "explain: labels that are not there": (
        ["explain", "--data", "two.csv", "--label", "stars", "--task", "classify"],
        "no column 'stars'",
    ),
    "explain: a folder of someone else": (
        ["explain", "--data", "two.csv", "--task", "classify", "--out", "taken"],
        "taken is not empty (it has",
    ),
    "longformer: no such file": (
        ["reproduce", "longformer", "--data-root", "taken"],
        "there is no taken/arxiv_long/train.jsonl (or .gz)",
    ),
    "longformer: an unknown task": (
        ["reproduce", "longformer", "--data-root", "taken", "--tasks", "cola"],
        "there is no task 'cola'; they are arxiv_long, mock_notes, sst",
    ),
    "lengthen: no folder": (["lengthen"], "Missing option '--out'"),
    "lengthen: a folder of someone else": (
        ["lengthen", "--out", "taken"],
        "taken is not empty (it has notes.txt) and holds no results of Attlas",
    ),
    "lengthen: too short": (
        ["lengthen", "--out", "long", "--length", "100"],
        "length is 100, but the model takes 520 tokens already",
    ),
    "lengthen: an odd window": (
        ["lengthen", "--out", "long", "--window", "7"],
        "window is 7; it must be a whole number at least 4 and at most 65536 and a multiple of 2",
    ),
    "look: no such file": (
        ["look", "--file", "nowhere.txt"],
        "nowhere.txt cannot be read as a text",
    ),
    "look: nothing": (["look"], "no text was given; give a text"),
    "look: no study of importance": (
        ["look", "a cat", "--importance", "nowhere"],
        "there is no study folder nowhere",
    ),
    "look: global tokens": (
        ["look", "a cat", "--global-tokens", "some"],
        "global_tokens is 'some'; it must be first, special, none",
    ),
    "study: importance without a head": (
        ["study", "--data", "good.csv", "--measures", "importance"],
        "is loaded without a head",
    ),
    "study: an unknown task": (
        ["study", "--data", "good.csv", "--task", "sing"],
        "task is 'sing'; it must be auto or base",
    ),
    "reproduce: no paper": (["reproduce", "nothing"], "No such command 'nothing'"),
    "reproduce: no data": (["reproduce", "betti"], "Missing option '--data-root'"),
    "reproduce: no such folder": (
        ["reproduce", "betti", "--data-root", "nowhere"],
        "there is no folder nowhere; give the folder of the data sets with --data-root",
    ),
    "reproduce: a file for a folder": (
        ["reproduce", "betti", "--data-root", "good.csv"],
        "there is no folder good.csv",
    ),
    "reproduce: no such file": (
        ["reproduce", "betti", "--data-root", "taken"],
        "there is no taken/cola/",
    ),
    "reproduce: one file is missing": (
        ["reproduce", "betti", "--data-root", "holes"],
        "there is no holes/imdb/dev_le128.jsonl (or .gz)",
    ),
    "reproduce: an unknown task": (
        ["reproduce", "betti", "--data-root", "taken", "--tasks", "cola,mnli"],
        "there is no task 'mnli'; they are cola, sms_spam, imdb",
    ),
    "reproduce: no task": (
        ["reproduce", "betti", "--data-root", "taken", "--tasks", ""],
        "there is no task",
    ),
    "reproduce: an unknown convention": (
        ["reproduce", "betti", "--data-root", "taken", "--convention", "mine"],
        "there is no convention 'mine'; they are published, sound",
    ),
    "reproduce: an empty file": (
        ["reproduce", "betti", "--data-root", "bare", "--tasks", "cola"],
        "bare/cola/",
    ),
    "reproduce: too few columns": (
        ["reproduce", "betti", "--data-root", "narrow", "--tasks", "cola"],
        "narrow/cola/",
    ),
    "reproduce: no text in a line": (
        ["reproduce", "betti", "--data-root", "narrow", "--tasks", "imdb"],
        "narrow/imdb/",
    ),
    "reproduce: not JSON": (
        ["reproduce", "betti", "--data-root", "bare", "--tasks", "imdb"],
        "line 1: it is not JSON",
    ),
    "reproduce: no such model": (
        ["reproduce", "betti", "--data-root", "whole", "--tasks", "cola", "--model", "./nowhere"],
        "there is no folder nowhere",
    ),
}


def write_wrong_data(folder: Path) -> None:
    write_bad_inputs(folder)
    for name, labels in (("two", "ab"), ("three", "abc")):
        rows = [
            f"the {'cat' if number % 2 else 'dog'} {number},{labels[number % len(labels)]}"
            for number in range(24)
        ]
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    for name in ("whole", "holes"):
        write_data(folder / name)
    (folder / "holes/imdb/dev_le128.jsonl").unlink()
    for name, tsv, line in (
        ("bare", "", "{oops\n"),
        ("narrow", "gj04\t1\n", '{"id": 1, "label": 1}\n'),
    ):
        for place in ("cola", "imdb"):
            (folder / name / place).mkdir(parents=True)
        for file in ("in_domain_train", "in_domain_dev", "out_of_domain_dev"):
            (folder / name / "cola" / f"{file}.tsv").write_text(tsv)
        for file in ("train_le128", "dev_le128"):
            (folder / name / "imdb" / f"{file}.jsonl").write_text(line)


@pytest.mark.parametrize("case", WRONG_CALLS)
def test_wrong_calls_are_one_clear_line_and_nothing_is_written(
    case: str,
    inside: Callable[..., CommandOutput],
    tmp_path: Path,
    small_folder: Path,
    small_classifier: Path,
) -> None:
    write_wrong_data(tmp_path)
    arguments, message = WRONG_CALLS[case]
    folder = small_classifier if "classify" in arguments else small_folder
    before = sorted(path for path in tmp_path.rglob("*"))
    if len(arguments) > 2 and arguments[0] != "look":
        arguments = arguments + ([] if "--model" in arguments else ["--model", str(folder)])
        arguments = arguments + ([] if "--out" in arguments else ["--out", "out"])
    done = inside(*arguments)
    assert done.code == 2, done.error
    assert message in done.error
    assert done.error.count("\n") == 1, done.error
    assert done.out == ""
    assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("no.csv", "attlas: there is no file 'no.csv'"),
        pytest.param(
            "nolabel.csv",
            "attlas: no row can be used: nolabel.csv, row 1 (line 2): it has no label in 'label'; "
            "name another column with label=... (--label), or remove the row\n",
            marks=pytest.mark.slow,  # imports everything
        ),
    ],
)
def test_a_wrong_call_in_a_process_of_its_own(
    attlas_anew: Run, tmp_path: Path, test: str, message: str
) -> None:
    write_wrong_data(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*"))
    done = attlas_anew("topology", "--train", "two.csv", "--test", test)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
    assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("option", ["--tables", "--charts"])
def test_nothing_is_exported_to_where_a_result_has_its_own_files(
    option: str, tmp_path: Path
) -> None:
    """`--fresh` clears what is listed, so that exported tables would outlive their result."""
    attlas.study(tiny("bert"), ["a cat sat", "a dog"], "surface", tmp_path / "one", progress=False)
    before = sorted((tmp_path / "one").rglob("*"))
    for place in ("one/tables", "one/tables/more", "one/../one/parts"):
        (done,) = commands(tmp_path, ["report", "one", option, place])
        assert (done.code, done.out) == (2, "")
        assert "is where one has its own files; choose another folder" in done.error
        assert done.error.count("\n") == 1
    assert sorted((tmp_path / "one").rglob("*")) == before


def test_a_finished_study_is_opened_by_its_command_without_torch(
    inside: Callable[..., CommandOutput], tmp_path: Path, tiny_folder: Path
) -> None:
    """Law 6 for studies: the same files and options; whatever else changes is refused or made."""
    data, model = tmp_path / "a.csv", tmp_path / "model"
    data.write_text("text,label\na good film,1\na bad film,0\n")
    shutil.copytree(tiny_folder, model)
    words = ["study", "--data", "a.csv", "--model", "model", "--measures", "surface"]
    made = inside(*words, "--out", "out", "--json", "--no-report")
    manifest = (tmp_path / "out/manifest.json").read_bytes()
    again = [*words, "--out", "out", "--json", "--no-report"]
    (opened,) = commands(tmp_path, again)
    assert json.loads(opened.out) == json.loads(made.out)
    assert not {*opened.heavy} & {"torch", "transformers", "altair"}, opened.heavy
    assert opened.seconds < 1
    os.utime(data)
    moved = shutil.copytree(model, tmp_path / "other")
    (opened,) = commands(tmp_path, [moved.name if one == "model" else one for one in again])
    assert json.loads(opened.out) == json.loads(made.out)
    assert "torch" not in opened.heavy
    for change in (["--label", "label"], ["--measures", "surface,entropy"], ["--max-length", "4"]):
        result = inside(*again, *change)
        assert (result.code, result.out) == (2, ""), change
        assert "was made with another" in result.error
    (model / "config.json").write_text((model / "config.json").read_text() + "\n")
    assert inside(*again).code == 0  # the same model in other bytes: found by what it is
    data.write_text("text,label\na good film,1\na sad film,0\n")
    result = inside(*again)
    assert result.code == 2
    assert "was made with another corpus" in result.error
    assert (tmp_path / "out/manifest.json").read_bytes() == manifest
    table = tmp_path / "out/tables/surface.parquet"
    data.write_text("text,label\na good film,1\na bad film,0\n")
    table.write_bytes(table.read_bytes()[:-1])
    assert inside(*again).code == 2  # damage is noticed
