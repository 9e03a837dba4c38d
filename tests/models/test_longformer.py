"""Longformer in blocks against transformers' code, choice of global tokens, lengthened models."""

from __future__ import annotations

import copy
import errno
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

import attlas
from attlas.core.attention import Attention
from attlas.core.banded import BandedAttention
from attlas.core.text import Text
from attlas.models import Model, lengthen, longformer
from attlas.models.predict import logits_of
from attlas.support.errors import AttlasError, ModelError, StudyError
from attlas.support.fingerprint import fingerprint
from attlas.testing import tiny, tiny_tokenizer
from tests.builders.batches import batch_of
from tests.builders.models import perturbed_model
from tests.close import bound, close, terms_of

WORDS = "the cat sat on a mat and saw a very good dog in the film it was not bad to you".split()  # noqa: SIM905


def words(count: int) -> str:
    return " ".join(WORDS[number * 8 % len(WORDS)] for number in range(count))


def tiny_long(task: str = "base", **options: Any) -> Model:
    return perturbed_model(tiny("longformer", task, **options))


@cache
def shared() -> Model:
    """A tiny model for tests that leave it as it is."""
    return tiny_long()


def some_ids(texts: int, n: int, seed: int = 0) -> Tensor:
    return torch.randint(5, 100, (texts, n), generator=torch.Generator().manual_seed(seed))


def mask_of(texts: int, n: int, places: Sequence[Sequence[int]]) -> Tensor:
    """1 at the global tokens of each text."""
    mask = torch.zeros(texts, n, dtype=torch.long)
    for text, few in enumerate(places):
        mask[text, list(few)] = 1
    return mask


def both_ways(model: Model, **inputs: Any) -> tuple[Any, Any]:
    """What the network gives in blocks, and what a copy gives that nobody observes."""
    inputs = {"output_hidden_states": True, "output_attentions": True, **inputs}
    own = copy.deepcopy(model.network)
    with torch.no_grad():
        with model.fast_longformer():
            ours = model.network(**inputs)
        return ours, own(**inputs)


def assert_equal(ours: Any, theirs: Any, terms: int) -> None:
    """Hidden states, attentions and the rows of global tokens agree (theirs go on over padding)."""
    for left, right in zip(ours.hidden_states, theirs.hidden_states, strict=True):
        close(left, right, terms)
    for left, right in zip(ours.attentions, theirs.attentions, strict=True):
        close(left, right, terms, magnitude=1)
    assert (ours.global_attentions is None) == (theirs.global_attentions is None)
    for left, right in zip(
        ours.global_attentions or (), theirs.global_attentions or (), strict=True
    ):
        close(left, right[:, :, : left.shape[2]], terms, magnitude=1)
        assert not right[:, :, left.shape[2] :].any()


def square(local: Tensor, rows: Tensor | None, places: Sequence[int], n: int) -> np.ndarray:
    """One text's whole matrix [head, query, key] from transformers' output, read by plain loops."""
    local, count = local.double().numpy(), len(places)
    reach = (local.shape[-1] - count - 1) // 2
    out = np.zeros((len(local), n, n))
    for head in range(len(local)):
        for query in range(n):
            for offset in range(-reach, reach + 1):
                if 0 <= query + offset < n:
                    out[head, query, query + offset] = local[head, query, count + reach + offset]
            for number, place in enumerate(places):
                out[head, query, place] = local[head, query, number]
        for number, place in enumerate(places):
            assert rows is not None
            out[head, place] = rows[head, :n, number].double().numpy()
    return out


# in blocks


@pytest.mark.parametrize("n", [1, 2, 5, 8, 9, 17, 127, 128, 129, 300])
@pytest.mark.parametrize("places", [(), (0,), (0, -1), (3, 4, 7, 100)])
def test_blocks_are_transformers_own_attention(n: int, places: tuple[int, ...]) -> None:
    places = tuple(sorted({place % n for place in places if place < n}))
    inputs = {"input_ids": some_ids(2, n), "global_attention_mask": mask_of(2, n, [places, places])}
    assert_equal(*both_ways(shared(), **inputs), terms_of(shared().network))


@pytest.mark.parametrize("windows", [[4, 4, 4], [4, 16, 64], [64, 4, 32]])
@pytest.mark.parametrize("n", [30, 64, 203])
def test_every_layer_has_its_own_window(windows: list[int], n: int) -> None:
    model = tiny_long(attention_window=windows)
    inputs = {"input_ids": some_ids(1, n), "global_attention_mask": mask_of(1, n, [(0, 11, n - 1)])}
    assert_equal(*both_ways(model, **inputs), terms_of(model.network))


@pytest.mark.parametrize(
    "places", [[(0,), (2,), (6,)], [(), (), ()], [(0, 1, 8), (3, 4, 6), (0, 2, 3)]]
)
def test_a_padded_batch_is_transformers_own(places: list[tuple[int, ...]]) -> None:
    ids, mask = some_ids(3, 21), torch.ones(3, 21, dtype=torch.long)
    for text, length in enumerate((21, 14, 7)):
        mask[text, length:] = 0
        ids[text, length:] = 0
    model = shared()
    inputs = {
        "input_ids": ids,
        "attention_mask": mask,
        "global_attention_mask": mask_of(3, 21, places),
    }
    assert_equal(*both_ways(model, **inputs), terms_of(model.network))


