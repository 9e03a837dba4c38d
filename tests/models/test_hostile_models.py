"""Untrusted models: no code of theirs runs, no other file is read, nothing is made up."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import attlas
from attlas.models import folder_checks
from attlas.support.errors import AttlasError, ModelError
from attlas.testing import tiny, tiny_tokenizer

TEXT = "a cat sat on the mat"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder as anyone could offer it."""
    tiny("bert").save(tmp_path / "model")
    return tmp_path / "model"


def claiming(folder: Path, file: str = "config.json", **fields: Any) -> Path:
    """The folder with other fields in one of its JSON files."""
    path = folder / file
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, **fields}))
    return folder


def refusal(source: Any, **options: Any) -> str:
    """Why a model is not loaded, in one line."""
    with pytest.raises(AttlasError) as error:
        attlas.load(source, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


class Planted:
    """A pickle that writes a file where it is opened."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


# heads that a checkpoint does not have


HEADLESS = {
    "classify": ("bert", "BertForSequenceClassification"),
    "mlm": ("bert", "BertForMaskedLM"),
    "lm": ("llama", "LlamaForCausalLM"),
}


@pytest.mark.parametrize("task", HEADLESS)
def test_a_head_that_the_weights_lack_is_not_made_up(task: str, tmp_path: Path) -> None:
    family, architecture = HEADLESS[task]
    tiny(family).save(tmp_path)
    claiming(tmp_path, architectures=[architecture])
    with pytest.warns(
        UserWarning, match=f"without a head: config.json has {architecture}"
    ) as heard:
        model = attlas.load(tmp_path, task="auto")
    assert len(heard) == 1
    assert model.task == "base"
    assert str(model.note) in repr(model)
    assert model.weights_sha256() == attlas.load(tmp_path, task="base").weights_sha256()
    assert f"has no head for the task {task!r}" in refusal(tmp_path, task=task)


@pytest.mark.parametrize(
    ("family", "task"), [("bert", "classify"), ("bert", "mlm"), ("gpt2", "lm"), ("llama", "lm")]
)
def test_a_head_that_is_there_is_read(family: str, task: str, tmp_path: Path) -> None:
    tiny(family, task).save(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert attlas.load(tmp_path, task="auto").task == task
        assert attlas.load(tmp_path, task=task).note is None


def test_a_new_head_is_drawn_where_labels_are_given(folder: Path) -> None:
    model = attlas.load(folder, task="classify", labels=["a", "b", "c"])
    assert model.network.config.num_labels == 3


def test_a_missing_pooler_is_no_missing_head(tmp_path: Path) -> None:
    tiny("bert", "mlm").save(tmp_path)
    assert attlas.load(tmp_path, task="base").note is None


def test_the_manifest_says_that_there_was_no_head(tmp_path: Path) -> None:
    tiny("bert").save(tmp_path / "model")
    claiming(tmp_path / "model", architectures=["BertForMaskedLM"])
    with pytest.warns(UserWarning, match="without a head"):
        done = attlas.study(
            tmp_path / "model", [TEXT], "entropy", tmp_path / "out", workers=1, progress=False
        )
    assert "without a head" in done.manifest["model"]["note"]
    with (
        pytest.warns(UserWarning, match="without a head"),
        pytest.raises(AttlasError, match="gives no answer"),
    ):
        attlas.explain.integrated_gradients(tmp_path / "model", [TEXT])


# training mode


def modes(network: torch.nn.Module) -> list[bool]:
    return [module.training for module in network.modules()]


@pytest.mark.parametrize("family", ["bert", "mpnet", "longformer"])
def test_a_network_that_is_given_keeps_its_mode(family: str) -> None:
    given = tiny(family, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    expected = attlas.attention(given, TEXT).by_head
    given.network.train()
    next(iter(given.network.base_model.children())).eval()  # a part that the user froze
    before = modes(given.network)
    assert len(set(before)) == 2
    model = attlas.load((given.network, given.tokenizer))
    assert modes(given.network) == before
    assert torch.equal(attlas.attention(model, TEXT).by_head, expected)
    assert modes(given.network) == before

    def fail(layer: Any) -> None:
        raise ZeroDivisionError

    batch = next(iter(model.batches(model.encode([(0, attlas.Text("0", TEXT))]))))
    with pytest.raises(ZeroDivisionError):
        model.forward(batch, fail)
    assert modes(given.network) == before


def test_gradients_and_explanations_leave_the_mode() -> None:
    given = tiny("bert", "classify", hidden_dropout_prob=0.5)
    still = attlas.explain.integrated_gradients(given, [TEXT])[0].scores
    given.network.train()
    model = attlas.load((given.network, given.tokenizer), task="classify")
    assert (attlas.explain.integrated_gradients(model, [TEXT])[0].scores == still).all()
    attlas.study(model, [TEXT], ["importance", "special_gradient"], workers=1, progress=False)
    assert all(modes(given.network))


# tokenizers that do not fit


def test_a_tokenizer_that_is_larger_than_the_table_serves_while_its_ids_do() -> None:
    tokenizer = tiny_tokenizer()
    known = tokenizer.convert_tokens_to_ids("cat")
    model = tiny("bert", vocab_size=known + 1)
    assert attlas.attention(model, "the cat").weights.shape[-1] == 4
    with pytest.raises(
        ModelError, match=rf"'text' has the token 'mat' .*embeddings for {known + 1} tokens"
    ) as error:
        attlas.attention(model, "the cat mat")
    assert "\n" not in str(error.value)
    assert tiny("bert").encoder.embedded is None


def test_ids_far_beyond_the_others_are_noticed() -> None:
    model = tiny("bert")
    model.tokenizer.add_tokens(["zebra"])
    with pytest.raises(ModelError, match="'zebra'"):
        attlas.attention(attlas.load((model.network, model.tokenizer)), "a zebra")


@pytest.mark.parametrize(
    "left", [[], ["tokenizer_config.json"], ["special_tokens_map.json", "added_tokens.json"]]
)
def test_a_folder_without_a_vocabulary_is_refused(folder: Path, left: list[str]) -> None:
    for path in folder.iterdir():
        if "token" in path.name:
            path.unlink()
    for name in left:
        (folder / name).write_text("{}")
    assert "has no tokenizer files" in refusal(folder)


def test_global_tokens_of_a_model_that_has_none_are_refused(folder: Path) -> None:
    assert "has no global tokens" in refusal(folder, global_tokens="first")
    assert "has no global tokens" in refusal(tiny("bert"), global_tokens=(0, 2))
    assert attlas.load(tiny("longformer"), global_tokens=(0, 2)).global_tokens == (0, 2)


# files elsewhere, and pickles


def indexed(folder: Path, name: str) -> Path:
    """The folder with an index that names one file for all weights."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").rename(folder / "decoy.safetensors")
    index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(weights, name)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize(
    "name", ["decoy.bin", "decoy.pt", "", ".safetensors/../x.bin", "../model.bin"]
)
def test_an_index_that_names_no_safetensors_is_refused(
    folder: Path, name: str, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    for place in (folder / "decoy.bin", folder / "decoy.pt", tmp_path / "model.bin"):
        place.write_bytes(pickle.dumps(Planted(mark)))
    assert "pickled" in refusal(indexed(folder, name))
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["above", "absolute", "below", "missing", "link", "folder link"])
def test_an_index_that_names_a_file_elsewhere_is_refused(
    folder: Path, kind: str, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "w.safetensors"
    other.parent.mkdir()
    other.write_bytes((folder / "model.safetensors").read_bytes())
    name = {
        "above": "../other/w.safetensors",
        "absolute": str(other),
        "below": "inner/w.safetensors",
    }.get(kind, "w.safetensors")
    if kind == "link":
        (folder / name).symlink_to(other)
    if kind == "below":
        (folder / "inner").mkdir()
        (folder / name).write_bytes(other.read_bytes())
    if kind == "folder link":
        (folder / "in").symlink_to(other.parent)
        name = "in/w.safetensors"
    assert "not a file next to it" in refusal(indexed(folder, name))


def test_an_index_of_files_next_to_it_is_read(folder: Path) -> None:
    expected = attlas.load(folder).weights_sha256()
    assert attlas.load(indexed(folder, "decoy.safetensors")).weights_sha256() == expected


def test_the_cache_of_the_hub_may_link_to_its_blobs(folder: Path, tmp_path: Path) -> None:
    expected = attlas.load(folder).weights_sha256()
    cache = tmp_path / "models--x"
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots" / "1").mkdir(parents=True)
    for number, path in enumerate(sorted(folder.iterdir())):
        path.rename(cache / "blobs" / str(number))
        (cache / "snapshots" / "1" / path.name).symlink_to(f"../../blobs/{number}")
    assert attlas.load(cache / "snapshots" / "1").weights_sha256() == expected


def test_weights_that_link_elsewhere_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").rename(tmp_path / "w.safetensors")
    (folder / "model.safetensors").symlink_to(tmp_path / "w.safetensors")
    assert "links to a file elsewhere" in refusal(folder)


def test_pickles_next_to_safetensors_are_not_opened(folder: Path, tmp_path: Path) -> None:
    for name in (
        "pytorch_model.bin",
        "training_args.bin",
        "adapter_model.bin",
        ".metadata",
        "optimizer.pt",
    ):
        (folder / name).write_bytes(pickle.dumps(Planted(tmp_path / "ran")))
    attlas.load(folder)
    assert not (tmp_path / "ran").exists()


# fields that reach a loader


def kernels() -> list[str]:
    return [name for name in sys.modules if name == "kernels" or name.startswith("kernels.")]


@pytest.mark.parametrize("where", ["top", "below"])
@pytest.mark.parametrize("field", ["attn_implementation", "experts_implementation"])
@pytest.mark.parametrize("form", ["{}", "_{}", "_{}_internal"])
@pytest.mark.parametrize(
    "value", ["someone/kernel", "someone/kernel@main:attend", {"": "someone/kernel"}, "paged|eager"]
)
def test_a_configuration_does_not_choose_code(
    tmp_path: Path, field: str, form: str, where: str, value: Any
) -> None:
    """It is ignored, or refused in one line, also in a part of a configuration."""
    name = form.format(field)
    config = (
        transformers.LlavaConfig(text_config={"model_type": "llama"}).to_dict()
        if where == "below"
        else tiny("bert").network.config.to_dict()
    )
    (config["text_config"] if where == "below" else config)[name] = value
    (tmp_path / "config.json").write_text(json.dumps(config))
    opened = folder_checks.without_code(
        transformers.AutoConfig.from_pretrained(tmp_path, local_files_only=True)
    )
    for part in (opened, opened.get_text_config()):
        assert (part._attn_implementation, part._experts_implementation) == (None, None)
    if where == "top":
        tiny("bert").save(tmp_path)
        model = attlas.load(claiming(tmp_path, **{name: value}))
        assert model.network.config._attn_implementation == "sdpa"
    assert not kernels()


@pytest.mark.parametrize("where", ["top", "below"])
@pytest.mark.parametrize("field", folder_checks.REFUSED)
def test_a_field_that_reaches_a_loader_is_refused(folder: Path, field: str, where: str) -> None:
    value = {"quant_method": "mxfp4"} if field.endswith("_config") else "someone/model"
    fields = {field: value} if where == "top" else {"text_config": {"inner": [{field: value}]}}
    assert f"config.json has {field}" in refusal(claiming(folder, **fields))
    empty = [] if field.endswith("_files") else None
    attlas.load(claiming(folder, **({field: empty} if where == "top" else {"text_config": None})))


PLANTED_CODE = "from pathlib import Path\nPath({mark!r}).touch()\nclass Own:\n    pass\n"


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("form", ["modeling_own.Own", "someone/repository--modeling_own.Own"])
def test_code_in_a_folder_is_not_run(folder: Path, file: str, form: str, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (folder / "modeling_own.py").write_text(PLANTED_CODE.format(mark=str(mark)))
    names = (
        "AutoConfig",
        "AutoModel",
        "AutoModelForMaskedLM",
        "AutoModelForSequenceClassification",
    )
    own = {"auto_map": {**dict.fromkeys(names, form), "AutoTokenizer": [form, form]}}
    claiming(folder, file, **own)
    attlas.load(folder)  # transformers has these classes itself
    claiming(folder, **own, model_type="own")
    refusal(folder)
    assert not mark.exists()


def test_a_generation_of_its_own_is_not_run(tmp_path: Path) -> None:
    tiny("llama", "lm").save(tmp_path / "model")
    mark, place = tmp_path / "ran", tmp_path / "model" / "custom_generate"
    place.mkdir()
    (place / "generate.py").write_text(PLANTED_CODE.format(mark=str(mark)))
    claiming(
        tmp_path / "model",
        "generation_config.json",
        custom_generate="someone/generate",
        trust_remote_code=True,
    )
    assert attlas.load(tmp_path / "model", task="lm").task == "lm"
    assert not mark.exists()


@pytest.mark.parametrize("name", ["backbone", "use_kernels", "quantization_config"])
def test_a_label_may_be_called_like_a_field(tmp_path: Path, name: str) -> None:
    names = {"id2label": {0: "other", 1: name}, "label2id": {"other": 0, name: 1}}
    tiny("bert", "classify", **names).save(tmp_path / "model")
    assert attlas.load(tmp_path / "model", task="classify").network.config.label2id[name] == 1


def test_another_configuration_is_not_followed(folder: Path) -> None:
    other = json.loads((folder / "config.json").read_text())
    (folder / "config.4.0.0.json").write_text(
        json.dumps({**other, "quantization_config": {"quant_method": "mxfp4"}})
    )
    assert "configuration_files" in refusal(
        claiming(folder, configuration_files=["config.4.0.0.json"])
    )


@pytest.mark.parametrize("base", ["someone/base", "other"])
def test_an_adapter_is_refused(folder: Path, base: str) -> None:
    claiming(folder, "adapter_config.json", peft_type="LORA", base_model_name_or_path=base)
    assert "holds an adapter" in refusal(folder)


def test_a_distributed_checkpoint_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "shard-00001-model-00001-of-00001.safetensors")
    assert "distributed checkpoint" in refusal(folder)


@pytest.mark.parametrize(
    "kind", ["AutoModel", "Trainer", "pipeline", "AutoTokenizer", "BertModel", "logging"]
)
def test_a_tokenizer_class_that_is_none_is_refused(folder: Path, kind: str) -> None:
    assert "is not a tokenizer" in refusal(
        claiming(folder, "tokenizer_config.json", tokenizer_class=kind)
    )
    claiming(folder, "tokenizer_config.json", tokenizer_class=None)
    assert "is not a tokenizer" in refusal(claiming(folder, tokenizer_class=kind))


def test_a_tokenizer_class_that_transformers_does_not_have_is_no_code(folder: Path) -> None:
    claiming(folder, "tokenizer_config.json", tokenizer_class="os.system")
    assert attlas.attention(attlas.load(folder), TEXT).tokens[1] == "a"


@pytest.mark.parametrize(
    "fields",
    [
        {"fast_tokenizer_files": ["../other/tokenizer.4.0.0.json"]},
        {"init_inputs": ["/etc/hostname"]},
    ],
)
def test_a_tokenizer_that_names_files_elsewhere_is_refused(
    folder: Path, fields: dict[str, Any]
) -> None:
    refusal(claiming(folder, "tokenizer_config.json", **fields))


@pytest.mark.parametrize("longest", ["512", [512], True, {}])
def test_a_maximum_length_that_is_not_a_number_is_refused(folder: Path, longest: Any) -> None:
    claimed = claiming(folder, "tokenizer_config.json", model_max_length=longest)
    assert "it must be a number of tokens" in refusal(claimed)


@pytest.mark.parametrize(
    "name", ["tokenizer_file", "vocab_file", "merges_file", "special_tokens_map_file"]
)
@pytest.mark.parametrize(
    "path", ["/home/someone/.cache/1a2b", "C:\\Users\\me\\vocab.txt", "../vocab.txt"]
)
def test_a_path_that_an_old_tokenizer_was_saved_with_is_not_followed(
    folder: Path, name: str, path: str
) -> None:
    (folder.parent / "vocab.txt").write_text("[UNK]\nnothing\n")
    claiming(folder, "tokenizer_config.json", **{name: path})
    assert attlas.attention(attlas.load(folder), TEXT).tokens[1] == "a"


# absurd sizes


def test_a_count_in_a_list_is_bounded(folder: Path) -> None:
    assert "1000000000" in refusal(claiming(folder, attention_types=[[["global"], 10**9]]))


@pytest.mark.parametrize("task", ["mlm", "auto"])
def test_a_large_embedding_that_is_tied_to_the_head_is_read(task: str, tmp_path: Path) -> None:
    """The table is above what a bound leaves for heads that no file holds."""
    model = tiny("bert", "mlm", vocab_size=2**24 // 32 + 1_000, hidden_size=32)
    assert model.network.config.tie_word_embeddings
    model.save(tmp_path / "model")
    assert attlas.load(tmp_path / "model", task=task).task == "mlm"


SIZES = {
    "bert": (
        "num_hidden_layers",
        "vocab_size",
        "hidden_size",
        "max_position_embeddings",
        "intermediate_size",
    ),
    "gpt2": ("n_layer", "n_positions"),
    "distilbert": ("n_layers",),
    "bart": ("encoder_layers", "decoder_layers"),
    "t5": ("num_layers", "num_decoder_layers"),
    "albert": ("num_hidden_groups",),
}


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "pickle"])
@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for family, names in SIZES.items() for name in names]
)
def test_a_network_of_absurd_size_is_not_built(
    family: str, name: str, pickled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny(family).save(tmp_path)
    if pickled:
        weights = load_file(tmp_path / "model.safetensors")
        torch.save(weights, tmp_path / "pytorch_model.bin")
        (tmp_path / "model.safetensors").unlink()
    claiming(tmp_path, **{name: 20_000 if "layer" in name or "groups" in name else 2_000_000_000})
    built, make = [], torch.nn.Linear.__init__

    def counted(self: torch.nn.Linear, *arguments: Any, **options: Any) -> None:
        built.append(1)
        make(self, *arguments, **options)

    monkeypatch.setattr(torch.nn.Linear, "__init__", counted)
    started = time.process_time()
    found = refusal(tmp_path, allow_pickle=pickled)
    assert "check its layers and sizes" in found
    assert len(built) < 200
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "name", ["num_hidden_layers", "num_labels", "num_local_experts", "num_attention_heads"]
)
def test_a_count_beyond_all_bounds_is_refused_before_the_configuration_is_made(
    folder: Path, name: str
) -> None:
    assert f"config.json has {name} = {10**12}" in refusal(claiming(folder, **{name: 10**12}))
    assert f"config.json has {name} = {10**12}" in refusal(
        claiming(folder, **{name: 1, "text_config": {name: 10**12}})
    )


