"""load: the embedded default, a hub id, a folder, or (model, tokenizer)."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError
from transformers import AutoConfig, AutoTokenizer

from attlas.models.claims import (
    Bound,
    bound_of,
    bounded,
    check_files,
    check_tokenizer_files,
    without_code,
)
from attlas.models.encode import GLOBAL_TOKENS
from attlas.models.lengthened import lengthened
from attlas.models.model import GLOBAL_CHOICE, Model, check_parts
from attlas.models.quiet import quiet
from attlas.models.sources import EMBEDDED, EMBEDDED_LONG, embedded_folder
from attlas.support.errors import AttlasError, ModelError
from attlas.support.files import file_sha256

# what is fetched from the hub: configurations, tokenizers and weights of the usual names
FETCHED = (
    "*.json",
    "*.txt",
    "*.model",
    "*.tiktoken",
    "*.vocab",
    "*.bpe",
    "model.safetensors",
    "model-*.safetensors",
)
FETCHED_PICKLES = ("pytorch_model.bin", "pytorch_model-*.bin")
TASKS = {
    "base": "AutoModel",
    "classify": "AutoModelForSequenceClassification",
    "mlm": "AutoModelForMaskedLM",
    "lm": "AutoModelForCausalLM",
}


def load(
    model: str | Path | tuple[Any, Any] | Model | None = None,
    *,
    task: str = "base",
    device: str | torch.device | None = None,
    max_length: int | None = None,
    allow_pickle: bool = False,
    labels: Sequence[str] | None = None,
    seed: int = 0,
    global_tokens: str | Sequence[int] | None = None,
) -> Model:
    """Load a model: None for the embedded default, `embedded:long` for the same lengthened to 4,096 tokens, a hub id, a folder, or `(model, tokenizer)`.

    Only safetensors weights are read unless `allow_pickle`; code that comes with a model is never run. `task` is one of
    base, classify, mlm, lm, or auto: what the weights were saved for, and base if they hold no head. A network that is given stays in its
    mode: it is read in evaluation mode and put back. `max_length` cuts texts shorter than the model would. `labels` gives a classifier a head for so many labels; what
    the weights do not hold, such as a new head, is drawn from `seed`. `global_tokens` says which tokens of a Longformer see and are seen by all:
    `first` (if neither this nor the model's folder says otherwise), `special`, `none`, or places such as (0, 5); a text's annotation `global`, a list of character spans (from, to), adds to them.
    """
    chosen = None if global_tokens is None else _global_tokens(global_tokens)
    if isinstance(model, Model):
        changes: dict[str, Any] = (
            {} if chosen is None else {"global_tokens": _checked_global(model, chosen)}
        )
        if max_length is not None:
            changes["limit"] = _checked_length(max_length)
        return replace(model, **changes) if changes else model
    if task not in (*TASKS, "auto"):
        raise ModelError(f"there is no task {task!r}; the tasks are {', '.join(TASKS)}, or auto")
    if max_length is not None:
        _checked_length(max_length)
    if model == EMBEDDED_LONG:
        return replace(
            lengthened(load(task=task, device=device, labels=labels, seed=seed)),
            name=EMBEDDED_LONG,
            limit=max_length,
            global_tokens=chosen or "first",
        )
    if isinstance(model, tuple):
        if len(model) != 2:
            raise ModelError(f"expected (model, tokenizer), got a tuple of {len(model)}")
        network, tokenizer = model
        check_parts(network, tokenizer)
        task = _task_of(type(network).__name__) if task == "auto" else task
        name, sha256, note = (
            getattr(network.config, "_name_or_path", "") or type(network).__name__,
            None,
            None,
        )
    else:
        embedded = model is None or str(model) == EMBEDDED
        folder, name = (
            (embedded_folder(), EMBEDDED)
            if embedded
            else (_folder(model, allow_pickle), str(model))
        )
        source = _Source(folder, name, allow_pickle, labels, seed)
        network, tokenizer, task, note = source.load(task)
        sha256 = _file_sha256(folder)
    if device is not None:
        network = network.to(device)
    saved = _global_tokens(getattr(network.config, GLOBAL_CHOICE, "first"))
    loaded = Model(network, tokenizer, name, task, sha256, max_length, saved, note)
    return (
        loaded if chosen is None else replace(loaded, global_tokens=_checked_global(loaded, chosen))
    )


def _checked_length(length: int) -> int:
    if length < 3:
        raise ModelError(f"max_length is {length}, but a text needs at least 3 tokens")
    return length


def _global_tokens(given: str | Sequence[int]) -> str | tuple[int, ...]:
    """The choice of global tokens, checked."""
    if isinstance(given, str) and given in GLOBAL_TOKENS:
        return given
    try:
        chosen = (
            map(int, given.split(",")) if isinstance(given, str) else map(operator.index, given)
        )
        places = tuple(sorted(set(chosen)))
    except (TypeError, ValueError):
        places = (-1,)
    if any(place < 0 for place in places):
        raise ModelError(
            f"global_tokens is {given!r}; it must be {', '.join(GLOBAL_TOKENS)}, or places from 0 such as (0, 5)"
        )
    return places or "none"


def _checked_global(model: Model, chosen: str | tuple[int, ...]) -> str | tuple[int, ...]:
    if not model.banded:
        raise ModelError(
            f"global_tokens is {chosen!r}, but {model.name} has no global tokens, only a Longformer has; leave it out (--global-tokens)"
        )
    return chosen


def _folder(model: Any, allow_pickle: bool) -> Path:
    """The folder of that name, else one fetched from the hub."""
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(
                f"{path} is not a model folder: it has no config.json; save one with model.save_pretrained and tokenizer.save_pretrained"
            )
        return path
    if path.exists():
        raise ModelError(
            f"{path} is a file; give the folder that holds config.json and model.safetensors"
        )
    if (
        isinstance(model, Path)
        or str(model).startswith((".", "/", "~"))
        or str(model).count("/") > 1
    ):
        raise ModelError(
            f"there is no folder {path}; give a folder with config.json, or a hub id such as bert-base-uncased"
        )
    return _fetched(str(model), allow_pickle)


def _fetched(name: str, allow_pickle: bool) -> Path:
    """The folder of a model from the hub, or of its copy here; the hub is asked once."""
    patterns = [*FETCHED, *(FETCHED_PICKLES if allow_pickle else ())]
    with quiet():
        try:
            return Path(snapshot_download(name, allow_patterns=patterns))
        except GatedRepoError as error:
            raise ModelError(
                f"{name!r} is gated on the hub; ask for access there and log in, or give a local folder"
            ) from error
        except (
            Exception
        ) as error:  # the hub's client raises many kinds; all mean that there is no such model
            raise ModelError(
                f"{name!r} is neither a folder here nor a model that could be fetched from the hub; check the name and the network, or give a local folder"
            ) from error


@dataclass(frozen=True)
class _Source:
    """A model's folder and how it is opened."""

    folder: Path
    name: str
    allow_pickle: bool
    labels: Sequence[str] | None
    seed: int

    def load(self, task: str) -> tuple[Any, Any, str, str | None]:
        """Network, tokenizer, task, and what to say about the task if it is not the one that was asked for."""
        check_files(self.folder, self.allow_pickle)
        with quiet():
            config = without_code(_try(self.name, lambda: self._open(AutoConfig)))
            bound = bound_of(self.folder, self.allow_pickle)
            check_tokenizer_files(self.folder)
            asked = _task_of(*(config.architectures or ())) if task == "auto" else task
            network, holes = self._network(config, asked, bound)
            note = None
            if holes and task == "auto" and self.labels is None:
                note = f"{self.name} is loaded without a head: config.json says {config.architectures[0]}, but its weights lack {holes[0]}"
                asked = "base"
                network, _ = self._network(config, asked, bound)
            elif holes and self.labels is None:
                raise ModelError(
                    f"{self.name!r} has no head for the task {task!r}: its weights lack {holes[0]}; load it with task='base', or fit a head with attlas finetune"
                )
            tokenizer = _try(self.name, lambda: self._open(AutoTokenizer))
        check_parts(network, tokenizer)
        if note is not None:
            warnings.warn(note, stacklevel=3)
        return network, tokenizer, asked, note

    def _open(self, auto: Any, **options: Any) -> Any:
        return auto.from_pretrained(
            self.folder, trust_remote_code=False, local_files_only=True, **options
        )

    def _network(self, config: Any, task: str, bound: Bound) -> tuple[Any, list[str]]:
        """The network and the weights of its head that no file holds."""
        options: dict[str, Any] = {} if self.allow_pickle else {"use_safetensors": True}
        if self.labels is not None:
            config.num_labels = len(self.labels)
            config.id2label = {number: str(label) for number, label in enumerate(self.labels)}
            config.label2id = {str(label): number for number, label in enumerate(self.labels)}
            options["ignore_mismatched_sizes"] = True  # a head for other labels is drawn anew
        auto = getattr(transformers, TASKS[task])
        with torch.random.fork_rng(devices=[]), bounded(bound, self.name):
            torch.manual_seed(
                self.seed
            )  # what the file does not hold (a pooler, a new head) is the same every time
            network, info = _try(
                self.name,
                lambda: self._open(auto, config=config, output_loading_info=True, **options),
            )
        missing = {*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])}
        _refuse_holes(self.name, network, missing)
        return network, _head_holes(network, task, missing)


