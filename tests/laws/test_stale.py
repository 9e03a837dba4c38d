"""Changed inputs never give an old result, and what did not change is found again.

A change is refused with a message that names it, or the true result is computed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import normalizers

import attlas
from attlas.core.measure import Measure
from attlas.core.text import Text
from attlas.corpora.synthetic import synthetic
from attlas.dynamics import AttentionClassifier
from attlas.models.vectors import GloveVectors, ModelVectors
from attlas.papers import betti, dynamics as recipe, longformer
from attlas.relations import RelationExtractor
from attlas.testing import tiny
from attlas.topology import TopologyFeatures
from attlas.tree import TreeProbe
from tests.builders.changes import (
    QUIET,
    WORDS,
    Total,
    counting_loads,
    labelled_rows,
    parsed,
    premise,
    refused,
    refused_or,
    same,
    stops,
    text,
    upgrade,
)
from tests.builders.processes import Run, Start
from tests.builders.stale_runs import (
    LONG_TEXTS,
    ROWS,
    entropies,
    find_heads,
    read_related,
    related,
    related_vectors,
    study_of_texts,
    tune_again,
    tuned,
)

SPANS = [(4, 20)]


# --- a study: texts, model, measures, code


def test_a_study_sees_which_annotation_a_text_has() -> None:
    model = tiny("longformer")
    old = entropies(model, [text(n, annotations={"global": SPANS}) for n in range(3)], "out")
    texts = [text(n, annotations={"rationale": SPANS}) for n in range(3)]
    refused_or(entropies(model, texts), lambda: entropies(model, texts, "out"), old=old)


@dataclass(frozen=True, eq=False)
class Tagged(Measure[Total]):
    """A plug-in measure: how many texts have the given tag, times its weights."""

    name: ClassVar[str] = "tagged"
    tag: str = "a"
    weights: Any = 1.0
    hidden: float = field(default=0.0, repr=False)

    def start(self, model: Any) -> Total:
        return Total()

    def update(self, state: Total, layer: Any) -> None:
        if layer.index == 0:
            state.count([one.annotations.get("tag") == self.tag for one in layer.batch.texts])

    def result(self, state: Total) -> dict[str, pd.DataFrame]:
        return {"tagged": state.frame(float(np.sum(self.weights)), self.hidden)}


def tagged(texts: Any, out: str | None = None, **parameters: Any) -> pd.DataFrame:
    return attlas.study(tiny("bert"), texts, Tagged(**parameters), out, **QUIET).table("tagged")


def test_a_study_sees_an_annotation_that_only_a_third_party_knows() -> None:
    first, second = ([text(n, 5, annotations={"tag": tag}) for n in range(3)] for tag in "ab")
    old = tagged(first, "out")
    refused_or(tagged(second), lambda: tagged(second, "out"), old=old)


def test_a_study_without_its_manifest_does_not_take_states_of_other_texts() -> None:
    model = tiny("bert")
    entropies(model, [text(n, 8) for n in range(5)], "out", keep_states=True)
    Path("out/manifest.json").unlink()
    texts = [replace(text(1000 + n, 4), id=f"new{n}") for n in range(600)]  # more than a shard
    ids = refused(
        lambda: (
            attlas.study(model, texts, "entropy", "out", **QUIET).table("texts")["text"].tolist()
        )
    )
    assert ids is None or ids == [one.id for one in texts]


def test_a_fresh_study_stopped_while_clearing_leaves_no_states_of_other_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, first, second = (
        tiny("bert"),
        [text(n, 8) for n in range(4)],
        [text(10 + n, 8) for n in range(4)],
    )
    true = entropies(model, second)
    entropies(model, first, "made", keep_states=True)
    for _ in stops(monkeypatch, lambda: entropies(model, second, "out", fresh=True), every=2):
        refused_or(true, lambda: entropies(model, second, "out"))
        assert same(true, entropies(model, second, "out", fresh=True))


def test_a_study_sees_on_which_side_the_tokenizer_truncates() -> None:
    model, texts = replace(tiny("bert"), limit=12), [text(n, 40) for n in range(4)]
    old = entropies(model, texts, "out")
    model.tokenizer.truncation_side = "left"
    model = replace(model)
    refused_or(entropies(model, texts), lambda: entropies(model, texts, "out"), old=old)


def test_a_study_sees_which_token_separates() -> None:
    texts = [Text(str(n), f"{text(n, 6).text} . {text(n + 9, 6).text}") for n in range(4)]

    def surface(model: attlas.Model, out: str | None = None) -> pd.DataFrame:
        return attlas.study(model, texts, "surface", out, **QUIET).table("surface")

    old, model = surface(tiny("bert"), "out"), tiny("bert")
    model.tokenizer.sep_token = "."
    refused_or(surface(model), lambda: surface(model, "out"), old=old)


def test_a_study_sees_whether_special_tokens_in_a_text_are_split() -> None:
    texts = [Text(str(n), f"{text(n, 6).text} [SEP] {text(n + 9, 6).text}") for n in range(4)]
    old, model = entropies(tiny("bert"), texts, "out"), tiny("bert")
    model.tokenizer.split_special_tokens = True
    refused_or(entropies(model, texts), lambda: entropies(model, texts, "out"), old=old)


def test_a_study_sees_every_number_in_a_parameter() -> None:
    texts, weights = [text(n, 5, annotations={"tag": "a"}) for n in range(3)], np.ones(5000)
    old = tagged(texts, "out", weights=weights)
    other = weights.copy()
    other[2500] = 100
    refused_or(tagged(texts, weights=other), lambda: tagged(texts, "out", weights=other), old=old)


def test_a_study_sees_a_field_that_repr_leaves_out() -> None:
    texts = [text(n, 5) for n in range(3)]
    old = tagged(texts, "out")
    refused_or(tagged(texts, hidden=1.0), lambda: tagged(texts, "out", hidden=1.0), old=old)


THEIRS = """
from dataclasses import dataclass
from typing import ClassVar
from attlas.core.measure import Measure
from tests.builders.changes import Total