ABSURD = r"""
import re, sys, time
from pathlib import Path
from attlas.models.load import load
from attlas.support.errors import AttlasError
started = time.process_time()
try:
    load(sys.argv[1])
except AttlasError as error:
    print(error)
seconds = time.process_time() - started
# not ru_maxrss: after fork and exec that begins with the memory of the process that forked
peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024
print(seconds, peak)
"""


@pytest.mark.slow
def test_twenty_thousand_layers_cost_seconds_and_no_gigabyte(folder: Path) -> None:
    claiming(folder, num_hidden_layers=20_000)
    done = subprocess.run(
        [sys.executable, "-c", ABSURD, str(folder)], capture_output=True, text=True, timeout=120
    )
    line, numbers = done.stdout.strip().splitlines()
    assert "check its layers and sizes" in line
    seconds, megabytes = map(float, numbers.split())
    assert seconds < 5
    assert megabytes < 1000


def header(content: Any, data: bytes = b"", length: int | None = None) -> bytes:
    written = content if isinstance(content, bytes) else json.dumps(content).encode()
    return (len(written) if length is None else length).to_bytes(8, "little") + written + data


HEADERS: dict[str, bytes] = {
    "empty": b"",
    "short": b"1234",
    "length": header({}, length=2**62),
    "longer than the file": header({}, length=100),
    "not JSON": header(b"{]"),
    "a list": header([]),
    "deep": header(b"[" * 100_000),
    "no shape": header({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, b"1234"),
    "shape": header(
        {"a": {"dtype": "F32", "shape": [10**9, 10**9], "data_offsets": [0, 4]}}, b"1234"
    ),
    "negative": header({"a": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}, b"1234"),
    "text": header({"a": {"dtype": "F32", "shape": ["1"], "data_offsets": [0, 4]}}, b"1234"),
    "offsets": header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, b"1234"),
    "backwards": header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, b"1234"),
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS)
def test_a_header_that_cannot_be_true_is_refused(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").write_bytes(content)
    assert "truncated or corrupt safetensors file" in refusal(folder)


def test_weights_that_were_cut_are_refused(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "truncated or corrupt safetensors file" in refusal(folder)


@pytest.mark.parametrize(
    "file", ["config.json", "tokenizer_config.json", "model.safetensors.index.json"]
)
@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"null", b"[" * 200_000, b"\xff\xfe"])
def test_json_that_is_none_is_refused(folder: Path, file: str, content: bytes) -> None:
    if "index" in file:
        (folder / "model.safetensors").unlink()
    (folder / file).write_bytes(content)
    refusal(folder)


