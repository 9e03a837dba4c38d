"""load: the embedded default, a Hub ID, a folder, or (model, tokenizer)."""

from __future__ import annotations

import copy
import operator
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer

from attlas.models.converted import gguf_folder
from attlas.models.encode import GLOBAL_TOKENS
from attlas.models.folder_checks import (
    TRUST,
    Bound,
    bound_of,
    bounded,
    check_files,
    check_tokenizer_files,
    without_code,
)
from attlas.models.holders import parts_of, plain_network
from attlas.models.hub import downloaded
from attlas.models.identity import GLOBAL_CHOICE
from attlas.models.lengthened import lengthened
from attlas.models.model import Model, check_parts
from attlas.models.quiet import silence_transformers
from attlas.models.sources import (
    EMBEDDED,
    EMBEDDED_LONG,
    check_model,
    embedded_folder,
    gguf_file,
)
from attlas.support.errors import AttlasError, ModelError
from attlas.support.files import file_sha256
from attlas.support.options import DTYPES, LENSES

TASKS = {
    "base": "AutoModel",
    "classify": "AutoModelForSequenceClassification",
    "mlm": "AutoModelForMaskedLM",
    "lm": "AutoModelForCausalLM",
}


class Where(TypedDict, total=False):
    """Where a model runs, in which precision, and what is read of its attention."""

    device: str | torch.device | None
    device_map: Any
    dtype: str | torch.dtype | None
    lens: str


def load(
    model: Any = None,
    *,
    task: str = "base",
    max_length: int | None = None,
    allow_pickle: bool = False,
    labels: Sequence[str] | None = None,
    seed: int = 0,
    global_tokens: str | Sequence[int] | None = None,
    **where: Unpack[Where],
) -> Model:
    """Load a model, ready to be observed.

    `model` is None for the embedded default, `embedded:long` for the same lengthened to 4,096
    tokens, a Hub ID, a folder, a GGUF file, `(model, tokenizer)`, a pipeline, or a
    SentenceTransformer; models may be compiled or have adapters (PEFT). Code that comes with a
    model is never run, and only safetensors weights are read unless `allow_pickle`.

    `task` is base, classify, mlm, lm, or auto: what the weights were saved for, or base if they
    have no head. `max_length` truncates texts further than the model does. `labels` gives a
    classifier a head for these labels; weights that are missing, such as a new head's, are drawn
    with `seed`. `global_tokens` are the tokens of a Longformer that see and are seen by all:
    `first` (the default, unless the model was saved with others), `special`, `none`, or positions
    such as (0, 5); a text's annotation `global`, a list of character spans, adds to them.

    `device` is where the model runs: cpu, cuda, cuda:1, mps, or auto, which spreads it over all
    devices as transformers' `device_map` does (`device_map` takes a map of your own; both need the
    package accelerate). `dtype` is the precision of its weights; without it, the one they were
    saved in. `lens` is what is read: `weights`, or `norms`, weights times the lengths of what
    tokens contribute (Kobayashi et al. 2020), with rows that sum to one.
    """
    lens = where.get("lens", "weights")
    device, how = _where(**where)
    chosen = None if global_tokens is None else _global_tokens(global_tokens)
    if max_length is not None and max_length < 3:
        raise ModelError(f"max_length is {max_length}, but a text needs at least 3 tokens")
    if isinstance(model, Model):
        limited = model if max_length is None else replace(model, limit=max_length)
        return _with_global_tokens(limited, chosen)
    if task not in (*TASKS, "auto"):
        raise ModelError(f"there is no task {task!r}; the tasks are {', '.join(TASKS)}, or auto")
    if model == EMBEDDED_LONG:
        short = load(task=task, labels=labels, seed=seed, **where)
        loaded = lengthened(short, skip=1)  # no later token has the position of [CLS]
        loaded = replace(loaded, name=EMBEDDED_LONG)
    elif model is None or isinstance(model, str | os.PathLike):
        loaded = _loaded(model, task, allow_pickle, labels, seed, how)
    else:
        loaded = _given(model, task)
        dtype = how.get("dtype", loaded.network.dtype)
        if loaded.network.dtype != dtype:  # the user's own stays as it is
            loaded = replace(loaded, network=copy.deepcopy(loaded.network).to(dtype))
    if device is not None:
        loaded = replace(loaded, network=loaded.network.to(device))
    if lens != "weights":
        loaded = replace(loaded, lens=lens, name=f"{loaded.name} (lens {lens})")
    saved = _global_tokens(getattr(loaded.network.config, GLOBAL_CHOICE, "first"))
    return _with_global_tokens(replace(loaded, limit=max_length, global_tokens=saved), chosen)


