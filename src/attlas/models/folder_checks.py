"""Checks of a model's folder before anything in it is built or run.

A folder may come from anyone. Its JSON files can name classes, kernels, other files and other
repositories, and sizes of any magnitude; transformers follows most of them. Whatever could load
code, read a file elsewhere or need more memory than the weights is refused here in one line.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from attlas.models.install import sub_configs
from attlas.support.errors import ModelError

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
TRUST = "or pass allow_pickle=True (--allow-pickle) if you trust them"
ADAPTER = "adapter_config.json"  # transformers follows it to another model
DISTRIBUTED = "shard-*-model-*.safetensors"  # read by another loader than all other weights

# in a configuration, at any depth: why it is refused unless it is null, false or empty
REFUSED = {
    "configuration_files": "it names another configuration; call that config.json",
    "quantization_config": "it is quantized; save it with its weights dequantized",
    "compression_config": "it is quantized; save it with its weights dequantized",
    "transformers_weights": f"it names a weights' file of its own; call it {WEIGHTS}",
    "fusion_config": "it replaces modules by others; remove the field",
    "kernel_config": "it asks for kernels from elsewhere; remove the field",
    "use_kernels": "it asks for kernels from elsewhere; remove the field",
    "distributed_config": "it asks for several machines; remove the field",
    "backbone": "it loads another model; Attlas reads models of text",
    "use_pretrained_backbone": "it loads another model; Attlas reads models of text",
    "use_timm_backbone": "it loads another model; Attlas reads models of text",
}
# in a configuration: the code of attention and experts, which may name a repository; never followed
IGNORED = ("_attn_implementation_internal", "_experts_implementation_internal")
COUNTED = re.compile("layer|block|depth|stage|label|expert|head")  # built one by one
LISTED = "an item of a list"
LABELS = ("id2label", "label2id")
LARGEST_COUNT = 1_000_000  # of each of these

TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab*",
    "*.model",
    "*.tiktoken",
    "tekken.json",
    "*.vocab",
    "*.bpe",
    "*codes",
)

JSON_BYTES = 2**25  # of a configuration or a header
_TYPES = {  # of safetensors, by bytes per item
    8: "F64 I64 U64 C64",
    4: "F32 I32 U32",
    2: "F16 BF16 I16 U16",
    1: "I8 U8 BOOL F8_E4M3 F8_E5M2 F8_E8M0",
}
ITEM_BYTES = {name: size for size, names in _TYPES.items() for name in names.split()}


@dataclass(frozen=True)
class Bound:
    """How large a network may be, given its weights; heads and tied copies are added."""

    tensors: int
    numbers: int

    @property
    def most_tensors(self) -> int:
        return 2 * self.tensors + 64

    @property
    def most_numbers(self) -> int:
        return 2 * self.numbers + 2**24

    most_buffered = 2**28  # numbers in buffers, which are in no file


def read_claims(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a model; empty if there is no such file."""
    if not path.is_file():
        return {}
    try:
        if path.stat().st_size > JSON_BYTES:
            raise ValueError("it is too large")
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise ValueError("it is not an object")
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{path.parent} cannot be loaded: {path.name} is not JSON ({error})"
        ) from error
    return content


def check_files(folder: Path, allow_pickle: bool) -> None:
    """Refuse a folder that leads to code, to other files or to other models."""
    if (folder / ADAPTER).exists():
        raise ModelError(
            f"{folder} holds an adapter ({ADAPTER}); "
            "merge it into its model (merge_and_unload) and save that"
        )
    if any(folder.glob(DISTRIBUTED)):
        raise ModelError(
            f"{folder} holds a distributed checkpoint; save the model with save_pretrained"
        )
    check_config(folder, read_claims(folder / "config.json"))
    _check_tokenizer_config(folder)
    if not allow_pickle and not any((folder / name).is_file() for name in (WEIGHTS, INDEX)):
        _refuse_no_weights(folder)


def _refuse_no_weights(folder: Path) -> None:
    patterns = ("*.bin", "*.pt", "*.pth", "*.ckpt")
    pickled = sorted(path.name for pattern in patterns for path in folder.glob(pattern))
    if pickled:
        raise ModelError(
            f"{folder} has only pickled weights ({', '.join(pickled)}), which can run code when "
            f"opened; convert them to safetensors, {TRUST}"
        )
    raise ModelError(f"{folder} has no weights in {WEIGHTS}; convert pickled ones, {TRUST}")