def test_texts_of_a_padded_batch_may_have_different_numbers_of_global_tokens() -> None:
    ids, mask = some_ids(3, 21), torch.ones(3, 21, dtype=torch.long)
    ids[1, 14:], mask[1, 14:] = 0, 0
    places: list[tuple[int, ...]] = [(0, 5), (3,), ()]
    model = shared()
    inputs = {
        "input_ids": ids,
        "attention_mask": mask,
        "global_attention_mask": mask_of(3, 21, places),
    }
    ours, theirs = both_ways(model, **inputs)
    terms = terms_of(model.network)
    for left, right in zip(ours.hidden_states, theirs.hidden_states, strict=True):
        close(left, right, terms)
    for left, right in zip(ours.attentions, theirs.attentions, strict=True):
        close(left, right, terms, magnitude=1)
    for left, right in zip(ours.global_attentions, theirs.global_attentions, strict=True):
        for text, few in enumerate(places):  # what stands in the columns of no token is filling
            close(left[text, ..., : len(few)], right[text, :, :21, : len(few)], terms, magnitude=1)


def test_a_text_is_the_same_alone_and_in_a_padded_batch() -> None:
    model = shared()
    ids, mask = some_ids(2, 40), torch.ones(2, 40, dtype=torch.long)
    ids[1, 23:], mask[1, 23:] = 0, 0
    with torch.no_grad(), model.fast_longformer():
        together = model.network(
            ids, attention_mask=mask, global_attention_mask=mask_of(2, 40, [(0,), (0, 9)])
        )
        alone = model.network(ids[1:, :23], global_attention_mask=mask_of(1, 23, [(0, 9)]))
    close(together.last_hidden_state[1:, :23], alone.last_hidden_state, terms_of(model.network))


@pytest.mark.parametrize(("block", "cells"), [(1, 1), (7, 1), (7, 10_000), (128, 1), (1000, 2**22)])
def test_how_work_is_cut_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, block: int, cells: int
) -> None:
    monkeypatch.setattr(longformer, "BLOCK", block)
    monkeypatch.setattr(longformer, "CELLS", cells)
    model = shared()
    inputs = {
        "input_ids": some_ids(2, 45),
        "global_attention_mask": mask_of(2, 45, [(0, 30), (2, 3)]),
    }
    assert_equal(*both_ways(model, **inputs), terms_of(model.network))


def grads_of(network: nn.Module, blocks: Model | None, **inputs: Any) -> dict[str, Tensor | None]:
    network.zero_grad()
    if blocks is None:
        network(**inputs).loss.backward()
    else:
        with blocks.fast_longformer():
            network(**inputs).loss.backward()
    return {name: parameter.grad for name, parameter in network.named_parameters()}


@pytest.mark.parametrize("places", [None, [(0,), (0,)], [(0, 5), (3,)], [(), ()]])
@pytest.mark.parametrize("block", [7, 128])
def test_every_gradient_is_transformers_own(
    monkeypatch: pytest.MonkeyPatch, places: list[tuple[int, ...]] | None, block: int
) -> None:
    monkeypatch.setattr(longformer, "BLOCK", block)
    monkeypatch.setattr(longformer, "CELLS", 5000)
    model = tiny_long("classify")
    ids, mask = some_ids(2, 30), torch.ones(2, 30, dtype=torch.long)
    ids[1, 17:], mask[1, 17:] = 0, 0
    inputs: dict[str, Any] = {
        "input_ids": ids,
        "attention_mask": mask,
        "labels": torch.tensor([0, 1]),
    }
    if places is not None:
        inputs["global_attention_mask"] = mask_of(2, 30, places)
    own = copy.deepcopy(model.network)
    ours, theirs = grads_of(model.network, model, **inputs), grads_of(own, None, **inputs)
    assert len(ours) > 60
    largest = max(float(one.abs().max()) for one in theirs.values() if one is not None)
    rounding = bound(largest, ids.numel())  # that of a key's bias is 0: terms of all tokens cancel
    for name, expected in theirs.items():
        found = ours[name]
        assert (found is None) == (expected is None), name
        if found is not None and expected is not None:
            scale = float(expected.abs().max())
            atol = rounding + 1e-4 * scale
            torch.testing.assert_close(
                found, expected, atol=atol, rtol=1e-3, msg=f"{name} ({scale})"
            )
    used = [
        name
        for name, grad in ours.items()
        if "_global.weight" in name and grad is not None and grad.any()
    ]
    assert len(used) == (0 if places == [(), ()] else 9)