def _where(
    device: str | torch.device | None = None,
    device_map: Any = None,
    dtype: str | torch.dtype | None = None,
    lens: str = "weights",
) -> tuple[torch.device | None, dict[str, Any]]:
    """The device to move to, and the arguments for transformers; unusable ones are refused."""
    if lens not in LENSES:
        raise ModelError(f"there is no lens {lens!r}; the lenses are {', '.join(LENSES)}")
    if device == "auto":
        device, device_map = None, "auto"
    how: dict[str, Any] = {}
    if device_map is not None:
        if device is not None:
            raise ModelError("give device or device_map, not both")
        if find_spec("accelerate") is None:
            raise ModelError(
                "a model can be spread over devices only with the package accelerate; "
                "install it, or choose one device such as cuda"
            )
        how["device_map"] = device_map
    if dtype is not None:
        how["dtype"] = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
        if not isinstance(how["dtype"], torch.dtype) or not how["dtype"].is_floating_point:
            raise ModelError(f"dtype is {dtype!r}; it must be {', '.join(DTYPES)} or float64")
    if device is None:
        return None, how
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # by device and build
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"the device {str(device)!r} cannot be used: {reason}") from error
    return place, how


def _given(model: Any, task: str) -> Model:
    """A model from (model, tokenizer), or from what holds both."""
    network, tokenizer = parts_of(model)
    network = plain_network(network)
    check_parts(network, tokenizer)
    task = _task_of(type(network).__name__) if task == "auto" else task
    name = getattr(network.config, "_name_or_path", "") or type(network).__name__
    return Model(network, tokenizer, name, task)


def _loaded(
    model: str | os.PathLike[str] | None,
    task: str,
    allow_pickle: bool,
    labels: Sequence[str] | None,
    seed: int,
    how: dict[str, Any],
) -> Model:
    """A model from a folder, the Hub or the embedded package."""
    if model is None or str(model) == EMBEDDED:
        folder, name = embedded_folder(), EMBEDDED
    else:
        folder, name = _folder(model, allow_pickle), str(model)
    source = _Source(folder, name, allow_pickle, labels, seed, how)
    network, tokenizer, task, note = source.load(task)
    return Model(network, tokenizer, name, task, _file_sha256(folder), note=note)


def _global_tokens(value: str | Sequence[int]) -> str | tuple[int, ...]:
    """The choice of global tokens, checked."""
    if isinstance(value, str) and value in GLOBAL_TOKENS:
        return value
    try:
        numbers = value.split(",") if isinstance(value, str) else map(operator.index, value)
        positions = tuple(sorted(set(map(int, numbers))))
    except (TypeError, ValueError):
        positions = (-1,)
    if any(position < 0 for position in positions):
        raise ModelError(
            f"global_tokens is {value!r}; it must be {', '.join(GLOBAL_TOKENS)}, "
            "or positions from 0 such as (0, 5)"
        )
    return positions or "none"


def _with_global_tokens(model: Model, chosen: str | tuple[int, ...] | None) -> Model:
    if chosen is None:
        return model
    if not model.banded:
        raise ModelError(
            f"global_tokens is {chosen!r}, but {model.name} is not a Longformer and has no global "
            "tokens; omit global_tokens (--global-tokens)"
        )
    return replace(model, global_tokens=chosen)


def _folder(model: str | os.PathLike[str], allow_pickle: bool) -> Path:
    """The folder of that name, or one downloaded from the Hub."""
    check_model(model)
    path = Path(model).expanduser()
    if (gguf := gguf_file(path)) is not None:
        with silence_transformers():
            return _try(str(model), lambda: gguf_folder(gguf))
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(
                f"{path} is not a model folder: it has no config.json; "
                "save one with model.save_pretrained and tokenizer.save_pretrained"
            )
        return path
    with silence_transformers():
        return downloaded(str(model), allow_pickle)


