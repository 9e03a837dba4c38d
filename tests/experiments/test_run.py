"""Running experiments: what is done once, what is noticed, what is refused; on a toy."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import attlas
from attlas.core.text import Text
from attlas.corpora import Corpus
from attlas.experiments.cache import Cache
from attlas.experiments.run import identity_of, input_files, run
from attlas.experiments.workspace import Workspace, scratch
from attlas.measures.entropy import Entropy
from attlas.studies.folder import Folder
from attlas.support.errors import AttlasError, CorpusError, ModelError, StudyError
from attlas.support.fingerprint import fingerprint
from tests.builders.folders import check_damage, check_foreign, check_fresh, check_resumes, damage
from tests.contracts.cases import (
    TEXTS,
    model,
    reviews,
    toy,
)
from tests.experiments.toy import work as toy_work
from tests.experiments.toy.experiment import Outer, ToyGrid


def write_toy(folder: Path, fresh: bool) -> None:
    run(toy(controls=False), folder, fresh=fresh, workers=1, progress=False)


def write_other_toy(folder: Path, fresh: bool) -> None:
    other = toy(draws=5, texts=list(TEXTS[:3]), controls=False)
    run(other, folder, fresh=fresh, workers=1, progress=False)


@pytest.mark.slow
def test_stopped_at_any_step_it_resumes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_resumes(write_toy, tmp_path, monkeypatch) > 20


def write_grid(folder: Path, fresh: bool) -> None:
    run(ToyGrid(texts=list(TEXTS)), folder, fresh=fresh, workers=1, progress=False)


def test_a_grid_resumes_and_notices_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_resumes(write_grid, tmp_path / "stops", monkeypatch) > 5
    check_damage(write_grid, tmp_path / "damage")


def test_damage_is_noticed(tmp_path: Path) -> None:
    check_damage(write_toy, tmp_path)


@pytest.mark.slow
def test_fresh_clears_everything_of_it_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_fresh(write_toy, write_other_toy, tmp_path, monkeypatch, every=3)


def test_folders_of_others_are_refused(tmp_path: Path) -> None:
    check_foreign(write_toy, tmp_path)


def test_what_was_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy_work.CALLS.clear()
    with monkeypatch.context() as patch:
        patch.setattr(attlas.Model, "randomized", lambda self, seed: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(toy(), tmp_path / "out", progress=False)
    assert sorted(toy_work.CALLS) == ["count", "scaled 1.0", "scaled 10.0"]
    damaged = next((tmp_path / "out" / "states").glob("*/value.json"))
    damage(damaged, "changed")
    run(toy(), tmp_path / "out", progress=False)
    assert len(toy_work.CALLS) == 4, "the damaged entry alone is made again"


def test_a_cache_is_shared_by_experiments(tmp_path: Path) -> None:
    toy_work.CALLS.clear()
    for out in ("a", "b"):
        run(toy(), tmp_path / out, cache=tmp_path / "cache", progress=False)
    assert len(toy_work.CALLS) == 3
    run(toy(draws=9), tmp_path / "c", cache=tmp_path / "cache", progress=False)
    assert sorted(toy_work.CALLS[3:]) == ["scaled 1.0", "scaled 10.0"]


def test_a_cache_keeps_frames_by_name(tmp_path: Path) -> None:
    frames = {
        "row": pd.DataFrame({"name": ["a"], "n": [1], "score": [float("nan")]}),
        "empty": pd.DataFrame({"score": pd.Series([], dtype="float64")}),
    }
    kept = Cache(tmp_path).keep("key", frames)
    found = Cache(tmp_path).find("key")
    assert list(kept) == list(found) == ["empty", "row"]
    for name, frame in frames.items():
        pd.testing.assert_frame_equal(found[name], frame)
    with pytest.raises(StudyError, match="mapping of DataFrames"):
        Cache(tmp_path).keep("other", {"a/b": frames["row"]})


def test_one_worker_is_the_thread_that_asks(tmp_path: Path) -> None:
    work = Workspace(Folder(tmp_path, "toy"), workers=1, progress=False)
    assert work.map(thread_of, [1, 2]) == [threading.get_ident()] * 2


def thread_of(_: int) -> int:
    return threading.get_ident()


def test_a_file_or_a_model_is_known_by_its_files(tmp_path: Path) -> None:
    def files(vectors: object) -> str | None:
        grid = attlas.Dynamics(train=list(reviews()), encoders=("vectors",), vectors=vectors)
        return input_files(grid.completed()).get("vectors")

    (tmp_path / "vectors.txt").write_text("cat 1 2\n")
    model().save(tmp_path / "m")
    assert None not in (files("vectors.txt"), files("m"), files(None))
    assert files(None) == files("all-MiniLM-L6-v2") != files("embedded:long")
    assert files("an/id-on-the-hub") is files({"cat": [1.0]}) is files(model()) is None


def test_what_changed_is_named(tmp_path: Path) -> None:
    run(toy(), tmp_path / "out", progress=False)
    with pytest.raises(StudyError, match="another value of draws"):
        run(toy(draws=4), tmp_path / "out", progress=False)
    with pytest.raises(StudyError, match=r"another model \(weights\)"):
        run(toy(model=model(1)), tmp_path / "out", progress=False)


def test_an_experiment_in_another_is_a_folder_of_its_own(tmp_path: Path) -> None:
    done = run(Outer(texts=list(TEXTS), model=model()), tmp_path / "out", progress=False)
    part = attlas.Study.open(tmp_path / "out" / "parts" / "inner")
    assert part.result == done.result
    assert part.manifest["kind"] == "toy"


def test_files_of_many_jobs_are_written_once(tmp_path: Path) -> None:
    """Found again by another workspace; a damaged one alone is written again."""

    def write() -> list[Path]:
        work = Workspace(
            Folder(tmp_path, "toy"), cache=tmp_path / "cache", workers=2, progress=False
        )
        return work.map_files(toy_work.write_scaled, (1, 2, 3), common=[list(TEXTS)])

    toy_work.CALLS.clear()
    folders = write()
    assert [(folder / "n.txt").read_text() for folder in folders] == ["4", "8", "12"]
    assert len(toy_work.CALLS) == 3
    assert write() == folders
    assert len(toy_work.CALLS) == 3
    damage(folders[1] / "n.txt", "changed")
    assert (write()[1] / "n.txt").read_text() == "8"
    assert toy_work.CALLS[3:] == ["write 2"]


def test_names_of_inputs_do_not_count(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    (tmp_path / "a.jsonl").write_text(rows)
    (tmp_path / "b.jsonl").write_text(rows)
    model().save(tmp_path / "m")
    model().save(tmp_path / "n")
    done = run(toy(texts="a.jsonl", model="m"), "out", progress=False)
    for options in (
        {"texts": "b.jsonl", "model": "n"},
        {"texts": tmp_path / "a.jsonl", "model": tmp_path / "m"},
        {"texts": [replace(one) for one in attlas.read("a.jsonl")], "model": attlas.load("n")},
    ):
        assert run(toy(**options), "out", progress=False).manifest == done.manifest


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a cat"}\n{"text": "a dog"}\n')
    model().save(tmp_path / "m")
    options = {"texts": "a.jsonl", "model": "m"}
    run(toy(**options), "out", progress=False)
    (tmp_path / "a.jsonl").write_text('{"text": "a cat"}\n{"text": "a hog"}\n')
    with pytest.raises(StudyError, match="another set of texts"):
        run(toy(**options), "out", progress=False)
    (tmp_path / "a.jsonl").write_text('{"text": "a cat"}\n{"text": "a dog"}\n')
    run(toy(**options), "out", progress=False)
    shutil.rmtree(tmp_path / "m")
    model(1).save(tmp_path / "m")
    with pytest.raises(StudyError, match=r"another model \(weights\)"):
        run(toy(**options), "out", progress=False)


def test_a_file_that_changes_while_it_is_read_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a cat"}\n')
    model().save(tmp_path / "m")
    real = toy_work.read

    def read(source: object) -> list[Text]:
        texts = real(source)
        (tmp_path / "a.jsonl").write_text('{"text": "a cat"}\n{"text": "a dog"}\n')
        return texts

    monkeypatch.setattr(toy_work, "read", read)
    with pytest.raises(StudyError, match="changed while it was read"):
        run(toy(texts="a.jsonl", model="m"), "out", progress=False)


def test_a_damaged_pass_in_a_cache_is_made_again(tmp_path: Path) -> None:
    first = run(toy(), tmp_path / "a", cache=tmp_path / "cache", progress=False)
    for table in (tmp_path / "cache").glob("*/tables/entropy.parquet"):
        damage(table, "changed")
    again = run(toy(), tmp_path / "b", cache=tmp_path / "cache", progress=False)
    assert again.table("heads").equals(first.table("heads"))


def test_other_files_and_models_count_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("cat=animal")
    model(1).save(tmp_path / "m")
    model().save(tmp_path / "own")
    options = {"texts": list(TEXTS), "model": "own", "names": "names.txt", "other": "m"}
    done = run(toy(**options), "out", progress=False)
    assert done.result["names"] == {"cat": "animal"}
    assert done.result["other"]
    assert run(toy(**options), "out", progress=False).manifest == done.manifest
    (tmp_path / "names.txt").write_text("cat=beast")
    with pytest.raises(StudyError, match="another value of names"):
        run(toy(**options), "out", progress=False)
    with pytest.raises(StudyError, match=r"there is no file 'no\.txt'; give the path of names"):
        run(toy(**{**options, "names": "no.txt"}), "out", progress=False)


def test_a_corpus_is_studied_with_its_bad_rows(tmp_path: Path) -> None:
    rows = [*(json.dumps({"text": text}) for text in TEXTS), "not JSON", '{"text": 3}']
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    corpus = attlas.read("a.jsonl")
    read: list[int] = []
    counted = Corpus(corpus.name, lambda: read.append(1) or corpus.source())  # type: ignore[func-returns-value]
    place = Folder(tmp_path / "out", "toy")
    with place.claim({}):
        work = Workspace(place, progress=False)
        assert work.identity(counted) == fingerprint(corpus)
        assert (work.survey(counted).rows, work.survey(counted).bad) == (6, 2)
        done = work.study(model(), counted, [Entropy()])
        assert len(read) == 2, "once for its identity, once for the pass"
        counts = done.manifest["counts"]
        assert (counts["read"], counts["analysed"], counts["quarantined"]) == (6, 4, 2)
        assert len(done.quarantine.read_text().splitlines()) == 2
        listed = work.study(model(), list(attlas.read(list(TEXTS))), [Entropy()])
        assert listed.table("entropy").equals(done.table("entropy"))
        other = attlas.read("a.jsonl")
        work.identity(other)
        (tmp_path / "a.jsonl").write_text("\n".join([*rows, '{"text": "one more"}']))
        with pytest.raises(StudyError, match="changed while it was read"):
            work.study(model(1), other, [Entropy()])
        with pytest.raises(CorpusError, match="holds no text that can be analysed"):
            work.survey(attlas.read([" "]))


def test_inputs_that_do_not_fit_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="length is 100, but the model takes"):
        run(attlas.Lengthen(model=model(), length=100), tmp_path / "out")
    with pytest.raises(ModelError, match="gives no answer to explain"):
        run(attlas.Explain(data=list(TEXTS), model=model()), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_that_follows_from_another_may_be_missing(tmp_path: Path) -> None:
    model().save(tmp_path / "own")
    model(1).save(tmp_path / "m")
    (tmp_path / "own" / "other.txt").write_text("m")
    done = run(toy(model="own"), "out", progress=False)
    assert done.result["other"]
    assert done.manifest["inputs"]["other"] == {"name": "m", "from": "another input"}
    assert done.manifest["identity"] == identity_of(toy(model="own", other="m"))
    assert run(toy(model="own"), "out", progress=False).manifest == done.manifest
    (tmp_path / "own" / "other.txt").write_text("./nowhere")
    with pytest.raises(StudyError, match="another value of other"):
        run(toy(model="own"), "out", progress=False)
    assert not run(toy(model="own"), "missing", progress=False).result["other"]
    with pytest.raises(
        AttlasError, match="there is no folder nowhere"
    ):  # one that was given must be there
        run(toy(model="own", other="./nowhere"), "given", progress=False)


def test_a_result_folder_that_is_an_input_is_refused(tmp_path: Path) -> None:
    model().save(tmp_path / "m")
    before = {path: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    for out in (tmp_path / "m", tmp_path):
        for fresh in (False, True):
            with pytest.raises(
                StudyError, match="m, which is the input other; choose another folder"
            ):
                run(toy(other="m"), out, fresh=fresh, progress=False)
    assert {path: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before


def test_texts_in_the_result_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.jsonl").write_text('{"text": "a cat"}\n')
    for fresh in (False, True):
        with pytest.raises(StudyError, match="which is the input texts; choose another folder"):
            run(toy(texts="out/a.jsonl"), "out", fresh=fresh, progress=False)
    assert (tmp_path / "out" / "a.jsonl").is_file()


def test_how_it_is_run_is_checked(tmp_path: Path) -> None:
    grid = ToyGrid(texts=list(TEXTS))
    for how, message in (
        ({"workers": 0}, "workers is 0"),
        ({"engine": "steam"}, "engine is 'steam'"),
        ({"cache": tmp_path / "out" / "states"}, "is inside the result folder"),
    ):
        with pytest.raises(StudyError, match=message):
            run(grid, tmp_path / "out", **how)  # type: ignore[arg-type]
    assert "4 texts" in repr(run(grid, progress=False))


def test_a_models_length_counts_however_it_is_given(tmp_path: Path) -> None:
    model().save(tmp_path / "m")
    plain, short, by_name = (
        identity_of(toy(**options))
        for options in ({}, {"max_length": 4}, {"max_length": 4, "model": "m"})
    )
    assert plain != short == by_name


def test_a_verb_writes_where_the_experiment_says() -> None:
    assert toy().out_folder == Path("runs/toy")
    score = attlas.ScoreRelations(extractor="runs/mine", test=list(TEXTS))
    assert score.out_folder == Path("runs/mine/scored")


def test_an_estimator_has_a_workspace_of_its_own(tmp_path: Path) -> None:
    toy_work.CALLS.clear()
    with scratch(progress=False) as work:
        folder = work.cache_folder
        assert work.map(toy_work.scaled, [1.0], common=[2, 0]) == work.map(
            toy_work.scaled, [1.0], common=[2, 0]
        )
        assert folder.is_dir()
    assert not folder.exists()
    for _ in range(2):
        with scratch(tmp_path / "cache", progress=False) as work:
            work.map(toy_work.scaled, [1.0], common=[2, 0])
    assert toy_work.CALLS == ["scaled 1.0"] * 2
    with pytest.raises(StudyError, match="workers is 0"), scratch(workers=0):
        pass


OPENS = """
import sys, time
began = time.process_time()
from attlas.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
used = time.process_time() - began
heavy = [name for name in ("torch", "transformers", "numpy", "pandas") if name in sys.modules]
print(used, heavy, file=sys.stderr)
"""


def test_a_finished_folder_is_opened_without_loading_anything(tmp_path: Path) -> None:
    """Law 6: embedded data, by its own command, in under a second of CPU time, without torch.

    The page of the report is drawn by the first command, and found by the next.
    """
    options = {"train": "embedded:sentences", "min_cases": 10}
    attlas.run(attlas.Syntax(**options), "out", progress=False)
    verb = "probe syntax --train embedded:sentences --min-cases 10 --out out"
    for more, is_drawn in (("--no-report --json", False), ("", True), ("", False)):
        done = subprocess.run(
            [sys.executable, "-c", OPENS, *verb.split(), *more.split()],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        used, _, heavy = done.stderr.strip().splitlines()[-1].partition(" ")
        assert not {"torch", "transformers"} & {*re.findall(r"\w+", heavy)}
        if not is_drawn:
            assert heavy == "[]"
            assert float(used) < 1
        if more:
            result = attlas.Study.open("out").result
            assert json.loads(done.stdout)["overall"] == result["overall"]
    assert done.stdout.splitlines()[-2:] == [
        "report    out/report.html",
        "next      attlas report out --charts pictures",
    ]


def test_mistakes_cost_nothing(tmp_path: Path) -> None:
    """A misspelt file and a wrong value are refused before anything heavy is imported."""
    code = OPENS.replace("assert not end.code, end.code", "assert end.code == 2")
    for options, message in (
        ("--train no.conllu", "there is no file 'no.conllu'"),
        ("--train embedded:sentences --min-cases 0", "min_cases is 0; it must be"),
        ("--train embedded:novels", "there is no embedded corpus 'novels'"),
    ):
        verb = ["probe", "syntax", *options.split()]
        done = subprocess.run(
            [sys.executable, "-c", code, *verb], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert message in done.stderr
        used, _, heavy = done.stderr.strip().splitlines()[-1].partition(" ")
        assert heavy == "[]"
        assert float(used) < 1.5


def test_values_are_converted_to_their_type() -> None:
    with pytest.raises(AttlasError, match="draws is 'many'; it must be a whole number"):
        toy(draws="many")
    assert toy(draws=4.0).draws == 4
    assert toy(scales="1, 5").scales == (1.0, 5.0)
    assert "texts=[" in repr(toy())