@dataclass(frozen=True)
class Theirs(Measure):
    name: ClassVar[str] = "theirs"

    def start(self, model):
        return Total()

    def update(self, state, layer):
        state.count([1] * layer.n_texts)

    def result(self, state):
        return {"theirs": state.frame(FACTOR)}
"""


def test_a_study_sees_the_code_of_a_third_partys_measure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    model, texts = tiny("bert"), [text(n, 5) for n in range(3)]

    def theirs(factor: int, out: str | None = None) -> pd.DataFrame:
        Path("their_measures.py").write_text(THEIRS.replace("FACTOR", str(factor)))
        importlib.invalidate_caches()
        sys.modules.pop("their_measures", None)
        shutil.rmtree("__pycache__", ignore_errors=True)
        measure = importlib.import_module("their_measures").Theirs()
        return attlas.study(model, texts, measure, out, **QUIET).table("theirs")

    old = theirs(10, "out")
    refused_or(theirs(20), lambda: theirs(20, "out"), old=old)


CHANGED_SOURCE = """
import json, shutil, sys
from pathlib import Path

def entropies():
    for name in [name for name in sys.modules if name.partition(".")[0] == "attlas"]:
        del sys.modules[name]
    import attlas, attlas.testing
    from attlas.support.errors import AttlasError
    assert Path(attlas.__file__).is_relative_to(Path("copied").resolve()), attlas.__file__
    texts = ["the cat sat on the mat", "a dog saw it"]
    try:
        done = attlas.study(attlas.testing.tiny("bert"), texts, "entropy", "out", progress=False)
    except AttlasError as error:
        return str(error)
    return done.table("entropy")["entropy"].tolist()

shutil.copytree(Path(sys.modules["attlas"].__file__).parent, "copied/attlas")
sys.path.insert(0, str(Path("copied").resolve()))
found = [entropies(), entropies()]
with open("copied/attlas/measures/entropy.py", "a") as file:
    file.write(
        "\\n_result = Entropy.result\\n"
        "def doubled(table):\\n"
        "    changed = {'entropy': 2 * table['entropy']} if 'entropy' in table else {}\\n"
        "    return table.assign(**changed)\\n"
        "Entropy.result = lambda self, state: {\\n"
        "    name: doubled(table) for name, table in _result(self, state).items()\\n"
        "}\\n"
    )