def test_gradients_of_the_weights_are_those_of_a_plain_layer() -> None:
    """The last layer as products of full matrices: d loss / d weight where visible, else 0."""
    base = tiny_long()
    model = attlas.load((base.network, base.tokenizer), global_tokens=(0, 6))
    batch = batch_of(model, words(25))
    layers: list[Attention] = []
    with model.observe(layers.append, gradients=True) as observer:
        observer.watch(batch)
        output = model.network(batch.ids, **batch.inputs, output_hidden_states=True)
        output.last_hidden_state.pow(2).sum().backward()
    layer, module, before = (
        layers[2],
        model.network.encoder.layer[2],
        output.hidden_states[2].detach(),
    )
    weights = layer.dense().weights.clone().requires_grad_()
    of_global = batch.inputs["global_attention_mask"].bool()[:, None, :, None]
    values = [
        projection(before).unflatten(-1, (4, 8)).transpose(1, 2)
        for projection in (module.attention.self.value_global, module.attention.self.value)
    ]
    heads = (
        torch.where(of_global, *(weights @ value for value in values)).transpose(1, 2).flatten(2)
    )
    state = module.attention.output(heads, before)
    state = module.output(module.intermediate(state), state)
    close(state, output.last_hidden_state, terms_of(model.network))
    (expected,) = torch.autograd.grad(state.pow(2).sum(), weights)
    visible = layer.dense().visible
    assert visible is not None
    found = layer.gradient().dense().weights
    torch.testing.assert_close(found, expected * visible, atol=1e-4, rtol=1e-3)
    model.network.zero_grad()


def test_half_precision_is_as_near_as_transformers_own() -> None:
    model = tiny_long()
    inputs = {
        "input_ids": some_ids(2, 150),
        "global_attention_mask": mask_of(2, 150, [(0, 40), (0, 149)]),
    }
    _, exact = both_ways(model, **inputs)
    half = attlas.load((copy.deepcopy(model.network).to(torch.bfloat16), model.tokenizer))
    ours, theirs = both_ways(half, **inputs)
    assert ours.last_hidden_state.dtype == torch.bfloat16
    off = [
        float((one.last_hidden_state.float() - exact.last_hidden_state).abs().mean())
        for one in (ours, theirs)
    ]
    assert 0 < off[0] < 1.5 * off[1] < 0.3
    layers: list[Attention] = []
    half.forward(batch_of(half, words(150)), layers.append)
    for layer in layers:
        weights = layer.dense().weights
        assert weights.dtype == torch.float32
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, 152), atol=0.02, rtol=0)


def test_mixed_precision_runs_as_transformers_own_does() -> None:
    model = tiny_long("classify")
    inputs = {"input_ids": some_ids(2, 40), "labels": torch.tensor([0, 1])}
    own = copy.deepcopy(model.network)
    exact = own(**inputs).logits
    with torch.autocast("cpu", dtype=torch.bfloat16):
        theirs = own(**inputs)
        with model.fast_longformer():
            ours = model.network(**inputs)
    assert ours.logits.dtype == theirs.logits.dtype
    torch.testing.assert_close(ours.logits.float(), exact, atol=0.2, rtol=0)
    ours.loss.backward()


@pytest.mark.parametrize("places", [(0,), (0, 6), (1, 2, 12), ()])
def test_what_is_observed_is_transformers_output_as_a_square(places: tuple[int, ...]) -> None:
    for n in (3, 5, 13, 38):
        model = attlas.load((shared().network, tiny_tokenizer()), global_tokens=places or "none")
        batch = batch_of(model, words(n - 2))
        few = [place for place in places if place < n]
        assert batch.n_tokens == n
        assert torch.equal(batch.inputs["global_attention_mask"], mask_of(1, n, [few]))
        layers: list[Attention] = []
        own = copy.deepcopy(model.network)
        model.forward(batch, layers.append)
        with torch.no_grad():
            theirs = own(batch.ids, **batch.inputs, output_attentions=True)
        assert [layer.index for layer in layers] == [0, 1, 2]
        for layer in layers:
            assert isinstance(layer, BandedAttention)
            rows = (
                None
                if theirs.global_attentions is None
                else theirs.global_attentions[layer.index][0]
            )
            expected = square(theirs.attentions[layer.index][0], rows, few, n)
            close(layer.dense().weights[0], expected, terms_of(own), magnitude=1)
            close(expected.sum(-1), 1, n)
            close(layer.received[0], expected.sum(-2), terms_of(own) + n)


def test_two_observers_see_the_same_and_go_one_by_one() -> None:
    model = tiny_long()
    batch = batch_of(model, words(20), words(20).replace("cat", "dog"))
    outer: list[Attention] = []
    inner: list[Attention] = []
    with model.observe(outer.append) as first, torch.no_grad():
        first.watch(batch)
        with model.observe(inner.append, gates=torch.ones(3, 4)) as second:
            second.watch(batch)
            both = model.network(batch.ids, **batch.inputs)
        first.watch(batch)
        one = model.network(batch.ids, **batch.inputs)
    assert len(outer) == 6
    assert len(inner) == 3
    assert torch.equal(both.last_hidden_state, one.last_hidden_state)
    for number, layer in enumerate(inner):
        for other in (outer[number], outer[number + 3]):
            assert torch.equal(layer.dense().weights, other.dense().weights)


def traces(network: nn.Module) -> dict[str, Any]:
    return {
        name: (
            dict(module.__dict__),
            module.forward,
            len(module._forward_hooks),
            len(module._forward_pre_hooks),
            getattr(getattr(module, "config", None), "_attn_implementation", None),
        )
        for name, module in network.named_modules()
    }


