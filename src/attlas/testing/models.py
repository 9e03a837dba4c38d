"""Tiny models of every family, with random weights: for tests that need only shapes."""

from __future__ import annotations

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

# name -> (config class, its options, model class by task, whether the tokenizer adds [CLS], [SEP])
FAMILIES: dict[str, tuple[str, dict[str, Any], dict[str, str], bool]] = {
    "bert": (
        "BertConfig",
        _BERT,
        {
            "base": "BertModel",
            "classify": "BertForSequenceClassification",
            "mlm": "BertForMaskedLM",
        },
        True,
    ),
    "roberta": (
        "RobertaConfig",
        _BERT,
        {"base": "RobertaModel", "classify": "RobertaForSequenceClassification"},
        True,
    ),
    "distilbert": (
        "DistilBertConfig",
        {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 37},
        {"base": "DistilBertModel", "classify": "DistilBertForSequenceClassification"},
        True,
    ),
    "electra": ("ElectraConfig", _BERT | {"embedding_size": 16}, {"base": "ElectraModel"}, True),
    "albert": ("AlbertConfig", _BERT | {"embedding_size": 16}, {"base": "AlbertModel"}, True),
    "modernbert": (
        "ModernBertConfig",
        _BERT
        | {
            "global_attn_every_n_layers": 3,
            "local_attention": 4,
            "cls_token_id": 2,
            "sep_token_id": 3,
            "bos_token_id": 2,
            "eos_token_id": 3,
        },
        {"base": "ModernBertModel"},
        True,
    ),
    "gpt2": (
        "GPT2Config",
        {"n_embd": 32, "n_layer": 3, "n_head": 4, "bos_token_id": 0, "eos_token_id": 0},
        {"base": "GPT2Model", "lm": "GPT2LMHeadModel"},
        False,
    ),
    "gpt_neox": (
        "GPTNeoXConfig",
        _BERT | {"bos_token_id": 0, "eos_token_id": 0},
        {"base": "GPTNeoXModel"},
        False,
    ),
    "llama": ("LlamaConfig", _LLAMA, {"base": "LlamaModel", "lm": "LlamaForCausalLM"}, False),
    "qwen3": ("Qwen3Config", _LLAMA, {"base": "Qwen3Model", "lm": "Qwen3ForCausalLM"}, False),
    "gemma2": (
        "Gemma2Config",
        _LLAMA | {"sliding_window": 4, "query_pre_attn_scalar": 8},
        {"base": "Gemma2Model"},
        False,
    ),
    "t5": (
        "T5Config",
        {
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 37,
            "num_layers": 3,
            "num_heads": 4,
            "decoder_start_token_id": 0,
        },
        {"base": "T5Model"},
        True,
    ),
    "bart": (
        "BartConfig",
        {
            "d_model": 32,
            "encoder_layers": 3,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 37,
            "decoder_ffn_dim": 37,
            "eos_token_id": 3,
            "bos_token_id": 2,
        },
        {"base": "BartModel", "classify": "BartForSequenceClassification"},
        True,
    ),
    "longformer": (
        "LongformerConfig",
        _BERT | {"attention_window": [4, 8, 4], "sep_token_id": 3},
        {"base": "LongformerModel", "classify": "LongformerForSequenceClassification"},
        True,
    ),
    "mpnet": ("MPNetConfig", _BERT, {"base": "MPNetModel"}, True),
    "deberta_v2": (
        "DebertaV2Config",
        _BERT
        | {
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "position_buckets": 16,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
        },
        {"base": "DebertaV2Model"},
        True,
    ),
    "big_bird": (
        "BigBirdConfig",
        _BERT | {"block_size": 4, "num_random_blocks": 1},
        {"base": "BigBirdModel"},
        True,
    ),
}


def tiny(family: str = "bert", task: str = "base", seed: int = 0, **options: Any) -> Model:
    """A tiny model with random weights of one of FAMILIES: 3 layers x 4 heads, quick and small.

    Its weights are drawn wider than usual, so that its attention is far from uniform.
    """
    config_class, defaults, classes, marks = FAMILIES[family]
    tokenizer = tiny_tokenizer(marks)
    config = getattr(transformers, config_class)(
        **{"vocab_size": len(tokenizer), "pad_token_id": 0, **defaults, **options}
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = getattr(transformers, classes[task])(config)
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, 0.3)
    return load((network.eval(), tokenizer), task=task)
