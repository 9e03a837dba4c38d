"""A study that stops when intervals are narrow: after the same shard, whoever runs it and however
often it is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

import attlas
from attlas.cli.study import StudyCommand
from attlas.core.text import Text
from attlas.corpora import Corpus
from attlas.measures.surface import COLUMNS, Surface
from attlas.studies import Study
from attlas.support.errors import AttlasError, StudyError
from attlas.testing import fold, stream, tiny
from attlas.views.findings import facts
from tests.builders.folders import (
    Stopped,
    check_damage,
    check_fresh,
    check_resumes,
    results,
    stopping,
)
from tests.builders.studies import table_bytes
from tests.builders.texts import sentences

TEXTS, SMALL, UNTIL = sentences(80, longest=9), 8, 0.08
QUIET = {"workers": 1, "progress": False}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attlas.studies.run.COSTLY_TEXTS", SMALL)


def study(folder: Path, texts: Any = None, until: float = UNTIL, **how: Any) -> Study:
    given = TEXTS if texts is None else texts
    measures = how.pop("measures", "surface,entropy")
    return attlas.study(tiny("bert"), given, measures, folder, until=until, **{**QUIET, **how})


def widest_after(n_texts: int) -> float:
    """Half of the widest interval of a share, by pandas and scipy from the shares of each text."""
    model, measure = tiny("bert"), Surface()
    values = [
        measure.result(fold(measure, [batch], model))["surface"][list(COLUMNS)].to_numpy()
        for batch in stream(model, TEXTS[:n_texts])
    ]
    error = pd.DataFrame(np.reshape(values, (n_texts, -1))).sem().max()
    return float(error * t.ppf(0.975, n_texts - 1))


def test_it_stops_after_the_first_shard_whose_intervals_are_narrow(tmp_path: Path) -> None:
    one = study(tmp_path / "one")
    read = one.manifest["counts"]["read"]
    until = one.manifest["until"]
    assert read % SMALL == 0
    assert 2 * SMALL <= read <= len(TEXTS) - 2 * SMALL  # neither at once nor at the end
    assert widest_after(read) <= UNTIL < widest_after(read - SMALL)
    assert until["widest"] == pytest.approx(widest_after(read), rel=1e-3)
    assert (until["half_width"], until["reached"], until["corpus_rows"]) == (UNTIL, True, 80)
    assert one.table("texts")["text"].tolist() == [str(number) for number in range(read)]
    expected = f"after {read} of 80 rows: 95% intervals of all shares are within ±0.08"
    assert dict(facts(one, {}))["stopped"] == expected
    plain = attlas.study(tiny("bert"), TEXTS[:read], "surface,entropy", **QUIET)
    pd.testing.assert_frame_equal(one.table("surface"), plain.table("surface"))
    assert "until" not in plain.manifest
    assert "stopped" not in dict(facts(plain, {}))


def test_workers_change_nothing(tmp_path: Path) -> None:
    folders = [tmp_path / str(workers) for workers in (1, 2, 4)]
    for folder, workers in zip(folders, (1, 2, 4), strict=True):
        study(folder, workers=workers)
    assert table_bytes(folders[0]) == table_bytes(folders[1]) == table_bytes(folders[2])


def test_stopped_at_any_step_it_resumes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = check_resumes(
        lambda folder, fresh: study(folder, fresh=fresh, measures="surface"),
        tmp_path,
        monkeypatch,
        every=11,
    )
    assert steps > 10


def test_shards_that_were_read_ahead_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted by one who reads far ahead, a study resumes to the bytes of one who does not."""
    one, ahead = study(tmp_path / "one"), tmp_path / "ahead"
    with monkeypatch.context() as patch:
        patch.setattr("attlas.studies.stopping.Stopping.is_enough", lambda self: False)
        published = lambda: any(ahead.glob(".attlas-*.tmp/tables"))  # noqa: E731
        with stopping(patch, published), pytest.raises(Stopped):
            study(ahead)
    assert len(list((ahead / "states").glob("*/entry.json"))) == len(TEXTS) // SMALL
    study(ahead)
    assert results(ahead) == results(one.folder)
    assert not (ahead / "states").exists()


