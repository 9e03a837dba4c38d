"""Result folders: killed anywhere they resume, damage is noticed, nothing of a user's is
touched."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

import attlas
from attlas.studies.folder import Folder, States, read_manifest
from attlas.support.errors import MeasureError, StudyError
from attlas.support.files import (
    atomic_write,
    locked,
    remove_leftovers,
    temporary_folder,
    write_bytes,
)
from attlas.testing import tiny
from tests.builders.folders import (
    Stopped,
    check_damage,
    check_foreign,
    check_fresh,
    check_resumes,
    contents,
    damage,
    results,
)
from tests.builders.texts import sentences

MODEL = tiny("bert")


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attlas.studies.run.SHARD_TEXTS", 4)


def write(folder: Path, fresh: bool) -> object:
    return attlas.study(
        MODEL, sentences(9), ["entropy", "totals"], folder, fresh=fresh, workers=1, progress=False
    )


def other(folder: Path, fresh: bool) -> object:
    return attlas.study(
        MODEL, sentences(6, seed=1), "surface", folder, fresh=fresh, workers=1, progress=False
    )


@pytest.mark.slow
def test_a_study_stopped_at_every_write_resumes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_resumes(write, tmp_path, monkeypatch) > 20


def test_damage_to_any_file_of_a_study_is_noticed(tmp_path: Path) -> None:
    check_damage(write, tmp_path)


def test_damaged_tables_are_never_read(tmp_path: Path) -> None:
    write(tmp_path / "study", False)
    for path in sorted((tmp_path / "study" / "tables").iterdir()):
        for kind in ("cut", "changed", "removed"):
            data = path.read_bytes()
            damage(path, kind)
            with pytest.raises(StudyError, match=f"{path.name} (is missing|has changed)"):
                attlas.Study.open(tmp_path / "study").table(path.stem)
            path.write_bytes(data)


@pytest.mark.slow
def test_fresh_stopped_at_every_step_leaves_no_old_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_fresh(write, other, tmp_path, monkeypatch)


def test_foreign_folders_are_refused_and_left_alone(tmp_path: Path) -> None:
    check_foreign(write, tmp_path)


def test_what_was_done_is_not_done_again_unless_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, ran = tmp_path / "study", []
    finish = attlas.studies.shard_job.ShardJob.finish  # type: ignore[attr-defined]
    monkeypatch.setattr(
        "attlas.studies.shard_job.ShardJob.finish",
        lambda job: (ran.append(job.shard.index), finish(job)),
    )

    stopped_before_the_end(folder, monkeypatch)
    assert ran == [0, 1, 2]
    stopped_before_the_end(folder, monkeypatch)
    assert ran == [0, 1, 2]  # all three found
    entries = sorted((folder / "states").iterdir())
    assert len(entries) == 3
    for entry in entries:
        for path in sorted(entry.iterdir()):
            for kind in ("cut", "empty", "changed", "removed"):
                if path.name == "entry.json" and kind == "changed":
                    continue  # its last byte is the end of a line
                ran.clear()
                damage(path, kind)
                stopped_before_the_end(folder, monkeypatch)
                assert len(ran) == 1, f"{path.name} {kind}"
    assert write(folder, False)
    whole = tmp_path / "whole"
    write(whole, False)
    assert results(folder) == results(whole)


def test_states_of_other_inputs_are_not_picked_up(tmp_path: Path) -> None:
    """A study whose manifest was deleted is refused; its states cannot mix with those of another
    corpus."""
    folder = tmp_path / "study"
    attlas.study(MODEL, sentences(9), "entropy", folder, keep_states=True)
    assert (folder / "states").is_dir()
    (folder / "manifest.json").unlink()
    for fresh in (False, True):
        with pytest.raises(StudyError, match=r"is not empty \(it has quarantine.jsonl\)"):
            other(folder, fresh)


def test_a_second_process_is_refused_and_a_link_is_not_followed(tmp_path: Path) -> None:
    with locked(tmp_path / "one"), pytest.raises(StudyError, match="another process is writing in"):
        write(tmp_path / "one", False)
    write(tmp_path / "one", False)
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / ".lock").symlink_to(victim)
    with pytest.raises(StudyError, match=r"\.lock cannot be locked.*it is a link"):
        write(tmp_path / "two", False)
    assert victim.read_text() == "precious"


def stop(*_: object) -> None:
    raise Stopped


def stopped_before_the_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("attlas.studies.folder.Folder.publish", stop)
        with pytest.raises(Stopped):
            write(folder, False)


def test_a_linked_folder_of_tables_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "study", tmp_path / "elsewhere"
    elsewhere.mkdir()
    stopped_before_the_end(folder, monkeypatch)
    (folder / "tables").symlink_to(elsewhere)
    with pytest.raises(StudyError, match="tables is a link"):
        write(folder, False)
    assert not list(elsewhere.iterdir())


def test_a_users_file_at_the_place_of_a_result_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "study"
    stopped_before_the_end(folder, monkeypatch)
    (folder / "tables").mkdir()
    (folder / "tables" / "entropy.parquet").write_text("mine")
    with pytest.raises(
        StudyError, match=r"entropy.parquet was not written by Attlas; move it away"
    ):
        write(folder, False)
    assert (folder / "tables" / "entropy.parquet").read_text() == "mine"
    (folder / "tables" / "entropy.parquet").unlink()
    assert write(folder, False)


def test_newer_and_older_formats(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    write(folder, False)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "attlas": 3}))
    with pytest.raises(StudyError, match="made by a newer Attlas; upgrade"):
        write(folder, False)
    old = {
        name: value for name, value in manifest.items() if name not in ("attlas", "kind", "files")
    }
    (folder / "manifest.json").write_text(json.dumps(old))
    before = contents(folder)
    assert len(attlas.Study.open(folder).table("entropy"))
    for fresh in (False, True):
        with pytest.raises(
            StudyError, match=r"made by an earlier Attlas.*can be opened and reported"
        ):
            write(folder, fresh)
    assert contents(folder) == before


def test_another_kind_of_result_is_refused_also_with_fresh(tmp_path: Path) -> None:
    with Folder(tmp_path / "out", "syntax").claim({"a": "1"}):
        pass
    for fresh in (False, True):
        with pytest.raises(StudyError, match=r"another kind of result \(syntax, not study\)"):
            write(tmp_path / "out", fresh)


def fail_after_an_entry(place: Folder, error: Exception) -> None:
    with place.claim({"seed": "1"}, fresh=True):
        with place.states.make("a") as entry:
            write_bytes(entry / "x", b"1")
        raise error


def test_a_run_that_ended_in_a_users_mistake_has_no_claim(tmp_path: Path) -> None:
    place = Folder(tmp_path / "out", "study")
    for error in (MeasureError("no relation has 9999 cases"), StudyError("no space is left")):
        with pytest.raises(type(error)):
            fail_after_an_entry(place, error)
        with pytest.raises(StudyError, match="is not complete"):
            attlas.Study.open(tmp_path / "out")
        if isinstance(error, StudyError):
            with pytest.raises(StudyError, match="another seed"), place.claim({"seed": "2"}):
                pass
        else:
            with place.claim({"seed": "2"}) as found:
                assert found is None
                assert place.states.find("a")  # found by what it was made from, whoever asks


def test_a_refusal_names_what_changed(tmp_path: Path) -> None:
    place = Folder(tmp_path / "out", "study")
    with place.claim(
        {"model": "1", "corpus": "2", "source": "3"},
        details={"model": {"weights": "a", "tokenizer": "b"}},
    ):
        pass
    for identity, details, message in (
        (
            {"model": "0", "corpus": "2", "source": "3"},
            {"weights": "a", "tokenizer": "c"},
            r"another model \(tokenizer\);",
        ),
        (
            {"model": "0", "corpus": "1", "source": "0"},
            {"weights": "b", "tokenizer": "b"},
            r"another model \(weights\), corpus, source;",
        ),
        (
            {"model": "1", "corpus": "2", "source": "0"},
            {"weights": "a", "tokenizer": "b"},
            "made with another source: other code of Attlas",
        ),
        (
            {"model": "1", "corpus": "2", "source": "3", "seed": "1"},
            {"weights": "a", "tokenizer": "b"},
            "another seed;",
        ),
    ):
        with (
            pytest.raises(StudyError, match=message),
            place.claim(identity, details={"model": details}),
        ):
            pass


def test_a_folder_without_tables_is_not_a_study_and_a_broken_manifest_is_not_ours(
    tmp_path: Path,
) -> None:
    place = Folder(tmp_path / "out", "finetune")
    with place.claim({}), place.staging() as stage:
        write_bytes(stage / "model.bin", b"1")
        place.publish(stage, {})
    with pytest.raises(StudyError, match="holds no tables: it is the result of finetune"):
        attlas.Study.open(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text('{"attlas": 2}')
    with pytest.raises(StudyError, match="is not a manifest of Attlas"), place.claim({}):
        pass


def test_a_folder_at_the_place_of_a_listed_file_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "study", False)
    path = tmp_path / "study" / "tables" / "entropy.parquet"
    path.unlink()
    path.mkdir()
    (path / "mine.txt").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(
            StudyError, match=r"entropy.parquet (is missing|was not written by Attlas)"
        ):
            write(tmp_path / "study", fresh)
    assert (path / "mine.txt").read_text() == "mine"


def test_a_result_that_grew_is_not_given_up_by_a_mistake(tmp_path: Path) -> None:
    place = Folder(tmp_path / "out", "reproduce", grows=True)
    with place.claim({"model": "a"}), place.staging() as stage:
        write_bytes(stage / "figure.png", b"1")
        place.publish(stage, {})
    with pytest.raises(MeasureError), place.claim({"model": "a"}):
        raise MeasureError("a file is missing")
    with pytest.raises(StudyError, match="another model"), place.claim({"model": "b"}):
        pass
    assert (tmp_path / "out" / "figure.png").is_file()


def test_importance_is_measured_once_also_after_fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    finish = attlas.studies.run._Run.finish  # type: ignore[attr-defined]
    monkeypatch.setattr(
        attlas.studies.run._Run,
        "finish",
        lambda run, *given: (ran.append([one.name for one in run.measures]), finish(run, *given)),
    )  # type: ignore[attr-defined]
    model, texts = (
        tiny("bert", "classify"),
        [attlas.Text(str(n), one, str(n % 2)) for n, one in enumerate(sentences(4))],
    )

    experiment = attlas.Explain(
        data=texts, model=model, methods=["attention_last", "attention_last_scaled"]
    )

    def explain(fresh: bool) -> None:
        attlas.run(experiment, tmp_path / "why", fresh=fresh, progress=False)

    for fresh in (False, True, False):
        explain(fresh)
    assert ran == [["importance"], ["explanations"]] * 2
    with pytest.raises(StudyError, match="another kind of result"):
        attlas.run(experiment, syntax_folder(tmp_path), progress=False)
    assert not (tmp_path / "syntax" / "states").exists()


def syntax_folder(tmp_path: Path) -> Path:
    with Folder(tmp_path / "syntax", "syntax").claim({}):
        pass
    return tmp_path / "syntax"


def test_entries_survive_only_whole(tmp_path: Path) -> None:
    states = States(tmp_path / "states")
    with states.make("a") as place:
        write_bytes(place / "x.bin", b"1")
        (place / "deep").mkdir()
        write_bytes(place / "deep" / "y.bin", b"2")
    found = states.find("a")
    assert found is not None
    assert (found / "deep" / "y.bin").read_bytes() == b"2"
    with pytest.raises(TypeError), states.make("b") as place:
        write_bytes(place / "x.bin", None)  # type: ignore[arg-type]
    assert states.find("b") is None
    (found / "mine.txt").write_text("a user's")
    (found / "x.bin").write_bytes(b"changed")
    assert states.find("a") is None
    with states.make("a") as place:  # made again around what is not ours
        write_bytes(place / "x.bin", b"3")
    assert states.find("a") == found
    assert not (found / "deep").exists()
    states.clear()
    assert contents(tmp_path) == {"states/a/mine.txt": b"a user's"}


def test_files_appear_whole_with_the_users_permissions(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_bytes(tmp_path / "a.txt", b"whole")
        with temporary_folder(tmp_path) as made:
            assert stat.S_IMODE(made.stat().st_mode) == 0o750
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640
    with pytest.raises(TypeError), atomic_write(tmp_path / "a.txt") as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert contents(tmp_path) == {"a.txt": b"whole"}
    (tmp_path / ".attlas-abcdefgh.tmp").write_text("left by a dead process")
    (tmp_path / ".attlas-mine.tmp").write_text("a user's")
    remove_leftovers(tmp_path)
    assert contents(tmp_path).keys() == {"a.txt", ".attlas-mine.tmp"}


def test_nothing_is_written_when_a_finished_study_is_found(tmp_path: Path) -> None:
    write(tmp_path / "study", False)
    (tmp_path / "study" / ".lock").unlink()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "study").rglob("*")}
    write(tmp_path / "study", False)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "study").rglob("*")} == before


def test_a_manifest_lists_every_file(tmp_path: Path) -> None:
    write(tmp_path / "study", False)
    manifest = read_manifest(tmp_path / "study")
    assert manifest is not None
    assert contents(tmp_path / "study").keys() == {*manifest["files"], "manifest.json"}
    assert all(
        table["sha256"] == manifest["files"][f"tables/{name}.parquet"]
        for name, table in manifest["tables"].items()
    )


def test_entries_that_a_killed_run_left_without_their_list_are_cleared(tmp_path: Path) -> None:
    """Killed between the removal of the list and that of its folder, the next run clears it."""
    states = States(tmp_path / "states")
    (states.folder / "pass" / "states" / "shard").mkdir(parents=True)
    inner = Folder(states.folder / "pass", "study")
    (states.folder / "pass" / "manifest.json").write_text(
        json.dumps(
            {"attlas": 2, "kind": "study", "status": "complete", "identity": {}, "files": {}}
        )
    )
    assert inner.path.is_dir()
    states.clear()
    assert not states.folder.exists()
    (states.folder / "mine").mkdir(parents=True)
    (states.folder / "mine" / "notes.txt").write_text("mine")
    states.clear()
    assert (states.folder / "mine" / "notes.txt").read_text() == "mine"
