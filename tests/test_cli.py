"""The command line as a user meets it: real processes, honest exit codes, one clear line for a mistake."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch

from tests.conftest import Run


def test_help_and_measures_do_not_import_torch() -> None:
    code = "import sys; sys.argv = ['attlas', {!r}]\ntry:\n    from attlas.cli import main; main()\nexcept SystemExit as end:\n    assert not end.code\nheavy = {{'torch', 'transformers', 'pandas', 'numba', 'altair'}} & set(sys.modules)\nassert not heavy, heavy"
    for argument in ("--help", "measures"):
        done = subprocess.run([sys.executable, "-c", code.format(argument)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "surface" in done.stdout or "study" in done.stdout


def test_a_study_of_ones_own_things(attlas_command: Run, tmp_path: Path, tiny_folder: Path) -> None:
    pd.DataFrame({"review": ["a good film .", "not very good", "it was bad , very bad"], "stars": [5, 2, 1]}).to_csv(
        tmp_path / "reviews.csv", index=False
    )
    command = ["study", "--data", "reviews.csv", "--text", "review", "--model", tiny_folder, "--out", "runs/reviews"]
    done = attlas_command(*command)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "3 of 3 read" in done.stdout
    assert "runs/reviews/report.html" in done.stdout
    assert (tmp_path / "runs/reviews/report.html").stat().st_size > 500_000
    again = attlas_command(*command, "--json")
    content = json.loads(again.stdout)
    assert content["counts"]["analysed"] == 3
    assert set(content["tables"]) >= {"surface", "entropy", "positions", "totals", "texts"}
    page = attlas_command(
        "report", "runs/reviews", "--out", "page.html", "--charts", "pictures", "--format", "svg", "--json"
    )
    content = json.loads(page.stdout)
    assert (tmp_path / content["report"]).is_file()
    assert len(content["charts"]) == 4
    assert all((tmp_path / path).read_text().startswith("<svg") for path in content["charts"])


BAD_INPUTS = {
    "no such file": (["--data", "nowhere.csv"], "there is no file nowhere.csv"),
    "no such column": (["--data", "good.csv", "--text", "body"], "no column 'body'; its columns are text, label"),
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
    "an unknown engine": (["--data", "good.csv", "--engine", "warp"], "no engine 'warp'"),
    "pickled weights": (["--data", "good.csv", "--model", "pickled"], "only pickled weights (pytorch_model.bin)"),
    "a hub id without a network": (
        ["--data", "good.csv", "--model", "bert-base-uncased"],
        "neither a folder here nor a model that could be fetched",
    ),
    "not a model": (["--data", "good.csv", "--model", "taken"], "has no config.json"),
    "a folder of someone else": (["--data", "good.csv", "--out", "taken"], "taken is not empty and holds no study"),
    "a hub data set without a network": (["--data", "hub:nobody/nothing"], "hub:nobody/nothing cannot be fetched"),
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
    (folder / "bytes.txt").write_bytes(b"\xff\xfe\xfa\n")
    for name in ("pickled", "taken"):
        (folder / name).mkdir()
    (folder / "pickled" / "config.json").write_text('{"model_type": "bert"}')
    torch.save({}, folder / "pickled" / "pytorch_model.bin")
    (folder / "taken" / "notes.txt").write_text("mine")


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_input_is_one_clear_line_and_nothing_is_written(case: str, attlas_command: Run, tmp_path: Path) -> None:
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
    done = attlas_command("study", "--data", "mixed.txt", "--model", tiny_folder, "--out", "out", "--no-report")
    assert done.returncode == 0
    assert "2 rows were left out; see out/quarantine.jsonl" in done.stderr
    assert [json.loads(line)["where"] for line in (tmp_path / "out/quarantine.jsonl").read_text().splitlines()] == [
        "mixed.txt, line 2",
        "mixed.txt, line 3",
    ]


def test_look(attlas_command: Run, tmp_path: Path, tiny_folder: Path) -> None:
    done = attlas_command("look", "the cat sat on it", "--model", tiny_folder, "--html", "look.html", "--layer", "1")
    assert done.returncode == 0, done.stderr
    assert "[CLS] the cat sat on it [SEP]" in done.stdout
    assert "layer 1" in done.stdout
    assert "<script>" in (tmp_path / "look.html").read_text()
    content = json.loads(attlas_command("look", "the cat sat", "--model", tiny_folder, "--json").stdout)
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
    for folder, message in (("nowhere", "there is no study folder nowhere"), (".", "holds no study")):
        done = attlas_command("report", folder)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert message in done.stderr


def test_interrupting_says_how_to_go_on(tmp_path: Path, tiny_folder: Path) -> None:
    (tmp_path / "many.txt").write_text("\n".join(f"a cat sat on the mat number {number}" for number in range(60_000)))
    process = subprocess.Popen(
        [sys.executable, "-m", "attlas", "study", "--data", "many.txt", "--model", str(tiny_folder), "--out", "out"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "out/states/000000").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.strip().splitlines()[-1] == "attlas: stopped; run the same command again to go on"
    assert "Traceback" not in said


def test_tour_does_everything_on_what_is_embedded(attlas_command: Run, tmp_path: Path, tiny_folder: Path) -> None:
    done = attlas_command("tour", "--model", tiny_folder, "--out", "tour")
    assert done.returncode == 0, done.stderr
    assert "460 of 460 read" in done.stdout
    assert (tmp_path / "tour/report.html").is_file()
