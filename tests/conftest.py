from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import attlas
from attlas.testing import tiny


@pytest.fixture(scope="session")
def minilm() -> attlas.Model:
    return attlas.load()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT saved as a folder, as a user's own model would be."""
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    model = tiny("bert")
    model.network.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return folder


def stirred(model: attlas.Model, seed: int = 1) -> attlas.Model:
    """The same model with biases and norms that are not 0 and 1, so that none can be forgotten unseen."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.network.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return model


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def attlas_command(tmp_path: Path) -> Run:
    """Run the real command line in a process of its own."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "attlas", *map(str, arguments)]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=240,
            cwd=tmp_path,
            env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
        )

    return run