def test_nothing_is_left_on_the_model() -> None:
    model = tiny_long()
    batch = batch_of(model, words(9))
    before = traces(model.network)

    def fail(layer: Attention) -> None:
        if layer.index == 1:
            raise KeyError("a sink")

    model.forward(batch, lambda layer: None)
    assert traces(model.network) == before
    with pytest.raises(KeyError, match="a sink"):
        model.forward(batch, fail)
    assert traces(model.network) == before
    with model.observe(fail) as observer:
        observer.watch(batch)
        inside = traces(model.network)
        with pytest.raises(KeyError, match="a sink"):
            model.network(batch.ids, **batch.inputs)
    assert inside != before
    assert traces(model.network) == before
    with model.fast_longformer(), pytest.raises(RuntimeError):
        model.network(batch.ids, global_attention_mask=torch.zeros(3, 3))
    assert traces(model.network) == before


def test_a_forward_of_the_users_own_stays() -> None:
    """Libraries that spread a model over devices put a forward on its modules."""
    model = tiny_long()
    module = model.network.encoder.layer[0].attention.self
    theirs = module.forward
    wrapped = lambda *args, **kwargs: theirs(*args, **kwargs)  # noqa: E731
    module.forward = wrapped
    with model.fast_longformer():
        pass
    assert module.__dict__.get("forward") is wrapped


def test_other_models_are_left_alone_by_in_blocks() -> None:
    model = tiny("bert")
    before = traces(model.network)
    with model.fast_longformer():
        assert traces(model.network) == before


def test_dropout_is_used_in_training() -> None:
    model = tiny_long("classify", attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0)
    inputs = {"input_ids": some_ids(1, 20), "global_attention_mask": mask_of(1, 20, [(0,)])}
    model.network.train()
    with torch.no_grad(), model.fast_longformer():
        several = torch.cat([model.network(**inputs).logits for _ in range(3)])
    model.network.eval()
    assert len(several.unique(dim=0)) == 3


# long texts


def test_longer_texts_than_the_model_are_cut_and_counted_or_refused() -> None:
    model = tiny_long(max_position_embeddings=41)
    assert model.max_length == 40
    texts = [Text("short", words(10)), Text("fits", words(38)), Text("long", words(60))]
    study = attlas.study(model, texts, ["totals"])
    assert study.manifest["counts"]["truncated"] == 1
    assert study.manifest["counts"]["tokens_cut"] == 22
    assert study.table("texts")["tokens"].tolist() == [12, 40, 40]
    assert study.table("texts")["cut"].tolist() == [0, 0, 22]
    with pytest.raises(StudyError, match="it has 62 tokens, but the model takes 40"):
        attlas.study(model, texts, ["totals"], long="error")
    attlas.study(model, texts[:2], ["totals"], long="error")


# global tokens


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("first", (0,)),
        ("special", (0, 6)),
        ("none", ()),
        ((0, 5), (0, 5)),
        ([5, 0, 5], (0, 5)),
        ("0,5", (0, 5)),
        (" 5 , 0", (0, 5)),
        ("3", (3,)),
        ((0, 6, 7, 10**9), (0, 6)),
        ((100,), ()),
        ((), ()),
        (range(3), (0, 1, 2)),
        (np.array([1, 2]), (1, 2)),
    ],
)
def test_global_tokens_are_those_that_were_chosen(given: Any, expected: tuple[int, ...]) -> None:
    model = attlas.load((shared().network, tiny_tokenizer()), global_tokens=given)
    batch = batch_of(model, "the cat sat on it", "the dog sat on it")
    assert batch.n_tokens == 7
    assert torch.equal(batch.inputs["global_attention_mask"], mask_of(2, 7, [expected, expected]))
    layers: list[Attention] = []
    model.forward(batch, layers.append)
    for layer in layers:
        assert isinstance(layer, BandedAttention)
        assert layer.global_positions.tolist() == [list(expected)] * 2
        torch.testing.assert_close(layer.dense().weights.sum(-1), torch.ones(2, 4, 7))


@pytest.mark.parametrize(
    "given",
    [
        "",
        "last",
        "first,special",
        "-1",
        "0,-5",
        "1.5",
        (-1,),
        ("first",),
        5,
        (None,),
        (0, "x"),
        (0.5,),
        (float("inf"),),
    ],
)
def test_a_choice_that_is_none_is_one_clear_line(given: Any) -> None:
    with pytest.raises(
        ModelError, match=r"global_tokens is .*; it must be first, special, none, or positions"
    ) as caught:
        attlas.load((shared().network, tiny_tokenizer()), global_tokens=given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], [0]),
        ([(4, 7)], [0, 2]),
        ([(5, 6)], [0, 2]),
        ([(3, 4)], [0]),  # a blank
        ([(4, 11)], [0, 2, 3]),
        ([(0, 3), (11, 12)], [0, 1, 4]),
        ([(15, 21)], [0, 6, 7, 8]),
        ([(17, 19)], [0, 6, 7]),
        ([(0, 1000)], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ([(500, 600)], [0]),
    ],
)
def test_spans_of_a_text_are_global_beside_the_others(
    spans: list[tuple[int, int]], expected: list[int]
) -> None:
    model = shared()
    text = "the cat saw, a dogged film"
    for form in (spans, [list(span) for span in spans], tuple(spans)):
        (encoded,) = model.encode([(0, Text("a", text, annotations={"global": form}))])
        assert encoded.tokens[6:9] == ("dog", "##g", "##ed")
        assert list(encoded.global_tokens) == expected


