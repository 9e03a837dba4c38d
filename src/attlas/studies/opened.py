"""Study: a finished pass on disk, opened."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attlas.studies.folder import (
    COMPLETE,
    PARTS,
    QUARANTINE,
    REPORT,
    RESULT,
    TABLES,
    check_file,
    read_manifest,
)
from attlas.support.errors import StudyError
from attlas.support.files import (
    read_json,
    remove_with,
    unnamed_folder,
    write_bytes,
    write_errors,
)
from attlas.support.fingerprint import Put, feed, sha256_of
from attlas.support.heads import parse_head
from attlas.support.outputs import PAGE, check_output
from attlas.views.notebook import Selection, Shown

if TYPE_CHECKING:
    import pandas as pd

    from attlas.views.cards import HeadCard
    from attlas.views.notebook import Panel
    from attlas.views.paper import PaperFigure


@dataclass(frozen=True)
class Pages:
    """How a study is shown: as a report, in a notebook, one head or text, and in a paper."""

    report: Callable[[Study], str]
    notebook: Callable[[Study], str]
    card: Callable[[Study, int, int], HeadCard]
    heads: Callable[[Study, str | None], PaperFigure]
    methods: Callable[[Study], str]
    text: Callable[[Study, str, Any], Shown]
    matrix: Callable[[Study, str, str, Any], PaperFigure]
    panel: Callable[[Study], Panel]


@dataclass(eq=False)
class Study(Shown):
    """The tables and the manifest of a complete study."""

    pages: ClassVar[Pages]  # set by attlas.api, which knows the sections of all subjects
    comparison: ClassVar[Callable[..., Study]]  # set by attlas.api, which knows the subject

    folder: Path
    manifest: dict[str, Any] = field(repr=False)
    others: tuple[Study, ...] = field(default=(), repr=False)
    _checked: set[str] = field(default_factory=set, repr=False)  # tables with an intact file
    _kept: tuple[Study, ...] = field(default=(), repr=False)
    selection: Selection = field(default_factory=Selection, repr=False)  # of its widgets

    @classmethod
    def open(cls, folder: str | Path) -> Study:
        """Open a study folder."""
        folder = Path(folder).expanduser()
        if not folder.is_dir():
            raise StudyError(f"there is no study folder {folder}")
        manifest = read_manifest(folder)
        if manifest is None:
            raise StudyError(f"{folder} holds no study; make one with attlas study --out {folder}")
        if manifest["status"] != COMPLETE:
            raise StudyError(
                f"the study in {folder} is not complete; run the same command again: it resumes"
            )
        if "tables" not in manifest:
            raise StudyError(
                f"{folder} holds no tables: it is the result of {manifest.get('kind', 'others')}"
            )
        return cls(folder, manifest)

    def combined_with(self, *others: Study) -> Study:
        """This study with the tables of others of the same model, for one report of all."""
        out = self
        for other in others:
            weights = other._weights  # None for one without a model, or that trains its own
            if weights is not None and weights != self._weights:
                theirs, own = (
                    (one.manifest.get("model") or {}).get("name", "none") for one in (other, self)
                )
                raise StudyError(
                    f"{other.folder} is of another model ({theirs}) than {self.folder} ({own}); "
                    "a report is of one model"
                )
            if not other._same_texts(out):  # ids are row numbers, so they would clash
                known = out.study_with_table("texts")
                theirs, own = (one.manifest["corpus"]["name"] for one in (other, known))
                raise StudyError(
                    f"{other.folder} is of other texts ({theirs}) than {known.folder} ({own}); "
                    "make a report of each"
                )
            out = Study(self.folder, self.manifest, (*out.others, other))
        out = Study(self.folder, self.manifest, out.others)
        out._kept = (self, *others)  # a temporary folder lives as long as its study
        return out

    def differences_of_model(self, identity: Mapping[str, str]) -> list[str]:
        """Which parts of a model are not those that this study read, by its identity.

        Results of earlier versions know the weights alone.
        """
        known = dict((self.manifest.get("details") or {}).get("model") or {})
        known["weights"] = (self.manifest.get("model") or {}).get("state_sha256")
        names = ("weights", "config", "tokenizer")
        return [name for name in names if known.get(name) not in (None, identity[name])]

    @property
    def parts(self) -> list[Study]:
        """The finished results inside this one, each a folder of its own."""
        opened = []
        for folder in sorted((self.folder / PARTS).glob("*/")):
            with suppress(StudyError):  # not ours, or not complete
                opened.append(Study.open(folder))
        return opened

    def with_parts(self) -> Study:
        """This study with its parts; one of another model or other texts adds only new tables."""
        together = self
        for part in self.parts:
            if part._adds_to(together):
                together = Study(self.folder, self.manifest, (*together.others, part))
                continue
            with suppress(StudyError):
                together = together.combined_with(part)
        together._kept = (self, *together.others)
        return together

    def _adds_to(self, other: Study) -> bool:
        """Whether its tables are new, and none has a row per text that the other does not have."""
        tables = self.manifest["tables"]
        own = [name for name in tables if name != "texts" and tables[name]["rows"]]
        if set(own) & set(other.tables):
            return False
        known = not other.has("texts") or self._is_within(other.study_with_table("texts"))
        return known or not any("text" in self._columns(name) for name in own)

    def _same_texts(self, other: Study) -> bool:
        """Whether rows per text of both, if both have them, are of the same texts."""
        both = "texts" in self.manifest["tables"] and other.has("texts")
        return not both or self._is_within(other.study_with_table("texts"))

    def _is_within(self, other: Study) -> bool:
        """Whether its texts are those of another study, or some of them, by id and content."""
        if self._corpus == other._corpus:
            return True
        return "texts" in self.manifest["tables"] and self._texts <= other._texts

    def _columns(self, name: str) -> list[str]:
        import pyarrow.parquet as pq

        return list(pq.read_schema(self.table_file(name)).names)

    @property
    def _weights(self) -> str | None:
        return (self.manifest.get("model") or {}).get("state_sha256")

    @property
    def _texts(self) -> set[tuple[str, str]]:
        rows = self.table("texts", ["text", "content"])
        return set(zip(rows["text"], rows["content"], strict=True))

    @property
    def _corpus(self) -> str | None:
        return self.manifest["corpus"].get("fingerprint")

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        studies = (self, *self.others)
        return list(dict.fromkeys(name for one in studies for name in one.manifest["tables"]))

    def manifest_of(self, name: str) -> dict[str, Any]:
        """What the manifest says of a table: its number of rows, and what a row is."""
        about: dict[str, Any] = self.study_with_table(name).manifest["tables"][name]
        return about

    def has(self, name: str) -> bool:
        return name in self.tables

    def study_with_table(self, name: str) -> Study:
        """This study, or the one joined to it, that has the table."""
        return next(one for one in (self, *self.others) if name in one.manifest["tables"])

    def table_file(self, name: str) -> Path:
        """The Parquet file of a table, which is as it was written."""
        study = self.study_with_table(name)
        if name not in study._checked:
            check_file(study.folder, f"{TABLES}/{name}.parquet", study.manifest)
            study._checked.add(name)
        return study.folder / TABLES / f"{name}.parquet"

    def table(
        self, name: str, columns: list[str] | None = None, text: str | None = None
    ) -> pd.DataFrame:
        """A table by name, or some of its columns, or only the rows of one text."""
        if not self.has(name):
            raise StudyError(
                f"this study has no table {name!r}; its tables are {', '.join(self.tables)}"
            )
        import pyarrow.parquet as pq

        filters = None if text is None else [("text", "==", text)]
        rows = pq.read_table(self.table_file(name), columns=columns, filters=filters)
        return rows.to_pandas()

    def text_row(self, text: str) -> dict[str, Any]:
        """The row of one text in `texts`, by its id."""
        import pyarrow.parquet as pq

        filters = [("text", "==", text)]
        rows = pq.read_table(self.table_file("texts"), filters=filters).to_pylist()
        if not rows:
            names = [row["text"] for _, row in self.first(3)]
            raise StudyError(
                f"this study has no text {text!r}; its texts are {', '.join(map(repr, names))}, ..."
            )
        return dict(rows[0])

    def sample(self, count: int) -> list[tuple[int, dict[str, Any]]]:
        """Rows of `texts` spread over the corpus, each with its row group."""
        step = max(1, self.n_texts // count)
        return self.texts_at(range(0, step * count, step))[:count]

    @property
    def n_texts(self) -> int:
        """The number of rows of `texts`."""
        return int(self.manifest_of("texts")["rows"])

    def texts_at(self, places: Sequence[int]) -> list[tuple[int, dict[str, Any]]]:
        """Rows of `texts` by their places in it, in its order, each with its row group."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.table_file("texts")) as file:
            out, start = [], 0
            for group in range(file.metadata.num_row_groups):
                stop = start + file.metadata.row_group(group).num_rows
                wanted = [row - start for row in places if start <= row < stop]
                if wanted:
                    rows = file.read_row_group(group).take(wanted).to_pylist()
                    out += [(group, row) for row in rows]
                start = stop
        return out

    def first(self, count: int) -> list[tuple[int, dict[str, Any]]]:
        """The first rows of `texts`, each with its row group."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.table_file("texts")) as file:
            out: list[tuple[int, dict[str, Any]]] = []
            for group in range(file.metadata.num_row_groups):
                if len(out) < count:
                    rows = file.read_row_group(group).slice(0, count - len(out))
                    out += [(group, row) for row in rows.to_pylist()]
        return out

    def tokens(self, name: str, group: int, text: str) -> pd.DataFrame:
        """The rows of one text in a per-token table, from the row group (shard) that holds it."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        texts = self.study_with_table("texts")
        if self.study_with_table(name) is not texts:  # another pass, with other shards
            return self.table(name, text=text)
        with pq.ParquetFile(self.table_file(name)) as file:
            rows = file.read_row_group(group)
        return rows.filter(pc.equal(rows["text"], text)).to_pandas()

    @property
    def n_layers(self) -> int:
        return int(self.manifest["model"]["n_layers"])

    @property
    def n_heads(self) -> int:
        return int(self.manifest["model"]["n_heads"])

    @cached_property
    def result(self) -> dict[str, Any]:
        """The result of an experiment, as `--json` prints it."""
        if RESULT not in self.manifest.get("files", {}):
            raise StudyError(
                f"{self.folder} has no result of an experiment; "
                f"its tables are {', '.join(self.tables)}"
            )
        return read_json(check_file(self.folder, RESULT, self.manifest)) or {}

    @property
    def quarantine(self) -> Path:
        return self.folder / QUARANTINE

    @property
    def head_columns(self) -> dict[str, tuple[str, str]]:
        """The columns of the atlas by name, each with its table and its name there."""
        return {
            _atlas_name(table, column): (table, column)
            for table, about in self.manifest["tables"].items()
            if about["kind"] == "head"
            for column in self._columns(table)
            if column not in ("layer", "head")
        }

    @cached_property
    def _atlas(self) -> pd.DataFrame:
        out: pd.DataFrame | None = None
        for name, about in self.manifest["tables"].items():
            if about["kind"] != "head":
                continue
            frame = self.table(name)
            others = [one for one in frame if one not in ("layer", "head")]
            frame = frame.rename(columns={one: _atlas_name(name, one) for one in others})
            if out is not None:
                frame = out.merge(frame, on=["layer", "head"], validate="one_to_one")
            out = frame
        if out is None:
            raise StudyError(
                f"this study has no head-level table; its tables are {', '.join(self.tables)}"
            )
        return out

    def atlas(self) -> pd.DataFrame:
        """One row per head, one column per number: `surface.previous`, `entropy`, ..."""
        return self._atlas.copy()

    def difference(self, other: Study, table: str) -> pd.DataFrame:
        """How the heads of this study differ from those of another one of the same corpus.

        One row per head: `layer head`, and for every column of a table such as `surface`
        `COLUMN_difference` (this study minus the other), and the ends `COLUMN_low` and
        `COLUMN_high` of its 95% interval. Texts are paired by the bootstrap replicates of both.
        `COLUMN_significant` is corrected for all heads and columns of the table
        (Benjamini-Hochberg at 5%), and `COLUMN_corrected_low` and `COLUMN_corrected_high` are the
        ends of intervals widened to match.
        """
        from attlas.studies.compare import paired_differences

        return paired_differences(self, other, table)

    def compare(self, *others: Any, out: str | Path | None = None, **options: Any) -> Study:
        """Compare the heads of this study (A) with those of another one (B), as `attlas compare`.

        `others` are studies or their folders; several are a `series`. The options are the fields of
        `attlas.Compare` (`seed_study`, `series`, `match`, ...) and the keywords of `attlas.run`.
        """
        return self.comparison(self, others, out, options)

    def heads(self, column: str | None = None) -> PaperFigure:
        """All heads, coloured by a column of the atlas (`entropy`, ...), by default the first.

        In a notebook the column can be chosen. `save("fig2.pdf", width="3.3in", font=8)` writes the
        figure; `caption`, `table` and `latex()` go with it.
        """
        return self.pages.heads(self, column)

    def methods(self) -> str:
        """A methods paragraph of what was done, with the BibTeX of the papers behind it."""
        return self.pages.methods(self)

    def report(self, path: str | Path = "report.html", *, force: bool = False) -> Path:
        """Write the report: one HTML file that opens offline, whole or not at all.

        An earlier report is replaced; any other file is overwritten only with `force`.
        """
        path = Path(path).expanduser()
        if not self.tables:
            raise StudyError(
                f"{self.folder} holds no tables: it is the result of {self.manifest.get('kind')}"
            )
        if path.is_dir():
            path = path / REPORT
        check_output(path, [PAGE], force)
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, self.pages.report(self).encode("utf-8", "replace"))
        return path

    def head(self, layer: int | str, head: int | None = None) -> HeadCard:
        """What is known of one head, as `head(2, 10)` or `head("L2H10")`.

        The card has a sentence, rows with controls and verdicts, and example texts; it shows itself
        in a notebook, and `to_dict` gives it as JSON.
        """
        if isinstance(layer, str) and head is None:
            layer, head = parse_head(layer)
        if isinstance(layer, str) or head is None:
            raise StudyError(
                f"head({layer!r}, {head!r}) is not a head; write head(2, 10) or head('L2H10')"
            )
        return self.pages.card(self, layer, head)

    def text(self, text: str, *, model: Any = None) -> Shown:
        """One text by its id, with its words shaded by the attention that they receive.

        Its numbers are those of the measure `totals`. With the `model` of the study its attention
        is read anew, for what words attend to, lines and matrices.
        """
        return self.pages.text(self, text, model)

    def matrix(self, text: str, head: str, *, model: Any) -> PaperFigure:
        """The weights of one text by its id in one head, such as "L2H10", with the study's model.

        `save("matrix.pdf")` writes it as a figure.
        """
        return self.pages.matrix(self, text, head, model)

    def to_frame(self) -> pd.DataFrame:
        """The atlas."""
        return self.atlas()

    def __repr__(self) -> str:
        model, tables = self.manifest.get("model") or {}, ", ".join(self.tables)
        name = f"{model['name']}, " if model else ""
        analysed = self.manifest["counts"].get("analysed", 0)
        return f"Study({str(self.folder)!r}: {name}{analysed} texts, tables {tables})"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any] | None:
        return super()._repr_mimebundle_(**options) if self.manifest["tables"] else None

    @property
    def panel(self) -> Panel:
        """What a notebook shows: findings, all heads, the card of the chosen one."""
        return self.pages.panel(self)

    def _repr_html_(self) -> str:
        return self.pages.notebook(self)