def _task_of(*architectures: str) -> str:
    """What a network of this class does.

    >>> _task_of("BertForSequenceClassification"), _task_of("GPT2LMHeadModel"), _task_of()
    ('classify', 'lm', 'base')
    """
    ends = {
        "ForSequenceClassification": "classify",
        "ForMaskedLM": "mlm",
        "ForCausalLM": "lm",
        "LMHeadModel": "lm",
    }
    return next(
        (task for end, task in ends.items() for name in architectures if name.endswith(end)), "base"
    )


def _head_holes(network: Any, task: str, missing: set[str]) -> list[str]:
    """The parameters of a head that are missing; a classifier's include the pooler that it reads."""
    if task == "base":
        return []
    base = {id(parameter) for parameter in network.base_model.parameters()}
    pooled = task == "classify"
    head = {
        key
        for key, parameter in network.named_parameters()
        if id(parameter) not in base or (pooled and "pooler" in key)
    }
    return sorted(head & missing)


def _refuse_holes(name: str, network: Any, missing: set[str]) -> None:
    """Refuse weights that do not fill the part whose attention is read: the rest would be random, and silently so."""
    base = {id(parameter) for parameter in network.base_model.parameters()}
    wanted = {
        key
        for key, parameter in network.named_parameters()
        if id(parameter) in base and "pooler" not in key
    }
    holes = sorted(wanted & missing)
    if holes:
        raise ModelError(
            f"the weights of {name!r} do not fit its architecture: {len(holes)} are missing or of another shape, such as {holes[0]}; check config.json and the weights' names"
        )