def test_spans_that_are_none_are_one_clear_line() -> None:
    for spans in ([3], 5, [(1,)], [("a", "b")], "ab"):
        text = Text("a", "the cat sat", annotations={"global": spans})
        with pytest.raises(AttlasError, match="global"):
            shared().encode([(0, text)])


def test_batches_never_mix_different_numbers_of_global_tokens() -> None:
    model = tiny_long()
    span: Any = {"global": [(4, 7)]}
    texts = [
        Text("a", "the cat sat on it"),
        Text("b", "the dog sat on it", annotations=span),
        Text("c", "the mat sat on it"),
        Text("d", "the dog saw a mat", annotations={"global": [(8, 11)]}),
        Text("e", "it was", annotations={"global": [(0, 6)]}),
        Text("f", "the cat sat on it", annotations={"global": [(0, 3), (4, 7)]}),
    ]
    batches = list(model.batches(model.encode(list(enumerate(texts)))))
    assert [[text.id for text in batch.texts] for batch in batches] == [
        ["e"],
        ["a", "c"],
        ["b", "d"],
        ["f"],
    ]
    for batch in batches:
        together: list[Attention] = []
        model.forward(batch, together.append)
        for number, text in enumerate(batch.texts):
            alone: list[Attention] = []
            model.forward(batch_of(model, text), alone.append)
            for left, right in zip(together, alone, strict=True):
                assert isinstance(left, BandedAttention)
                assert isinstance(right, BandedAttention)
                assert left.global_positions[number].tolist() == right.global_positions[0].tolist()
                close(
                    left.dense().weights[number],
                    right.dense().weights[0],
                    terms_of(model.network),
                    magnitude=1,
                )


def test_a_study_belongs_to_its_choice_of_global_tokens(tmp_path: Path) -> None:
    network, tokenizer = tiny_long().network, tiny_tokenizer()
    texts = [words(15), words(22)]
    models = {
        name: attlas.load((network, tokenizer), global_tokens=name)
        for name in ("first", "special", "none", "0,5")
    }
    assert len({str(model.identity()) for model in models.values()}) == 4
    assert (
        models["0,5"].identity()
        == attlas.load((network, tokenizer), global_tokens=[5, 0]).identity()
    )
    tables = {
        name: attlas.study(model, texts, ["totals"], tmp_path / name).table("totals")
        for name, model in models.items()
    }
    assert not tables["first"].equals(tables["none"])
    with pytest.raises(StudyError, match="global_tokens"):
        attlas.study(models["none"], texts, ["totals"], tmp_path / "first")


def test_a_study_belongs_to_the_global_spans_of_its_texts(tmp_path: Path) -> None:
    model, text = tiny_long(), words(30)
    attlas.study(model, [Text("a", text)], ["totals"], tmp_path)
    with pytest.raises(StudyError):
        attlas.study(
            model, [Text("a", text, annotations={"global": [(4, 7)]})], ["totals"], tmp_path
        )


def test_other_models_have_no_global_tokens() -> None:
    model = tiny("bert")
    assert model.identity()["global_tokens"] == fingerprint(None)
    (encoded,) = model.encode([(0, Text("a", "the cat", annotations={"global": [(0, 3)]}))])
    assert encoded.global_tokens == ()
    assert "global_attention_mask" not in batch_of(model, "the cat").inputs


# long models from short ones


def short_model(kind: str, task: str, **options: Any) -> Model:
    """A tiny model of one of the kinds that can be lengthened, nothing in it 0."""
    if kind == "bert":
        return perturbed_model(tiny("bert", task, **options))
    name = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"}[kind]
    head = {"base": "Model", "classify": "ForSequenceClassification", "mlm": "ForMaskedLM"}[task]
    given = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 37,
        "type_vocab_size": 1,
        "max_position_embeddings": 66,
        "pad_token_id": 1,
        "vocab_size": len(tiny_tokenizer()),
        "bos_token_id": 2,
        "eos_token_id": 3,
    }
    config = getattr(transformers, f"{name}Config")(**{**given, **options})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        network = getattr(transformers, f"{name}{head}")(config).eval()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_(0, 0.3)
    return attlas.load((network, tiny_tokenizer()), task=task)


def states(model: Model, text: str, **options: Any) -> Tensor:
    return model.forward(batch_of(model, text), **options).last_hidden_state


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "camembert"])
@pytest.mark.parametrize("task", ["base", "classify", "mlm"])
def test_short_texts_go_through_a_lengthened_model_as_before(kind: str, task: str) -> None:
    short = short_model(kind, task)
    before = short.weights_sha256()
    long = lengthen(short, 1000, 16)
    assert long.task == task
    assert long.max_length == 1000
    assert type(long.network).__name__.startswith("Longformer")
    for count in (1, 4, 7):  # up to 9 tokens
        batch, same = batch_of(short, words(count)), batch_of(long, words(count))
        assert torch.equal(batch.ids, same.ids)
        terms = terms_of(long.network)
        close(long.forward(same).last_hidden_state, short.forward(batch).last_hidden_state, terms)
        if task != "base":
            left, right = (
                model.forward(one, with_head=True).logits
                for model, one in ((long, same), (short, batch))
            )
            close(left, right, terms)
    beyond = words(12)
    assert not torch.allclose(states(long, beyond), states(short, beyond), atol=1e-3)
    assert states(long, words(900)).isfinite().all()
    assert short.weights_sha256() == before
    assert short.tokenizer.model_max_length == 512


