"""Attacks: damage, interruptions, links, races, hostile models and degenerate texts.

Whatever happens to a folder, the same command makes the result of an undisturbed run or refuses in
one line (an AttlasError); it never uses what is damaged or belongs to other inputs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import transformers

import attlas
from attlas.core.text import Text
from attlas.support.errors import AttlasError
from attlas.testing import tiny
from tests.builders.damage import DAMAGE
from tests.builders.folders import Stopped, dying
from tests.builders.processes import Start
from tests.builders.runs import (
    QUIET,
    TEXTS,
    Interrupted,
    command_line,
    files_in,
    model,
    new_study,
    outcome,
    reviews,
    rows,
    run_grid,
    tuned,
    write_files,
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier's folder, as a user's own model would be."""
    folder = tmp_path_factory.mktemp("models") / "base"
    model("classify").save(folder)
    return folder


def ids(study: attlas.Study) -> list[str]:
    return list(study.table("texts")["text"])


# a corpus that changes while it is read


class Fickle:
    """Texts that are others every second time they are read."""

    def __init__(self) -> None:
        self.readings = 0

    def __iter__(self) -> Iterator[Text]:
        self.readings += 1
        return iter(rows("old" if self.readings % 2 else "new"))


def assert_one_corpus(folder: Path) -> None:
    """Whichever corpus a finished folder is accepted for, its rows are of that corpus."""
    accepted = 0
    for prefix in ("old", "new"):
        with suppress(AttlasError):
            done = attlas.study(model(), rows(prefix), "entropy", folder, **QUIET)
            accepted += 1
            assert ids(done) == [text.id for text in rows(prefix)]
    assert accepted == 1


def test_texts_that_change_between_two_readings_are_noticed(tmp_path: Path) -> None:
    with suppress(AttlasError):
        attlas.study(model(), Fickle(), "entropy", tmp_path / "out", **QUIET)
        assert_one_corpus(tmp_path / "out")