def test_the_bound_is_of_this_thread_alone(folder: Path) -> None:
    with folder_checks.bounded(folder_checks.Bound(0, 0), "small"):
        thread = threading.Thread(target=tiny, args=("bert",))
        thread.start()
        thread.join()
        with pytest.raises(ModelError, match="check its layers"):
            torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(100))
    torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(100))


def test_a_large_embedding_next_to_few_weights_is_refused(folder: Path) -> None:
    save_file(
        {"embeddings.word_embeddings.weight": torch.zeros(2, 2)},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    claiming(folder, vocab_size=10**9)
    assert "check its layers and sizes" in refusal(folder)


# the hub


@pytest.fixture
def at_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let the hub be at an address on this machine, with an empty cache."""

    def set_address(address: str) -> None:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)

    return set_address


def test_an_unknown_name_is_tried_once(
    at_hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens at this address; the client used to retry for 40 seconds and more."""
    at_hub("http://127.0.0.1:9")
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    assert "neither a local folder nor a model that could be downloaded" in refusal(
        "no-such-org/no-such-model"
    )
    assert sum(waits) < 1


COMMIT = "1" * 40


def hub_of(folder: Path) -> type[BaseHTTPRequestHandler]:
    """A hub with one model."""

    class Hub(BaseHTTPRequestHandler):
        asked: ClassVar[list[str]] = []

        def log_message(self, *_: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(False)

        def do_GET(self) -> None:
            self.answer(True)

        def answer(self, whole: bool) -> None:
            type(self).asked.append(self.path)
            path = self.path.partition("?")[0]
            if path.startswith("/api/models/someone/small/tree"):
                entries = [
                    {
                        "type": "file",
                        "path": one.name,
                        "size": one.stat().st_size,
                        "oid": f"{number:040x}",
                    }
                    for number, one in enumerate(sorted(folder.iterdir()))
                ]
                return self.send(json.dumps(entries).encode(), whole)
            if path.startswith("/api/models/someone/small"):
                names = [{"rfilename": one.name} for one in sorted(folder.iterdir())]
                about = {
                    "_id": "1",
                    "id": "someone/small",
                    "sha": COMMIT,
                    "private": False,
                    "siblings": names,
                }
                return self.send(json.dumps(about).encode(), whole)
            name = path.rpartition("/")[2]
            if path.startswith("/someone/small/resolve/") and (folder / name).is_file():
                return self.send((folder / name).read_bytes(), whole)
            self.send_error(404)

        def send(self, content: bytes, whole: bool) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Type", "application/json")
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{len(content)}-{hash(content) & 0xFFFF}"')
            self.end_headers()
            if whole:
                self.wfile.write(content)

    return Hub


def test_a_model_of_the_hub_is_fetched_and_checked_like_a_folder(
    folder: Path, at_hub: Callable[[str], None]
) -> None:
    expected = attlas.load(folder).weights_sha256()
    (folder / "pytorch_model.bin").write_bytes(b"never asked for")
    hub = hub_of(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        at_hub(f"http://127.0.0.1:{server.server_address[1]}")
        model = attlas.load("someone/small")
        assert (model.weights_sha256(), model.name) == (expected, "someone/small")
        assert not any(path.endswith(".bin") for path in hub.asked)  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert attlas.load("someone/small").weights_sha256() == expected  # from the cache