print(json.dumps([*found, entropies()]))
"""


@pytest.mark.slow
def test_a_study_sees_the_source_of_attlas(attlas_start: Start) -> None:
    first, again, edited = in_a_process(attlas_start, CHANGED_SOURCE)
    premise(isinstance(first, list) and first == again, f"the same source gave {first} and {again}")
    true = [2 * value for value in first]
    assert (isinstance(edited, str) and "source" in edited) or edited == pytest.approx(true), (
        f"neither refused nor true: {edited}"
    )


def in_a_process(start: Start, code: str, first: str | Path | None = None) -> Any:
    """What code prints last, as JSON, in its own process; `first` comes first on its path."""
    paths = [str(Path(__file__).parents[2]), *([] if first is None else [str(first)])]
    process = start(
        code=f"import sys\nfor path in {paths!r}:\n    sys.path.insert(0, path)\n{code}"
    )
    out, error = process.communicate(timeout=120)
    premise(process.returncode == 0, error)
    return json.loads(out.splitlines()[-1])


def test_a_study_sees_the_version_of_the_tokenizers(attlas_start: Start, tmp_path: Path) -> None:
    premise(study_of_texts(), "nothing was read")
    code = (
        "import json\nfrom tests.builders.stale_runs import study_of_texts\n"
        "print(json.dumps(study_of_texts()))"
    )
    premise(not in_a_process(attlas_start, code), "the same versions do not find the study")
    assert in_a_process(attlas_start, code, upgrade("tokenizers", tmp_path / "newer")), (
        "the study of older tokenizers was returned"
    )


def test_a_manifest_names_the_weights_that_were_used(tiny_folder: Path) -> None:
    def digest(model: attlas.Model) -> str | None:
        study = attlas.study(model, [text(0)], "entropy", **QUIET)
        return study.manifest["model"].get("sha256")

    plain, scaled = attlas.load(tiny_folder), attlas.load(tiny_folder)
    with torch.no_grad():
        next(scaled.network.parameters()).mul_(2)
    premise(plain.weights_sha256() != scaled.weights_sha256(), "the weights are the same")
    assert digest(scaled) is None or digest(scaled) != digest(plain)


def test_studies_of_different_texts_are_not_joined() -> None:
    model = tiny("bert")
    one = attlas.study(model, ["the cat sat", "a dog"], "entropy", "one", **QUIET)
    other = attlas.study(model, ["it was a very good film", "not bad"], "totals", "other", **QUIET)
    both = refused(lambda: one.combined_with(other))
    if both is not None:
        texts = dict(both.table("texts")[["text", "content"]].itertuples(index=False))
        tokens = both.table("totals")
        own = tokens[tokens["start"] >= 0]
        strange = [
            row.string
            for row in own.itertuples()
            if row.string not in texts.get(row.text, row.string)
        ]
        assert not strange, f"tokens of other texts: {strange}"


# --- found again


def test_the_function_finds_the_study_of_the_verb(attlas_command: Run) -> None:
    tiny("bert", "classify").save("M")
    Path("texts.csv").write_text("text\n" + "\n".join(one.text for one in LONG_TEXTS) + "\n")
    ended = attlas_command(
        "study",
        "--model",
        "M",
        "--data",
        "texts.csv",
        "--measures",
        "entropy",
        "--out",
        "out",
        "--no-report",
    )
    premise(ended.returncode == 0, ended.stderr)
    manifest = Path("out/manifest.json").read_bytes()
    attlas.study("M", "texts.csv", "entropy", "out", **QUIET)
    assert Path("out/manifest.json").read_bytes() == manifest, "the study was made again"


def test_a_fresh_study_that_was_stopped_while_clearing_can_be_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, others = (
        tiny("bert"),
        ("notes.txt", "syntax/manifest.json"),
    )  # of the user, and of another experiment

    def fresh() -> pd.DataFrame:
        return entropies(model, LONG_TEXTS, "out", fresh=True)

    entropies(model, LONG_TEXTS, "made", keep_states=True)
    Path("made/syntax").mkdir()
    for name in others:
        Path("made", name).write_text("{}")
    for _ in stops(monkeypatch, fresh):
        fresh()
        assert all(Path("out", name).read_text() == "{}" for name in others)


# --- fine-tuning


def save_tiny(
    folder: str | Path, family: str = "bert", seed: int = 0, lower: bool = True, **options: Any
) -> None:
    """Replace a folder by a tiny classifier; if not `lower`, its tokenizer knows no upper case."""
    shutil.rmtree(folder, ignore_errors=True)
    model = tiny(family, "classify", seed=seed, **options)
    model.tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    model.save(folder)


@pytest.mark.parametrize(
    "changed",
    [{"seed": 5}, {"lower": False}, {"hidden_act": "relu"}],
    ids=["weights", "tokenizer", "config"],
)
def test_fine_tuning_sees_all_of_its_base_model(changed: dict[str, Any]) -> None:
    texts = [
        replace(one, text=one.text.replace("cat", "Cat").replace("good", "GOOD")) for one in ROWS
    ]
    save_tiny("base")
    old = tuned("base", "out", texts)
    save_tiny("base", **changed)
    refused_or(tuned("base", None, texts), lambda: tuned("base", "out", texts), old=old)


def test_fine_tuning_sees_which_folder_a_relative_path_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed, folder in enumerate(("one", "two")):
        save_tiny(tmp_path / folder / "base", seed=seed)
    monkeypatch.chdir(tmp_path / "one")
    old = tuned("base", str(tmp_path / "out"))
    monkeypatch.chdir(tmp_path / "two")
    refused_or(tuned("base"), lambda: tuned("base", str(tmp_path / "out")), old=old)


def test_fine_tuning_sees_global_spans() -> None:
    save_tiny("base", "longformer")
    old = tuned("base", "out")
    texts = [replace(one, annotations={"global": SPANS}) for one in ROWS]
    refused_or(tuned("base", None, texts), lambda: tuned("base", "out", texts), old=old)


def test_fine_tuning_sees_the_ids_of_texts() -> None:
    save_tiny("base")
    tuned("base", "out", hold_out=0.25)
    texts = [replace(one, id=f"new{one.id}") for one in ROWS]
    if refused(lambda: tuned("base", "out", texts, hold_out=0.25)) is not None:
        held = [one.id for one in attlas.read("out/held_out.jsonl")]
        premise(bool(held), "nothing was held out")
        assert all(name.startswith("new") for name in held), f"held out: {held}"


OTHERS: dict[
    str, Callable[..., attlas.Model]
] = {  # the same weights as `tiny("bert", task)`, but another model
    "limit": lambda task="base": replace(tiny("bert", task), limit=4),
    "config": lambda task="base": tiny("bert", task, hidden_act="relu"),
    "tokenizer": lambda task="base": renamed(tiny("bert", task)),
}


def renamed(model: attlas.Model) -> attlas.Model:
    """The model with a tokenizer that reads every `cat` as `dog`."""
    model.tokenizer.backend_tokenizer.normalizer = normalizers.Replace("cat", "dog")
    return model


@pytest.mark.parametrize("part", OTHERS)
def test_fine_tuning_sees_all_of_a_model_object(part: str) -> None:
    old, other = tuned(tiny("bert", "classify"), "out"), OTHERS[part]("classify")
    refused_or(tuned(other), lambda: tuned(other, "out"), old=old)


def test_fine_tuning_sees_versions(attlas_start: Start, tmp_path: Path) -> None:
    premise(tune_again(), "nothing was fitted")
    code = (
        "import json\nfrom tests.builders.stale_runs import tune_again\n"
        "print(json.dumps(tune_again()))"
    )
    premise(not in_a_process(attlas_start, code), "the same versions do not find the model")
    assert in_a_process(attlas_start, code, upgrade("torch", tmp_path / "newer")), (
        "the model of an older torch was returned"
    )


def test_fine_tuning_finds_the_same_model_by_another_spelling_of_its_path(tmp_path: Path) -> None:
    save_tiny("base")
    first = tuned("base", "out")
    record = Path("out/finetune.json").read_bytes()
    for other in ("./base", str(tmp_path / "base")):
        assert tuned(other, "out") == first
        assert Path("out/finetune.json").read_bytes() == record, "it was fitted again"


@pytest.mark.slow
def test_fresh_fine_tuning_that_was_stopped_while_clearing_can_be_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny("bert", "classify")
    first = tuned(model, "made", hold_out=0.25)
    for _ in stops(monkeypatch, lambda: tuned(model, "out", hold_out=0.25, fresh=True)):
        assert tuned(model, "out", hold_out=0.25, fresh=True) == first


# --- dynamics


def classifiers(texts: list[Text], out: str | None, **options: Any) -> attlas.Study:
    """The grid of one classifier."""
    parts = {"train": texts[:40], "dev": texts[40:50], "test": texts[50:]}
    grid = attlas.Dynamics(**parts, **{"scales": (10.0,), "epochs": 1, **options})
    return attlas.run(grid, out, workers=1, **QUIET)


def cells(texts: list[Text], out: str | None = None, **options: Any) -> pd.DataFrame:
    return classifiers(texts, out, dim=8, **options).table("dynamics")


def test_dynamics_sees_the_words_of_texts() -> None:
    def texts(end: tuple[str, ...]) -> list[Text]:
        ends = ("bad", "film"), end
        return [
            Text(str(n), label=str(n % 2), words=(*text(n, 6).text.split(), *ends[n % 2]))
            for n in range(60)
        ]

    old = cells(texts(("good", "film")), "out")
    joined = texts(("good film",))
    premise(
        [one.text for one in joined] == [one.text for one in texts(("good", "film"))],
        "the texts differ",
    )
    refused_or(cells(joined), lambda: cells(joined, "out"), old=old)


@pytest.mark.parametrize("part", OTHERS)
def test_dynamics_sees_all_of_the_frozen_model(part: str) -> None:
    def separations(model: attlas.Model, out: str) -> dict[str, Any]:
        study = classifiers(labelled_rows(60), out, encoders=("model",), model=model)
        return {
            "truncated": study.manifest["counts"]["truncated"],
            "tokens": study.table("dynamics_tokens"),
        }

    old = separations(tiny("bert"), "out")
    premise(OTHERS[part]().weights_sha256() == tiny("bert").weights_sha256(), "the weights differ")
    refused_or(
        separations(OTHERS[part](), "other"), lambda: separations(OTHERS[part](), "out"), old=old
    )


def write_vectors(path: str, words: tuple[str, ...]) -> str:
    draw = np.random.default_rng(0)
    Path(path).write_text(
        "".join(f"{word} {' '.join(f'{x:.3f}' for x in draw.normal(size=4))}\n" for word in words)
    )
    return path


def test_dynamics_sees_the_words_of_a_vector_file() -> None:
    texts, one = labelled_rows(60), write_vectors("one.txt", WORDS)
    other = write_vectors("other.txt", WORDS[::-1])
    old = cells(texts, "out", encoders=("vectors",), vectors=one)
    true = cells(texts, encoders=("vectors",), vectors=other)
    refused_or(true, lambda: cells(texts, "out", encoders=("vectors",), vectors=other), old=old)


def test_a_tree_probe_is_not_loaded_with_other_vectors() -> None:
    one, other = (GloveVectors(write_vectors(f"{n}.txt", WORDS[::n])) for n in (1, -1))
    TreeProbe(tiny("bert"), "distance_words", vectors=one, epochs=1, **QUIET).fit(parsed(10)).save(
        "probe"
    )
    premise(
        refused(lambda: TreeProbe.load("probe", vectors=one)) is not None,
        "its own vectors were refused",
    )
    premise(not same(one.of(["cat"]), other.of(["cat"])), "the vectors are the same")
    assert refused(lambda: TreeProbe.load("probe", vectors=other)) is None, (
        "other vectors were taken"
    )


def test_a_tree_probe_is_not_loaded_with_vectors_of_another_tokenizer() -> None:
    model = tiny("bert")
    one, two = ModelVectors(model), ModelVectors(renamed(tiny("bert")))
    premise(not same(one.of(["cat"]), two.of(["cat"])), "the vectors are the same")
    TreeProbe(model, "distance_words", vectors=one, epochs=1, **QUIET).fit(parsed(10)).save("probe")
    assert refused(lambda: TreeProbe.load("probe", vectors=two)) is None, "other vectors were taken"


def frozen_logits() -> list[float]:
    """The logits of a classifier over the model in the folder `base` for some texts."""
    texts = labelled_rows(16)
    classifier = AttentionClassifier(encoder="model", source="base", epochs=1, **QUIET).fit(
        texts, dev=False
    )
    return [float(value) for value in classifier.decision_function(texts)]


def test_a_process_sees_that_a_frozen_model_was_replaced() -> None:
    save_tiny("base")
    old = frozen_logits()
    save_tiny("base", seed=5)
    shutil.copytree("base", "copy")
    texts = labelled_rows(16)
    fitted = AttentionClassifier(
        encoder="model", source=attlas.load("copy"), epochs=1, **QUIET
    ).fit(texts, dev=False)
    refused_or([float(value) for value in fitted.decision_function(texts)], frozen_logits, old=old)


# --- saved estimators


def test_a_saved_attention_classifier_knows_its_frozen_model(tmp_path: Path) -> None:
    texts, folder = labelled_rows(16), tmp_path / "saved-base"
    save_tiny(folder)
    fitted = AttentionClassifier(encoder="model", source=str(folder), epochs=1, **QUIET).fit(
        texts, dev=False
    )
    before = fitted.decision_function(texts)
    fitted.save("classifier")
    save_tiny(folder, seed=5)
    save_tiny("base")
    frozen_logits()  # so that the process has another model in memory
    refused_or(before, lambda: AttentionClassifier.load("classifier").decision_function(texts))


@pytest.mark.parametrize("part", OTHERS)
def test_a_saved_tree_probe_knows_all_of_its_model(part: str) -> None:
    TreeProbe(tiny("bert"), "attention", epochs=1, **QUIET).fit(parsed(10)).save("probe")
    premise(
        refused(lambda: TreeProbe.load("probe", tiny("bert"))) is not None,
        "its own model was refused",
    )
    assert refused(lambda: TreeProbe.load("probe", OTHERS[part]())) is None, (
        "another model was taken"
    )


@pytest.mark.parametrize("part", ["sep_token", "truncation_side"])
def test_a_saved_relation_extractor_knows_all_of_its_model(part: str) -> None:
    model, other = tiny("bert"), tiny("bert")
    RelationExtractor(model, grid=(1.0,), workers=1, **QUIET).fit(related(40)).save("extractor")
    premise(
        refused(lambda: RelationExtractor.load("extractor", model)) is not None,
        "its own model was refused",
    )
    setattr(other.tokenizer, part, {"sep_token": ".", "truncation_side": "left"}[part])
    assert refused(lambda: RelationExtractor.load("extractor", other)) is None, (
        "another model was taken"
    )


def test_what_is_saved_of_a_topology_classifier_depends_on_the_model() -> None:
    def saved(model: attlas.Model, out: str) -> dict[str, bytes]:
        topology(model, out, controls=False)
        (folder,) = {path.parent for path in Path(out).rglob("classifier.safetensors")}
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    model = tiny("bert")
    other = replace(
        model, limit=500
    )  # longer than any text here: the same features, but another model
    assert saved(model, "one") != saved(other, "other")


# --- topology


def topology(model: Any, out: str, texts: list[Text] | None = None, **options: Any) -> pd.DataFrame:
    """The scores of the classifiers of an experiment."""
    texts = labelled_rows(40) if texts is None else texts
    parts = {"train": texts[:20], "dev": texts[20:30], "test": texts[30:]}
    experiment = attlas.Topology(model=model, **parts, thresholds=(0.1,), **options)
    return attlas.run(experiment, out, workers=1, **QUIET).table("topology")


@pytest.mark.parametrize("part", OTHERS)
def test_topology_sees_all_of_the_frozen_model(part: str) -> None:
    model = tiny("bert", "classify", seed=1)
    old = topology(model, "out", frozen=tiny("bert"))
    true = topology(model, "other", frozen=OTHERS[part]())
    refused_or(true, lambda: topology(model, "out", frozen=OTHERS[part]()), old=old)


def test_topology_sees_global_spans() -> None:
    model, texts = tiny("longformer", "classify", seed=2), labelled_rows(40, 20)
    wide = [replace(one, annotations={"global": [(4, 60)]}) for one in texts]
    old = topology(model, "out", texts, controls=False)
    true = topology(model, "other", wide, controls=False)
    refused_or(true, lambda: topology(model, "out", wide, controls=False), old=old)


def test_topology_features_see_global_spans() -> None:
    model = tiny("longformer")
    texts = [text(n, annotations={"global": [(4, 60)]}) for n in range(4)]
    study = attlas.study(model, texts, "betti", **QUIET).table("betti")
    plain = attlas.study(model, [text(n) for n in range(4)], "betti", **QUIET).table("betti")
    true, old = (table.drop(columns="text").to_numpy(dtype=np.float32) for table in (study, plain))
    refused_or(true, lambda: TopologyFeatures(model, **QUIET).fit_transform(texts), old=old)


# --- probes


def syntax(model: Any, spans: Any = (), out: str | None = None) -> pd.DataFrame:
    with tempfile.TemporaryDirectory() as other:
        texts = parsed(20, 12, **({"global": spans} if spans else {}))
        place = other if out is None else out
        experiment = attlas.Syntax(model=model, train=texts[:14], test=texts[14:], min_cases=1)
        return attlas.run(experiment, place, workers=1, **QUIET).table("syntax_heads")


def test_a_probe_sees_global_spans() -> None:
    model = tiny("longformer")
    old = syntax(model, out="out")
    refused_or(syntax(model, SPANS), lambda: syntax(model, SPANS, "out"), old=old)


def test_the_cache_of_relations_sees_global_spans() -> None:
    model, wide = tiny("longformer"), [(0, 25)]
    old = related_vectors(model, "cache")
    true = related_vectors(model, **{"global": wide})
    refused_or(true, lambda: related_vectors(model, "cache", **{"global": wide}), old=old)


@pytest.mark.slow
def test_the_cache_of_relations_sees_versions(attlas_start: Start, tmp_path: Path) -> None:
    premise(read_related(), "nothing was read")
    code = (
        "import json\nfrom tests.builders.stale_runs import read_related\n"
        "print(json.dumps(read_related()))"
    )
    premise(
        not in_a_process(attlas_start, code), "the same versions do not find what is in the cache"
    )
    assert in_a_process(attlas_start, code, upgrade("torch", tmp_path / "newer")), (
        "vectors of an older torch were returned"
    )


def test_scores_of_relations_see_what_relations_are_called() -> None:
    model, texts = tiny("bert"), related(24)
    names = sorted(
        {triple.relation for one in texts for triple in one.annotations["relations"].triples}
    )

    how: dict[str, Any] = {"workers": 1, **QUIET}

    def fit(title: str) -> None:
        Path("names.json").write_text(json.dumps({name: f"{title} {name}" for name in names}))
        fit = attlas.FitRelations(
            train=texts[:12], dev=texts[12:18], model=model, names="names.json"
        )
        attlas.run(fit, "extractor", fresh=True, **how)

    def scored(out: str) -> pd.DataFrame:
        score = attlas.ScoreRelations(extractor="extractor", test=texts[18:], model=model)
        return attlas.run(score, out, **how).table("relations_each")

    fit("one")
    old = scored("out")
    fit("other")
    refused_or(scored("true"), lambda: scored("out"), old=old)


def test_a_cache_of_passes_gets_a_new_entry_after_an_upgrade(
    attlas_start: Start, tmp_path: Path
) -> None:
    premise(find_heads() is None, "the first pass failed")
    code = (
        "import json\nfrom tests.builders.stale_runs import find_heads\n"
        "print(json.dumps(find_heads()))"
    )
    premise(in_a_process(attlas_start, code) is None, "the same versions do not find the pass")
    refusal = in_a_process(attlas_start, code, upgrade("torch", tmp_path / "newer"))
    assert refusal is None, f"refused: {refusal}"


def test_a_finished_probe_is_opened_without_its_model_wherever_that_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save_tiny("one")
    first = syntax("one", out="out")
    manifest = Path("out/manifest.json").read_bytes()
    Path("one").rename("moved")
    with counting_loads(monkeypatch) as loaded:
        again = syntax("moved", out="out")
    premise(same(first, again), "another result was found")
    premise(Path("out/manifest.json").read_bytes() == manifest, "the probe was run again")
    assert not loaded, f"loaded: {loaded}"


# --- recipes


class Stop(Exception):  # noqa: N818
    """Ends a recipe once it has shown what the test asks for."""


def write_sst(root: str, seed: int) -> str:
    """SST's files, small."""
    folder = Path(root, "sst")
    folder.mkdir(parents=True)
    for name, count in (("train", 60), ("dev", 20)):
        texts = synthetic(count, class_words=5, neutral_words=30, neutral=4, noise=0.2, seed=seed)
        lines = [f"{int(one.label == 'positive')}\t{one.text}\n" for one in texts]
        (folder / f"{name}_binary.tsv").write_text("".join(lines))
    return root