@pytest.mark.parametrize("options", [{"tie_word_embeddings": False}, {"pad_token_id": 4}])
def test_logits_of_an_unusual_masked_language_model_stay(options: dict[str, Any]) -> None:
    short = short_model("bert", "mlm", **options)
    long = lengthen(short, 600, 16)
    left, right = (
        model.forward(batch_of(model, words(6)), with_head=True).logits for model in (long, short)
    )
    close(left, right, terms_of(long.network))


def test_a_masked_language_model_with_another_activation_is_refused() -> None:
    with pytest.raises(ModelError, match="needs gelu"):
        lengthen(short_model("bert", "mlm", hidden_act="relu"), 600, 16)


@pytest.mark.parametrize("skip", [0, 1, 3])
def test_positions_that_are_skipped_stand_only_once(skip: int) -> None:
    short = short_model("bert", "base")
    table = short.network.embeddings.position_embeddings.weight
    long = lengthen(short, 1200, 16, skip=skip)
    longer = long.network.embeddings.position_embeddings.weight[1:]
    assert long.seams == tuple(range(len(table), 1200, len(table) - skip))
    assert short.seams == long.randomized().seams == ()
    for place in range(1200):
        own = place if place < skip else skip + (place - skip) % (len(table) - skip)
        assert torch.equal(longer[place], table[own])
    with pytest.raises(ModelError, match="skip is"):
        lengthen(short, 1200, 16, skip=len(table))


def test_the_embedded_model_lengthened_reads_short_texts_as_before(minilm: attlas.Model) -> None:
    long = lengthen(minilm, 1024, 32)
    assert long.position_period == 512
    for count in (3, 15):
        assert batch_of(minilm, words(count)).n_tokens == count + 2
        close(states(long, words(count)), states(minilm, words(count)), terms_of(long.network))
    assert not torch.allclose(states(long, words(17)), states(minilm, words(17)), atol=0.1)
    inputs = batch_of(long, words(500))
    ours, theirs = both_ways(long, input_ids=inputs.ids, **inputs.inputs)
    assert_equal(ours, theirs, terms_of(long.network))


@pytest.mark.parametrize(
    ("kind", "padding"),
    [("bert", 0), ("bert", 4), ("roberta", 1), ("roberta", 0), ("camembert", 1)],
)
@pytest.mark.parametrize("length", [64, 65, 100, 128, 333])
def test_positions_are_repeated_after_the_padding_rows(
    kind: str, padding: int, length: int
) -> None:
    rows = 64 if kind == "bert" else 64 + padding + 1
    short = short_model(kind, "base", max_position_embeddings=rows, pad_token_id=padding)
    long = lengthen(short, length, 8)
    old = short.network.embeddings.position_embeddings.weight
    new = long.network.embeddings.position_embeddings.weight
    first = 0 if kind == "bert" else padding + 1
    assert len(new) == length + padding + 1
    assert long.max_length == length
    assert long.position_period == 64
    for position in range(length):
        assert torch.equal(new[padding + 1 + position], old[first + position % 64]), position
    if kind != "bert":
        assert torch.equal(new[:first], old[:first])
    assert states(long, words(length - 2)).shape[1] == length


def test_projections_of_global_tokens_are_copies() -> None:
    long = lengthen(short_model("roberta", "classify"), 128, 8)
    weights = long.network.state_dict()
    names = [name for name in weights if "_global." in name]
    assert len(names) == 2 * 3 * 2
    for name in names:
        assert torch.equal(weights[name], weights[name.replace("_global", "")])
        assert weights[name].data_ptr() != weights[name.replace("_global", "")].data_ptr()


def test_a_lengthened_model_keeps_labels_and_precision() -> None:
    short = short_model(
        "bert",
        "classify",
        id2label={0: "bad", 1: "good", 2: "so"},
        label2id={"bad": 0, "good": 1, "so": 2},
    )
    short.network.to(torch.bfloat16)
    long = lengthen(short, 600, 8)
    assert long.network.dtype == torch.bfloat16
    assert long.network.config.id2label == {0: "bad", 1: "good", 2: "so"}
    assert long.network.config.label2id == {"bad": 0, "good": 1, "so": 2}
    assert long.forward(batch_of(long, words(30)), with_head=True).logits.shape == (1, 3)
    assert not long.network.training


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("task", ["base", "classify"])
def test_a_saved_model_is_read_back_as_it_was(kind: str, task: str, tmp_path: Path) -> None:
    long = lengthen(short_model(kind, task), 700, 8)
    files = long.save(tmp_path / "long")
    assert sorted(path.name for path in (tmp_path / "long").iterdir()) == files
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(files)
    again = attlas.load(tmp_path / "long", task="auto")
    assert again.task == task
    assert (
        (again.max_length, again.position_period)
        == (long.max_length, long.position_period)
        == (700, 64 if kind == "roberta" else 520)
    )
    text = words(400) + " unknown wording 12"
    assert batch_of(again, text).tokens == batch_of(long, text).tokens
    assert again.weights_sha256() == long.weights_sha256()
    terms = terms_of(long.network)
    close(
        states(again, text), states(long, text), terms
    )  # where weights lie in memory changes last bits
    if task == "classify":
        logits = [
            model.forward(batch_of(model, text), with_head=True).logits for model in (again, long)
        ]
        close(*logits, terms)
        assert attlas.load(tmp_path / "long").task == "base"
    close(states(attlas.load(tmp_path / "long"), text), states(long, text), terms)