def test_a_corpus_that_ends_first_says_so(tmp_path: Path) -> None:
    one = study(tmp_path / "one", until=0.005)
    assert one.manifest["counts"]["read"] == len(TEXTS)
    assert one.manifest["until"]["reached"] is False
    assert dict(facts(one, {}))["stopped"] == (
        f"at the end of the corpus: 95% intervals of shares reach "
        f"±{one.manifest['until']['widest']:.3f}, not ±0.005"
    )
    single = study(tmp_path / "single", TEXTS[:1])
    assert single.manifest["until"]["widest"] is None
    assert "are unknown, not ±0.08" in dict(facts(single, {}))["stopped"]


def test_the_command_line_takes_it(
    tmp_path: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "texts.txt"
    data.write_text("\n".join(TEXTS), encoding="utf-8")
    command = StudyCommand(
        data=str(data),
        model=str(tiny_folder),
        measures="surface",
        out=tmp_path / "one",
        until=UNTIL,
        workers=1,
        report=False,
    )
    command.run()
    read = Study.open(tmp_path / "one").manifest["counts"]["read"]
    assert f"stopped   after {read} of 80 rows" in capsys.readouterr().out
    assert read < 80
    with pytest.raises(AttlasError, match=r"until is 2; .*at most 0.5"):
        StudyCommand(data=str(data), until=2)


def test_until_is_part_of_the_identity(tmp_path: Path) -> None:
    study(tmp_path / "one")
    study(tmp_path / "one")  # found again
    with pytest.raises(StudyError, match="was made with another value of until; pass fresh=True"):
        study(tmp_path / "one", until=0.1)
    with pytest.raises(StudyError, match="was made with another value of until; pass fresh=True"):
        attlas.study(tiny("bert"), TEXTS, "surface,entropy", tmp_path / "one", **QUIET)


def test_a_corpus_that_changes_after_the_last_text_that_counts_is_refused(tmp_path: Path) -> None:
    readings = 0

    def rows() -> list[attlas.Text]:
        nonlocal readings
        readings += 1
        last = "a cat" if readings == 1 else "a dog"
        return [attlas.Text(str(n), text) for n, text in enumerate([*TEXTS, last])]

    with pytest.raises(StudyError, match="changed while it was read"):
        study(tmp_path / "one", Corpus("moving", rows))


def test_what_cannot_be_reached_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="none of the measures has any; add the measure surface"):
        study(tmp_path / "one", measures="entropy")
    for wrong in (0, 0.6, -1, "narrow", float("nan")):
        with pytest.raises(AttlasError, match=r"until is .*at least 0.005 and at most 0.5"):
            study(tmp_path / "one", until=wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "one").exists()


@pytest.mark.attack
def test_every_damaged_file_is_noticed(tmp_path: Path) -> None:
    check_damage(lambda folder, fresh: study(folder, fresh=fresh), tmp_path)


@pytest.mark.attack
def test_fresh_stopped_at_any_step_leaves_no_row_of_another_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a study that reads everything, then one that stops: neither has rows of the other."""

    def whole(folder: Path, fresh: bool) -> object:
        return attlas.study(tiny("bert"), TEXTS, "surface", folder, fresh=fresh, **QUIET)

    def stops(folder: Path, fresh: bool) -> object:
        return study(folder, fresh=fresh)

    for number, (first, second) in enumerate([(whole, stops), (stops, whole)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        check_fresh(first, second, folder, monkeypatch, every=3)


def test_groups_are_not_compared_on_the_first_texts_alone(tmp_path: Path) -> None:
    """`until` was ignored where groups are compared."""
    with pytest.raises(StudyError, match=r"until \(--until\) cannot be given with by"):
        study(tmp_path / "one", by="label")
    with pytest.raises(StudyError, match=r"until \(--until\) cannot be given with by"):
        StudyCommand(data="embedded:messages", by="label", until=UNTIL)
    assert not (tmp_path / "one").exists()
    texts = [
        Text(str(number), f"a cat sat {number}", label="ab"[number % 2]) for number in range(4)
    ]
    assert attlas.study(tiny("bert"), texts, "surface", by="label", until=None, **QUIET).has(
        "groups"
    )
