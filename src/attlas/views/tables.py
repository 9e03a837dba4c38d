"""Tables for people, declared by their columns: in a page, in the terminal, as Markdown, LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import escape

from attlas.support.errors import AttlasError
from attlas.views.numbers import number, percent

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["above", "below", "signed", "plain"]
WINDOW = 24  # rows of a table on a page that are shown without scrolling
NUMBERS: dict[str, Callable[[Any], str]] = {
    "number": number,
    "three": lambda value: number(value, 3),
    "difference": lambda value: ("+" if value >= 0.005 else "") + number(value),
    "count": lambda value: f"{int(value):,}",
    "offset": lambda value: f"{int(value):+d}",
    "share": lambda value: percent(value, 1),
    "p": lambda value: f"{value:.2g}",
    "general": lambda value: f"{value:g}",
}

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "→": r"$\rightarrow$",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "\u00a0": "~",
    "\u2028": " ",
    "\u2029": " ",
}


@dataclass(frozen=True)
class Column:
    """What people see of a column of a table.

    `format` is a key of `NUMBERS`, or "words". `interval` names the columns of its ends. `words`
    are what its values are called. `kind` is how it is coloured against its `control`: from the
    control up (above) or down (below), around zero (signed), or over its whole range (plain); a
    difference below `least` has no tint. The control is a column, or `control_row` of the same
    table, as in {"classifier": "length_only"}. A name that ends in `@` stands for the columns at
    all thresholds.
    """

    name: str
    label: str
    unit: str = ""
    format: str = "number"
    kind: Kind = "plain"
    control: str = ""
    interval: tuple[str, str] | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    control_name: str = ""
    control_row: Mapping[str, str] = field(default_factory=dict)
    least: float = 0.0

    @property
    def title(self) -> str:
        """The label with its unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def cell(self, row: Mapping[Any, Any]) -> str:
        """The value of a row as it is written."""
        value = row[self.name]
        if self.format == "words" or isinstance(value, str):
            return "" if _is_missing(value) else self.words.get(value, str(value))
        if _is_missing(value):
            return "-"
        written = NUMBERS[self.format](value)
        if self.interval is None or _is_missing(row[self.interval[0]]):
            return written
        places = 3 if self.format == "three" else 2
        low, high = (number(row[end], places) for end in self.interval)
        return f"{written}\u00a0[{low},\u00a0{high}]"


def _is_missing(value: Any) -> bool:
    """Whether a cell has no value; pandas knows all its kinds, and whoever has one imported it."""
    import pandas as pd

    return bool(pd.isna(value))