@pytest.mark.parametrize("family", ["longformer", "bert"])
def test_saving_leaves_nothing_on_the_network(family: str, tmp_path: Path) -> None:
    chosen = {"global_tokens": "special"} if family == "longformer" else {}
    model = attlas.load((tiny(family).network, tiny_tokenizer()), max_length=20, **chosen)
    config, held = model.network.config, vars(model.network).copy()
    before = (
        fingerprint(model),
        config.to_json_string(),
        copy.deepcopy(vars(config)),
        str(model.tokenizer),
    )
    model.save(tmp_path / "model")
    assert (
        fingerprint(model),
        config.to_json_string(),
        vars(config),
        str(model.tokenizer),
    ) == before
    assert vars(model.network) == held
    assert model.network.config is config
    saved = json.loads((tmp_path / "model/config.json").read_text())
    assert (saved.get("attlas_global_tokens") == "special") == (family == "longformer")
    assert attlas.load(tmp_path / "model").weights_sha256() == model.weights_sha256()


def test_a_model_is_saved_over_a_model_and_over_nothing_else(tmp_path: Path) -> None:
    model = tiny("bert")
    for name, content in (
        ("notes.txt", "mine"),
        ("config.json", '{"port": 80}'),
        ("tokenizer.json", "{}"),
    ):
        place = tmp_path / Path(name).stem
        place.mkdir()
        (place / name).write_text(content)
        with pytest.raises(
            ModelError, match=rf"is not empty \(it has {name}\) and holds no model; choose another"
        ):
            model.save(place)
        assert [(path.name, path.read_text()) for path in place.iterdir()] == [(name, content)]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ModelError, match="file is a file; give a folder"):
        model.save(tmp_path / "file")
    place = tmp_path / "model"
    model.save(place)
    (place / "README.md").write_text("mine")
    (place / "manifest.tmp").symlink_to(tmp_path / "file")
    other = perturbed_model(tiny("bert"))
    files = other.save(place)
    assert attlas.load(place).weights_sha256() == other.weights_sha256()
    assert {path.name for path in place.iterdir()} == {*files, "README.md", "manifest.tmp"}
    assert (place / "README.md").read_text() == (tmp_path / "file").read_text() == "mine"


