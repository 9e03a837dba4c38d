"""Tiny models of every family, with random weights: for tests that need only shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from attlas.models import Model, load

_WORDS = (
    "the a an cat dog sat saw on mat and with "
    ", . ! ? ' it was not very good bad film in of to is i you we they he she"
)
_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tiny_tokenizer(marks: bool = True) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer with a few words and all ASCII letters, digits and marks.

    It adds `[CLS]` and `[SEP]` to a text if `marks`.
    """
    letters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    inner = [f"##{piece}" for piece in (*letters, "ing", "ed")]
    pieces = dict.fromkeys([*_MARKS, *_WORDS.split(), *letters, *inner])
    numbers = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    if marks:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B [SEP]",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    named: dict[str, Any] = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    if marks:
        named |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **named)


_BERT = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 520,
}
_LLAMA = _BERT | {"num_key_value_heads": 2, "head_dim": 8, "tie_word_embeddings": False}

_CLASSES = {"base": "Model", "classify": "ForSequenceClassification", "mlm": "ForMaskedLM"}


@dataclass(frozen=True)
class Family:
    """A family of transformers: how its classes are named, and the options of its tiny model."""

    prefix: str  # of the names of its classes
    options: Mapping[str, Any]
    tasks: tuple[str, ...] = ("base",)
    marks: bool = True  # whether the tokenizer adds [CLS] and [SEP]
    lm: str = "ForCausalLM"

    def model_class(self, task: str) -> Any:
        """The class of transformers for one of its tasks."""
        classes = {**_CLASSES, "lm": self.lm}
        return getattr(transformers, self.prefix + {one: classes[one] for one in self.tasks}[task])


_MARKED = {"bos_token_id": 2, "eos_token_id": 3}  # [CLS] and [SEP]
_UNMARKED = {"bos_token_id": 0, "eos_token_id": 0}
_MODERN = {"global_attn_every_n_layers": 3, "local_attention": 4}
_BART = {
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37,
}
_DEBERTA = {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_buckets": 16,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 3, "num_heads": 4}
_CLASSIFIER, _LM = ("base", "classify"), ("base", "lm")

FAMILIES = {
    "bert": Family("Bert", _BERT, (*_CLASSIFIER, "mlm")),
    "roberta": Family("Roberta", _BERT, _CLASSIFIER),
    "distilbert": Family(
        "DistilBert", {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 37}, _CLASSIFIER
    ),
    "electra": Family("Electra", _BERT | {"embedding_size": 16}),
    "albert": Family("Albert", _BERT | {"embedding_size": 16}),
    "modernbert": Family(
        "ModernBert", _BERT | _MODERN | _MARKED | {"cls_token_id": 2, "sep_token_id": 3}
    ),
    "gpt2": Family(
        "GPT2", {"n_embd": 32, "n_layer": 3, "n_head": 4} | _UNMARKED, _LM, False, "LMHeadModel"
    ),
    "gpt_neox": Family("GPTNeoX", _BERT | _UNMARKED, marks=False),
    "llama": Family("Llama", _LLAMA, _LM, marks=False),
    "qwen3": Family("Qwen3", _LLAMA, _LM, marks=False),
    "gemma2": Family(
        "Gemma2", _LLAMA | {"sliding_window": 4, "query_pre_attn_scalar": 8}, marks=False
    ),
    "t5": Family("T5", _T5 | {"decoder_start_token_id": 0}),
    "bart": Family("Bart", _BART | _MARKED, _CLASSIFIER),
    "longformer": Family(
        "Longformer", _BERT | {"attention_window": [4, 8, 4], "sep_token_id": 3}, _CLASSIFIER
    ),
    "mpnet": Family("MPNet", _BERT),
    "deberta_v2": Family("DebertaV2", _BERT | _DEBERTA),
    "big_bird": Family("BigBird", _BERT | {"block_size": 4, "num_random_blocks": 1}),
}


def tiny(family: str = "bert", task: str = "base", seed: int = 0, **options: Any) -> Model:
    """A tiny model with random weights of one of FAMILIES: 3 layers x 4 heads, quick and small.

    Its weights are drawn wider than usual, so that its attention is far from uniform.
    """
    chosen = FAMILIES[family]
    tokenizer = tiny_tokenizer(chosen.marks)
    defaults = {"vocab_size": len(tokenizer), "pad_token_id": 0, **chosen.options}
    config = getattr(transformers, f"{chosen.prefix}Config")(**{**defaults, **options})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = chosen.model_class(task)(config)
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, 0.3)
    return load((network.eval(), tokenizer), task=task)