def check_config(folder: Path, config: Any) -> None:
    """Refuse a configuration with a field that loads something, or with an absurd count."""
    for name, value in _fields(config):
        if name in REFUSED and value:
            raise ModelError(f"{folder} is not loaded: config.json has {name}: {REFUSED[name]}")
        is_count = isinstance(value, int) and (name == LISTED or COUNTED.search(name))
        if is_count and value > LARGEST_COUNT:
            raise ModelError(
                f"{folder} is not loaded: config.json has {name} = {value}; "
                f"at most {LARGEST_COUNT} is read"
            )


def _fields(config: Any) -> Iterator[tuple[str, Any]]:
    """All fields of a configuration and of its parts; names of labels are not fields."""
    waiting = [config]
    while waiting:
        part = waiting.pop()
        items = part.items() if isinstance(part, dict) else ((LISTED, item) for item in part)
        for name, value in items:
            yield str(name), value
            if isinstance(value, dict | list) and name not in LABELS:
                waiting.append(value)


def without_code(config: PretrainedConfig) -> PretrainedConfig:
    """The configuration without a choice of code for attention and experts, in all its parts."""
    for part in sub_configs([config]):
        for name in IGNORED:
            setattr(part, name, None)
    return config


def _check_tokenizer_config(folder: Path) -> None:
    config = read_claims(folder / TOKENIZER_CONFIG)
    for source in (config, read_claims(folder / "config.json")):
        name = source.get("tokenizer_class")
        kind = _class_of(name) if isinstance(name, str) and name else None
        is_tokenizer = isinstance(kind, type) and issubclass(kind, PreTrainedTokenizerBase)
        if kind is not None and not is_tokenizer:
            raise ModelError(
                f"{folder} is not loaded: its tokenizer_class {name!r} is not a tokenizer"
            )
    longest = config.get("model_max_length")
    if longest is not None and (isinstance(longest, bool) or not isinstance(longest, int | float)):
        raise ModelError(
            f"{folder} is not loaded: {TOKENIZER_CONFIG} has model_max_length = {longest!r}; it "
            "must be a number of tokens"
        )
    if config.get("init_inputs"):
        raise ModelError(
            f"{folder} is not loaded: {TOKENIZER_CONFIG} has init_inputs; save the tokenizer again"
        )
    # lists of versions; of single files transformers takes those in the folder
    lists = [value for name, value in config.items() if str(name).endswith("_files")]
    for file in (file for files in lists if isinstance(files, list) for file in files):
        if isinstance(file, str) and not _is_here(folder, file):
            raise ModelError(
                f"{folder} is not loaded: {TOKENIZER_CONFIG} names {file!r}, a file elsewhere"
            )


def _class_of(name: str) -> Any:
    """A class of transformers by its name; None if it cannot be imported."""
    try:
        return getattr(transformers, name, None)
    except Exception:  # a package is missing: opening the tokenizer will report it
        return None


def check_tokenizer_files(folder: Path) -> None:
    """Refuse a folder without a vocabulary: transformers would make a tokenizer without words."""
    if not any(path.is_file() for pattern in TOKENIZER_FILES for path in folder.glob(pattern)):
        raise ModelError(
            f"{folder} has no tokenizer files (tokenizer.json, vocab.txt, ...); "
            "save them with tokenizer.save_pretrained"
        )


def _is_here(folder: Path, name: str) -> bool:
    """Whether a file is in the folder; the Hub's cache links to its own blobs."""
    path = folder / name
    if Path(name).name != name or not path.is_file():
        return False
    target, home = path.resolve(), folder.resolve()
    return target.parent in (home, home.parent.parent / "blobs")


def bound_of(folder: Path, allow_pickle: bool) -> Bound:
    """The size of the weights of a folder, from their headers; broken headers are refused."""
    if (folder / WEIGHTS).is_file():
        files = [WEIGHTS]
    elif (folder / INDEX).is_file():
        files = _indexed(folder, INDEX, ".safetensors")
    elif allow_pickle and (folder / PICKLED).is_file():
        files = [PICKLED]
    elif allow_pickle and (folder / PICKLED_INDEX).is_file():
        files = _indexed(folder, PICKLED_INDEX, ".bin")
    else:
        raise ModelError(f"{folder} has no weights; it needs {WEIGHTS}")
    read = _shapes if files[0].endswith(".safetensors") else _pickled_shapes
    shapes = [shape for name in files for shape in read(folder, name)]
    return Bound(len(shapes), sum(map(math.prod, shapes)))