@feed.register
def _(study: Study, put: Put) -> None:
    """Its tables, what they were made from, and what is joined to it; not where it is, nor the
    names of its inputs.
    """
    known = ("kind", "measures", "counts")
    feed({name: study.manifest.get(name) for name in known}, put)
    feed([study._weights, study._corpus], put)
    tables = study.manifest["tables"]
    digests = {
        name: about.get("sha256") or sha256_of(study.table_file(name))
        for name, about in tables.items()
    }
    feed(digests, put)
    feed(study.others, put)


def _atlas_name(table: str, column: str) -> str:
    """What a column of a head-level table is called in the atlas.

    >>> _atlas_name("surface", "previous"), _atlas_name("betti_heads", "b0@0.1")
    ('surface.previous', 'betti.b0@0.1')
    >>> _atlas_name("entropy", "entropy"), _atlas_name("entropy", "entropy_uniform")
    ('entropy', 'entropy_uniform')
    """
    if column == table or column.startswith(f"{table}_"):
        return column
    return f"{table.removesuffix('_heads')}.{column}"  # of a measure with one row per text


def in_folder(out: str | Path | None, go: Callable[[Path], Study]) -> Study:
    """Run `go` in a folder; without one, in a temporary folder that lives as long as its result."""
    if out is not None:
        return go(Path(out).expanduser())
    folder = unnamed_folder()
    try:
        study = go(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    remove_with(study, folder)
    return study
