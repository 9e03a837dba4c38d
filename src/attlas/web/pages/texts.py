"""The texts of a study: a list to search, and what the tables have of one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from attlas.web.body import page_body
from attlas.web.frame import library_of, page, render, study_page
from attlas.web.library import Entry, Library, UnknownStudyError
from attlas.web.pages.sections import empty, head_base
from attlas.web.reading import ReadByModel, reading
from attlas.web.search import Search, TextList
from attlas.web.tabs import TAB

if TYPE_CHECKING:
    from attlas.studies.opened import Study
    from attlas.views.parts import Part

router = APIRouter(include_in_schema=False)
TEXTS = TAB["texts"]
RECEIVED = "Attention received"
MOST_WORDS, MOST_PAGES = 200, 1_000_000_000
MOST_TOKENS = 1_024  # of a text whose heads come at once; those of a longer one, with its model
Short = Annotated[str, Query(max_length=MOST_WORDS)]
Whole = Annotated[int, Query(ge=1, le=MOST_PAGES)]
Count = Annotated[str, Query(pattern=r"^\d{0,9}$")]  # a field of a form may be empty


def asked(
    words: Short = "",
    label: Short = "",
    prediction: Short = "",
    right: Annotated[str, Query(pattern="^(right|wrong)?$")] = "",
    shortest: Count = "",
    longest: Count = "",
    page: Whole = 1,
) -> Search:
    """The search in an address."""
    least, most = (int(one) if one else None for one in (shortest, longest))
    return Search(words, label, prediction, right, least, most, page)


Asked = Annotated[Search, Depends(asked)]


@router.get("/s/{study}/texts")
def texts(request: Request, study: str, search: Asked) -> HTMLResponse:
    """The texts that fit a search, a page at a time."""
    library = library_of(request)
    entry = library.entry(study)
    if not (entry.is_open and library.study(entry).has("texts")):
        return study_page(
            request, study, "texts", TEXTS.title, lambda _, entry: empty(TEXTS, entry)
        )
    known = library.kept(entry, TextList)
    found = known.found(search)
    words = {
        "entry": entry,
        "search": search,
        "found": found,
        "labels": known.choices("label"),
        "predictions": known.choices("predicted"),
        "has_predictions": known.has_predictions,
        "predictor": known.predictor,
        "has_labels": bool((known.frame["label"] != "").any()),
        "last": found.pages,
    }
    body = page_body(render("texts.html", **words), None, {}, head_base(entry))
    return page(request, f"Texts · {entry.name}", body, entry=entry, tab="texts")


@router.get("/s/{study}/text")
def text(
    request: Request,
    study: str,
    id: Annotated[str, Query(max_length=2_000)],
    other: Annotated[str, Query(alias="with", max_length=64)] = "",
) -> HTMLResponse:
    """One text: what each word receives, and how attention and attribution go together.

    `with` is another study in which the same text is shown next to it, from the tables of both.
    """
    library = library_of(request)
    entry = library.entry(study)
    known = text_list(library, entry)
    place = known.place(id)
    if place is None:
        raise UnknownStudyError("this study has no text of this id")
    others = OtherStudies.of(library, entry, other)
    read = None if other else reading(request, entry, id)
    return study_page(
        request,
        study,
        "texts",
        f"Text {id}",
        lambda opened, entry: text_body(opened, entry, known, place, read, others),
        id,
        read.data["own"] if read else "",
        *others.names,
        kind="text",
    )


@dataclass(frozen=True, eq=False)
class OtherStudies:
    """The studies in which a text may be shown too, and the one that is chosen."""

    entries: Sequence[Entry]
    chosen: Entry | None = None
    known: TextList | None = None

    @classmethod
    def of(cls, library: Library, entry: Entry, chosen: str) -> OtherStudies:
        """Those with attention of single texts."""
        able = [one for one in library.entries() if one.is_open and _has_received(one)]
        others = [one for one in able if one.id != entry.id] if entry in able else []
        if not chosen:
            return cls(others)
        found = next((one for one in others if one.id == chosen), None)
        if found is None:
            raise UnknownStudyError("there is no such study to show the text with")
        return cls(others, found, text_list(library, found))

    @property
    def names(self) -> tuple[str, ...]:
        """What a page depends on."""
        return str(self.chosen and self.chosen.stamp), *(one.id for one in self.entries)

    def same_text(self, content: str, own: Part) -> Part | None:
        """The text in the chosen study, by its content; None if that has no such text.

        Words are chosen in both at once where both models read the same tokens.
        """
        place = self.known.place_of(content) if self.known else None
        if self.known is None or place is None:
            return None
        ((group, row),) = self.known.study.texts_at([place])
        part = _received(self.known.study, row, group)
        if part.data["tokens"] == own.data["tokens"]:
            part.data["id"] = own.data["id"]
        return part


def _has_received(entry: Entry) -> bool:
    return {"texts", "totals"} <= {*entry.manifest["tables"]}


def text_list(library: Library, entry: Entry) -> TextList:
    """The texts of a study, which must have some."""
    if not (entry.is_open and library.study(entry).has("texts")):
        raise UnknownStudyError("this study has no texts")
    return library.kept(entry, TextList)


def text_body(
    study: Study,
    entry: Entry,
    known: TextList,
    place: int,
    read: ReadByModel | None,
    others: OtherStudies,
) -> Markup:
    """One text with its facts, its neighbours, and the views that the tables allow."""
    from attlas.views.placed import PageData

    group, row = study.texts_at([place])[0]
    data = PageData()
    about = known.frame.iloc[place].to_dict()
    with_heads = read is None or about["tokens"] <= MOST_TOKENS
    own = text_parts(study, group, row, with_heads=with_heads)
    same = others.same_text(row["content"], own[RECEIVED]) if others.chosen else None
    parts = {title: data.part(part) for title, part in own.items()}
    names = known.frame["text"]
    words = {
        "entry": entry,
        "row": about,
        "content": row["content"],
        "predictor": known.predictor,
        "place": place + 1,
        "count": len(names),
        "before": str(names.iloc[place - 1]) if place else "",
        "after": str(names.iloc[place + 1]) if place + 1 < len(names) else "",
        "parts": parts,
        "read": data.part(read) if read else "",
        "others": others,
        "same": data.part(same) if same else "",
        "search": Search().query,
    }
    return page_body(render("one_text_of_study.html", **words), data, {}, head_base(entry))


def text_parts(
    study: Study, group: int, row: dict[str, Any], *, with_heads: bool = True
) -> dict[str, Part]:
    """The views of one text that the tables of a study allow, by their titles."""
    from attlas.explain.section.aligned import AlignedTexts, study_texts
    from attlas.explain.section.texts import study_overlay
    from attlas.views.parts import TintedText

    out: dict[str, Part] = {}
    if study.has("totals"):
        out[RECEIVED] = _received(study, row, group, with_heads=with_heads)
    if study.has("attributions") and len(study.table("attributions", ["text"], row["text"])):
        aligned = study_texts(study, [row])
        out["Attribution"] = TintedText(*study_overlay(study, row))
        if aligned:
            out["Attention above, attribution below"] = AlignedTexts(tuple(aligned))
    return out


def _received(study: Study, row: dict[str, Any], group: int, *, with_heads: bool = True) -> Part:
    """A text by the attention that its words receive."""
    from attlas.measures.section import text_overlay
    from attlas.views.parts import TintedText

    return TintedText("", text_overlay(study, row, group, with_heads=with_heads))
