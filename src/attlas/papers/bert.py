"""What Does BERT Look At? (Clark et al. 2019): Figures 2 to 6 and Tables 1 to 3.

WSJ and CoNLL-2012 are not publicly available: UD English-EWT and GUM replace the former, GUM,
LitBank and GAP the latter, and the embedded model replaces BERT-base. Segments of Clark et al. are
pairs of paragraphs with two [SEP]; ours are consecutive sentences with one. Random weights are the
control of every number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
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
from attlas.papers import PAPERS
from attlas.papers.data import check_inputs, published, require_file
from attlas.papers.markdown import table
from attlas.papers.parts import Recipe, Reproduction, run_recipe
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
PARTS = PAPERS["bert"].parts
SEGMENTS, TOKENS, RANDOM_SEGMENTS = 1000, 128, 200
MEASURES = (Surface(), Entropy(), HeadDistance(), SpecialGradient())
PUBLISHED = {
    # UD relation -> Stanford relation, accuracy and best offset of the authors' notebook or Table 1
    "relations": {name: row for name, *row in published("bert_relations").itertuples(False, None)},
    "coreference": {
        who: row for who, *row in published("bert_coreference").itertuples(False, None)
    },
    "probes": dict(published("bert_probes").itertuples(False, None)),
}
TREEBANKS = {"ud_ewt": ("UD English-EWT", "en_ewt-ud"), "ud_gum": ("UD English-GUM", "en_gum-ud")}
KINDS = ("all", "pronoun", "proper", "common")


def reproduce(
    data_root: str | Path,
    out: str | Path = "runs/bert",
    *,
    model: Any = None,
    parts: Sequence[str] = PARTS,
    **options: Any,
) -> Reproduction:
    """Run the parts one by one; finished experiments are reused. Options: see `run_options`."""
    root = check_inputs("bert", data_root, parts)
    loaded = load(model)
    return run_recipe(_Run, root, out, parts, PUBLISHED, loaded, options, model=loaded)


@dataclass(kw_only=True)
class _Run(Recipe):
    """One reproduction under way."""

    name = "bert"
    order = ("syntax", "coreference", "tree", "figures")  # the map names heads by what they find
    announces = False
    model: Model

    def treebank(self, name: str, part: str) -> Path:
        return require_file(self.root, name, f"{TREEBANKS[name][1]}-{part}.conllu")

    def syntax(self) -> None:
        """Table 1 and Figure 5, on two treebanks."""
        for name, (title, _) in TREEBANKS.items():
            self.log(f"Table 1: {title}")
            train, test = read(self.treebank(name, "train")), read(self.treebank(name, "dev"))
            syntax = Syntax(train=train, test=test, model=self.model, seed=SEED)
            study = self.run(syntax, f"syntax-{name}")
            self.part.results[f"syntax {name}"] = study.result
            self.show(f"Table 1: relations, {title}", *_relation_blocks(study))
            heads = study.table("syntax")
            self.draw(relations(heads), f"table1-{name}")
            if name == "ud_ewt":
                self.part.named += (
                    best_examples(heads)[["layer", "head", "relation"]].to_numpy().tolist()
                )
                examples = reversed(study_lines(study))
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
            study = self.run(coreference, f"coreference-{name}")
            self.part.results[f"coreference {name}"] = {
                key: value for key, value in study.result.items() if key != "heads"
            }
            self.show(f"Table 2: antecedents, {title}", *_coreference_blocks(study))
            self.draw(coreference_chart(study.table("coreference")), f"table2-{name}")
            if name == "ud_gum":
                best = study.result["best"][0]
                self.part.named.append([best["layer"], best["head"], "coreference"])

    def tree(self) -> None:
        """Table 3, in both conventions, with the model's own word vectors and GloVe's."""
        train, test = read(self.treebank("ud_ewt", "train")), read(self.treebank("ud_ewt", "dev"))
        glove = require_file(self.root, "glove50", "glove.6B.50d.top20k.txt")
        conventions = {
            "own": ("the model's own word vectors", None, "sound"),
            "glove": ("GloVe, 50 dimensions, 20,000 words", glove, "sound"),
            "published": (
                "the same as published: GloVe vectors shifted by one word",
                glove,
                "published",
            ),
        }
        probe = partial(Tree, train=train, test=test, model=self.model, seed=SEED)
        studies: dict[str, Study] = {}
        cache = self.folder / STATES  # shared by the three; cleared when the part is published
        for name, (title, vectors, convention) in conventions.items():
            self.log(f"Table 3: {title}")
            tree = probe(vectors=vectors, convention=convention)
            studies[title] = study = self.run(tree, f"tree-{name}", cache)
            self.part.results[f"tree {name}"] = study.result
            if name == "own":
                self.draw(probes(study.table("tree")), "table3")
        self.show(
            "Table 3: probes, UD English-EWT (fitted on train, scored on dev)",
            *_tree_blocks(studies),
        )

    def figures(self) -> None:
        """Figures 2, 3, 4 and 6, over segments of EWT."""
        self.log(f"Figures 2 to 4 and 6: {SEGMENTS} segments of at most {TOKENS} tokens")
        segments = self.segments()
        options = {"seed": SEED, **self.options}
        trained = study(self.model, segments, MEASURES, self.inside("segments"), **options)
        self.log("the same with random weights")
        random, some = self.model.randomized(SEED), segments[:RANDOM_SEGMENTS]
        control = study(random, some, MEASURES, self.inside("segments-random"), **options)
        surface, entropy, distances = (
            trained.table(name) for name in ("surface", "entropy", "head_distance")
        )
        names: dict[tuple[int, int], list[str]] = {}
        naming = self.use("syntax", "coreference").values()
        for layer, head, name in (one for part in naming for one in part.named):
            names.setdefault((layer, head), []).append(name)
        named = {head: profiles.named_by(given) for head, given in names.items()}
        positions = head_map(distances, surface, entropy, named, seed=SEED)
        figures = {
            "figure2-surface": profiles.surface_by_layer(surface),
            "figure3-gradient": profiles.gradient_by_layer(trained.table("special_gradient")),
            "figure4-entropy": profiles.entropy_by_layer(entropy),
            "figure6-map": profiles.map_of_heads(positions),
        }
        for name, chart in figures.items():
            self.draw(chart, name)
        self.part.results["figures"] = {
            "findings": findings(trained, MEASURED),
            "random": findings(control, MEASURED),
        }
        self.show(
            f"Figures 2 to 4 and 6: {len(segments):,} segments of EWT, "
            f"at most {TOKENS} tokens (random weights: the first {RANDOM_SEGMENTS})",
            *_figure_blocks(trained, control, positions),
        )

    def segments(self) -> list[Text]:
        """The first segments of EWT's documents: as many consecutive sentences as 128 tokens hold.

        Longer sentences are excluded, as in Clark et al. (2019).
        """
        out: list[Text] = []
        for _, row in conllu_documents(self.treebank("ud_ewt", "train")):
            if isinstance(row, BadRow):
                raise row.error()
            texts = list(windows(self.model, [row], TOKENS))
            lengths = [
                len(one) + one.truncated_by for one in self.model.encode(list(enumerate(texts)))
            ]
            out += [text for text, length in zip(texts, lengths, strict=True) if length <= TOKENS]
            if len(out) >= SEGMENTS:
                break
        return out[:SEGMENTS]

    def run(self, experiment: Experiment, name: str, cache: Path | None = None) -> Study:
        """Run an experiment in a folder of its own, with its report."""
        study = run(experiment, self.inside(name), cache=cache, log=self.log, **self.options)
        study.report(study.folder / "report.html")
        return study


ACCURACY = "{accuracy:.1p} [{low:.1p}, {high:.1p}]"


def _relation_blocks(study: Study) -> Iterator[str | list[str]]:
    """Table 1: ours with interval and controls; as published (same sentences); published."""
    heads, same = study.table("syntax"), study.table("syntax_published")
    ahead = (heads["difference_low"] > 0) & (heads["relation"] != "all")
    rows = (
        heads.assign(mark=np.where(ahead, "**", ""))
        .merge(same, on="relation", how="left", suffixes=("", "_same"))
        .merge(published("bert_relations"), on="relation", how="left")
    )
    yield table(
        rows,
        ("relation", "{mark}{relation}{mark}"),
        ("head", "L{layer}.H{head}"),
        ("ours [95% CI]", ACCURACY),
        ("best offset", "{baseline:.1p} ({offset:+d})"),
        ("random weights", "{random_accuracy:.1p}"),
        ("n", "{n:,}"),
        ("ours, chosen and scored on the same", "{accuracy_same:.1p}"),
        ("its offset", "{baseline_same:.1p} ({offset_same:+.0f})"),
        ("Stanford relation", "{stanford}"),
        ("published", "{published:.1f}"),
        ("its offset", "{published_offset:.1f}"),
    )
    yield (
        f"{ahead.sum()} of {(heads['relation'] != 'all').sum()} relations (bold) have a head that "
        "is significantly better than the best offset. "
        f"{study.result['words']['unseen']:,} words or their heads were truncated, in "
        f"{study.result['counts']['truncated']:,} sentences longer than the model's limit."
    )


def _coreference_blocks(study: Study) -> Iterator[str | list[str]]:
    """Table 2: accuracy by kind of mention, ours and published."""
    scores = study.table("coreference")
    by_kind = scores.pivot(index="who", columns="kind", values="accuracy").reindex(columns=KINDS)
    rows = (
        by_kind.reindex([who for who in WHO if who in by_kind.index])
        .join(scores[scores["kind"] == "all"].set_index("who"))
        .join(published("bert_coreference", "who"), rsuffix="_published")
        .reset_index()
    )
    rows["head"] = [
        WHO[row["who"]]
        + ("" if pd.isna(row["layer"]) else ", L{layer:.0f}.H{head:.0f}").format(**row)
        for row in rows.to_dict("records")
    ]
    yield table(
        rows,
        ("", "{head}"),
        ("all [95% CI]", ACCURACY),
        *((kind, f"{{{kind}:.1p}}") for kind in KINDS[1:]),
        (
            "published (all, pronoun, proper, nominal)",
            ", ".join(f"{{{kind}_published:.0f}}" for kind in KINDS),
        ),
    )
    counts = scores[scores["who"] == "head"].set_index("kind")["n"]
    sizes = ", ".join(f"{kind} {int(counts[kind]):,}" for kind in KINDS if kind in counts)
    lost, mentions = study.result["windows"], study.result["mentions"]
    yield (
        f"Mentions scored: {sizes}. Of {lost['scored']:,} mentions with an antecedent in their "
        f"document, {lost['out_of_reach']:,} have none in their window; "
        f"{mentions['unseen']:,} were truncated."
    )


def _tree_blocks(studies: Mapping[str, Study]) -> Iterator[str | list[str]]:
    """Table 3: UAS by probe, ours and published."""
    scores = {title: one.table("tree").set_index("probe") for title, one in studies.items()}
    rows: list[dict[str, Any]] = [
        {"title": title, "published": PUBLISHED["probes"].get(probe)}
        | {f"study{at}": one.loc[probe] for at, one in enumerate(scores.values())}
        for probe, title in PROBES.items()
    ]
    cell = "{study[uas]:.1p} [{study[low]:.1p}, {study[high]:.1p}], {study[tree_uas]:.1p}"
    yield table(
        rows,
        ("probe", "{title}"),
        ("published", "{published}"),
        *(
            (f"{title}: UAS [95% CI], best tree", cell.replace("study", f"study{at}"))
            for at, title in enumerate(scores)
        ),
    )
    words = next(iter(studies.values())).result["words"]
    yield (
        f"{words['scored']:,} words scored, {words['punctuation']:,} excluded as punctuation; "
        f"{words['unseen']:,} words were truncated and {words['headless']:,} lost their head by "
        "that. The structural probe, which Clark et al. (2019) list with 80 UUAS, does not use "
        "attention."
    )


def _figure_blocks(
    trained: Study, control: Study, positions: pd.DataFrame
) -> Iterator[str | list[str]]:
    """What the figures show, in numbers by layer, random weights in brackets."""
    names = {
        "surface": ("cls", "sep", "punctuation", "self", "previous", "next"),
        "entropy": ("entropy", "cls_entropy"),
        "special_gradient": ("sep", "cls", "punctuation", "other"),
    }
    for name, columns in names.items():
        ours, random = (
            one.table(name).groupby("layer")[list(columns)].mean() for one in (trained, control)
        )
        scale, unit = (1e5, " x 100,000") if name == "special_gradient" else (1, "")
        yield f"Mean of heads by layer, `{name}`{unit} (random weights in brackets):"
        yield table(
            ours.join(random, rsuffix="_random").mul(scale).reset_index(),
            ("layer", "{layer}"),
            *((one, f"{{{one}:.2z}} ({{{one}_random:.2z}})") for one in columns),
        )
    kinds = positions["behaviour"].value_counts()
    yield [
        *(f"- {line}" for line in findings(trained, MEASURED)),
        f"- Behaviours of heads: {', '.join(f'{name} {count}' for name, count in kinds.items())}; "
        f"stress of the map in two dimensions: {number(float(positions['stress'].iloc[0]))}",
    ]
