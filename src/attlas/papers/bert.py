"""What Does BERT Look At? (Clark et al. 2019): Figures 2 to 6 and Tables 1 to 3.

WSJ and CoNLL-2012 are not publicly available: UD English-EWT and GUM replace the former, GUM,
LitBank and GAP the latter, and the embedded model replaces BERT-base. Segments of Clark et al. are
pairs of paragraphs with two [SEP]; ours are consecutive sentences with one. Random weights are the
control of every number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from attlas.core.text import Text
from attlas.coreference.experiment import Coreference
from attlas.coreference.section import WHO, coreference as coreference_chart
from attlas.coreference.windows import windows
from attlas.corpora import read, split
from attlas.corpora.annotated import documents
from attlas.corpora.corpus import BadRow
from attlas.corpora.layouts.conllu import conllu_documents
from attlas.corpora.splits import HELD_OUT
from attlas.experiments.experiment import Experiment
from attlas.experiments.run import run
from attlas.measures.entropy import Entropy
from attlas.measures.head_distance import HeadDistance
from attlas.measures.head_map import head_map
from attlas.measures.section import SECTIONS as MEASURED, profiles
from attlas.measures.special_gradient import SpecialGradient
from attlas.measures.surface import Surface
from attlas.models import Model, load
from attlas.papers.data import check_choice, data_folder, require_file
from attlas.papers.markdown import header, row as table_row
from attlas.papers.parts import Recipe, Reproduction, run_reproduction
from attlas.studies import Study, study
from attlas.studies.folder import STATES
from attlas.syntax.examples import best_examples
from attlas.syntax.experiment import Syntax
from attlas.syntax.section import relations, study_lines
from attlas.tree.experiment import Tree
from attlas.tree.section import PROBES, probes
from attlas.views.findings import findings
from attlas.views.lines import lines_svg
from attlas.views.numbers import number
from attlas.views.picture import write_picture

SEED = 0
PARTS = ("figures", "syntax", "coreference", "tree")
ORDER = ("syntax", "coreference", "tree", "figures")  # the map names heads by what they find
SEGMENTS, TOKENS, RANDOM_SEGMENTS = 1000, 128, 200
MEASURES = (Surface(), Entropy(), HeadDistance(), SpecialGradient())
# UD relation -> Stanford relation, accuracy and best offset of the authors' notebook, or of Table 1
PUBLISHED_RELATIONS = {
    "all": ("all", 34.7, 26.7),
    "det": ("det", 94.3, 51.7),
    "amod": ("amod", 75.6, 68.3),
    "compound": ("nn", 70.4, 70.2),
    "nsubj": ("nsubj", 58.5, 45.5),
    "obj": ("dobj", 86.8, 40.0),
    "advmod": ("advmod", 48.8, 40.2),
    "aux": ("aux", 81.1, 71.5),
    "nummod": ("num", 67.4, 56.4),
    "cc": ("cc", 47.8, 41.2),
    "conj": ("conj", 53.3, 26.8),
    "nmod:poss": ("poss", 80.5, 47.7),
    "ccomp": ("ccomp", 48.8, 12.4),
    "xcomp": ("xcomp", 57.3, 47.1),
    "mark": ("mark", 50.7, 14.5),
    "cop": ("cop", 72.2, 40.5),
    "aux:pass": ("auxpass", 94.1, 82.5),
    "compound:prt": ("prt", 99.1, 91.4),
    "acl:relcl": ("rcmod", 40.9, 26.6),
    "advcl": ("advcl", 29.5, 4.6),
    "nsubj:pass": ("nsubjpass", 57.5, 43.7),
}
PUBLISHED_COREFERENCE = {
    "head": (65, 64, 73, 58),
    "nearest": (27, 29, 29, 19),
    "head_match": (52, 47, 67, 40),
    "rules": (69, 70, 77, 60),
}
PUBLISHED_PROBES = {
    "right_branching": 26,
    "distance_words": 58,
    "random_attention_words": 30,
    "attention": 61,
    "attention_words": 77,
}
TREEBANKS = {"ud_ewt": ("UD English-EWT", "en_ewt-ud"), "ud_gum": ("UD English-GUM", "en_gum-ud")}
KINDS = ("all", "pronoun", "proper", "common")


def reproduce(
    data_root: str | Path,
    out: str | Path = "runs/bert",
    *,
    model: Any = None,
    parts: Sequence[str] = PARTS,
    workers: int | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> Reproduction:
    """Run the parts one by one; finished experiments are reused. `log` gets progress lines."""
    check_choice("part", parts, PARTS)
    root, loaded = data_folder(data_root), load(model)
    published = {
        "relations": PUBLISHED_RELATIONS,
        "coreference": PUBLISHED_COREFERENCE,
        "probes": PUBLISHED_PROBES,
    }
    run = _Run(
        root=root,
        reproduction=Reproduction(loaded.name, PARTS, published, Path(out).expanduser()),
        model=loaded,
        model_parts=loaded.identity(),
        options={"workers": workers, "fresh": fresh, "progress": progress},
        log=log,
    )
    return run_reproduction(run, [name for name in ORDER if name in parts], announce=False)


@dataclass(kw_only=True)
class _Run(Recipe):
    """One reproduction under way."""

    name = "bert"
    model: Model

    def treebank(self, name: str, part: str) -> Path:
        return require_file(self.root, name, f"{TREEBANKS[name][1]}-{part}.conllu")

    def syntax(self) -> None:
        """Table 1 and Figure 5, on two treebanks."""
        for name, (title, _) in TREEBANKS.items():
            self.log(f"Table 1: {title}")
            train, test = read(self.treebank(name, "train")), read(self.treebank(name, "dev"))
            syntax = Syntax(train=train, test=test, model=self.model, seed=SEED)
            found = self.run(syntax, f"syntax-{name}")
            self.part.results[f"syntax {name}"] = found.result
            self.part.lines += [f"### Table 1: relations, {title}", "", *_relation_lines(found), ""]
            table = found.table("syntax")
            self.draw(relations(table), f"table1-{name}")
            if name == "ud_ewt":
                self.part.named += [
                    [row["layer"], row["head"], row["relation"]]
                    for row in best_examples(table).to_dict("records")
                ]
                examples = reversed(study_lines(found))
                for one in {each.relation: each for each in examples}.values():
                    path = self.picture_path(f"figure5-{one.relation.replace(':', '-')}")
                    self.add_pictures(*write_picture(lines_svg(one, one.about), path, "png"))

    def coreference(self) -> None:
        """Table 2, on three sets of documents."""
        chosen, scored = split(
            documents(require_file(self.root, "litbank", "coref_shared.conll")), HELD_OUT, SEED
        )
        sets: dict[str, tuple[str, Any, Any]] = {
            "ud_gum": (
                "GUM (head chosen on train, scored on dev)",
                self.treebank("ud_gum", "train"),
                self.treebank("ud_gum", "dev"),
            ),
            "litbank": (
                f"LitBank (chosen on {len(chosen)} documents, scored on {len(scored)})",
                chosen,
                scored,
            ),
            "gap": (
                "GAP (chosen on development, scored on validation; of two names the pronoun's)",
                require_file(self.root, "gap", "gap-development.tsv"),
                require_file(self.root, "gap", "gap-validation.tsv"),
            ),
        }
        for name, (title, train, test) in sets.items():
            self.log(f"Table 2: {title}")
            tokens = None if name == "gap" else TOKENS
            coreference = Coreference(
                train=train, test=test, model=self.model, tokens=tokens, seed=SEED
            )
            found = self.run(coreference, f"coreference-{name}")
            self.part.results[f"coreference {name}"] = {
                key: value for key, value in found.result.items() if key != "heads"
            }
            self.part.lines += [
                f"### Table 2: antecedents, {title}",
                "",
                *_coreference_lines(found),
                "",
            ]
            self.draw(coreference_chart(found.table("coreference")), f"table2-{name}")
            if name == "ud_gum":
                best = found.result["best"][0]
                self.part.named.append([best["layer"], best["head"], "coreference"])

    def tree(self) -> None:
        """Table 3, in both conventions, with the model's own word vectors and GloVe's."""
        train, test = read(self.treebank("ud_ewt", "train")), read(self.treebank("ud_ewt", "dev"))
        glove = require_file(self.root, "glove50", "glove.6B.50d.top20k.txt")
        ways = {
            "own": ("the model's own word vectors", None, "sound"),
            "glove": ("GloVe, 50 dimensions, 20,000 words", glove, "sound"),
            "published": (
                "the same as published: GloVe vectors shifted by one word",
                glove,
                "published",
            ),
        }
        found: dict[str, Study] = {}
        cache = self.folder / STATES  # shared by the three; cleared when the part is published
        for name, (title, vectors, convention) in ways.items():
            self.log(f"Table 3: {title}")
            tree = Tree(
                train=train,
                test=test,
                model=self.model,
                vectors=vectors,
                convention=convention,
                seed=SEED,
            )
            found[name] = self.run(tree, f"tree-{name}", cache)
            self.part.results[f"tree {name}"] = found[name].result
        self.part.lines += [
            "### Table 3: probes, UD English-EWT (fitted on train, scored on dev)",
            "",
            *_tree_lines({ways[name][0]: one for name, one in found.items()}),
            "",
        ]
        self.draw(probes(found["own"].table("tree")), "table3")

    def figures(self) -> None:
        """Figures 2, 3, 4 and 6, over segments of EWT."""
        self.log(f"Figures 2 to 4 and 6: {SEGMENTS} segments of at most {TOKENS} tokens")
        segments = self.segments()
        options = {"seed": SEED, **self.options}
        done = study(self.model, segments, MEASURES, self.inside("segments"), **options)
        self.log("the same with random weights")
        random, some = self.model.randomized(SEED), segments[:RANDOM_SEGMENTS]
        control = study(random, some, MEASURES, self.inside("segments-random"), **options)
        surface, entropy, distances = (
            done.table(name) for name in ("surface", "entropy", "head_distance")
        )
        names: dict[tuple[int, int], list[str]] = {}
        naming = self.use("syntax", "coreference").values()
        for layer, head, name in (one for part in naming for one in part.named):
            names.setdefault((layer, head), []).append(name)
        named = {head: profiles.named_by(found) for head, found in names.items()}
        coordinates = head_map(distances, surface, entropy, named, seed=SEED)
        figures = {
            "figure2-surface": profiles.surface_by_layer(surface),
            "figure3-gradient": profiles.gradient_by_layer(done.table("special_gradient")),
            "figure4-entropy": profiles.entropy_by_layer(entropy),
            "figure6-map": profiles.map_of_heads(coordinates),
        }
        for name, chart in figures.items():
            self.draw(chart, name)
        self.part.results["figures"] = {
            "findings": findings(done, MEASURED),
            "random": findings(control, MEASURED),
        }
        self.part.lines += [
            f"### Figures 2 to 4 and 6: {len(segments):,} segments of EWT, "
            f"at most {TOKENS} tokens (random weights: the first {RANDOM_SEGMENTS})",
            "",
            *_figure_lines(done, control, coordinates),
            "",
        ]

    def segments(self) -> list[Text]:
        """The first segments of EWT's documents: as many consecutive sentences as 128 tokens hold.

        Longer sentences are excluded, as in Clark et al. (2019).
        """
        out: list[Text] = []
        for _, row in conllu_documents(self.treebank("ud_ewt", "train")):
            if isinstance(row, BadRow):
                raise row.error()
            found = list(windows(self.model, [row], TOKENS))
            lengths = [
                len(one) + one.truncated_by for one in self.model.encode(list(enumerate(found)))
            ]
            out += [text for text, length in zip(found, lengths, strict=True) if length <= TOKENS]
            if len(out) >= SEGMENTS:
                break
        return out[:SEGMENTS]

    def run(self, experiment: Experiment, name: str, cache: Path | None = None) -> Study:
        """Run an experiment in a folder of its own, with its report."""
        done = run(experiment, self.inside(name), cache=cache, log=self.log, **self.options)
        done.report(done.folder / "report.html")
        return done


def _percent(share: float | None) -> str:
    return "-" if share is None or share != share else f"{100 * share:.1f}"


def _with_interval(row: Any, name: str) -> str:
    return f"{_percent(row[name])} [{_percent(row['low'])}, {_percent(row['high'])}]"


def _relation_lines(found: Study) -> list[str]:
    """Table 1: ours with interval and controls; as published (same sentences); published."""
    table, same = found.table("syntax"), found.table("syntax_published").set_index("relation")
    same_texts = "ours, chosen and scored on the same"
    out = header(
        *("relation", "head", "ours [95% CI]", "best offset", "random weights", "n", same_texts),
        *("its offset", "Stanford relation", "published", "its offset"),
    )
    for row in table.to_dict("records"):
        other = same.loc[row["relation"]] if row["relation"] in same.index else None
        known = PUBLISHED_RELATIONS.get(row["relation"], ("", None, None))
        mark = "**" if row["difference_low"] > 0 and row["relation"] != "all" else ""
        cells = [
            f"{mark}{row['relation']}{mark}",
            f"L{row['layer']}.H{row['head']}",
            _with_interval(row, "accuracy"),
            f"{_percent(row['baseline'])} ({row['offset']:+d})",
            _percent(row["random_accuracy"]),
            f"{row['n']:,}",
            "-" if other is None else _percent(other["accuracy"]),
            "-" if other is None else f"{_percent(other['baseline'])} ({int(other['offset']):+d})",
            known[0] or "-",
            *("-" if value is None else f"{value:.1f}" for value in known[1:]),
        ]
        out.append(table_row(*cells))
    one = table[table["relation"] != "all"]
    words = found.result["words"]
    out += [
        "",
        f"{int((one['difference_low'] > 0).sum())} of {len(one)} relations (bold) have a head that "
        "is significantly better than the best offset. "
        f"{words['unseen']:,} words or their heads were truncated, in "
        f"{found.result['counts']['truncated']:,} sentences longer than the model's limit.",
    ]
    return out


def _coreference_lines(found: Study) -> list[str]:
    """Table 2: accuracy by kind of mention, ours and published."""
    table = found.table("coreference")
    out = header(
        *("", "all [95% CI]", "pronoun", "proper", "common"),
        "published (all, pronoun, proper, nominal)",
    )
    for who, title in WHO.items():
        rows = table[table["who"] == who].set_index("kind")
        if not len(rows):
            continue
        first = rows.loc["all"] if "all" in rows.index else None
        shown = (
            title
            if first is None or first["layer"] != first["layer"]
            else f"{title}, L{int(first['layer'])}.H{int(first['head'])}"
        )
        cells = ["-" if first is None else _with_interval(first, "accuracy")]
        cells += [
            _percent(rows.loc[kind, "accuracy"]) if kind in rows.index else "-"
            for kind in KINDS[1:]
        ]
        known = PUBLISHED_COREFERENCE.get(who)
        out.append(table_row(shown, *cells, ", ".join(map(str, known)) if known else "-"))
    counts = table[table["who"] == "head"].set_index("kind")["n"]
    sizes = ", ".join(f"{kind} {int(counts[kind]):,}" for kind in KINDS if kind in counts)
    lost, mentions = found.result["windows"], found.result["mentions"]
    out += [
        "",
        f"Mentions scored: {sizes}. Of {lost['scored']:,} mentions with an antecedent in their "
        f"document, {lost['out_of_reach']:,} have none in their window; "
        f"{mentions['unseen']:,} were truncated.",
    ]
    return out


def _tree_lines(found: dict[str, Study]) -> list[str]:
    """Table 3: UAS by probe, ours and published."""
    titles = (f"{title}: UAS [95% CI], best tree" for title in found)
    out = header("probe", "published", *titles)
    for probe, title in PROBES.items():
        cells = []
        for one in found.values():
            row = one.table("tree").set_index("probe").loc[probe]
            cells.append(f"{_with_interval(row, 'uas')}, {_percent(row['tree_uas'])}")
        out.append(table_row(title, PUBLISHED_PROBES.get(probe, "-"), *cells))
    first = next(iter(found.values())).result["words"]
    out += [
        "",
        f"{first['scored']:,} words scored, {first['punctuation']:,} excluded as punctuation; "
        f"{first['unseen']:,} words were truncated and {first['headless']:,} lost their head by "
        "that. The structural probe, which Clark et al. (2019) list with 80 UUAS, does not use "
        "attention.",
    ]
    return out


def _figure_lines(done: Study, control: Study, coordinates: pd.DataFrame) -> list[str]:
    """What the figures show, in numbers by layer, random weights in brackets."""
    names = {
        "surface": ("cls", "sep", "punctuation", "self", "previous", "next"),
        "entropy": ("entropy", "cls_entropy"),
        "special_gradient": ("sep", "cls", "punctuation", "other"),
    }
    out = []
    for table, columns in names.items():
        mine, theirs = (
            one.table(table).groupby("layer")[list(columns)].mean() for one in (done, control)
        )
        scale, unit = (1e5, " x 100,000") if table == "special_gradient" else (1, "")
        out += [
            f"Mean of heads by layer, `{table}`{unit} (random weights in brackets):",
            "",
            *header("layer", *columns),
        ]
        for layer in mine.index:
            pairs = ((mine.loc[layer, name], theirs.loc[layer, name]) for name in columns)
            cells = (f"{number(scale * one)} ({number(scale * other)})" for one, other in pairs)
            out.append(table_row(layer, *cells))
        out.append("")
    kinds = coordinates["behaviour"].value_counts()
    out += [f"- {line}" for line in findings(done, MEASURED)]
    out += [
        f"- Behaviours of heads: {', '.join(f'{name} {count}' for name, count in kinds.items())}; "
        f"stress of the map in two dimensions: {number(float(coordinates['stress'].iloc[0]))}"
    ]
    return out
