"""Generated bad inputs: files of every format, broken, and every option with values it cannot have.

Each case is drawn from its number, so that it is the same on every machine.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from attlas.cli.entry import app  # with all verbs
from attlas.corpora.layouts.gap import GAP_COLUMNS
from tests.attacks.verbs import VERBS

Bytes = Callable[[random.Random, bytes], bytes]

# values that no option expects, and that no file should hold

STRANGE = (
    "",
    " ",
    "x",
    "-1",
    "0",
    "1e400",
    "-1e-400",
    "nan",
    "inf",
    "9" * 40,
    "0x10",
    "1,2,,3",
    "٣",
    "½",
    "💥",
    "\u202e\u2028",
    "a\nb",
    "a b" * 2000,
    "../../..",
    "/",
    "/dev/null",
    "embedded:nothing",
    "synthetic:texts=x",
    "hub:",
    "topk(k=",
    "entropy(((",
    "--",
    "%s{0}${HOME}",
    "<script>",
)
ODD: tuple[Any, ...] = (None, True, -1, 0, 10**30, 1.5, "", " ", "\ud800", "\0", "x" * 5000)
ODD += ([], {}, [[]], [None], {"a": 1})


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


# how bytes are broken


def cut(draw: random.Random, data: bytes) -> bytes:
    return data[: draw.randrange(len(data))]


def flipped(draw: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(draw.choice((1, 4, 40))):
        out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    return bytes(out)


def noise(draw: random.Random, data: bytes) -> bytes:
    return draw.randbytes(draw.choice((1, 50, 3000)))


def utf16(draw: random.Random, data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode("utf-16")


def latin(draw: random.Random, data: bytes) -> bytes:
    return "naïve café \n".encode("latin-1") + data


def nul(draw: random.Random, data: bytes) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + b"\0" * draw.choice((1, 100)) + data[at:]


def empty(draw: random.Random, data: bytes) -> bytes:
    return draw.choice((b"", b"\n", b"\xef\xbb\xbf", b"\n" * 5000, b"   "))


def long_line(draw: random.Random, data: bytes) -> bytes:
    letter = draw.choice((b"(", b".", b"a", b'"', b"\t", b"[", "é".encode()))
    return data + letter * 100_000 + b"\n"


def shuffled_fields(draw: random.Random, data: bytes) -> bytes:
    lines = [line.split(b"\t") for line in data.split(b"\n")]
    for _ in range(5):
        cells = draw.choice(lines)
        cells[draw.randrange(len(cells))] = draw.choice(STRANGE).encode("utf-8", "replace")
    return b"\n".join(map(b"\t".join, lines))


def odd_value(draw: random.Random, data: bytes) -> bytes:
    """Some values of JSON, or of lines of it, replaced by others."""
    lines = data.decode().splitlines()
    whole = not data.lstrip().startswith(b"{") or len(lines) == 1 or lines[0].strip() == "{"
    parts = [json.loads(data)] if whole else [json.loads(line) for line in lines]
    for _ in range(draw.choice((1, 3))):
        at = draw.randrange(len(parts))
        parts[at] = _replaced(draw, parts[at])
    return "\n".join(map(json.dumps, parts)).encode()


def _replaced(draw: random.Random, value: Any) -> Any:
    inside = (
        list(value)
        if isinstance(value, dict)
        else list(range(len(value)))
        if isinstance(value, list)
        else []
    )
    if not inside or draw.random() < 0.15:
        return draw.choice(ODD)
    key = draw.choice(inside)
    if draw.random() < 0.2:
        del value[key]
    else:
        value[key] = _replaced(draw, value[key])
    return value


def nested(draw: random.Random, data: bytes) -> bytes:
    return b'{"text": ' + deep(draw.choice((500, 5000, 100_000))).encode() + b"}\n"


def semicolons(draw: random.Random, data: bytes) -> bytes:
    return data.replace(b",", b";")


def quotes(draw: random.Random, data: bytes) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + b'"' + data[at:]


def columns(draw: random.Random, data: bytes) -> bytes:
    _, _, rest = data.partition(b"\n")
    name = draw.choice((b"text", b"label", b"", b"x", "naïve".encode()))
    return b",".join([name] * draw.choice((1, 2, 2000))) + b"\n" + rest


ANY: tuple[Bytes, ...] = (cut, flipped, noise, utf16, latin, nul, empty, long_line)
TEXT = (*ANY, quotes)

# files of every format, whole


def labelled(home: Path) -> pd.DataFrame:
    return pd.read_json(home / "labelled.jsonl", lines=True)


def csv(home: Path) -> bytes:
    return labelled(home).to_csv(index=False).encode()


def tsv(home: Path) -> bytes:
    return labelled(home).to_csv(index=False, sep="\t").encode()


def jsonl(home: Path) -> bytes:
    return (home / "labelled.jsonl").read_bytes()


def parquet(home: Path) -> bytes:
    out = io.BytesIO()
    labelled(home).to_parquet(out)
    return out.getvalue()


def txt(home: Path) -> bytes:
    return (home / "texts.txt").read_bytes()


def zipped(home: Path) -> bytes:
    return gzip.compress(jsonl(home))


def conllu(home: Path) -> bytes:
    return (home / "test.conllu").read_bytes()


def litbank(home: Path) -> bytes:
    rows = [("Anna", "(1)"), ("saw", "-"), ("her", "(2"), ("dog", "2)"), (".", "-")] * 3
    body = [f"doc\t0\t{n}\t{word}" + "\t_" * 8 + f"\t{mark}" for n, (word, mark) in enumerate(rows)]
    return "\n".join(["#begin document (doc); part 0", *body, "", "#end document", ""]).encode()


def gap(home: Path) -> bytes:
    head = list(GAP_COLUMNS)
    row = [
        "x-1",
        "Ann saw Eve and she ran.",
        "she",
        "16",
        "Ann",
        "0",
        "TRUE",
        "Eve",
        "8",
        "FALSE",
        "u",
    ]
    return "\n".join("\t".join(one) for one in (head, row, row)).encode() + b"\n"


def rows(*each: dict[str, Any]) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in each).encode()


def triples(home: Path) -> bytes:
    return (home / "more.jsonl").read_bytes()


def fewrel(home: Path) -> bytes:
    words = ["Ann", "taught", "Ben", "."]
    one = {"tokens": words, "relation": "r", "h": ["Ann", "1", [[0]]], "t": ["Ben", "2", [[2]]]}
    return rows(*[one] * 6)


def docred(home: Path) -> bytes:
    mentions = [[{"sent_id": 0, "pos": [0, 1]}], [{"sent_id": 0, "pos": [2, 3]}]]
    facts = [{"h": 0, "t": 1, "r": "P1"}]
    return rows(
        *[{"sents": [["Ann", "taught", "Ben", "."]], "vertexSet": mentions, "labels": facts}] * 6
    )


def semeval(home: Path) -> bytes:
    return rows(*[{"sentence": "A <e1>cat</e1> on a <e2>mat</e2>.", "relation": "On(e1,e2)"}] * 6)


def eraser(home: Path) -> bytes:
    return rows(*[{"text": "a good film", "label": "a", "evidences": [[[1, 2]]]}] * 4)


def hatexplain(home: Path) -> bytes:
    one = {"post_tokens": ["a", "bad", "dog"], "rationales": [[0, 1, 0]]}
    return rows(*[{**one, "annotators": [{"label": "a"}]}] * 4)


@dataclass(frozen=True)
class Format:
    """Files of one layout: how they are named, made whole, broken and read."""

    ending: str
    whole: Callable[[Path], bytes]
    breaks: tuple[Bytes, ...]
    lines: tuple[str, ...]  # commands that read `{file}`


OUT = " --no-report --out {out}"
STUDY = "study --data {file} --model {home}/model --measures entropy" + OUT
TUNE = "finetune --data {file} --model {home}/classifier --head-only" + OUT
EXPLAIN = "explain --data {file} --model {home}/classifier --methods rollout --draws 1" + OUT
GRID = "dynamics --train {file} --scales 1 --epochs 1 --dim 2 --workers 1" + OUT
SHAPE = (
    "topology --train {file} --test {home}/test.jsonl --model {home}/classifier --thresholds 0.1"
    " --no-controls" + OUT
)
SYNTAX = "probe syntax --train {file} --test {home}/test.conllu --model {home}/model" + OUT
TREE = "probe tree --train {home}/train.conllu --test {file} --model {home}/model" + OUT
MENTIONS = "probe coreference --train {file} --test {home}/test.conllu --model {home}/model" + OUT
FIT = "relations fit --train {home}/triples.jsonl --dev {file} --model {home}/model" + OUT
SCORE = "relations score --extractor {home}/extractor --test {file}" + OUT
EXTRACT = "relations extract --extractor {home}/extractor --data {file}"
LABELLED = (STUDY, TUNE, GRID, SHAPE)
RELATED = (STUDY, FIT, SCORE, EXTRACT)

FORMATS = {
    "csv": Format(".csv", csv, (*TEXT, semicolons, columns), LABELLED),
    "tsv": Format(".tsv", tsv, (*TEXT, shuffled_fields), LABELLED),
    "jsonl": Format(".jsonl", jsonl, (*TEXT, odd_value, odd_value, nested), LABELLED),
    "parquet": Format(".parquet", parquet, (cut, flipped, noise, empty), LABELLED),
    "txt": Format(".txt", txt, ANY, (STUDY, EXPLAIN, EXTRACT)),
    "gz": Format(".jsonl.gz", zipped, (cut, flipped, noise, empty), LABELLED),
    "conllu": Format(
        ".conllu",
        conllu,
        (*TEXT, shuffled_fields, shuffled_fields),
        (STUDY, SYNTAX, TREE, MENTIONS),
    ),
    "litbank": Format(".conll", litbank, (*TEXT, shuffled_fields), (STUDY, MENTIONS)),
    "gap": Format(".tsv", gap, (*TEXT, shuffled_fields, shuffled_fields), (STUDY, MENTIONS)),
    "triples": Format(".jsonl", triples, (cut, odd_value, odd_value, odd_value), RELATED),
    "fewrel": Format(".jsonl", fewrel, (odd_value,), RELATED),
    "docred": Format(".jsonl", docred, (odd_value,), RELATED),
    "semeval": Format(".jsonl", semeval, (odd_value, long_line), RELATED),
    "eraser": Format(".jsonl", eraser, (odd_value,), (STUDY, EXPLAIN)),
    "hatexplain": Format(".jsonl", hatexplain, (odd_value,), (STUDY, EXPLAIN, TUNE)),
}


@dataclass(frozen=True)
class Bad:
    """A command with something wrong in it; `prepare` makes its files in a folder."""

    name: str
    words: Callable[[Path, Path], list[str]]  # home, working folder
    refused: bool = False  # whether nothing of it can be analysed


def bad_file(number: int) -> Bad:
    draw = random.Random(f"file {number}")
    kind = draw.choice(list(FORMATS))
    about = FORMATS[kind]
    breaks, line = draw.choice(about.breaks), draw.choice(about.lines)

    def words(home: Path, folder: Path) -> list[str]:
        path, bytes_ = folder / f"data{about.ending}", random.Random(f"bytes {number}")
        path.write_bytes(breaks(bytes_, about.whole(home)))
        return line.format(file=path, home=home, out=folder / "out").split()

    name = f"{kind}-{breaks.__name__}-{line.split(' --')[0].replace(' ', '_')}"
    return Bad(name, words, kind in ("parquet", "gz") and breaks in (cut, noise, empty))


# folders of models and results

CHANGED = (cut, flipped, noise, empty)
AGAIN = "study --data {home}/texts.txt --model {home}/model --no-report --measures entropy"
SCORED = "relations score --extractor {folder} --test {home}/more.jsonl --no-report"


def bad_folder(number: int) -> Bad:
    draw = random.Random(f"folder {number}")
    kind, line = draw.choice(
        [
            ("model", "look cat --model {folder}"),
            ("model", "lengthen --model {folder} --length 600 --window 8 --out {out}"),
            ("study", "report {folder} --out {out}.html"),
            ("study", f"{AGAIN},totals --out {{folder}}"),
            ("study", f"{AGAIN} --fresh --out {{folder}}"),
            ("study", "look cat --model {home}/model --importance {folder}"),
            ("extractor", f"{SCORED} --out {{out}}"),
            ("extractor", "relations extract --extractor {folder} Ann"),
        ]
    )
    how = draw.choice(("json", "json", "json", "bytes", "removed"))

    def words(home: Path, folder: Path) -> list[str]:
        draw = random.Random(f"bytes {number}")
        place = Path(shutil.copytree(home / kind, folder / kind))
        files = sorted(path for path in place.rglob("*") if path.is_file() and path.name != ".lock")
        structured = [path for path in files if path.suffix == ".json"]
        path = draw.choice(structured if how == "json" else files)
        if how == "removed":
            path.unlink()
        else:
            breaks = odd_value if how == "json" else draw.choice(CHANGED)
            data = path.read_bytes()
            path.write_bytes(breaks(draw, data) if data else b"x")
        return line.format(folder=place, home=home, out=folder / "out").split()

    return Bad(f"{kind}-{how}-{line.split()[0]}", words)


# options

SKIPPED = ("--help", "--version", "--serve", "--out", "--html", "--charts", "--heads", "--cache")


def verbs() -> Iterator[tuple[str, Any]]:
    """All verbs with their click commands."""

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        for own, child in getattr(command, "commands", {}).items():
            yield from walk(f"{name} {own}".strip(), child)
        if not hasattr(command, "commands"):
            yield name, command

    return walk("", typer.main.get_command(app))


@cache
def option_cases() -> list[tuple[str, str]]:
    """Every option of every verb that takes a value."""
    return [
        (name, one.opts[0])
        for name, command in verbs()
        for one in command.params
        if one.opts[0].startswith("--") and not one.is_flag and one.opts[0] not in SKIPPED
    ]


def base_words(verb: str, home: Path, out: Path) -> list[str]:
    """The least that a verb accepts; of others, only its name."""
    if verb in VERBS:
        return VERBS[verb].words(home, out)
    extra = {
        "relations extract": ["Ann met Ben", "--extractor", str(home / "extractor")],
        "tour": ["--model", str(home / "none"), "--out", str(out)],  # it would take minutes
    }
    if verb.startswith("reproduce"):
        return [*verb.split(), "--data-root", str(home / "none"), "--out", str(out)]
    return [*verb.split(), *extra.get(verb, [])]


def bad_option(number: int) -> Bad:
    draw = random.Random(f"option {number}")
    cases = option_cases()
    verb, option = cases[number] if number < len(cases) else draw.choice(cases)
    value = draw.choice(STRANGE)

    def words(home: Path, folder: Path) -> list[str]:
        given = base_words(verb, home, folder / "out")
        if option in given:
            at = given.index(option)
            del given[at : at + 2]
        return [*given, f"{option}={value}"]

    is_number = numeric_options().get((verb, option), False)
    return Bad(f"{verb.replace(' ', '_')}{option}", words, is_number and not _is_number(value))


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


@cache
def numeric_options() -> dict[tuple[str, str], bool]:
    """Whether each option of each verb is a number."""
    return {
        (name, one.opts[0]): one.type_descriptor.annotation in (int, float)
        for name, command in verbs()
        for one in command.params
    }


def bad_inputs(count: int) -> list[Bad]:
    """So many cases: options, files and folders in turn."""
    kinds = (bad_option, bad_file, bad_folder, bad_option, bad_file)
    counts = dict.fromkeys(kinds, 0)
    out = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        out.append(kind(counts[kind]))
        counts[kind] += 1
    return out
