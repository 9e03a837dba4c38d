"""Every page of small results, without a browser."""

from __future__ import annotations

import csv
import io
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from fastapi.testclient import TestClient

from attlas.cli.entry import app
from attlas.web.app import create_app
from attlas.web.body import linked_heads
from attlas.web.export import csv_parts, safe_cell
from attlas.web.library import Library
from attlas.web.search import PAGE, Search, TextList
from attlas.web.tabs import TABS, Tab, command
from tests.builders.studies import OLD, measured
from tests.builders.workbench import client, library, study_id

FILES = re.compile(r'(?:href|src)="(/static/[^"]+)"')
RESULTS = ("", "relations", "dynamics")


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("tab", [one.name for one in TABS if one.name != "try"])
def test_every_page_of_every_result(name: str, tab: str) -> None:
    answer = client().get(f"/s/{study_id(name)}/{tab}")
    assert answer.status_code == 200, answer.text[-500:]
    assert str(OLD.parent) not in answer.text
    assert str(Path(measured().folder).parent) + "/" not in answer.text
    assert 'type="module" src=' in answer.text
    assert not re.search(r"<script(?![^>]* src=)(?![^>]* type=)", answer.text), "a script in a page"
    assert not re.search(r"<[a-z]+[^>]*\son\w+=", answer.text), "a script in an attribute"


def test_studies() -> None:
    page = client().get("/").text
    for entry in library().entries():
        assert entry.name in page
    listed = client().get("/api/studies").json()
    assert {one["id"] for one in listed} == {one.id for one in library().entries()}
    found = client().get(f"/api/studies/{study_id()}/summary").json()
    assert sum(found["verdicts"].values()) > 5
    assert found["first"]["sentence"]


def test_what_is_missing_is_named_with_its_command() -> None:
    page = client().get(f"/s/{study_id('syntax')}/topology").text
    assert "No topology in this study yet" in page
    assert "attlas topology --train" in page
    assert "syntax/parts/topology" in page
    grey = re.findall(r'class="without" title="[^"]*">(\w+)</a>', page)
    assert grey == ["Atlas", "Texts", "Topology", "Explain", "Relations", "Dynamics", "Compare"]
    assert 'class="without' not in client().get("/").text
    first = client().get(f"/s/{study_id('syntax')}", follow_redirects=False)
    assert first.headers["location"].endswith("/probes")


@pytest.mark.parametrize("tab", TABS, ids=lambda one: one.name)
def test_the_commands_of_pages_are_commands(tab: Tab) -> None:
    entry = library().entry(study_id())
    named = replace(entry, shown="my; rm -rf ~", manifest={"model": {"name": "--allow-pickle"}})
    _, *words = shlex.split(command(tab, named))
    found = typer.main.get_command(app)
    while commands := getattr(found, "commands", None):
        found = commands[words.pop(0)]
    flags = {flag for one in found.params for flag in one.opts}
    assert {word for word in words if word.startswith("-")} <= flags
    assert any(word.startswith("my; rm -rf ~") for word in words)


def test_the_page_of_a_head() -> None:
    answer = client().get(f"/s/{study_id()}/head/L0H1")
    assert answer.status_code == 200
    assert 'data-page="head"' in answer.text
    for name in ("L9H9", "L0H01", "2.10", "x", "L0H1%2F.."):
        assert client().get(f"/s/{study_id()}/head/{name}").status_code in (404, 409), name
    record = client().get(f"/api/studies/{study_id()}/heads/L0H1").json()
    assert record["head"] == "L0H1"
    assert len(client().get(f"/api/studies/{study_id()}/heads").json()) == len(measured().atlas())


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/s/none/atlas", 404),
        ("/s/../atlas", 404),
        ("/nothing", 404),
        ("/api/studies/none/heads", 404),
        ("/static/x/os/path.py", 404),
        ("/static/x/attlas/..%2f..%2fapi.py", 404),
        ("/static/x/attlas/none.js", 404),
    ],
)
def test_what_is_not_there(address: str, status: int) -> None:
    answer = client().get(address)
    assert answer.status_code == status
    assert "Traceback" not in answer.text


