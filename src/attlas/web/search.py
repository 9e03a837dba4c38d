"""Which texts of a study fit a search: what is asked, and one page of what is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from attlas.views.majority import weights_of
from attlas.views.texts import excerpt

if TYPE_CHECKING:
    import pandas as pd

    from attlas.studies.opened import Study

PAGE = 50  # texts
MOST_LABELS = 200  # in a menu


@dataclass(frozen=True)
class Search:
    """What is asked for; an empty field asks for nothing. Pages are counted from 1."""

    words: str = ""
    label: str = ""
    prediction: str = ""
    right: str = ""  # "right" or "wrong"
    shortest: int | None = None  # tokens
    longest: int | None = None
    page: int = 1

    @property
    def query(self) -> str:
        """The search as part of an address.

        >>> Search(words="not bad", page=2).query
        'words=not+bad&page=2'
        """
        usual = Search()
        given = {name: one for name, one in vars(self).items() if one != getattr(usual, name)}
        return urlencode(given)

    def on(self, page: int) -> Search:
        """The same on another page."""
        return replace(self, page=page)


@dataclass(frozen=True)
class FoundTexts:
    """One page of the texts that fit, of how many, and what menus offer."""

    rows: Sequence[Mapping[str, Any]]
    total: int
    n_texts: int
    pages: int


@dataclass(frozen=True, eq=False)
class TextList:
    """The texts of a study without their contents, with what a model predicted."""

    study: Study

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per text: text, label, tokens, cut and, where it is known, predicted."""
        frame = self.study.table("texts", ["text", "label", "tokens", "cut"])
        frame["label"] = frame["label"].fillna("").astype(str)
        if not self.has_predictions:
            return frame.assign(predicted="", probability=float("nan"))
        columns = ["text", "predicted", "probability"]
        known = self.study.table("explanations", columns).drop_duplicates("text")
        frame = frame.merge(known, "left", "text", validate="one_to_one")
        return frame.assign(predicted=frame["predicted"].fillna("").astype(str))

    @property
    def has_predictions(self) -> bool:
        """Whether what a model predicts of these texts is known."""
        return self.study.has("explanations")

    @property
    def predictor(self) -> str:
        """The model that predicts, where it is not that of the study."""
        if not self.has_predictions:
            return ""
        own, other = self.study.manifest, self.study.study_with_table("explanations").manifest
        return "" if weights_of(own) & weights_of(other) else str(other["model"]["name"])

    def choices(self, column: str) -> list[str]:
        """What a column contains, for a menu; nothing if that is too much or one value only."""
        values = sorted({*self.frame[column]} - {""})
        return values if 1 < len(values) <= MOST_LABELS else []

    def found(self, search: Search) -> FoundTexts:
        """The texts that fit a search."""
        places = self.places(search)
        pages = max(1, -(-len(places) // PAGE))
        at = min(max(search.page, 1), pages) - 1
        shown = places[at * PAGE : (at + 1) * PAGE]
        about = self.frame.iloc[shown].to_dict("records")
        contents = [row["content"] for _, row in self.study.texts_at(shown)]
        rows = [
            {**row, "begins": excerpt(content)}
            for row, content in zip(about, contents, strict=True)
        ]
        return FoundTexts(rows, len(places), len(self.frame), pages)

    def places(self, search: Search) -> list[int]:
        """Where the texts that fit are in the table."""
        frame = self.frame
        fits = frame["tokens"] >= (search.shortest or 0)
        if search.longest is not None:
            fits &= frame["tokens"] <= search.longest
        if search.label:
            fits &= frame["label"] == search.label
        if search.prediction:
            fits &= frame["predicted"] == search.prediction
        if search.right in ("right", "wrong"):
            known = (frame["label"] != "") & (frame["predicted"] != "")
            fits &= known & ((frame["label"] == frame["predicted"]) == (search.right == "right"))
        places = [int(place) for place in fits.to_numpy().nonzero()[0]]
        if not search.words:
            return places
        with_words = {*self._with_words(search.words)}
        return [place for place in places if place in with_words]

    def _with_words(self, words: str) -> Iterator[int]:
        """Where the texts are that contain some words, in any case."""
        import pyarrow.compute as pc

        def fits(rows: Any) -> Any:
            return pc.or_(
                pc.match_substring(rows["content"], words, ignore_case=True),
                pc.match_substring(rows["text"], words, ignore_case=True),
            )

        return self._fitting(fits)

    def place_of(self, content: str) -> int | None:
        """Where the text with this content is; texts of two studies are the same by content."""
        import pyarrow.compute as pc

        return next(self._fitting(lambda rows: pc.equal(rows["content"], content)), None)

    def _fitting(self, fits: Callable[[Any], Any]) -> Iterator[int]:
        """Where the texts are that fit; a part of the table at a time."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.study.table_file("texts")) as file:
            start = 0
            for group in range(file.metadata.num_row_groups):
                rows = file.read_row_group(group, ["text", "content"])
                yield from (start + int(at) for at in fits(rows).to_numpy().nonzero()[0])
                start += rows.num_rows

    def place(self, text: str) -> int | None:
        """Where a text is in the table; None if there is none of this id."""
        found = (self.frame["text"] == text).to_numpy().nonzero()[0]
        return int(found[0]) if len(found) else None
