"""What tests share. Imports of torch are in fixtures: the process that only hands out tests to
workers does without.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import attlas
from attlas.cli import main
from tests.builders.processes import FORKS, CommandOutput, Run, Start, Started

# mapped from the file, or copied into memory: other alignments, other kernels
WEIGHTS = os.environ.get("ATTLAS_TEST_WEIGHTS", "mapped")
assert WEIGHTS in {"mapped", "memory"}, (
    f"ATTLAS_TEST_WEIGHTS is {WEIGHTS!r}; it must be 'mapped' or 'memory'"
)


# What `make quick` leaves out: folders and files of whole commands, studies and experiments, pages
# of the documentation, and whatever uses one of these fixtures.
COSTLY_FOLDERS = {"attacks", "cli", "contracts", "experiments", "finetune", "laws", "papers"}
COSTLY_FOLDERS |= {"plugin", "relations", "studies", "web"}
COSTLY_FILES = {
    "compare/test_compare.py",
    "dynamics/test_grid.py",
    "dynamics/test_section.py",
    "explain/test_corpus.py",
    "explain/test_section.py",
    "groups/test_groups.py",
    "measures/test_head_map.py",
    "measures/test_importance.py",
    "measures/test_several_measures.py",
    "measures/test_special_gradient.py",
    "models/test_hostile_models.py",
    "models/test_model_types.py",
    "support/test_processes.py",
    "topology/test_classifier.py",
    "tree/test_experiment.py",
    "views/test_claims.py",
    "views/test_paper.py",
    "views/test_views.py",
}
COSTLY_FIXTURES = {"_forks", "attlas_anew", "inside", "minilm"}
SLOW_PAGES = {"heads.md", "relations.md"}  # of the docs: they train on whole treebanks
TESTS = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Keep what Attlas remembers in a folder of the tests, which all workers share."""
    if "ATTLAS_CACHE" not in os.environ:
        os.environ["ATTLAS_CACHE"] = tempfile.mkdtemp(prefix="attlas-tests-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop("ATTLAS_CACHE")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a browser as slow, and what has a costly folder or fixture as costly."""
    for item in items:
        fixtures = {*getattr(item, "fixturenames", ())}
        if "browser" in fixtures or item.path.name in SLOW_PAGES:
            item.add_marker(pytest.mark.slow)
        if _is_costly(item.path) or fixtures & COSTLY_FIXTURES:
            item.add_marker(pytest.mark.costly)


def _is_costly(path: Path) -> bool:
    if path.suffix == ".md" or not path.is_relative_to(TESTS):
        return path.suffix == ".md"
    name = path.relative_to(TESTS)
    return name.parts[0] in COSTLY_FOLDERS or name.as_posix() in COSTLY_FILES


@pytest.fixture(scope="session", autouse=True)
def _shared_models_stay_as_they_are() -> Iterator[None]:
    from tests.builders.models import changed_models

    yield
    assert not changed_models()


@pytest.fixture(scope="session")
def minilm() -> attlas.Model:
    model = attlas.load()
    if WEIGHTS == "memory":
        for parameter in model.network.parameters():
            parameter.data = parameter.data.clone()
    return model


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT saved as a folder, as a user's own model would be."""
    return _saved_tiny(tmp_path_factory, "tiny-bert")


@pytest.fixture(scope="session")
def _forks() -> Iterator[Callable[[object], str]]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    environment["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    with subprocess.Popen(
        [sys.executable, "-c", FORKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as server:

        def ask(order: object) -> str:
            assert server.stdin is not None
            assert server.stdout is not None
            print(json.dumps(order), file=server.stdin, flush=True)
            answer = server.stdout.readline().strip()
            assert answer, "the process that forks has ended"
            return answer

        yield ask
        assert server.stdin is not None
        server.stdin.close()


@pytest.fixture
def attlas_start(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, _forks: Callable[[object], str]
) -> Iterator[Start]:
    """Start the command line, or code, in a process of its own, whose imports are done; what still
    runs at the end is killed.
    """
    every: list[Started] = []

    def start(*arguments: str | Path, code: str | None = None, **environment: str) -> Started:
        printed = tmp_path_factory.mktemp("printed")
        order = {
            "arguments": [*map(str, arguments)],
            "code": code,
            "folder": str(tmp_path),
            "environment": environment,
        }
        pid = int(_forks({**order, "out": str(printed / "out"), "error": str(printed / "error")}))
        every.append(Started(_forks, pid, printed / "out", printed / "error"))
        return every[-1]

    yield start
    for process in every:
        process.send_signal(signal.SIGKILL)
        process.wait(30)


@pytest.fixture
def attlas_command(attlas_start: Start) -> Run:
    """Run the command line in a process of its own, whose imports are done, to its end."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        process = attlas_start(*arguments, **environment)
        out, error = process.communicate(timeout=240)
        assert process.returncode is not None
        return subprocess.CompletedProcess(
            ["attlas", *map(str, arguments)], process.returncode, out, error
        )

    return run


@pytest.fixture
def attlas_anew(tmp_path: Path) -> Run:
    """Run the command line as a user does, from nothing."""

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if chromium is None and not os.environ.get("CI"):
        pytest.skip("there is no Chromium on this machine; install Debian's chromium to run this")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.fixture
def inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., CommandOutput]:
    """Run the command line in this process, where everything is imported already; in the same
    folder as `attlas_command`.
    """
    from threadpoolctl import threadpool_limits

    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> CommandOutput:
        monkeypatch.setattr(sys, "argv", ["attlas", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end, threadpool_limits(1):
            main()
        printed = capsys.readouterr()
        return CommandOutput(int(end.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one layer."""
    return _saved_tiny(tmp_path_factory, "small-bert", num_hidden_layers=1)


def _saved_tiny(factory: pytest.TempPathFactory, name: str, **options: int) -> Path:
    from attlas.testing import tiny

    folder = factory.mktemp("models") / name
    model = tiny("bert", **options)
    model.network.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return folder