def _try(name: str, step: Callable[[], Any]) -> Any:
    """One step of loading; what goes wrong becomes one clear line."""
    try:
        return step()
    except AttlasError:
        raise
    except (
        Exception
    ) as error:  # transformers raises many kinds; all mean that this model cannot be loaded
        raise ModelError(_reason(name, error)) from error


def _reason(name: str, error: Exception) -> str:
    text = str(error)
    if "trust_remote_code" in text:
        return f"{name!r} needs code that comes with the model, and Attlas never runs such code; use a model of a class that transformers has"
    if (
        "Unrecognized configuration class" in text
        or "does not recognize this architecture" in text
        or "Unrecognized model" in text
    ):
        return f"{name!r} is not a transformer of this task that transformers knows: {_first_line(text)}"
    if "safetensors" in text:
        return f"{name!r} has no safetensors weights; convert them, or pass allow_pickle=True (--allow-pickle) if you trust them: {_first_line(text)}"
    return f"{name!r} cannot be loaded: {_first_line(text) or type(error).__name__}"


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:300] if text.strip() else ""


def _file_sha256(folder: Path) -> str | None:
    """The digest of the weights' file, where there is just one."""
    files = sorted(folder.glob("*.safetensors"))
    return file_sha256(files[0]) if len(files) == 1 else None