@dataclass(frozen=True)
class _Source:
    """A model's folder and how it is opened."""

    folder: Path
    name: str
    allow_pickle: bool
    labels: Sequence[str] | None
    seed: int
    how: dict[str, Any]  # precision and devices, as transformers takes them

    def load(self, task: str) -> tuple[Any, Any, str, str | None]:
        """Network, tokenizer, task, and a note if the model was loaded for another task."""
        check_files(self.folder, self.allow_pickle)
        with silence_transformers():
            config = without_code(_try(self.name, lambda: self._open(AutoConfig)))
            bound = bound_of(self.folder, self.allow_pickle)
            check_tokenizer_files(self.folder)
            actual = _task_of(*(config.architectures or ())) if task == "auto" else task
            network, missing = self._network(config, actual, bound)
            note = None
            if missing and task == "auto" and self.labels is None:
                note = (
                    f"{self.name} is loaded without a head: config.json has "
                    f"{config.architectures[0]}, but {missing[0]} is missing from its weights"
                )
                actual = "base"
                network, _ = self._network(config, actual, bound)
            elif missing and self.labels is None:
                raise ModelError(
                    f"{self.name!r} has no head for the task {task!r}: {missing[0]} is missing "
                    "from its weights; load it with task='base', or train one with attlas finetune"
                )
            tokenizer = _try(self.name, lambda: self._open(AutoTokenizer))
        check_parts(network, tokenizer)
        if note is not None:
            warnings.warn(note, stacklevel=4)
        return network, tokenizer, actual, note

    def _open(self, auto: Any, **options: Any) -> Any:
        return auto.from_pretrained(
            self.folder, trust_remote_code=False, local_files_only=True, **options
        )

    def _network(self, config: Any, task: str, bound: Bound) -> tuple[Any, list[str]]:
        """The network and the parameters of its head that are missing from the weights."""
        options: dict[str, Any] = {} if self.allow_pickle else {"use_safetensors": True}
        if self.labels is not None:
            config.num_labels = len(self.labels)
            config.id2label = {number: str(label) for number, label in enumerate(self.labels)}
            config.label2id = {str(label): number for number, label in enumerate(self.labels)}
            options["ignore_mismatched_sizes"] = True  # a head for other labels is drawn anew
        auto = getattr(transformers, TASKS[task])
        with torch.random.fork_rng(devices=[]), bounded(bound, self.name):
            torch.manual_seed(self.seed)  # for missing parameters: a pooler, a new head
            options |= {"config": config, "output_loading_info": True, **self.how}
            network, info = _try(self.name, lambda: self._open(auto, **options))
        missing = {*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])}
        _check_complete(self.name, network, missing)
        return network, _missing_from_head(network, task, missing)


def _task_of(*architectures: str) -> str:
    """The task of a network of this class.

    >>> _task_of("BertForSequenceClassification"), _task_of("GPT2LMHeadModel"), _task_of()
    ('classify', 'lm', 'base')
    """
    ends = {
        "ForSequenceClassification": "classify",
        "ForMaskedLM": "mlm",
        "ForCausalLM": "lm",
        "LMHeadModel": "lm",
    }
    tasks = (task for end, task in ends.items() for name in architectures if name.endswith(end))
    return next(tasks, "base")


def _base_parameters(network: Any) -> set[str]:
    """The names of the parameters of the base model."""
    base = {id(parameter) for parameter in network.base_model.parameters()}
    return {key for key, parameter in network.named_parameters() if id(parameter) in base}


def _missing_from_head(network: Any, task: str, missing: set[str]) -> list[str]:
    """The parameters of a head that are missing; a classifier's head includes the pooler."""
    if task == "base":
        return []
    base = _base_parameters(network)
    pooled = task == "classify"
    names = (key for key, _ in network.named_parameters())
    return sorted(
        key for key in names if key in missing and (key not in base or (pooled and "pooler" in key))
    )


def _check_complete(name: str, network: Any, missing: set[str]) -> None:
    """Refuse weights that leave parameters of the base model random."""
    base = sorted(key for key in _base_parameters(network) & missing if "pooler" not in key)
    if base:
        raise ModelError(
            f"the weights of {name!r} do not fit its architecture: {len(base)} are missing or of "
            f"another shape, such as {base[0]}; check config.json and the names of the weights"
        )


def _try(name: str, step: Callable[[], Any]) -> Any:
    """One step of loading, with its errors in one line."""
    try:
        return step()
    except AttlasError:
        raise
    except Exception as error:  # transformers raises many kinds of errors
        raise ModelError(_reason(name, error)) from error


_UNKNOWN_CLASS = (
    "Unrecognized configuration class",
    "does not recognize this architecture",
    "Unrecognized model",
)


def _reason(name: str, error: Exception) -> str:
    text = str(error).strip()
    first_line = text.splitlines()[0][:300] if text else type(error).__name__
    if "trust_remote_code" in text:
        return (
            f"{name!r} needs code that comes with the model, which Attlas never runs; "
            "use a model of a class in transformers"
        )
    if any(part in text for part in _UNKNOWN_CLASS):
        return f"{name!r} is not a transformer of this task that transformers knows: {first_line}"
    if "safetensors" in text:
        return f"{name!r} has no safetensors weights; convert them, {TRUST}: {first_line}"
    return f"{name!r} cannot be loaded: {first_line}"


def _file_sha256(folder: Path) -> str | None:
    """The digest of the weights' file, if there is only one."""
    files = sorted(folder.glob("*.safetensors"))
    return file_sha256(files[0]) if len(files) == 1 else None
