"""Studies: the same bytes whoever runs them and however often they are killed; honest about what
was left out."""

from __future__ import annotations

import csv
import fcntl
import itertools
import json
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import attlas
from attlas.core.attention import Attention
from attlas.core.batch import Batch
from attlas.core.measure import BatchReport, Measure, Outputs, Shape
from attlas.core.states import State, Sums
from attlas.measures.surface import Surface
from attlas.studies import Study, engines
from attlas.studies.shards import shards, survey
from attlas.support.errors import AttlasError, CaptureError, CorpusError, MeasureError, StudyError
from attlas.testing import fold, stream, tiny
from tests.builders.processes import Start, Started, kill_when
from tests.builders.studies import table_bytes
from tests.builders.texts import sentences

ROWS = 300  # of the corpus: seven small shards, and a smaller one
SMALL = 40


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "texts.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "stars"])
        writer.writerows([text, number % 5] for number, text in enumerate(sentences(ROWS)))
    return path


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several shards without thousands of texts."""
    monkeypatch.setattr("attlas.studies.run.SHARD_TEXTS", SMALL)


@pytest.mark.usefixtures("small_shards")
def test_one_worker_two_and_four_write_the_same_bytes(tmp_path: Path) -> None:
    model, texts = tiny("bert"), sentences(100)
    for workers in (1, 2, 4):
        attlas.study(model, texts, out=tmp_path / str(workers), workers=workers)
    assert table_bytes(tmp_path / "1") == table_bytes(tmp_path / "2") == table_bytes(tmp_path / "4")


@pytest.mark.slow
def test_the_embedded_model_writes_the_same_bytes_with_one_worker_and_two(
    tmp_path: Path, minilm: attlas.Model
) -> None:
    texts = [text for number, text in enumerate(attlas.read("embedded:all")) if number % 16 == 0]
    for workers in (1, 2):
        attlas.study(minilm, texts, out=tmp_path / str(workers), workers=workers)
    assert table_bytes(tmp_path / "1") == table_bytes(tmp_path / "2")


@pytest.mark.slow
@pytest.mark.usefixtures("small_shards")
def test_killed_at_several_moments_it_goes_on_to_the_same_bytes(
    tmp_path: Path, corpus_file: Path, tiny_folder: Path, attlas_start: Start
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    attlas.study(tiny_folder, corpus_file, out=whole, text="review", label="stars")
    states = broken / "states"

    def start(threads: int = 1) -> Started:
        command = [
            "study",
            "--data",
            corpus_file,
            "--text",
            "review",
            "--label",
            "stars",
            "--model",
            tiny_folder,
        ]
        code = (
            "import attlas.studies.run, attlas.cli; "
            f"attlas.studies.run.SHARD_TEXTS = {SMALL}; attlas.cli.main()"
        )
        return attlas_start(
            *command, "--out", broken, "--no-report", code=code, OMP_NUM_THREADS=str(threads)
        )

    def finished() -> int:
        return len(list(states.glob("*/entry.json")))

    moments: list[Callable[[], bool]] = [
        lambda: (broken / "manifest.json").exists(),
        lambda: finished() >= 1,
        lambda: finished() >= 4,
        lambda: any(
            states.glob(".attlas-*.tmp")
        ),  # these two last some milliseconds, and may be missed
        lambda: any(broken.glob(".attlas-*.tmp/tables")),
    ]
    killed = [kill_when(start(1 + number % 2), moment) for number, moment in enumerate(moments)]
    assert killed[:3] == [True, True, True]
    if all(killed):
        with pytest.raises(StudyError, match="not complete"):
            Study.open(broken)
    last = start(threads=2)
    _, problem = last.communicate(timeout=120)
    assert last.returncode == 0, problem
    assert table_bytes(broken) == table_bytes(whole)
    assert not (broken / "states").exists()
    assert Study.open(broken).manifest["counts"] == Study.open(whole).manifest["counts"]


@pytest.mark.usefixtures("small_shards")
def test_finished_shards_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, texts, batches = tiny("bert"), sentences(100), 0
    make = type(model.encoder).batch

    def counted(*arguments: object) -> object:
        nonlocal batches
        batches += 1
        if batches == limit:
            raise OSError("the machine goes down")
        return make(*arguments)  # type: ignore[arg-type]

    needed = [
        len(list(model.encoder.groups(model.encode(shard.texts))))
        for shard in shards(attlas.read(texts), SMALL)
    ]
    assert len(needed) == 3
    assert model.n_layers == 3
    monkeypatch.setattr(type(model.encoder), "batch", counted)
    limit = needed[0] + 3
    with pytest.raises(OSError, match="goes down"):
        attlas.study(model, texts, out=tmp_path / "study", workers=1)
    (entry,) = (tmp_path / "study" / "states").iterdir()
    assert json.loads((entry / "entry.json").read_text())["shard"] == 0
    batches, limit = 0, -1
    study = attlas.study(model, texts, out=tmp_path / "study", workers=1)
    assert batches == sum(needed[1:])
    attlas.study(model, texts, out=tmp_path / "whole", workers=1)
    assert table_bytes(study.folder) == table_bytes(tmp_path / "whole")
    batches, limit = 0, 1
    assert attlas.study(model, texts, out=tmp_path / "study").has(
        "surface"
    )  # complete: opened, not run again
    assert batches == 0


def test_tables_are_what_a_plain_fold_gives(tmp_path: Path) -> None:
    model, texts = tiny("gpt2"), sentences(300, longest=6)
    study = attlas.study(model, texts, ["surface", "totals"], out=tmp_path / "study")
    measure = Surface()
    whole = measure.result(fold(measure, stream(model, texts), model))["surface"]
    pd.testing.assert_frame_equal(study.table("surface"), whole, rtol=1e-5, atol=1e-6)
    totals = study.table("totals")
    assert totals["text"].drop_duplicates().tolist() == [str(number) for number in range(300)]
    one = attlas.attention(model, texts[7]).received().mean(1).numpy()
    mine = totals[totals["text"] == "7"]
    np.testing.assert_allclose(mine[["L0", "L1", "L2"]].to_numpy().T, one, rtol=1e-5)
    np.testing.assert_allclose(mine["all"], one.mean(0), rtol=1e-5)
    assert study.table("totals", text="7").equals(mine.reset_index(drop=True))


def test_atlas_has_one_row_a_head_and_every_head_level_number(tmp_path: Path) -> None:
    study = attlas.study(tiny("bert"), sentences(20), out=tmp_path / "study")
    atlas = study.atlas()
    assert atlas[["layer", "head"]].to_numpy().tolist() == [
        [layer, head] for layer in range(3) for head in range(4)
    ]
    assert {
        "surface.previous",
        "surface.previous_uniform",
        "entropy",
        "entropy_uniform",
        "positions.offset_-1",
    } <= set(atlas.columns)
    assert atlas["entropy"].equals(study.table("entropy")["entropy"])
    with pytest.raises(
        StudyError, match=r"its tables are .*texts, topk, totals, totals_heads, surface"
    ):
        study.table("nothing")


def test_manifest_says_what_was_run(tmp_path: Path, corpus_file: Path, tiny_folder: Path) -> None:
    study = attlas.study(
        tiny_folder,
        corpus_file,
        [Surface(punctuation=".")],
        out=tmp_path / "study",
        text="review",
        label="stars",
        seed=3,
    )
    manifest = json.loads((tmp_path / "study" / "manifest.json").read_text())
    model = attlas.load(tiny_folder)
    assert manifest["model"]["file_sha256"] == model.file_sha256
    assert manifest["model"]["sha256"] == model.weights_sha256()
    assert manifest["model"]["state_sha256"] == model.weights_sha256()
    assert (
        manifest["corpus"]["fingerprint"]
        == survey(attlas.read(corpus_file, text="review", label="stars")).digest
    )
    assert manifest["measures"] == {"surface": "Surface(punctuation='.')"}
    assert manifest["seed"] == 3
    assert manifest["counts"]["read"] == manifest["counts"]["analysed"] == ROWS
    assert {"attlas", "torch", "transformers", "tokenizers", "python", "numpy", "numba"} <= set(
        manifest["versions"]
    )
    assert (manifest["attlas"], manifest["kind"], manifest["status"]) == (2, "study", "complete")
    assert set(manifest["identity"]) == {"model", "corpus", "measures", "cut", "seed", "source"}
    assert study.table("texts")["label"].tolist()[:6] == ["0", "1", "2", "3", "4", "0"]


def test_bad_rows_are_left_out_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "mixed.jsonl"
    path.write_bytes(
        b'{"id": "a", "text": "a cat"}\n{"id": "b", "text": ""}\nnot json\n'
        b'{"id": "c", "text": "a \xff dog"}\n{"id": "d", "text": "nul \\u0000"}\n'
        b'{"id": "a", "text": "again"}\n{"id": "e", "text": "the end"}\n'
    )
    study = attlas.study(tiny("bert"), path, out=tmp_path / "study")
    counts = study.manifest["counts"]
    assert (counts["read"], counts["analysed"], counts["quarantined"]) == (7, 2, 5)
    rows = [json.loads(line) for line in study.quarantine.read_text().splitlines()]
    assert [row["where"].split(", ")[1] for row in rows] == [
        "line 2",
        "line 3",
        "line 4",
        "line 5",
        "line 6",
    ]
    assert [
        next(word for word in ("empty", "JSON", "UTF-8", "NUL", "same id") if word in row["reason"])
        for row in rows
    ] == ["empty", "JSON", "UTF-8", "NUL", "same id"]
    assert study.table("texts")[["text", "place"]].to_numpy().tolist() == [["a", 0], ["e", 6]]
    with pytest.raises(CorpusError, match=r"line 2.*empty"):
        attlas.study(tiny("bert"), path, out=tmp_path / "other", bad="error")
    assert not (tmp_path / "other").exists()


def test_long_texts_are_cut_and_counted_or_refused(tmp_path: Path) -> None:
    model = attlas.load((tiny("bert").network, tiny("bert").tokenizer), max_length=8)
    texts = ["a cat", "a cat sat on the mat and saw a dog", "the dog was not very good in it"]
    study = attlas.study(model, texts, out=tmp_path / "study")
    counts = study.manifest["counts"]
    assert (counts["truncated"], counts["tokens_cut"]) == (2, 12 - 8 + 10 - 8)
    assert study.table("texts")["cut"].tolist() == [0, 4, 2]
    with pytest.raises(StudyError, match=r"item 1.*12 tokens.*takes 8"):
        attlas.study(model, texts, out=tmp_path / "other", long="error")
    assert not (tmp_path / "other").exists()


def test_a_folder_of_another_study_is_refused_unless_fresh(tmp_path: Path) -> None:
    model, folder = tiny("bert"), tmp_path / "study"
    attlas.study(model, sentences(5), "entropy", out=folder)
    for change, named in (
        ({"texts": sentences(6)}, "corpus"),
        ({"measures": "surface"}, "set of measures"),
        ({"model": tiny("bert", seed=1)}, r"model \(weights\)"),
        ({"seed": 1}, "seed"),
    ):
        with pytest.raises(StudyError, match=rf"was made with another {named}; .*--fresh"):
            attlas.study(
                **{
                    "model": model,
                    "texts": sentences(5),
                    "measures": "entropy",
                    "out": folder,
                    **change,
                }
            )  # type: ignore[arg-type]
    assert Study.open(folder).has("entropy")
    assert not attlas.study(model, sentences(5), "surface", out=folder, fresh=True).has("entropy")


def test_a_folder_that_is_no_study_is_never_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter.tex").write_text("years of work")
    for fresh in (False, True):
        with pytest.raises(
            StudyError, match=r"is not empty \(it has chapter.tex\) and holds no results of Attlas"
        ):
            attlas.study(tiny("bert"), sentences(3), out=folder, fresh=fresh)
    assert [path.name for path in folder.iterdir()] == ["chapter.tex"]
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="is a file"):
        attlas.study(tiny("bert"), sentences(3), out=tmp_path / "file")


def test_two_processes_do_not_write_one_folder(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    with (tmp_path / "study" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StudyError, match="another process"):
            attlas.study(tiny("bert"), sentences(3), out=tmp_path / "study")


def test_a_full_disk_is_one_clear_line_and_the_study_goes_on_later(tmp_path: Path) -> None:
    model, texts = tiny("bert"), sentences(200)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (30_000, limits[1])
    )  # the kernel refuses larger files, as it does on a full disk
    try:
        with pytest.raises(StudyError, match=r"no space.*run the same command again"):
            attlas.study(model, texts, out=tmp_path / "study", workers=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "study" / "tables").exists()
    assert not list((tmp_path / "study" / "states").glob(".attlas-*.tmp"))
    attlas.study(model, texts, out=tmp_path / "study")
    attlas.study(model, texts, out=tmp_path / "whole")
    assert table_bytes(tmp_path / "study") == table_bytes(tmp_path / "whole")


def test_attention_that_is_not_a_number_names_the_text(tmp_path: Path) -> None:
    model = tiny("bert")
    model.network.embeddings.word_embeddings.weight.data[
        model.tokenizer.convert_tokens_to_ids("dog")
    ] = float("nan")
    with pytest.raises(CaptureError, match=r"layer 0 is not a number \(texts 2"):
        attlas.study(model, ["a cat", "the cat sat on it", "a dog sat"], out=tmp_path / "study")
    assert not (tmp_path / "study" / "tables").exists()


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"measures": "nothing"}, MeasureError, "the measures are surface, entropy"),
        ({"measures": "surface,surface"}, MeasureError, "twice"),
        ({"measures": []}, MeasureError, "no measure"),
        ({"engine": "nothing"}, StudyError, "there is no engine"),
        ({"workers": 0}, StudyError, "at least 1"),
        ({"long": "maybe"}, StudyError, "truncate or error"),
        ({"texts": []}, CorpusError, "holds no text"),
        ({"texts": ["", " "]}, CorpusError, "holds no text.*empty"),
    ],
)
def test_wrong_calls(
    tmp_path: Path, wrong: dict[str, object], error: type[AttlasError], message: str
) -> None:
    with pytest.raises(error, match=message):
        attlas.study(
            **{"model": tiny("bert"), "texts": ["a cat"], "out": tmp_path / "study", **wrong}
        )  # type: ignore[arg-type]
    assert not (tmp_path / "study").exists()


def test_without_a_folder_the_study_lives_as_long_as_its_result() -> None:
    study = attlas.study(tiny("bert"), ["a cat", "a dog"])
    folder = study.folder
    assert len(study.table("entropy")) == 12
    del study
    assert not folder.exists()


def test_the_computing_threads_are_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def failing(stop: object) -> None:
        raise RuntimeError("in a worker")

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        attlas.study(tiny("bert"), ["a cat"], out=tmp_path / "study")
        assert torch.get_num_threads() == 2
        with pytest.raises(RuntimeError, match="in a worker"):
            engines.LocalEngine(2).run([failing])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_shards_do_not_depend_on_who_asks() -> None:
    corpus = attlas.read(sentences(700))
    cut = list(shards(corpus))
    assert [shard.n_rows for shard in cut] == [512, 188]
    assert [place for shard in cut for place, _ in shard.texts] == list(range(700))
    long = attlas.read(["word " * 30_000] * 5)
    assert [shard.n_rows for shard in shards(long)] == [2, 2, 1]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(
    tmp_path: Path, tiny_folder: Path, attlas_start: Start
) -> None:
    """Thousands of texts more, less than 9 kB for each; the benchmark does the same with the
    embedded model.

    The smaller corpus has more shards than are read at a time: what two of them hold, some 20 MB,
    is no growth.
    """
    counts, peaks = (2100, 6200), []
    for count in counts:
        path = tmp_path / f"{count}.txt"
        path.write_text("\n".join(sentences(count)))
        out = str(tmp_path / f"study-{count}")
        code = (
            f"import attlas; attlas.study({str(tiny_folder)!r}, {str(path)!r}, out={out!r}); "
            "lines = open('/proc/self/status'); "
            "print(next(line.split()[1] for line in lines if line.startswith('VmHWM')))"
        )
        process = attlas_start(code=code)
        message, problem = process.communicate(timeout=240)
        assert process.returncode == 0, problem
        peaks.append(int(message))
    assert peaks[1] - peaks[0] < 9 * (counts[1] - counts[0]), peaks


def test_a_measure_of_ones_own_runs_in_a_study(tmp_path: Path) -> None:
    from examples.own_measure import Farthest

    study = attlas.study(
        tiny("bert"), sentences(30), ["surface", Farthest()], out=tmp_path / "study"
    )
    assert isinstance(Farthest(), Measure)
    assert list(study.table("farthest").columns) == [
        "layer",
        "head",
        "farthest",
        "farthest_uniform",
    ]
    assert "farthest" in study.atlas()


def test_killed_while_the_first_manifest_is_written_it_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / ".lock").touch()
    (folder / ".attlas-0a1b2c_d.tmp").write_text('{"sta')
    assert attlas.study(tiny("bert"), sentences(3), out=folder).has("surface")


def test_someone_elses_manifest_is_never_touched(tmp_path: Path) -> None:
    for number, content in enumerate(('{"name": "an extension"}', "[1, 2]", "not json")):
        folder = tmp_path / str(number)
        (folder / "states").mkdir(parents=True)
        (folder / "states" / "data.txt").write_text("mine")
        (folder / "manifest.json").write_text(content)
        for fresh in (False, True):
            with pytest.raises(StudyError, match="is not a manifest of Attlas"):
                attlas.study(tiny("bert"), sentences(3), out=folder, fresh=fresh)
        with pytest.raises(StudyError, match="is not a manifest of Attlas"):
            Study.open(folder)
        assert (folder / "states" / "data.txt").read_text() == "mine"


def test_another_tokenizer_or_shape_is_another_study(tmp_path: Path) -> None:
    model = tiny("bert")
    attlas.study(model, sentences(5), "entropy", out=tmp_path / "study")
    other = tiny("bert")
    other.tokenizer.backend_tokenizer.normalizer = None
    narrow = tiny("bert", num_attention_heads=2)
    assert narrow.weights_sha256() == model.weights_sha256()
    for changed, name in ((other, "tokenizer"), (narrow, "config")):
        with pytest.raises(StudyError, match=rf"another model \({name}\)"):
            attlas.study(changed, sentences(5), "entropy", out=tmp_path / "study")


def test_what_the_tokenizer_makes_nothing_of_is_left_out(tmp_path: Path) -> None:
    study = attlas.study(tiny("bert"), ["a cat", "\u200b\u200d", "a dog"], out=tmp_path / "study")
    assert study.manifest["counts"]["analysed"] == 2
    assert "makes no token" in study.quarantine.read_text()


def test_a_model_in_double_precision_gives_nearly_the_same(tmp_path: Path) -> None:
    single, double = tiny("bert"), tiny("bert")
    double.network.double()
    tables = [
        attlas.study(model, sentences(40), out=tmp_path / str(number))
        for number, model in enumerate((single, double))
    ]
    for name in ("surface", "entropy", "positions"):
        pd.testing.assert_frame_equal(
            tables[0].table(name), tables[1].table(name), rtol=1e-3, atol=1e-4
        )


def test_texts_are_sampled_from_all_over_with_their_tokens(tmp_path: Path) -> None:
    texts = sentences(1200)
    study = attlas.study(tiny("bert"), texts, "totals", out=tmp_path / "study")
    sample = study.sample(6)
    assert [row["text"] for _, row in sample] == ["0", "200", "400", "600", "800", "1000"]
    for group, row in sample:
        assert row["content"] == texts[int(row["text"])]
        pd.testing.assert_frame_equal(
            study.tokens("totals", group, row["text"]), study.table("totals", text=row["text"])
        )
    assert len(attlas.study(tiny("bert"), texts[:2], "totals", out=tmp_path / "two").sample(6)) == 2


def test_a_study_that_fails_leaves_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model = tiny("bert")
    model.network.embeddings.word_embeddings.weight.data[:] = float("nan")
    with pytest.raises(AttlasError):
        attlas.study(model, ["a cat"])
    assert not list(tmp_path.glob("attlas-*"))


def test_an_engine_gives_values_in_order_and_takes_items_as_they_are_wanted() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in itertools.count():
            taken.append(number)
            yield number

    values = engines.LocalEngine(3).in_order(lambda number: number**2, items())
    assert [next(values) for _ in range(5)] == [0, 1, 4, 9, 16]
    values.close()
    assert len(taken) < 12
    with pytest.raises(ZeroDivisionError):
        list(engines.LocalEngine(2).in_order(lambda number: 1 // number, [2, 1, 0, 3]))


# what a measure needs


@dataclass
class SeenState(State):
    """Batches and layers in the order in which they came."""

    losses: Sums
    events: list[tuple[str, int]] = field(default_factory=list, metadata={"parameter": True})


@dataclass(frozen=True, kw_only=True)
class Recorder(Measure[SeenState]):
    """Records the calls of the runner."""

    name: ClassVar[str] = "recorder"
    events: ClassVar[list[tuple[str, int]]] = []
    asked: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs", frozenset(self.asked))

    def start(self, model: Shape) -> SeenState:
        return SeenState(Sums.zeros(1))

    def update(self, state: SeenState, layer: Attention) -> None:
        self.events.append(("layer", layer.index))

    def finish_batch(self, state: SeenState, batch: Batch, outputs: Outputs) -> BatchReport | None:
        self.events.append(("batch", batch.n_texts))
        for need, read in (
            ("network", lambda: outputs.network.n_layers),
            ("loss", lambda: outputs.gradients.loss),
        ):
            if need in self.asked:
                read()
            else:
                with pytest.raises(MeasureError, match=f"declare it in `needs`: .*{need}"):
                    read()
        return BatchReport(counts=Counter(finished=batch.n_texts)) if self.asked else None

    def result(self, state: SeenState) -> dict[str, pd.DataFrame]:
        return {"recorder": pd.DataFrame({"count": state.losses.count})}


@pytest.mark.parametrize("asked", [(), ("loss",), ("network",)])
def test_finish_batch_comes_after_all_layers_with_what_was_asked(asked):
    Recorder.events.clear()
    model = tiny("bert", "classify")
    study = attlas.study(model, ["a cat", "the cat sat on it"], [Recorder(asked=asked)], workers=1)
    layers = [] if "network" in asked else [("layer", number) for number in range(3)]
    assert Recorder.events == [*layers, ("batch", 1), *layers, ("batch", 1)]
    assert study.manifest["counts"].get("finished", 0) == (2 if asked else 0)


def test_an_unknown_need_is_refused_before_any_work():
    with pytest.raises(MeasureError, match="recorder needs weather; a measure can need head_grad"):
        attlas.study(tiny("bert"), ["a cat"], [Recorder(asked=("weather",))])
