"""Capture against the library's own eager weights, and nothing left behind."""

from __future__ import annotations

import copy
import threading
import weakref
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import attlas
from attlas.core.attention import Attention, DenseAttention
from attlas.core.banded import BandedAttention
from attlas.core.batch import Batch
from attlas.models.capture import check_rows, observe
from attlas.support.errors import CaptureError
from attlas.testing import FAMILIES, tiny, tiny_tokenizer
from tests.builders.batches import batch_of, layers_of
from tests.builders.texts import SENTENCE as TEXT
from tests.close import close, terms_of

OWN_CODE = ("mpnet", "deberta_v2", "big_bird", "longformer")


def eager(model: attlas.Model, batch: Batch) -> Any:
    """The library's own way, on a copy: eager attention with weights and hidden states returned."""
    part = copy.deepcopy(model.part)
    if hasattr(
        part, "set_attention_type"
    ):  # BigBird turns to full attention by itself on short texts, but then shows no weights
        config = copy.deepcopy(part.config)
        config.attention_type = "original_full"
        full = type(part)(config).eval()
        full.load_state_dict(part.state_dict())
        part = full
    if part._can_set_attn_implementation():
        part.set_attn_implementation("eager")
    else:
        part.config._attn_implementation_internal = "eager"
    with torch.no_grad():
        return part(batch.ids, output_attentions=True, output_hidden_states=True, **batch.inputs)


def traces(model: attlas.Model) -> list[Any]:
    """Everything that capture could leave on a network."""
    return [
        (
            name,
            id(module),
            sorted(module.__dict__),
            len(module._forward_hooks),
            len(module._forward_pre_hooks),
            getattr(getattr(module, "config", None), "_attn_implementation", None),
            getattr(module, "attention_type", None),
        )
        for name, module in model.network.named_modules()
        if not name.endswith("attention.self")
    ]


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "longformer"])
def test_weights_and_hidden_states_are_bit_for_bit_those_of_eager(family: str) -> None:
    model = tiny(family)
    batch = batch_of(model, TEXT, TEXT.replace("cat", "dog"))
    layers: list[Attention] = []
    with model.observe(layers.append) as observer, torch.no_grad():
        observer.watch(batch)
        output = model.part(batch.ids, output_hidden_states=True, **batch.inputs)
    reference = eager(model, batch)
    assert [layer.index for layer in layers] == list(range(model.n_layers)) == [0, 1, 2]
    for layer, weights in zip(layers, reference.attentions, strict=True):
        assert torch.equal(layer.dense().weights, weights)
    assert torch.equal(output.last_hidden_state, reference.last_hidden_state)
    assert len(output.hidden_states) == 4
    assert all(
        torch.equal(left, right)
        for left, right in zip(output.hidden_states, reference.hidden_states, strict=True)
    )


def test_big_bird_is_read_up_to_where_it_turns_to_blocks() -> None:
    """In blocks the library returns rows that lack what random blocks share with the window."""
    model = tiny("big_bird")
    assert model.max_length == 28
    layers, _ = layers_of(model, batch_of(model, "a cat " * 19))
    torch.testing.assert_close(layers[0].dense().weights.sum(-1), torch.ones(1, 4, 28))
    assert model.network.attention_type == "block_sparse"