def test_modules_are_imported_by_address_and_kept_by_the_browser() -> None:
    page = client().get("/").text
    every = FILES.findall(page)
    assert len(every) > 5
    known, names = set(), list(every)
    while names:
        name = names.pop()
        answer = client().get(name)
        assert answer.status_code == 200, name
        assert "immutable" in answer.headers["cache-control"]
        again = client().get(name, headers={"if-none-match": answer.headers["etag"]})
        assert again.status_code == 304
        known.add(name)
        if name.endswith(".js"):
            imported = re.findall(r'^import .* from "([^"]+)";', answer.text, re.MULTILINE)
            assert all(one.startswith("/static/") for one in imported), name
            names += [one for one in imported if one not in known]
    old = re.sub(r"/static/\w+/", "/static/0/", every[-1])
    assert client().get(old).headers["cache-control"] == "no-cache"


def test_texts_are_searched() -> None:
    texts = TextList(measured())
    assert [row["text"] for row in texts.found(Search()).rows] == ["one", "two", "three"]
    assert [row["text"] for row in texts.found(Search(words="BAD")).rows] == ["one", "three"]
    assert [row["text"] for row in texts.found(Search(label="bad")).rows] == ["two"]
    every = texts.frame
    for at_least in sorted({*every["tokens"]}):
        found = texts.found(Search(shortest=int(at_least)))
        assert found.total == (every["tokens"] >= at_least).sum()
    right, wrong = (texts.found(Search(right=one)).total for one in ("right", "wrong"))
    assert right == (every["label"] == every["predicted"]).sum()
    assert right + wrong == len(every)
    assert texts.found(Search(page=99)).rows
    assert len(every) <= PAGE
    page = client().get(f"/s/{study_id()}/texts", params={"words": "<script>"})
    assert '<script>"' not in page.text
    assert "No text fits" in page.text
    assert client().get(f"/s/{study_id()}/texts?page=0").status_code == 422


def test_one_text() -> None:
    page = client().get(f"/s/{study_id()}/text", params={"id": "two"})
    assert page.status_code == 200
    for title in ("Attention received", "Attribution", "Attention above, attribution below"):
        assert title in page.text
    assert client().get(f"/s/{study_id()}/text", params={"id": "none"}).status_code == 404


def test_tables_are_files() -> None:
    page = client().get(f"/s/{study_id()}/tables").text
    for name in measured().tables:
        assert f">{name}</a>" in page
    table = client().get(f"/s/{study_id()}/files/surface.csv")
    rows = list(csv.DictReader(io.StringIO(table.text)))
    frame = measured().table("surface")
    assert len(rows) == len(frame)
    assert float(rows[1]["previous"]) == pytest.approx(frame["previous"].iloc[1])
    parquet = client().get(f"/s/{study_id()}/files/surface.parquet")
    assert pq.read_table(io.BytesIO(parquet.content)).to_pandas().equals(frame)
    for path in ("tables/none", "files/none.csv", "files/..%2fmanifest.csv"):
        assert client().get(f"/s/{study_id()}/{path}").status_code == 404, path


def test_a_table_that_became_a_link_is_not_a_file(tmp_path: Path) -> None:
    shutil.copytree(OLD / "syntax", tmp_path / "runs" / "syntax")
    own = TestClient(create_app(Library([tmp_path / "runs"])), "http://127.0.0.1")
    study = own.get("/api/studies").json()[0]["id"]
    assert own.get(f"/s/{study}/files/syntax.parquet").status_code == 200
    (tmp_path / "secret").write_text("a secret")
    table = tmp_path / "runs/syntax/tables/syntax.parquet"
    table.unlink()
    table.symlink_to(tmp_path / "secret")
    for path in ("files/syntax.parquet", "files/syntax.csv", "tables/syntax"):
        answer = own.get(f"/s/{study}/{path}")
        assert answer.status_code == 404
        assert "secret" not in answer.text


@pytest.mark.parametrize("bad", ["=1+2", "+1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "  =1"])
def test_no_cell_is_a_formula(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"=x": [bad], "n": [-0.5]}), path)
    (titles, row) = csv.reader(io.StringIO("".join(csv_parts(path))))
    assert titles[0] == "'=x"
    assert row == [f"'{bad}", "-0.5"]
    assert safe_cell("a = b") == "a = b"


def test_names_of_heads_are_links_outside_scripts_and_pictures() -> None:
    html = '<p title="L1H1">L1H1, xL1H1</p><svg><text>L1H1</text></svg><button>L1H1</button>'
    linked = linked_heads(html, "/h/")
    assert linked.count("<a ") == 1
    assert linked.startswith('<p title="L1H1"><a href="/h/L1H1">L1H1</a>, xL1H1</p>')
