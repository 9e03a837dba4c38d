"""Texts that models read for pages: rows of the model, bounds, the queue and what is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import attlas
from attlas.core.text import Text
from attlas.testing import tiny
from attlas.views.matrices import ROUNDING, code_weights
from attlas.views.packing import unpacked
from attlas.web import looks as web_looks
from attlas.web.looks import Look, Looks, look_at
from attlas.web.refusals import Refusal
from attlas.web.safety import access_for
from attlas.web.tasks import Task, Tasks
from tests.builders.text_views import SENTENCE

SHORT = " ".join([SENTENCE] * 2)
LAYOUTS = ("bert", "gpt2", "longformer")


def quiet(step: str, done: int, total: int) -> None:
    pass


def ended(tasks: Tasks, name: str) -> dict[str, Any]:
    """The state of a task once it has ended."""
    until = time.monotonic() + 30
    while (about := tasks.status(name))["state"] in ("waiting", "running"):
        assert time.monotonic() < until
        time.sleep(0.01)
    return about


@pytest.mark.parametrize("family", LAYOUTS)
def test_rows_are_the_weights_of_the_model(family: str) -> None:
    model = tiny(family)
    look = look_at(model, Text("t", SHORT), quiet)
    weights = attlas.attention(model, SHORT).weights.numpy()
    n = weights.shape[-1]
    for layer in range(model.n_layers):
        for head in range(model.n_heads):
            for query in (0, 1, n // 2, n - 1):
                row = np.frombuffer(look.row(f"L{layer}H{head}", query), dtype="<f4")
                assert np.array_equal(row, weights[layer, head, query])


@pytest.mark.parametrize("family", LAYOUTS)
def test_the_matrix_is_that_of_the_page(family: str) -> None:
    model = tiny(family)
    look = look_at(model, Text("t", SHORT), quiet)
    (expected,) = attlas.attention(model, SHORT, matrix="L1H2").matrices
    assert look.codes("L1H2") == expected.packed
    exact = np.frombuffer(look.row("L1H2", 3), dtype="<f4")
    read = code_weights(expected.codes)[3]
    large = exact > 1e-4
    assert np.allclose(read[large], exact[large], rtol=1.01 * ROUNDING, atol=0)


@pytest.mark.parametrize("family", LAYOUTS)
def test_the_largest_weights_of_a_head_are_those_of_the_whole_pass(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attlas.models.look.MOST_BYTES", 0)
    model = tiny(family)
    look = look_at(model, Text("t", SHORT), quiet)
    whole = attlas.attention(model, SHORT).head_tops.data
    n_words = len(look.seen.words)
    for row in (0, 5, model.n_layers * model.n_heads):
        own = look.tops(row)
        for side in (0, 1):
            every = unpacked(whole["words"][side]).reshape(-1, n_words, whole["ranks"])
            assert np.array_equal(unpacked(own["words"][side]), every[row].ravel())
    with pytest.raises(Refusal):
        look.tops(model.n_layers * (model.n_heads + 1))


def test_the_first_data_of_a_long_text_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_looks, "INLINE_BYTES", 0)
    look = look_at(tiny("bert"), Text("t", SHORT), quiet)
    assert "weights" not in look.data
    assert look.data["tops"]["rows"] == [look.data["tops"]["of"] - 1]


@pytest.mark.parametrize("family", LAYOUTS)
@pytest.mark.parametrize("view", ["L1H2", "L2"])
def test_rows_of_words_are_those_of_the_matrix_between_words(family: str, view: str) -> None:
    model = tiny(family)
    look = look_at(model, Text("t", f"didn't {SHORT}"), quiet)
    seen = attlas.attention(model, f"didn't {SHORT}")
    layer, _, head = view.removeprefix("L").partition("H")
    between = seen.to_words()[int(layer)].numpy().astype(np.float64)
    expected = between[int(head)] if head else between.mean(0)
    for word in range(len(seen.words)):
        own = np.frombuffer(look.word(view, word), dtype="<f4").reshape(2, -1)
        assert np.allclose(own, [expected[word], expected[:, word]], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("view", ["L9", "L", "", "L0H99", "L1H", "l1"])
def test_unknown_views_and_words(view: str) -> None:
    look = look_at(tiny("bert"), Text("t", SHORT), quiet)
    with pytest.raises(Refusal):
        look.word(view, 0)
    for word in (-1, 10_000):
        with pytest.raises(Refusal, match="no word"):
            look.word("L0", word)


@pytest.mark.parametrize("head", ["L9H0", "L0H9", "H0", "", "../L0H0", "L-1H0"])
def test_unknown_heads(head: str) -> None:
    look = look_at(tiny("bert"), Text("t", SHORT), quiet)
    with pytest.raises(Refusal):
        look.row(head, 0)


@pytest.mark.parametrize("query", [-1, 10**6])
def test_unknown_tokens(query: int) -> None:
    look = look_at(tiny("bert"), Text("t", SHORT), quiet)
    with pytest.raises(Refusal, match="no token"):
        look.row("L0H0", query)


@pytest.fixture
def served() -> Looks:
    """Two named models that are tiny."""
    made = {"a": tiny("bert"), "b": tiny("gpt2")}
    return Looks(["a", "b"], access_for("127.0.0.1", 1).opaque, opener=made.__getitem__)


def test_a_text_is_read_once_and_found_again(served: Looks) -> None:
    first, second = served.models
    name = served.start(first, Text("t", SHORT))["id"]
    assert ended(served.tasks, name)["state"] == "ready"
    look = served.look(name)
    again = served.start(first, Text("t", SHORT))
    assert again == {"id": name, "state": "ready", "title": ""}
    assert served.look(name) is look
    other = served.start(second, Text("t", SHORT))["id"]
    assert other != name
    assert ended(served.tasks, other)["state"] == "ready"


def test_ids_cannot_be_guessed_or_made_up(served: Looks) -> None:
    other = Looks(["a", "b"], access_for("127.0.0.1", 1).opaque)
    assert set(served.models).isdisjoint(other.models)
    for name in ("", "../..", "a", "0" * 20):
        with pytest.raises(Refusal):
            served.look(name)
        with pytest.raises(Refusal):
            served.status(name)
        with pytest.raises(Refusal):
            served.start(name, Text("t", SHORT))


def test_texts_are_dropped_when_others_need_the_room(served: Looks) -> None:
    name = next(iter(served.models))
    ids = []
    for number in range(4):
        ids.append(served.start(name, Text("t", f"{SHORT} {number}"))["id"])
        ended(served.tasks, ids[-1])
        served.kept.most_bytes = 2 * served.look(ids[-1]).n_bytes + 100
    assert served.kept.n_bytes <= served.kept.most_bytes
    with pytest.raises(Refusal, match="run it again"):
        served.look(ids[0])
    served.look(ids[-1])


def test_the_size_of_a_look_is_that_of_its_weights() -> None:
    look = look_at(tiny("bert"), Text("t", SHORT), quiet)
    weights = attlas.attention(tiny("bert"), SHORT).weights
    assert weights.nbytes <= look.n_bytes <= 1.5 * weights.nbytes + 10_000


def test_large_texts_are_refused_before_the_pass(
    served: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(iter(served.models))
    with pytest.raises(Refusal, match="200,000 characters; this one has 200,001") as refused:
        served.start(name, Text("t", "a" * 200_001))
    assert refused.value.status == 413
    with pytest.raises(Refusal, match="cannot be read"):
        served.start(name, Text("t", "  "))
    monkeypatch.setattr(web_looks, "MOST_WEIGHTS", 12 * 10**2)
    monkeypatch.setattr("attlas.models.model.Model.forward", forbidden)
    about = ended(served.tasks, served.start(name, Text("t", SHORT))["id"])
    assert about["state"] == "failed"
    assert "takes at most 10. Shorten the text" in about["error"]


def forbidden(*_: Any, **__: Any) -> None:
    raise AssertionError("the pass was begun")


def test_a_model_that_cannot_be_loaded_says_so_without_its_path() -> None:
    served = Looks(["/nowhere/models/mine"], access_for("127.0.0.1", 1).opaque)
    (named,) = served.models.values()
    assert named.name == "mine"
    about = ended(served.tasks, served.start(named.id, Text("t", SHORT))["id"])
    assert about["state"] == "failed"
    assert "there is no folder mine" in about["error"]
    assert "/nowhere" not in str(about)


# the queue


def until_running(tasks: Tasks, name: str) -> None:
    while tasks.status(name)["state"] == "waiting":
        time.sleep(0.005)


def waiting_for(event: threading.Event) -> Callable[[Task], None]:
    def work(task: Task) -> None:
        for step in range(10_000):
            task.report("waiting", step, 10_000)
            if event.wait(0.005):
                return

    return work


def test_one_at_a_time_in_order() -> None:
    tasks, go, order = Tasks(), threading.Event(), []
    tasks.submit("first", "", waiting_for(go))
    until_running(tasks, "first")
    for name in ("second", "third"):
        tasks.submit(name, name, lambda task: order.append(task.id))
    assert tasks.status("third")["ahead"] == 2
    go.set()
    assert ended(tasks, "third")["state"] == "ready"
    assert order == ["second", "third"]


def test_the_same_task_twice_is_one() -> None:
    tasks, go = Tasks(), threading.Event()
    first = tasks.submit("one", "", waiting_for(go))
    assert tasks.submit("one", "", waiting_for(go)) is first
    go.set()
    ended(tasks, "one")
    assert tasks.submit("one", "", waiting_for(go)) is not first


def test_tasks_are_cancelled_waiting_and_running() -> None:
    tasks, go = Tasks(), threading.Event()
    tasks.submit("running", "", waiting_for(go))
    until_running(tasks, "running")
    tasks.submit("waiting", "", waiting_for(go))
    tasks.cancel("waiting")
    assert tasks.status("waiting")["state"] == "cancelled"
    tasks.cancel("running")
    assert ended(tasks, "running")["state"] == "cancelled"


def test_the_deadline() -> None:
    tasks = Tasks(deadline=0.05)
    tasks.submit("slow", "", waiting_for(threading.Event()))
    about = ended(tasks, "slow")
    assert about["state"] == "failed"
    assert "was stopped" in about["error"]


def test_the_queue_is_bounded_and_ended_tasks_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks, go = Tasks(most_waiting=3), threading.Event()
    tasks.submit("0", "", waiting_for(go))
    until_running(tasks, "0")
    for number in range(1, 4):
        tasks.submit(str(number), "", waiting_for(go))
    with pytest.raises(Refusal, match="Too many passes are waiting") as refused:
        tasks.submit("4", "", waiting_for(go))
    assert refused.value.status == 429
    go.set()
    ended(tasks, "3")
    monkeypatch.setattr("attlas.web.tasks.MOST_ENDED", 2)
    tasks.submit("5", "", waiting_for(go))
    with pytest.raises(Refusal, match="not known"):
        tasks.status("0")


def test_errors_of_ours_show_no_text(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks()

    def fails(_: Task) -> None:
        raise ValueError("the words of a reader in /home/ann/x.py")

    tasks.submit("bad", "", fails)
    about = ended(tasks, "bad")
    assert about["error"] == "This did not work, because of an error in Attlas."
    assert str(about["number"]) in caplog.text
    assert "words of a reader" not in caplog.text


def test_what_is_kept_of_an_ended_task_has_no_text() -> None:
    tasks = Tasks()
    task = tasks.submit("one", "", lambda _: None)
    ended(tasks, "one")
    assert task.work.__closure__ is None


def test_progress_in_layers() -> None:
    seen: list[tuple[int, int]] = []
    look = look_at(
        tiny("bert"), Text("t", SHORT), lambda _, done, total: seen.append((done, total))
    )
    assert isinstance(look, Look)
    assert seen == [(layer, 3) for layer in range(4)]