@pytest.mark.parametrize("n", [3, 9, 21, 40, 300])
@pytest.mark.parametrize("places", [(0,), (0, 2), (1,), ()])
def test_longformer_band_is_the_librarys_band_read_by_plain_loops(
    n: int, places: tuple[int, ...]
) -> None:
    model = tiny("longformer")
    batch = batch_of(model, "a " * (n - 2))
    assert batch.n_tokens == n
    batch.inputs["global_attention_mask"].zero_()
    batch.inputs["global_attention_mask"][:, list(places)] = 1
    layers, output = layers_of(model, batch)
    reference = eager(model, batch)
    terms = terms_of(model.network)
    close(output.last_hidden_state, reference.last_hidden_state, terms)
    for layer, local, window in zip(layers, reference.attentions, (4, 8, 4), strict=True):
        assert isinstance(layer, BandedAttention)
        square, count = layer.dense().weights, len(places)
        for query in range(n):
            expected = torch.zeros(4, n)
            if query in places:
                expected = reference.global_attentions[layer.index][0, :, :n, places.index(query)]
            else:
                for number, place in enumerate(places):
                    expected[:, place] = local[0, :, query, number]
                for offset in range(-window // 2, window // 2 + 1):
                    if 0 <= query + offset < n and query + offset not in places:
                        expected[:, query + offset] = local[
                            0, :, query, count + window // 2 + offset
                        ]
            close(square[0, :, query], expected, terms, magnitude=1)
        close(square.sum(-1), 1, n)


def test_every_text_of_a_batch_is_as_it_is_alone(minilm: attlas.Model) -> None:
    texts = ["The cat sat down.", "A dog ran off.", "Who was it then?"]
    together, _ = layers_of(minilm, batch_of(minilm, *texts))
    assert together[0].n_texts == 3
    for place, text in enumerate(texts):
        alone, _ = layers_of(minilm, batch_of(minilm, text))
        for left, right in zip(together, alone, strict=True):
            close(
                left.dense().weights[place],
                right.dense().weights[0],
                terms_of(minilm.network),
                magnitude=1,
            )


def test_embedded_model_matches_eager(minilm: attlas.Model) -> None:
    batch = batch_of(minilm, "The letter that she wrote to her brothers never arrived.")
    layers, output = layers_of(minilm, batch)
    reference = eager(minilm, batch)
    assert all(
        torch.equal(layer.dense().weights, weights)
        for layer, weights in zip(layers, reference.attentions, strict=True)
    )
    assert torch.equal(output.last_hidden_state, reference.last_hidden_state)
    assert minilm.network.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5", "bart", *OWN_CODE])
def test_nothing_is_left_on_the_model(family: str) -> None:
    model = tiny(family)
    batch = batch_of(model, TEXT)
    before, weights = traces(model), model.weights_sha256()

    def fail(layer: Attention) -> None:
        raise ValueError("sink")

    model.forward(batch)
    assert traces(model) == before
    with pytest.raises(ValueError, match="sink"):
        model.forward(batch, fail)
    assert traces(model) == before
    broken = next(
        module
        for name, module in model.part.named_modules()
        if ("norm" in name.lower() or "ln_" in name) and not list(module.children())
    )
    hook = broken.register_forward_pre_hook(
        lambda *_: (_ for _ in ()).throw(RuntimeError("module"))
    )
    with pytest.raises(RuntimeError, match="module"):
        model.forward(batch)
    hook.remove()
    assert traces(model) == before
    outer: list[Attention] = []
    inner: list[Attention] = []
    with model.observe(outer.append) as first:
        first.watch(batch)
        with model.observe(inner.append) as second:
            second.watch(batch)
            model.part(batch.ids, **batch.inputs)
        assert len(outer) == len(inner) == 3
        first.watch(batch)
        model.part(batch.ids, **batch.inputs)
    assert len(outer) == 6
    assert len(inner) == 3
    assert traces(model) == before
    assert model.weights_sha256() == weights


@pytest.mark.parametrize("family", ["bert", "t5", "longformer", "mpnet"])
def test_nested_observers_see_the_same(family: str) -> None:
    model = tiny(family)
    batch = batch_of(model, TEXT)
    seen: list[list[Tensor]] = [[], []]
    with (
        model.observe(lambda layer: seen[0].append(layer.dense().weights)) as first,
        model.observe(lambda layer: seen[1].append(layer.dense().weights)) as second,
    ):
        first.watch(batch)
        second.watch(batch)
        model.part(batch.ids, **batch.inputs)
    assert all(torch.equal(left, right) for left, right in zip(*seen, strict=True))


def test_threads_observe_one_model_side_by_side(minilm: attlas.Model) -> None:
    texts = ["The cat sat on the mat.", "Nobody knows why the committee has not met since Monday."]
    expected = [
        [layer.dense().weights for layer in layers_of(minilm, batch_of(minilm, text))[0]]
        for text in texts
    ]
    wrong: list[str] = []
    each = torch.get_num_threads()

    def work(text: str, weights: list[Tensor]) -> None:
        torch.set_num_threads(each)  # which a new thread does not inherit
        for _ in range(8):
            layers, _ = layers_of(minilm, batch_of(minilm, text))
            if not all(
                torch.equal(layer.dense().weights, one)
                for layer, one in zip(layers, weights, strict=True)
            ):
                wrong.append(text)

    threads = [
        threading.Thread(target=work, args=pair) for pair in zip(texts, expected, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert minilm.network.config._attn_implementation == "sdpa"


def test_only_one_layer_is_in_memory_at_a_time(minilm: attlas.Model) -> None:
    batch = batch_of(minilm, "word " * 300)
    alive: list[weakref.ref[Tensor]] = []

    def look(layer: Attention) -> None:
        assert isinstance(layer, DenseAttention)
        assert all(earlier() is None for earlier in alive)
        alive.append(weakref.ref(layer.weights.untyped_storage()))

    minilm.forward(batch, look)
    assert len(alive) == 6


@pytest.mark.parametrize(
    ("family", "projection"),
    [
        ("bert", "attention.output.dense"),
        ("mpnet", "attention.attn.o"),
        ("longformer", "attention.output.dense"),
        ("deberta_v2", "attention.output.dense"),
        ("big_bird", "attention.output.dense"),
        ("t5", "SelfAttention.o"),
        ("llama", "self_attn.o_proj"),
    ],
)
def test_a_closed_gate_is_a_head_cut_out_of_the_output_projection(
    family: str, projection: str
) -> None:
    model = tiny(family)
    batch = batch_of(model, TEXT)
    gates = torch.ones(3, 4)
    gates[1, 2] = 0
    gated = model.forward(batch, gates=gates).last_hidden_state
    cut = copy.deepcopy(model.part)
    layer = [module for name, module in cut.named_modules() if name.endswith(projection)][1]
    with torch.no_grad():
        layer.weight[:, 2 * 8 : 3 * 8] = 0
        expected = cut(batch.ids, **batch.inputs).last_hidden_state
    close(gated, expected, terms_of(model.network))
    assert not torch.allclose(gated, model.forward(batch).last_hidden_state, atol=1e-3)
    assert torch.equal(
        model.forward(batch, gates=torch.ones(3, 4)).last_hidden_state,
        model.forward(batch).last_hidden_state,
    )


@pytest.mark.parametrize(
    "family", ["bert", "gpt2", "llama", "gemma2", "t5", "bart", "modernbert", *OWN_CODE]
)
def test_gradients_of_weights_and_gates_agree(family: str) -> None:
    """d loss / d gate is the sum of weight x d loss / d weight: heads are linear in weights."""
    model = tiny(family)
    batch = batch_of(model, TEXT)
    gates = torch.ones(3, 4, requires_grad=True)
    layers, output = layers_of(model, batch, gates=gates, gradients=True)
    output.last_hidden_state.pow(2).mean().backward()
    assert gates.grad is not None
    for layer in layers:
        gradient = layer.gradient().dense().weights
        torch.testing.assert_close(
            (layer.dense().weights * gradient).sum((0, 2, 3)),
            gates.grad[layer.index],
            atol=1e-6,
            rtol=1e-3,
        )
    assert float(gates.grad.abs().min()) > 0
    model.network.zero_grad()


def test_gates_of_a_wrong_shape_are_an_error() -> None:
    for family in ("bert", "mpnet"):
        model = tiny(family)
        with pytest.raises(CaptureError, match=r"give gates of shape \[layer, head\]"):
            model.forward(batch_of(model, TEXT), gates=torch.ones(2, 4))


def test_causal_rows_see_only_what_is_before() -> None:
    for family in ("gpt2", "gpt_neox", "llama", "qwen3", "gemma2"):
        model = tiny(family)
        layers, _ = layers_of(model, batch_of(model, TEXT))
        n = layers[0].n_tokens
        for layer in layers:
            square = layer.dense()
            assert square.visible is not None
            assert not square.visible[0, 0].triu(1).any()
            assert float(square.weights.triu(1).abs().max()) == 0
        if family == "gemma2":  # every other layer looks through a window of 4
            windowed = [min(query + 1, 4) for query in range(n)]
            assert [windowed == layer.n_visible_keys[0, 0].tolist() for layer in layers] == [
                True,
                False,
                True,
            ]


def test_windows_of_modernbert_are_seen() -> None:
    model = tiny("modernbert")
    layers, _ = layers_of(model, batch_of(model, TEXT))
    kinds = [layer.dense().visible is None for layer in layers]
    assert kinds == [True, False, False]
    for layer in layers:
        visible = layer.dense().visible
        if visible is not None:
            assert float((layer.dense().weights * ~visible).abs().max()) == 0
            assert int(layer.n_visible_keys.max()) == 5


def test_a_model_without_attention_is_named() -> None:
    network = transformers.MambaModel(
        transformers.MambaConfig(vocab_size=400, hidden_size=16, num_hidden_layers=2, state_size=4)
    ).eval()
    with pytest.raises(CaptureError, match="MambaModel"):
        attlas.load((network, tiny_tokenizer())).n_layers  # noqa: B018


def test_observing_without_naming_the_batch_is_an_error() -> None:
    model = tiny("bert")
    with pytest.raises(CaptureError, match="watch"), observe(model.network, lambda layer: None):
        model.part(batch_of(model, TEXT).ids)


def test_a_gradient_must_have_been_asked_for() -> None:
    model = tiny("bert")
    layers, _ = layers_of(model, batch_of(model, TEXT))
    with pytest.raises(CaptureError, match="backward"):
        layers[0].gradient()
    frozen = tiny("bert")
    frozen.network.requires_grad_(False)
    with pytest.raises(CaptureError, match="requires one"):
        frozen.forward(batch_of(frozen, TEXT), lambda layer: None, gradients=True)


def decoder(config: str, model: str, **options: Any) -> attlas.Model:
    torch.manual_seed(0)
    tokenizer = tiny_tokenizer(marks=False)
    sizes = {"vocab_size": len(tokenizer), "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    return attlas.load(
        (
            getattr(transformers, model)(getattr(transformers, config)(**sizes, **options)).eval(),
            tokenizer,
        )
    )


@pytest.mark.parametrize(
    "model",
    [
        decoder(
            "FalconConfig",
            "FalconModel",
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            new_decoder_architecture=False,
            multi_query=False,
            alibi=False,
        ),
        decoder("GPTJConfig", "GPTJModel", n_embd=32, n_layer=2, n_head=4, rotary_dim=8),
        decoder(
            "GPTNeoConfig",
            "GPTNeoModel",
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            window_size=4,
        ),
        decoder("BloomConfig", "BloomModel", hidden_size=32, n_layer=2, n_head=4),
    ],
    ids=["falcon", "gptj", "gpt_neo", "bloom"],
)
def test_decoders_with_code_of_their_own_are_causal(model: attlas.Model) -> None:
    batch = batch_of(model, TEXT)
    layers, output = layers_of(model, batch)
    reference = eager(model, batch)
    n = batch.n_tokens
    for layer, weights in zip(layers, reference.attentions, strict=True):
        assert torch.equal(layer.dense().weights, weights)
        assert layer.n_visible_keys[0, 0].tolist() in (
            [query + 1 for query in range(n)],
            [min(query + 1, 4) for query in range(n)],
        )
    assert torch.equal(output.last_hidden_state, reference.last_hidden_state)
    assert [int(layer.n_visible_keys.max()) for layer in layers] == (
        [n, 4] if type(model.network).__name__ == "GPTNeoModel" else [n, n]
    )


def test_a_learned_sink_takes_what_rows_do_not_give() -> None:
    """Weights are those of eager attention, and `sink` is the column that the library drops."""
    model = decoder(
        "GptOssConfig",
        "GptOssModel",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=16,
        num_local_experts=2,
        num_experts_per_tok=1,
    )
    batch = batch_of(model, TEXT)
    layers, _ = layers_of(model, batch)
    reference = eager(model, batch)
    for layer, weights in zip(layers, reference.attentions, strict=True):
        assert torch.equal(layer.dense().weights, weights)
        close(layer.sink, 1 - weights.double().sum(-1), terms=batch.n_tokens)
        assert 0.05 < float(layer.sink.mean()) < 0.95
        assert float(layer.uniform.sink.abs().max()) < 1e-6


def test_rows_that_do_not_sum_to_one_are_refused() -> None:
    """Where no part of the module is a sink, as where the library masks weights after softmax."""
    model = tiny("mpnet")
    attention = model.network.encoder.layer[1].attention.attn
    layer = layers_of(model, batch_of(model, TEXT))[0][1].dense()
    halved = DenseAttention(layer.weights / 2, layer.batch, 1)
    with pytest.raises(CaptureError, match="rows of MPNetSelfAttention do not sum to one"):
        check_rows(halved, attention)
    attention.sinks = torch.nn.Parameter(torch.zeros(4))
    check_rows(halved, attention)


def test_a_pass_with_gradients_does_not_disturb_another_thread() -> None:
    model = tiny("longformer")
    batch, other = (
        batch_of(model, TEXT),
        batch_of(model, "a dog saw it and the cat was not very good in it ."),
    )
    expected = [layer.dense().weights for layer in layers_of(model, batch)[0]]
    stop, wrong = threading.Event(), []

    def with_gradients() -> None:
        while not stop.is_set():
            model.forward(other, lambda layer: None, gradients=True)

    thread = threading.Thread(target=with_gradients)
    thread.start()
    for _ in range(60):
        layers, _ = layers_of(model, batch)
        wrong += [
            layer.index
            for layer, weights in zip(layers, expected, strict=True)
            if not torch.equal(layer.dense().weights, weights)
        ]
    stop.set()
    thread.join()
    assert not wrong


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5", "mpnet"])
def test_weights_asked_for_in_the_librarys_way_come_while_observed(family: str) -> None:
    model = tiny(family)
    batch = batch_of(model, TEXT)
    layers: list[Attention] = []
    with torch.no_grad(), model.observe(layers.append) as observer:
        observer.watch(batch)
        output = model.part(batch.ids, output_attentions=True)
    assert len(output.attentions) == len(layers) == 3
    assert all(
        torch.equal(weights, layer.dense().weights)
        for weights, layer in zip(output.attentions, layers, strict=True)
    )