@dataclass(frozen=True)
class TextTable:
    """A table as it is written: titles, rows of cells (text or markup), and a line below it."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[bool, ...] = ()  # whether a column holds words; the first one if not given
    note: str = ""

    def is_words(self, column: int) -> bool:
        """Whether a column holds words, which are aligned to the left."""
        return self.words[column] if self.words else column == 0

    def html(self) -> str:
        """The table for a page; a long one scrolls."""
        head = self._row(self.titles, "th")
        rows = "".join(self._row(row, "td") for row in self.rows)
        kind = "window" if len(self.rows) > WINDOW else "readable"
        return f'<div class="{kind}"><table class="lists">{head}{rows}</table></div>'

    def _row(self, cells: Sequence[str], tag: str) -> str:
        kinds = (" class=words" if self.is_words(at) else "" for at in range(len(cells)))
        scope = " scope=col" if tag == "th" else ""
        parts = (
            f"<{tag}{scope}{kind}>{escape(cell)}</{tag}>"
            for kind, cell in zip(kinds, cells, strict=True)
        )
        return f"<tr>{''.join(parts)}</tr>"

    def markdown(self) -> str:
        """The table as Markdown."""
        align = ("---" if self.is_words(at) else "---:" for at in range(len(self.titles)))
        written = ([escape(cell).replace("|", "\\|") for cell in row] for row in self.rows)
        lines = [self.titles, tuple(align), *written]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def latex(self, caption: str = "", label: str = "") -> str:
        """The table as LaTeX, with the rules of booktabs; with a caption, as a float."""
        if label and not re.fullmatch(r"[A-Za-z0-9:._/-]+", label):
            raise AttlasError(f"label is {label!r}; use letters, digits, and any of : . _ / -")
        align = "".join("l" if self.is_words(at) else "r" for at in range(len(self.titles)))
        head, *rows = (self._latex_row(row) for row in (self.titles, *self.rows))
        lines = [
            f"\\begin{{tabular}}{{@{{}}{align}@{{}}}}",
            "\\toprule",
            head,
            "\\midrule",
            *rows,
            "\\bottomrule",
            "\\end{tabular}",
        ]
        if self.note:
            lines += ["", f"\\smallskip{{\\footnotesize {latex_text(self.note)}}}"]
        if caption or label:
            named = [f"\\caption{{{latex_text(caption)}}}"] if caption else []
            named += [f"\\label{{{label}}}"] if label else []
            lines = ["\\begin{table}", "\\centering", *named, *lines, "\\end{table}"]
        return "\n".join(["% \\usepackage{booktabs}", *lines, ""])

    def _latex_row(self, cells: Sequence[str]) -> str:
        words = (self.is_words(at) for at in range(len(cells)))
        parts = [
            (latex_text(cell) if is_words else _latex_number(cell)).strip()
            for is_words, cell in zip(words, cells, strict=True)
        ]
        if parts and parts[0][:1] in ("[", "*"):  # which would belong to the rule or row before
            parts[0] = f"{{{parts[0][0]}}}{parts[0][1:]}"
        return " & ".join(parts) + r" \\"

    def csv(self) -> str:
        """The table as comma-separated values, as they are written."""
        out = io.StringIO()
        rows = ([cell.replace("\u00a0", " ") for cell in row] for row in (self.titles, *self.rows))
        csv.writer(out, lineterminator="\n").writerows(rows)
        return out.getvalue()


def latex_text(string: str) -> str:
    r"""A string as text of LaTeX: what means something there is escaped, line breaks are spaces.

    >>> print(latex_text("50% of L2_H1 & [SEP] → {x}"))
    50\% of L2\_H1 \& [SEP] $\rightarrow$ \{x\}
    """
    return "".join(LATEX.get(letter, letter if letter >= " " else " ") for letter in string)


def _latex_number(cell: str) -> str:
    r"""A cell of numbers: a minus is one.

    >>> print(_latex_number("-.05\u00a0[-.10,\u00a0.02]"), _latex_number("-"))
    $-$.05~[$-$.10,~.02] --
    """
    return "--" if cell == "-" else re.sub(r"(?<![\w.])-(?=[\d.])", "$-$", latex_text(cell))


def text_table(frame: pd.DataFrame, columns: Iterable[Column], note: str = "") -> TextTable:
    """The declared columns of a frame, those that it has, as they are written.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"relation": ["det"], "accuracy": [0.9], "n": [1204]})
    >>> columns = (Column("relation", "relation", format="words"), Column("accuracy", "accuracy"))
    >>> print(text_table(frame, [*columns, Column("n", "n", format="count")]).markdown())
    | relation | accuracy | n |
    | --- | ---: | ---: |
    | det | .90 | 1,204 |
    """
    known = [column for column in columns if column.name in frame]
    records = frame.to_dict("records")
    rows = tuple(tuple(column.cell(row) for column in known) for row in records)
    words = tuple(column.format == "words" for column in known)
    return TextTable(tuple(column.title for column in known), rows, words, note)


def declared(columns: Iterable[Column], names: Iterable[str]) -> list[Column]:
    """The declaration of each name; a name without one is refused.

    >>> [one.label for one in declared([Column("b0@", "components")], ["b0@0.1"])]
    ['components at threshold 0.1']
    """
    known = {column.name: column for column in columns}
    out = []
    for name in names:
        begin, at, threshold = name.partition("@")
        family = known.get(begin + at) if at else None
        if name in known:
            out.append(known[name])
        elif family is not None:
            control = name + family.control.removeprefix(family.name) if family.control else ""
            label = f"{family.label} at threshold {threshold}"
            out.append(replace(family, name=name, label=label, control=control))
        else:
            raise AttlasError(
                f"the column {name!r} is not declared; give the section Column({name!r}, LABEL, "
                "UNIT, kind=KIND, control=COLUMN), where KIND is above, below, signed or plain"
            )
    return out


def undeclared(names: Iterable[str]) -> list[Column]:
    """Columns of a table that no section draws, labelled by their own words, without a control."""
    return [Column(name, name.replace("_", " ")) for name in names]
