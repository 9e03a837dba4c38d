"""What all recipes share, on a toy: parts are kept only if they would be the same today."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from attlas.models import load
from attlas.papers import longformer, parts as module
from attlas.papers.data import recorded, require_file
from attlas.papers.parts import Recipe, Reproduction, run_reproduction
from attlas.studies.folder import SOURCE, Folder
from attlas.support.errors import AttlasError, CorpusError, StudyError
from attlas.support.files import write_bytes
from attlas.support.fingerprint import File, fingerprint
from attlas.testing import tiny
from tests.builders.folders import (
    Stopped,
    check_damage,
    check_foreign,
    check_fresh,
    check_resumes,
    contents,
    refusal,
    stopping,
)

ORDER = ("one", "two", "three")


@dataclass(kw_only=True)
class Toy(Recipe):
    """Part one runs an experiment, two draws, three uses one."""

    name = "toy"
    seeds: int = 3
    runs: list[str] = field(default_factory=list)

    def depends_on(self, part: str) -> Any:
        return {"seeds": self.seeds} if part == "two" else None

    def one(self) -> None:
        path = require_file(self.root, "first", "a.txt")
        place = Folder(self.inside("first"), "toy experiment")
        identity = {"data": fingerprint(File(path)), SOURCE: ""}
        with place.claim(identity, self.options["fresh"]) as found:
            if found is None:
                self.runs.append("experiment")
                with place.staging() as stage:
                    write_bytes(stage / "result.json", json.dumps({"is": read(path)}).encode())
                    place.publish(stage, {})
        result = json.loads((place.path / "result.json").read_text())
        self.part.results["one"] = result
        self.part.lines.append(f"one {result['is']}")
        self.part.named.append([0, 1, result["is"]])

    def two(self) -> None:
        text = read(require_file(self.root, "second", "b.txt"))
        self.part.results["two"] = [text, self.seeds]
        self.part.lines.append(f"two {text} {self.seeds}")
        for name in ("figure.png", "more/figure.png"):
            path = self.picture_path(name)
            write_bytes(path, f"{name} of {text}".encode())
            self.add_pictures(path)

    def three(self) -> None:
        used = self.use("one")
        self.part.results["three"] = [part.named for part in used.values()]
        self.part.lines.append(f"three {len(used)}")


def read(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def data(root: Path, first: str = "2020", second: str = "2020") -> Path:
    for name, text in {"first/a.txt": first, "second/b.txt": second}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def run(
    root: Path,
    folder: Path,
    parts: Sequence[str] = ORDER,
    fresh: bool = False,
    weights: str = "w",
    messages: list[str] | None = None,
    **options: Any,
) -> Reproduction:
    recipe = Toy(
        root=root,
        reproduction=Reproduction("tiny", ORDER, {"one": 1}, folder),
        model_parts={"weights": weights, "config": "c"},
        options={"fresh": fresh},
        log=[].append if messages is None else messages.append,
        **options,
    )
    return run_reproduction(recipe, parts)


def shown(folder: Path) -> tuple[set[str], str]:
    """The parts in the JSON file, and the Markdown."""
    return set(json.loads((folder / "toy.json").read_text())["parts"]), (
        folder / "toy.md"
    ).read_text()


def test_parts_are_added_to_what_is_there(tmp_path: Path) -> None:
    root, out = data(tmp_path / "data"), tmp_path / "out"
    run(root, out, ["two"])
    run(root, out, ["one"])
    done = run(root, out, ["three"])
    assert shown(out) == ({*ORDER}, "one 2020\ntwo 2020 3\nthree 1")
    assert done.markdown() == shown(out)[1]
    assert done.to_dict() == json.loads((out / "toy.json").read_text())
    assert [path.read_text() for path in done.pictures] == [
        "figure.png of 2020",
        "more/figure.png of 2020",
    ]
    whole = tmp_path / "whole"
    run(root, whole)
    assert contents(out) == contents(whole) | {"manifest.json": contents(out)["manifest.json"]}


def test_parts_of_other_data_are_left_out(tmp_path: Path) -> None:
    out, messages = tmp_path / "out", []
    run(data(tmp_path / "old"), out, ["one", "three"])
    done = run(data(tmp_path / "new", "2026", "2026"), out, ["two"], messages=messages)
    assert shown(out) == ({"two"}, "two 2026 3")
    assert set(done.parts) == {"two"}
    assert messages == [
        "part two",
        "part one of an earlier run is excluded: it was made from other data (first/a.txt); "
        "run it again",
        "part three of an earlier run is excluded: it used part one, which is different now; "
        "run it again",
    ]


def test_a_changed_or_missing_file_outdates_the_parts_that_read_it(tmp_path: Path) -> None:
    root, out, messages = data(tmp_path / "data"), tmp_path / "out", []
    run(root, out)
    (root / "second" / "b.txt").write_text("2021")
    run(root, out, ["one"], messages=messages)
    assert shown(out) == ({"one", "three"}, "one 2020\nthree 1")
    assert not (out / "figure.png").exists()  # a picture of a part that is left out
    assert "second/b.txt" in messages[-1]
    run(root, out, ["two"])
    (root / "second" / "b.txt").unlink()
    run(root, out, ["one"])
    assert shown(out)[0] == {"one", "three"}


def test_the_name_of_the_data_root_does_not_count(tmp_path: Path) -> None:
    out, messages = tmp_path / "out", []
    run(data(tmp_path / "old"), out)
    run(data(tmp_path / "new"), out, ["one"], messages=messages)
    assert shown(out)[0] == {*ORDER}
    assert messages == ["part one"]


def test_a_part_that_used_another_is_outdated_with_it(tmp_path: Path) -> None:
    root, out, messages = data(tmp_path / "data"), tmp_path / "out", []
    run(root, out, ["three"])
    run(root, out, ["one"], messages=messages)
    assert shown(out) == ({"one"}, "one 2020")
    assert "it used part one, which is different now" in messages[-1]
    messages.clear()
    run(root, out, ["one", "three"], messages=messages)
    assert shown(out) == ({"one", "three"}, "one 2020\nthree 1")
    assert messages == ["part one", "part three"]


def test_options_and_code_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, out, messages = data(tmp_path / "data"), tmp_path / "out", []
    run(root, out)
    run(root, out, ["one"], seeds=1, messages=messages)
    assert shown(out)[0] == {"one", "three"}
    assert (
        "part two of an earlier run is excluded: it was made with other inputs (options)"
        in messages[-1]
    )
    monkeypatch.setattr(module, "_recipe_digest", lambda: "another")
    run(root, out, ["two"], messages=messages)
    assert shown(out)[0] == {"two"}
    assert any("other inputs (recipe)" in line for line in messages)
    monkeypatch.setattr(module, "source_digest", lambda: "another")
    with pytest.raises(StudyError, match="other code"):
        run(root, out, ["two"])


def test_other_weights_under_the_same_name_are_refused(tmp_path: Path) -> None:
    root, out = data(tmp_path / "data"), tmp_path / "out"
    run(root, out)
    before = contents(out)
    with pytest.raises(StudyError, match=r"made with another model \(weights\)"):
        run(root, out, ["two"], weights="other")
    assert contents(out) == before
    run(root, out, ["two"], weights="other", fresh=True)
    assert shown(out)[0] == {"two"}


@pytest.mark.slow
def test_a_recipe_stopped_at_every_write_resumes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = data(tmp_path / "data")
    steps = check_resumes(lambda out, fresh: run(root, out, fresh=fresh), tmp_path, monkeypatch)
    assert steps > 20


def test_an_interrupted_recipe_keeps_its_parts_and_experiments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, out, runs = data(tmp_path / "data"), tmp_path / "out", []

    def stop(_: Toy) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Toy, "two", stop)
        with pytest.raises(KeyboardInterrupt):
            run(root, out, runs=runs)
    assert shown(out)[0] == {"one"}
    run(root, out, ["two"], runs=runs)
    assert shown(out)[0] == {"one", "two"}
    run(root, out, runs=runs)
    assert runs == ["experiment"]


def test_stopped_while_parts_are_added_nothing_of_other_data_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = data(tmp_path / "old"), data(tmp_path / "new", "2026", "2026")
    at, steps = 0, [""]
    while len(steps) >= at:  # until it is not stopped any more
        out = tmp_path / f"stopped-{at}"
        run(old, out)
        with stopping(monkeypatch, at) as steps, suppress(Stopped):
            run(new, out, ["two"])
        run(new, out, ["two"])
        assert shown(out) == ({"two"}, "two 2026 3")
        assert "2020" not in (out / "toy.json").read_text()
        at += 1
    assert at > 8


def test_damage_is_noticed(tmp_path: Path) -> None:
    root = data(tmp_path / "data")
    check_damage(lambda out, fresh: run(root, out, fresh=fresh), tmp_path)
    out = tmp_path / "damaged"
    (out / "toy.md").write_text("my own notes")
    messages = refusal(lambda folder, fresh: run(root, folder), out)
    assert messages is not None
    assert "toy.md has changed since it was written" in messages
    assert (out / "toy.md").read_text() == "my own notes"


def test_a_record_that_does_not_match_is_not_used(tmp_path: Path) -> None:
    root, out, messages = data(tmp_path / "data"), tmp_path / "out", []
    run(root, out)
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["status"] = "running"  # as a killed run leaves it
    (out / "manifest.json").write_text(json.dumps(manifest))
    content = json.loads((out / "toy.json").read_text())
    content["parts"]["two"]["lines"] = ["two 1999 3"]
    (out / "toy.json").write_text(json.dumps(content))
    run(root, out, ["one"], messages=messages)
    assert shown(out)[0] == {"one", "three"}
    assert (
        "part two of an earlier run is excluded: it was not finished, or has changed"
        in messages[-1]
    )


def test_fresh_clears_what_is_listed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = data(tmp_path / "old"), data(tmp_path / "new", "2026", "2026")
    check_fresh(
        lambda out, fresh: run(old, out, fresh=fresh),
        lambda out, fresh: run(new, out, ["two"], fresh=fresh, weights="other"),
        tmp_path,
        monkeypatch,
    )


def test_files_of_a_user_are_never_touched(tmp_path: Path) -> None:
    root, out = data(tmp_path / "data"), tmp_path / "out"
    run(root, out, ["one"])
    mine = {"notes.txt": b"mine", "parts/notes.txt": b"mine", "parts/first/notes.txt": b"mine"}
    for name, content in mine.items():
        (out / name).write_bytes(content)
    (out / "figure.png").write_bytes(b"my picture")
    for fresh in (False, True):
        with pytest.raises(AttlasError, match=r"figure\.png was not written by Attlas"):
            run(root, out, ["two"], fresh=fresh)
        assert (out / "figure.png").read_bytes() == b"my picture"
    (out / "figure.png").unlink()
    run(root, out, fresh=True)
    assert {name: contents(out)[name] for name in mine} == mine
    check_foreign(lambda folder, fresh: run(root, folder, fresh=fresh), tmp_path)
    for name in ("toy.json", "toy.md", "figure.png", "manifest.json"):
        folder = tmp_path / f"strange-{name}"
        folder.mkdir()
        (folder / name).write_text("{}")
        for fresh in (False, True):
            with pytest.raises(AttlasError, match="choose another folder"):
                run(root, folder, fresh=fresh)
        assert contents(folder) == {name: b"{}"}


def test_files_are_recorded_while_a_part_runs(tmp_path: Path) -> None:
    root = data(tmp_path / "data")
    require_file(root, "first", "a.txt")  # nobody listens
    with recorded(root) as files:
        require_file(root, "second", "b.txt")
    assert list(files) == ["second/b.txt"]
    packed = gzip.compress(b"2020")
    (root / "first" / "a.txt").unlink()
    (root / "first" / "a.txt.gz").write_bytes(packed)
    with recorded(root) as files:
        require_file(root, "first", "a.txt")
    assert list(files) == ["first/a.txt"]
    files_of = recorded(root)
    files_of.__enter__()
    require_file(root, "first", "a.txt")
    (root / "first" / "a.txt").write_text("2021")  # is found before the packed one
    with pytest.raises(CorpusError, match=r"first/a\.txt in .* changed while it was read"):
        files_of.__exit__(None, None, None)


def test_a_lengthened_model_is_known_by_all_that_it_was_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(longformer, "LENGTH", 640)
    monkeypatch.setattr(longformer, "WINDOW", 8)
    model = tiny("bert")

    def made() -> Path:
        done, options = Reproduction("", (), {}, tmp_path), {"fresh": False}
        return longformer._Run(
            root=tmp_path, reproduction=done, model=model, options=options
        ).long_model

    folder = made()
    assert load(folder).max_length == 640
    before = contents(folder)
    assert contents(made()) == before
    for name in ("LENGTH", "WINDOW"):
        with monkeypatch.context() as patch:
            patch.setattr(longformer, name, 648)
            with pytest.raises(StudyError, match=f"made with another {name.lower()}"):
                made()
    model.tokenizer.truncation_side = "left"
    with pytest.raises(StudyError, match=r"made with another model \(tokenizer\)"):
        made()
    assert contents(folder) == before