def test_a_file_that_is_replaced_during_a_study_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file changes while the model is loaded, which is between the two readings."""
    path, loading = tmp_path / "texts.jsonl", transformers.AutoTokenizer.from_pretrained
    model().save(tmp_path / "model")

    def write(prefix: str) -> None:
        lines = [json.dumps({"id": text.id, "text": text.text}) for text in rows(prefix)]
        (tmp_path / "new.jsonl").write_text("\n".join(lines))
        (tmp_path / "new.jsonl").replace(path)

    def replacing(*arguments: Any, **options: Any) -> Any:
        write("new")
        return loading(*arguments, **options)

    write("old")
    with suppress(AttlasError):
        with monkeypatch.context() as patch:
            patch.setattr(transformers.AutoTokenizer, "from_pretrained", replacing)
            attlas.study(tmp_path / "model", path, "entropy", tmp_path / "out", **QUIET)
        accepted = {}
        for prefix in ("old", "new"):
            write(prefix)
            with suppress(AttlasError):
                accepted[prefix] = ids(
                    attlas.study(tmp_path / "model", path, "entropy", tmp_path / "out", **QUIET)
                )
        assert accepted in ({"old": ["old0", "old1"]}, {"new": ["new0", "new1"]})


# damaged results and states


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "study"
    attlas.study(model(), TEXTS, ["entropy", "topk"], folder, **QUIET)
    return folder


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


@pytest.mark.parametrize("table", ["entropy", "topk"])
@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_table_is_never_handed_back(
    finished: Path, how: str, table: str, tmp_path: Path
) -> None:
    folder, truth = copied(finished, tmp_path / "study"), attlas.Study.open(finished).table(table)
    DAMAGE[how](folder / "tables" / f"{table}.parquet")

    def again() -> pd.DataFrame:
        return attlas.study(model(), TEXTS, ["entropy", "topk"], folder, **QUIET).table(table)

    found = outcome(again)
    if found is not None:
        pd.testing.assert_frame_equal(found, truth)


@pytest.mark.parametrize("how", DAMAGE)
def test_no_report_is_made_of_a_damaged_table(finished: Path, how: str, tmp_path: Path) -> None:
    folder = copied(finished, tmp_path / "study")
    DAMAGE[how](folder / "tables" / "entropy.parquet")
    with pytest.raises(AttlasError) as refusal:
        command_line("report", folder)
    assert "\n" not in str(refusal.value)
    assert not (folder / "report.html").exists()


def interrupted_study(folder: Path) -> Callable[[], attlas.Study]:
    """A study that was interrupted when all its texts were read; what resumes it."""

    def run() -> attlas.Study:
        return attlas.study(model(), TEXTS, [Interrupted()], folder, **QUIET)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Interrupted, "now", True)
        with pytest.raises(KeyboardInterrupt):
            run()
    return run


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("suffix", [".json", ".safetensors", ".parquet"])
def test_damaged_states_are_never_used(
    suffix: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = interrupted_study(tmp_path / "out")
    states = [*(tmp_path / "out" / "states").rglob(f"*{suffix}")]
    assert states
    for path in states:
        DAMAGE[how](path)
    monkeypatch.setattr(Interrupted, "now", False)
    found = outcome(run)
    if found is not None:
        truth = attlas.study(model(), TEXTS, [Interrupted()], **QUIET)
        assert found.manifest["counts"] == truth.manifest["counts"]
        assert found.tables == truth.tables
        for name in truth.tables:
            pd.testing.assert_frame_equal(found.table(name), truth.table(name))


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_result_is_never_handed_back(how: str, tmp_path: Path) -> None:
    truth = run_grid(tmp_path / "out")
    DAMAGE[how](tmp_path / "out" / "result.json")
    found = outcome(lambda: run_grid(tmp_path / "out"))
    if found is not None:
        assert found.result["cells"] == truth.result["cells"]


# stopped as a kill would


ROOT = str(Path(__file__).parents[2])


def test_stopped_while_clearing_no_row_of_the_earlier_corpus_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "study"
    attlas.study(model(), rows("old", 3), "entropy", folder, keep_states=True, **QUIET)
    with dying(monkeypatch, 3, "unlink", "remove", "rmdir"), pytest.raises(Stopped):
        new_study(folder, True)
    done = outcome(lambda: new_study(folder, False))
    assert done is None or ids(done) == ["new0", "new1", "new2"]


# links


@pytest.mark.parametrize("name", ["study", "dynamics", "finetune"])
def test_what_a_lock_links_to_is_not_touched(base: Path, name: str, tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim.txt", tmp_path / "out"
    victim.write_text("years of work")
    folder.mkdir()
    (folder / ".lock").symlink_to(victim)
    run = {
        "study": lambda: attlas.study(model(), TEXTS, "entropy", folder, **QUIET),
        "dynamics": lambda: run_grid(folder),
        "finetune": lambda: tuned(base, folder),
    }
    outcome(run[name])
    assert victim.read_text() == "years of work"


@pytest.mark.parametrize("fresh", [False, True], ids=["resume", "fresh"])
@pytest.mark.parametrize(
    "name",
    [
        "manifest.json.tmp",
        "quarantine.jsonl.tmp",
        "report.html.tmp",
        "tables.tmp",
        "tables",
        "states",
    ],
)
def test_planted_links_are_not_followed(
    name: str, fresh: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, victim = tmp_path / "study", tmp_path / "victim"
    interrupted_study(folder)
    if name in ("tables", "states", "tables.tmp"):
        write_files(victim, {"mine.csv": b"years of work", "more/mine.csv": b"more"})
    else:
        victim.write_bytes(b"years of work")
    before = files_in(tmp_path / "victim") or victim.read_bytes()
    if (folder / name).exists():
        shutil.move(folder / name, tmp_path / "away")
    (folder / name).symlink_to(victim)
    monkeypatch.setattr(Interrupted, "now", False)
    with suppress(AttlasError, OSError):  # whether it is refused clearly is another question
        done = attlas.study(model(), TEXTS, [Interrupted()], folder, fresh=fresh, **QUIET)
        done.report(folder / "report.html")
    assert (files_in(victim) or victim.read_bytes()) == before


MOVED = """
import json, sys
from pathlib import Path
sys.path.insert(0, {root!r})
import attlas
from tests.builders.runs import QUIET, TEXTS, model, run_grid, tuned
names, root = set(), None
def heard(event, arguments):
    if root is not None and event == "os.rename":
        names.add(str(arguments[0]).removeprefix(root))