@pytest.fixture
def small_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe of Sun and Lu with one cell per data set, and without pictures."""
    monkeypatch.setattr(recipe, "MODELS", {("dot", "none"): "DP"})
    monkeypatch.setattr(recipe, "SCALES", (10.0,))
    monkeypatch.setattr(recipe, "PUBLISHED", {name: {10.0: (80.0,)} for name in recipe.SETS})
    monkeypatch.setitem(recipe.TRAINED, "epochs", 3)
    monkeypatch.setattr(recipe, "_figures", lambda name: [])
    monkeypatch.setattr(recipe._Run, "_as_in_the_notebook", lambda run, seeds: None)
    monkeypatch.setattr(recipe, "write_charts", lambda *given: [])
    monkeypatch.setattr(attlas.Study, "report", lambda study, path: path)


SECOND = {
    "data": ("other", 1),
    "seeds": ("one", 2),
}  # how the second run differs from data `one` and one seed


@pytest.mark.parametrize("changed", SECOND)
@pytest.mark.usefixtures("small_recipe")
def test_a_recipe_does_not_keep_parts_of_other_data_or_seeds(changed: str) -> None:
    root, seeds = SECOND[changed]
    roots = {"one": write_sst("one", 1), "other": write_sst("other", 2)}
    first = recipe.reproduce(
        roots["one"], "out", parts=["sst"], seeds=1, workers=1, **QUIET
    ).to_dict()["ours"]
    done = refused(
        lambda: recipe.reproduce(
            roots[root], "out", parts=["differences"], seeds=seeds, workers=1, **QUIET
        )
    )
    assert done is None or done.to_dict()["ours"].get("sst") != first["sst"], (
        "the earlier part is in the result"
    )


@pytest.mark.parametrize("changed", SECOND)
@pytest.mark.usefixtures("small_recipe")
def test_differences_are_not_those_of_other_data_or_seeds(changed: str) -> None:
    root, seeds = SECOND[changed]
    roots = {"one": write_sst("one", 1), "other": write_sst("other", 2)}
    first = recipe.reproduce(
        roots["one"], "out", parts=["sst", "differences"], seeds=1, workers=1, **QUIET
    )
    old = first.to_dict()["ours"]["difference"]
    true = recipe.reproduce(
        roots[root], "true", parts=["sst", "differences"], seeds=seeds, workers=1, **QUIET
    )
    premise(true.to_dict()["ours"]["difference"] != old, "the differences are the same")
    done = refused(
        lambda: recipe.reproduce(
            roots[root], "out", parts=["differences"], seeds=seeds, workers=1, **QUIET
        )
    )
    assert done is None or done.to_dict()["ours"].get("difference") != old, (
        "the difference of other data or seeds"
    )


def lengthened(monkeypatch: pytest.MonkeyPatch, window: int = 8) -> tuple[Any, list[int]]:
    """The attention windows of the lengthened model of a recipe, and the tokens of a text."""
    monkeypatch.setattr(longformer, "WINDOW", window)
    monkeypatch.setattr(longformer, "LENGTH", 1040)
    seen: list[attlas.Model] = []

    def stop(one: attlas.Experiment, *place: Any, **how: Any) -> attlas.Study:
        if isinstance(one, attlas.Lengthen):
            return attlas.run(one, *place, **how)
        assert isinstance(one, attlas.Finetune)
        seen.append(attlas.load(one.model))
        raise Stop

    monkeypatch.setattr(longformer, "run", stop)
    with contextlib.suppress(Stop):
        longformer.reproduce("data", "out", model="base", tasks=["mock_notes"], **QUIET)
    return seen[0].network.config.attention_window, seen[0].tokenizer("a Cat")["input_ids"]


@pytest.mark.parametrize("changed", ["window", "tokenizer"])
def test_a_recipe_sees_how_its_model_was_lengthened(
    changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("data/mock_notes").mkdir(parents=True)
    notes = [
        json.dumps({"id": one.id, "text": one.text, "label": one.label}) for one in labelled_rows(8)
    ]
    Path("data/mock_notes/notes.jsonl").write_text("\n".join(notes))
    save_tiny("base")
    old = lengthened(monkeypatch)
    window = 16 if changed == "window" else 8
    save_tiny("base", lower=changed == "window")
    again = refused(lambda: lengthened(monkeypatch, window))
    Path("out").rename("old")
    refused_or(lengthened(monkeypatch, window), lambda: again, old=old)


def test_a_recipe_sees_the_weights_of_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("data/sms_spam").mkdir(parents=True)
    rows = [f"{one.label}\t{one.text}\n" for one in labelled_rows(60)]
    Path("data/sms_spam/train.tsv").write_text("".join(rows))
    seen: list[str] = []

    def stop(one: attlas.Experiment, *place: Any, **how: Any) -> attlas.Study:
        if isinstance(one, attlas.Finetune):
            return attlas.run(one, *place, **how)
        assert isinstance(one, attlas.Topology)
        seen.append(attlas.load(one.model, task="classify").weights_sha256())
        raise Stop

    monkeypatch.setattr(betti, "run", stop)
    monkeypatch.setattr(betti, "Finetune", partial(attlas.Finetune, head_only=True))

    def fitted(out: str) -> str:
        with contextlib.suppress(Stop):
            betti.reproduce(
                "data", out, model="base", tasks=["sms_spam"], conventions=["published"], **QUIET
            )
        return seen[-1]

    save_tiny("base")
    old = fitted("out")
    save_tiny("base", seed=5)
    refused_or(fitted("true"), lambda: fitted("out"), old=old)