def test_a_model_that_was_not_wholly_saved_has_no_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attlas.support.files import move

    def full(source: Path, target: Path) -> None:
        if target.name == "config.json":
            raise OSError(errno.ENOSPC, "no space")
        move(source, target)

    monkeypatch.setattr("attlas.models.model.move", full)
    with pytest.raises(StudyError, match="no space is left to write"):
        tiny("bert").save(tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names == {"model.safetensors", "tokenizer.json", "tokenizer_config.json"}


def test_saving_leaves_the_model_as_it_is(tmp_path: Path) -> None:
    network, tokenizer = tiny_long().network, tiny_tokenizer()
    attlas.load((network, tokenizer), max_length=20).save(tmp_path / "model")
    assert attlas.load(tmp_path / "model").max_length == 20
    assert tokenizer.model_max_length == 512
    assert attlas.load((network, tokenizer)).max_length == 512


def test_the_embedded_model_lengthened_is_read_back(minilm: attlas.Model, tmp_path: Path) -> None:
    long = lengthen(minilm, 700, 64)
    long.save(tmp_path / "long")
    again = attlas.load(tmp_path / "long")
    text = "Café Ünïversity: the 3rd film's unbelievable ending! " + words(560)
    assert batch_of(again, text).tokens == batch_of(long, text).tokens
    assert batch_of(again, text).n_tokens > 512
    close(states(again, text), states(long, text), terms_of(long.network))


@pytest.mark.costly
def test_the_embedded_long_model() -> None:
    model = attlas.load("embedded:long")
    assert (model.name, model.task, model.max_length, model.position_period) == (
        "embedded:long",
        "base",
        4096,
        None,  # the position of [CLS] does not repeat
    )
    assert set(model.network.config.attention_window) == {512}
    assert model.banded
    cut = attlas.load(
        "embedded:long",
        max_length=100,
        global_tokens="special",
        task="classify",
        labels=["a", "b", "c"],
    )
    assert (cut.max_length, cut.global_tokens, cut.task, cut.network.config.num_labels) == (
        100,
        "special",
        "classify",
        3,
    )
    (encoded,) = cut.encode([(0, Text("a", words(200)))])
    assert (len(encoded), encoded.truncated_by, encoded.global_tokens) == (100, 102, (0, 99))
    assert attlas.load("embedded:long", task="auto", max_length=50).task == "base"


def test_position_period_is_of_models_made_from_shorter_ones(tmp_path: Path) -> None:
    assert tiny("bert").position_period is None
    assert tiny("longformer").position_period == 512
    long = lengthen(short_model("roberta", "base"), 200, 8)
    assert long.position_period == 64
    assert long.randomized().position_period is None  # fresh positions repeat nothing
    assert lengthen(short_model("roberta", "base"), 200, 8, skip=1).position_period is None


def test_the_choice_of_global_tokens_stays_with_a_saved_model(tmp_path: Path) -> None:
    model = attlas.load((tiny("longformer").network, tiny_tokenizer()), global_tokens="special")
    model.save(tmp_path)
    assert attlas.load(tmp_path).global_tokens == "special"
    assert attlas.load(tmp_path, global_tokens="first").global_tokens == "first"
    assert attlas.load(model, global_tokens="first").global_tokens == "first"
    assert attlas.load(model).global_tokens == "special"


def test_auto_is_the_task_the_weights_were_saved_for(tmp_path: Path) -> None:
    for family, task in (
        ("bert", "mlm"),
        ("longformer", "classify"),
        ("gpt2", "lm"),
        ("roberta", "base"),
    ):
        model = tiny(family, task)
        assert attlas.load((model.network, model.tokenizer), task="auto").task == task
        model.save(tmp_path / family)
        again = attlas.load(tmp_path / family, task="auto")
        assert (again.task, type(again.network)) == (task, type(model.network))


def labelled_texts() -> list[Text]:
    return [
        Text(
            str(number),
            f"it was {'good' if number % 2 else 'bad'} , {words(5 + number)}",
            label="ab"[number % 2],
        )
        for number in range(14)
    ]


def test_a_lengthened_model_can_be_fine_tuned(tmp_path: Path) -> None:
    lengthen(short_model("bert", "base"), 700, 8).save(tmp_path / "long")
    before = attlas.load(tmp_path / "long").network.state_dict()
    tuning = attlas.Finetune(
        texts=labelled_texts(), model=tmp_path / "long", epochs=1, batch_size=4, learning_rate=1e-3
    )
    done = attlas.run(tuning, tmp_path / "out", progress=False)
    model = attlas.load(done.folder, task="classify")
    assert model.banded
    assert (model.max_length, model.position_period) == (700, 520)
    assert set(model.network.config.label2id) == {"a", "b"}
    after = model.network.base_model.state_dict()
    same = [name for name, tensor in after.items() if torch.equal(tensor, before[name])]
    moved = [name for name in after if name not in same]
    assert any("query_global" in name for name in moved)
    assert any("self.key.weight" in name for name in moved)
    texts = [Text("a", words(300)), Text("b", words(8))]
    own = copy.deepcopy(model.network)
    with torch.no_grad():
        theirs = [own(batch_of(model, text).ids).logits[0].numpy() for text in texts]
    np.testing.assert_allclose(logits_of(model, texts), theirs, atol=1e-5)


def test_training_and_scoring_use_the_same_global_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is told to make the first and last token global is trained so, too."""
    met: dict[bool, set[int]] = {True: set(), False: set()}
    forward = transformers.LongformerModel.forward

    def spy(self: Any, *args: Any, global_attention_mask: Any = None, **kwargs: Any) -> Any:
        met[self.training] |= set(global_attention_mask.sum(1).tolist())
        return forward(self, *args, global_attention_mask=global_attention_mask, **kwargs)

    base = tiny_long("classify")
    model = attlas.load((base.network, base.tokenizer), task="classify", global_tokens="special")
    monkeypatch.setattr(transformers.LongformerModel, "forward", spy)
    attlas.run(
        attlas.Finetune(texts=labelled_texts(), model=model, epochs=1),
        tmp_path / "out",
        progress=False,
    )
    assert met[True] == {2}
    assert met[False] == {2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 7}, "window is 7; it must be even and at least 4"),
        ({"window": 0}, "window is 0; it must be even"),
        ({"window": -2}, "window is -2; it must be even"),
        ({"length": 519}, "length is 519, but the model takes 520 tokens"),
    ],
)
def test_what_a_model_cannot_be_made_to(options: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        lengthen(tiny("bert"), **{"length": 1000, "window": 8, **options})


@pytest.mark.parametrize(
    "family", ["gpt2", "longformer", "distilbert", "albert", "t5", "modernbert"]
)
def test_what_cannot_be_lengthened(family: str) -> None:
    with pytest.raises(ModelError, match="cannot be lengthened; give a BERT or RoBERTa"):
        lengthen(tiny(family), 1000, 8)
    config = transformers.BertConfig(
        hidden_size=32,
        num_attention_heads=4,
        intermediate_size=37,
        num_hidden_layers=1,
        vocab_size=300,
    )
    with pytest.raises(ModelError, match="BertForTokenClassification cannot be lengthened"):
        lengthen((transformers.BertForTokenClassification(config), tiny_tokenizer()), 1000, 8)