sys.addaudithook(heard)
runs = []
for number in (1, 2):
    names, root = set(), str(Path(f"run{{number}}").absolute())
    study = attlas.study(model(), TEXTS, "entropy", root + "/study", **QUIET)
    study.report(root + "/study/report.html")
    run_grid(Path(root) / "grid")
    tuned({base!r}, Path(root) / "tuned")
    runs.append(names)
print(json.dumps(sorted(runs[0] & runs[1])))
"""


@pytest.mark.slow  # two studies, grids and fine-tunings in a process of their own
def test_temporary_names_cannot_be_predicted(base: Path, attlas_start: Start) -> None:
    """Files are written under another name and moved; each run uses other names."""
    process = attlas_start(code=MOVED.format(root=ROOT, base=str(base)))
    out, error = process.communicate(timeout=240)
    assert process.returncode == 0, error
    assert json.loads(out.splitlines()[-1]) == []


# fine-tuning and lengthening


def weights(done: attlas.Study) -> str:
    return attlas.load(done.folder, task="classify").weights_sha256()


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_model_is_never_handed_back(base: Path, how: str, tmp_path: Path) -> None:
    weights = tuned(base, tmp_path / "out").folder / "model.safetensors"
    truth = weights.read_bytes()
    DAMAGE[how](weights)
    done = outcome(lambda: tuned(base, tmp_path / "out"))
    assert done is None or (weights.is_file() and weights.read_bytes() == truth)


@pytest.mark.parametrize("fresh", [False, True], ids=["resume", "fresh"])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_stopped_at_a_move_finetune_resumes(
    base: Path, number: int, fresh: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dying(monkeypatch, number, "replace", "rename"), pytest.raises(Stopped):
        tuned(base, tmp_path / "out")
    done = tuned(base, tmp_path / "out", fresh=fresh)
    assert weights(done) == weights(tuned(base, tmp_path / "truth"))
    left = {path.name for path in (tmp_path / "out").iterdir()} - {
        path.name for path in (tmp_path / "truth").iterdir()
    }
    assert left == set()


FULL_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
import attlas.cli
attlas.cli.main()
"""


@pytest.mark.parametrize("verb", ["lengthen", "finetune"])
def test_after_a_full_disk_the_same_command_succeeds(
    base: Path, verb: str, attlas_start: Start, tmp_path: Path
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(map(json.dumps, reviews(40))))
    arguments: dict[str, list[object]] = {
        "lengthen": [
            "lengthen",
            "--model",
            base,
            "--length",
            "1024",
            "--window",
            "8",
            "--out",
            "out",
        ],
        "finetune": ["finetune", "--data", data, "--model", base, "--head-only", "--out", "out"],
    }
    full = attlas_start(*arguments[verb], code=FULL_DISK)
    _, error = full.communicate(timeout=120)
    assert full.returncode == 2, error
    assert "Traceback" not in error
    assert error.strip().splitlines()[-1].startswith("attlas: ")
    command_line(*arguments[verb])
    assert attlas.load(tmp_path / "out").n_layers == 1


