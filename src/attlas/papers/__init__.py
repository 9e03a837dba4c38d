"""One recipe per paper: its published tables and figures compared with ours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attlas.support.errors import AttlasError


@dataclass(frozen=True)
class Paper:
    """What a reproduction needs, writes and consists of; its recipe is the module of its name."""

    title: str
    takes: str
    data: str
    writes: str
    out: str
    parts: tuple[str, ...]
    kind: str = "part"  # what its parts are called
    model: bool = True  # whether it takes one


PAPERS = {
    "betti": Paper(
        "Kushnareva et al. 2022, Betti numbers of attention graphs: Table 1 and Figure 1.",
        "about an hour",
        "cola, imdb and sms_spam",
        "models, features and results",
        "runs/betti",
        ("cola", "sms_spam", "imdb"),
        kind="task",
    ),
    "longformer": Paper(
        "Hou 2022, Longformer: accuracy, Figures 4 to 11, and Tables 1 to 4 with chance levels.",
        "about three hours",
        "arxiv_long, mock_notes and sst",
        "models, studies and pictures",
        "runs/longformer",
        ("arxiv_long", "mock_notes", "sst"),
        kind="task",
    ),
    "bert": Paper(
        "Clark et al. 2019, BERT: Figures 2 to 6 and Tables 1 to 3, with random weights.",
        "about an hour",
        "ud_ewt, ud_gum, litbank, gap and glove50",
        "studies, tables and pictures",
        "runs/bert",
        ("figures", "syntax", "coreference", "tree"),
    ),
    "relations": Paper(
        "Chizhikova et al. 2022, semantic relations: tables, figures, controls, and other data.",
        "about half an hour",
        "trex95, redocred, fewrel and semeval2010_task8",
        "extractors, tables and pictures",
        "runs/relations",
        ("trex", "published", "redocred", "fewrel", "semeval"),
    ),
    "dynamics": Paper(
        "Sun and Lu 2020, attention for text classification: Table 2 and Figures 2 to 5, with "
        "controls.",
        "about an hour and a half",
        "sst, imdb, newsgroups5 and glove50",
        "studies, tables and pictures",
        "runs/dynamics-paper",
        (
            *("sst", "news1", "imdb", "news2"),
            *("differences", "flow", "penalty", "frozen", "synthetic"),
        ),
        model=False,
    ),
}


def data_folder(root: str | Path) -> Path:
    """The folder of the data sets."""
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise AttlasError(
            f"there is no folder {folder}; give the folder of the data sets with --data-root"
        )
    return folder
