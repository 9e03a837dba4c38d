"""Model types, tiny: read exactly or refused in one line; the survey of all of them is kept."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from attlas.models.families import FAMILIES
from benchmarks.model_types import BEGIN, END, MODELS, kept, rendered, surveyed

# attention code of their own, learned sinks, masks with a bias, several softmax matrices in a
# module, one block at several depths
OWN_CODE = (
    "bigbird_pegasus",
    "bloom",
    "convbert",
    "falcon",
    "git",
    "glm5_next_text",
    "ibert",
    "imagegpt",
    "lilt",
    "mpt",
    "openai-gpt",
    "prophetnet",
    "squeezebert",
    "xglm",
    "xlnet",
    "zamba2",
)
SINKS = ("flint", "gpt_oss", "hy_v4", "mimo_v2_flash", "openai_privacy_filter")
ONCE_WRONG = ("axk2", "deepseek_v32", "doge", "glm_moe_dsa", "minimax_m3_vl", "mistral_large4")


@pytest.mark.parametrize("kind", [*OWN_CODE, *SINKS, *ONCE_WRONG, *FAMILIES])
def test_weights_are_those_of_eager_attention(kind: str) -> None:
    row = surveyed(kind)
    assert row.verdict == "exact", row


@pytest.mark.parametrize(
    ("kind", "note"),
    [
        ("vit", "ViTModel needs pixel_values, not text"),
        ("whisper", "WhisperModel needs input_features, not text"),
        ("canine", "CanineModel cannot read a single word as text"),
        ("mamba", "yielded no attention weights"),
        ("deepseek_v4", "8 queries and 10 keys for a text of 8 tokens"),
        ("diffllama", "more than one attention in layer 0"),
    ],
)
def test_others_are_refused_in_one_line(kind: str, note: str) -> None:
    row = surveyed(kind)
    assert row.verdict == "refused"
    assert note in row.note


def test_the_survey_is_of_the_installed_library_and_nothing_in_it_is_wrong() -> None:
    about, rows = kept()
    assert about.startswith(f"transformers {version('transformers')}, ")
    assert {row.type for row in rows} == {*MODEL_MAPPING_NAMES}
    assert not [row for row in rows if row.verdict in ("WRONG", "RAW TRACEBACK")]
    assert sum(row.verdict == "exact" for row in rows) >= 290
    assert f"{BEGIN}\n{rendered(rows, about)}\n{END}" in MODELS.read_text(encoding="utf-8")