def test_two_fine_tunings_at_once_do_not_overwrite_each_other(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins and ends while the first loads its model."""
    loading, folder = transformers.AutoTokenizer.from_pretrained, tmp_path / "out"
    second: list[attlas.Study | None] = []
    left: dict[str, bytes] = {}

    def interleaved(*arguments: Any, **options: Any) -> Any:
        if not second:
            second.append(None)  # before it loads its own model
            second[0] = outcome(lambda: tuned(base, folder, seed=1))
            left.update(files_in(folder))
        return loading(*arguments, **options)

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", interleaved)
    first = outcome(lambda: tuned(base, folder, seed=0))
    assert second
    assert (first is None) != (second[0] is None), "both say that the folder holds their model"
    if first is None:
        assert files_in(folder) == left


# hostile models


def test_an_index_to_pickled_weights_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    model().save(folder)
    weights = model().network.state_dict()
    torch.save(weights, folder / "weights.bin")
    index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(weights, "weights.bin")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").rename(folder / "decoy.safetensors")
    with pytest.raises(AttlasError, match="pickle"):
        attlas.load(folder)


def configured(folder: Path, **options: Any) -> Path:
    """The folder of a model whose configuration claims something else."""
    model().save(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **options}))
    return folder


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_a_configuration_does_not_choose_the_code_of_attention(key: str, tmp_path: Path) -> None:
    folder = configured(tmp_path / "model", **{key: "someone/kernel"})
    try:
        attlas.load(folder)
    except AttlasError as error:
        reached = "kernels" in str(error)
    else:
        reached = False
    assert not reached


def test_a_configuration_of_absurd_size_is_refused_before_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, built, make = (
        configured(tmp_path / "model", num_hidden_layers=100),
        [],
        torch.nn.Linear.__init__,
    )

    def counted(self: torch.nn.Linear, *arguments: Any, **options: Any) -> None:
        built.append(1)
        make(self, *arguments, **options)

    monkeypatch.setattr(torch.nn.Linear, "__init__", counted)
    with pytest.raises(AttlasError):
        attlas.load(folder)
    assert len(built) < 50


def test_a_folder_without_tokenizer_files_is_refused(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    for path in (tmp_path / "model").glob("tokenizer*"):
        path.unlink()
    with pytest.raises(AttlasError, match="tokenizer"):
        attlas.load(tmp_path / "model")


def test_token_ids_beyond_the_embedding_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AttlasError) as refusal:
        attlas.study(tiny("bert", vocab_size=12), TEXTS, "entropy", tmp_path / "out", **QUIET)
    assert "\n" not in str(refusal.value)


# degenerate texts


DEGENERATE = {
    "punctuation": ["... !!! ???", ", . !"],
    "emoji": ["😀 😀", "👍🏽"],
    "letter": ["a"],
    "special": ["[CLS] [SEP]", "[SEP]"],
}


@pytest.mark.slow  # tests/attacks/test_degenerate.py has them too
@pytest.mark.parametrize("texts", DEGENERATE.values(), ids=DEGENERATE)
def test_degenerate_texts_are_analysed_or_refused(texts: list[str], tmp_path: Path) -> None:
    def run() -> Path:
        return attlas.study(tiny("bert"), texts, "all", tmp_path / "out", **QUIET).report(
            tmp_path / "page.html"
        )

    page = outcome(run)
    assert page is None or page.is_file()


# files that the user names


@pytest.mark.parametrize("name", ["mine.csv", "mine.html", "mine.svg"])
def test_look_does_not_overwrite_a_file(base: Path, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("years of work")
    with suppress(AttlasError):
        command_line("look", "a cat", "--model", base, "--html", tmp_path / name)
    assert (tmp_path / name).read_text() == "years of work"


def test_report_does_not_overwrite_a_file(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("years of work")
    with suppress(AttlasError):
        command_line("report", finished, "--out", tmp_path / "mine.csv")
    assert (tmp_path / "mine.csv").read_text() == "years of work"


INTERRUPT = """
import runpy, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.argv = ["attlas", "--version"]
runpy.run_module("attlas", run_name="__main__", alter_sys=True)
"""


def test_an_interrupt_during_imports_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