def _indexed(folder: Path, index: str, ending: str) -> list[str]:
    """The files that an index names; all must be next to it and have this extension."""
    weight_map = read_claims(folder / index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelError(f"{folder} cannot be loaded: {index} names no weights")
    files = sorted(set(map(str, weight_map.values())))
    for name in files:
        if not name.endswith(ending):
            raise ModelError(
                f"{folder} is not loaded: {index} names {name!r}, which is not a {ending} file and "
                "may be pickled, so that it could run code; convert the weights to safetensors"
            )
        if not _is_here(folder, name):
            raise ModelError(
                f"{folder} is not loaded: {index} names {name!r}, which is not a file next to it; "
                "put the weights into the model's folder"
            )
    return files


def _shapes(folder: Path, name: str) -> list[tuple[int, ...]]:
    """The shapes in the header of a safetensors file, checked against its size."""
    if not _is_here(folder, name):
        raise ModelError(
            f"{folder} is not loaded: {name} links to a file elsewhere; "
            "copy the weights into the folder"
        )
    path = folder / name
    try:
        header, size = _header(path)
        entries = [entry for key, entry in header.items() if key != "__metadata__"]
        return [_shape(entry, size) for entry in entries]
    except (OSError, ValueError, TypeError, KeyError, RecursionError, AttributeError) as error:
        raise ModelError(
            f"{path} cannot be loaded: it is a truncated or corrupt safetensors file ({error}); "
            "copy or save it again"
        ) from error


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file, and the number of bytes after it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, JSON_BYTES):
            raise ValueError(f"its header claims {length} bytes, the file has {size}")
        header = json.loads(file.read(length))
    return header, size - 8 - length


def _shape(entry: dict[str, Any], size: int) -> tuple[int, ...]:
    shape, (start, stop) = tuple(entry["shape"]), entry["data_offsets"]
    item = ITEM_BYTES.get(entry["dtype"])
    valid = all(type(count) is int and count >= 0 for count in shape)
    if not valid or not 0 <= start <= stop <= size:
        raise ValueError(f"a tensor of shape {list(shape)} at {start} to {stop} of {size} bytes")
    if item is not None and math.prod(shape) * item != stop - start:
        raise ValueError(f"a tensor of shape {list(shape)} in {stop - start} bytes")
    return shape


def _pickled_shapes(folder: Path, name: str) -> list[tuple[int, ...]]:
    """The shapes in a file that the user trusts, without its numbers where possible."""
    path = folder / name
    try:
        content = torch.load(path, map_location="meta", weights_only=True)
    except Exception as error:  # torch raises many kinds of errors
        first = str(error).strip().partition("\n")[0][:200]
        raise ModelError(f"{path} cannot be loaded: it has no weights ({first})") from error
    if not isinstance(content, dict):
        raise ModelError(
            f"{path} cannot be loaded: it has a {type(content).__name__} instead of weights by name"
        )
    return [tuple(value.shape) for value in content.values() if isinstance(value, Tensor)]


@contextmanager
def bounded(bound: Bound, name: str) -> Iterator[None]:
    """While open, a network that this thread builds may not be much larger than its weights."""
    thread = threading.get_ident()
    limits = {
        "tensors": bound.most_tensors,
        "numbers": bound.most_numbers,
        "numbers in buffers": bound.most_buffered,
    }
    counts = dict.fromkeys(limits, 0)
    registered: set[tuple[int, str]] = set()  # module and name: loading sets each a second time

    def add(unit: str, count: int) -> None:
        counts[unit] += count
        if counts[unit] > limits[unit]:
            raise ModelError(
                f"{name!r} is not loaded: config.json describes a network of more than "
                f"{limits[unit]} {unit}, but its weights are {bound.tensors} tensors of "
                f"{bound.numbers} numbers; check its layers and sizes"
            )

    def parameter(module: nn.Module, key: str, value: Tensor | None) -> None:
        if value is None or threading.get_ident() != thread or (id(module), key) in registered:
            return
        registered.add((id(module), key))
        add("tensors", 1)
        add("numbers", value.numel())

    def buffer(module: nn.Module, key: str, value: Tensor | None) -> None:
        if value is not None and threading.get_ident() == thread:
            add("numbers in buffers", value.numel())

    hooks = (
        torch_modules.register_module_parameter_registration_hook(parameter),
        torch_modules.register_module_buffer_registration_hook(buffer),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
