"""What small classifiers show: whether attention comes to mark the words that matter, and when."""

from __future__ import annotations

from attlas.dynamics.section import by_scale, tokens, training
from attlas.dynamics.section.cells import chosen_cells, model_title, scale_title
from attlas.dynamics.section.findings import (
    classifier_facts,
    dynamics_findings,
    trained,
    where_it_breaks,
)
from attlas.views.section import Figure, Section, Tables, prose
from attlas.views.tables import TextTable

ABOUT = prose(__file__)
PRINTED = {
    "accuracy": "accuracy",
    "accuracy_sd": "sd",
    "published": "paper",
    "majority": "majority",
    "separation": "AUC",
    "separation_untrained": "before",
    "separation_count": "count",
    "separation_frequent": "frequent",
    "gap": "gap",
}


def _dynamics(study: Tables) -> list[Figure]:
    rows, summary = trained(study, "dynamics"), trained(study, "dynamics_summary")
    if summary.empty or not summary["accuracy"].notna().any():
        return []
    seeds = int(summary["seeds"].max())
    bars = f"bars reach from the lowest to the highest of {seeds} seeds"
    if seeds == 1:
        bars = "bars are 95 % intervals over {}"
    known = "published" in summary and summary["published"].notna().any()
    published = " A hollow diamond is the published number." if known else ""
    many = len(summary[["attention", "encoder"]].drop_duplicates()) > 1
    aside = " Models stand a little aside from one another." if many else ""
    caption = (
        f"Accuracy by scale: {bars.format('test texts')}, dashed is always saying the commonest "
        f"class.{published}{aside}"
    )
    out = [Figure(caption, by_scale.accuracy(summary, rows))]
    if summary["separation"].notna().any():
        out.append(_separation(study, bars.format("tokens")))
    if summary["gap"].notna().any():
        out.append(_gap(study, f" {bars.capitalize()}." if seeds > 1 else ""))
    numbers = "Classifiers in numbers: accuracy on test, separation and gap beside their controls"
    over = ", means over seeds ± standard deviation." if seeds > 1 else "."
    out.append(Figure(numbers + over, html=by_scale.summary_html(summary, rows)))
    return out


def _separation(study: Tables, bars: str) -> Figure:
    rows, summary = trained(study, "dynamics"), trained(study, "dynamics_summary")
    frequent = ""
    if summary["separation_frequent"].notna().any():
        frequent = (
            " On the right only neutral tokens that are as frequent as polarity tokens must be."
        )
    caption = (
        "Separation by scale: how well attention scores alone tell polarity tokens from neutral "
        f"ones (1 is always, .5 is chance); {bars}, grey is frequency alone, hollow dots are the "
        f"same networks before training.{frequent} {where_it_breaks(rows)}."
    )
    return Figure(caption, by_scale.separation(summary, rows))


def _gap(study: Tables, over: str) -> Figure:
    rows, summary = trained(study, "dynamics"), trained(study, "dynamics_summary")
    positive = study.holding("dynamics").manifest["dynamics"].get("positive")
    between = "the class with the largest mean less the one with the smallest, so never below 0"
    if positive is not None:
        called = "" if positive == "positive" else f" (those of {positive})"
        between = f"positive tokens{called} less negative ones"
    caption = (
        "Gap by scale: how far the mean attention scores of the classes' tokens lie apart, in "
        f"pooled standard deviations, {between}; near 0 if attention marks both alike.{over}"
    )
    return Figure(caption, by_scale.gap(summary, rows, positive))


def _tokens(study: Tables) -> list[Figure]:
    table = trained(study, "dynamics_tokens")
    if table.empty:
        return []
    drawn, first = tokens.drawn_tokens(table), chosen_cells(table)["cell"].iloc[0]
    positive = study.holding("dynamics_tokens").manifest["dynamics"].get("positive")
    called = ""
    if positive not in (None, "positive"):
        called = f" Positive tokens are those of {positive}."
    scores = (
        f"Scores of tokens: {drawn}; polarity says which class a token speaks for, attention how "
        f"much it is looked at, wherever it stands (Figures 2 to 4 of the paper).{called}"
    )
    out = [Figure(scores, tokens.tokens(table))]
    if (chart := tokens.weights(table)) is not None:
        weights = (
            f"Weights of tokens: mean attention weight on the test texts, {drawn}, on an axis of "
            "square roots; a box is the middle half, its line the median, whiskers reach to 1.5 "
            "times the box (Figure 5 of the paper)."
        )
        out.append(Figure(weights, chart))
    strongest = (
        f"Strongest tokens ({first}): the largest polarity scores of each kind (of neutral tokens "
        "in size), and the highest and lowest attention scores."
    )
    return [*out, Figure(strongest, html=tokens.tokens_html(table))]


def _flow(study: Tables) -> list[Figure]:
    table = trained(study, "dynamics_flow")
    caption = (
        "Terms by epoch: what each term adds to the scores of a kind of token in a unit of time, "
        "mean over its tokens; one axis a row, so that terms can be compared."
    )
    return [Figure(caption, training.flow(table))] if len(table) else []


def _path(study: Tables) -> list[Figure]:
    table, out = trained(study, "dynamics_path"), []
    if any(table[what].notna().any() for what in training.PATH):
        caption = (
            "Training by scale: V·W and the sizes of V and W, the gap between the classes' tokens, "
            "the loss, accuracy on dev and separation after each epoch; epoch 0 is before "
            "training, dashed is none (V·W, gap) or chance (separation)."
        )
        out.append(Figure(caption, training.path(table)))
    if study.has("dynamics_kinds") and len(kinds := trained(study, "dynamics_kinds")):
        caption = (
            "Scores along training: the mean of each kind of token and a band that holds its "
            "middle half."
        )
        out.append(Figure(caption, training.kinds(kinds)))
    return out


def _lines(study: Tables) -> list[TextTable]:
    """Classifiers by scale: accuracy and separation with their controls, means over seeds."""
    summary = trained(study, "dynamics_summary")
    known = [name for name in PRINTED if name in summary and summary[name].notna().any()]
    rows = tuple(
        (
            model_title(row["attention"], row["encoder"]),
            scale_title(row["scale"]),
            *("-" if row[name] != row[name] else f"{row[name]:.3f}" for name in known),
        )
        for row in summary.to_dict("records")
    )
    note = (
        "AUC: how well attention scores separate polarity tokens from neutral ones; before "
        "training, by count alone, and against frequent neutral tokens"
    )
    titles = ("model", "scale", *(PRINTED[name] for name in known))
    return [TextTable(titles, rows, note=note, narrow=True)]


SECTIONS = {
    "dynamics": Section(
        title="Does attention mark the words that matter",
        question="Does attention come to mark the words that matter?",
        needs=("dynamics", "dynamics_summary"),
        about=ABOUT["dynamics"],
        figures=_dynamics,
        findings=dynamics_findings,
        terminal=_lines,
        facts=classifier_facts,
        names_heads=False,
    ),
    "dynamics_tokens": Section(
        title="Which words are marked",
        question="Which words get high scores and weights?",
        needs=("dynamics_tokens",),
        about=ABOUT["dynamics_tokens"],
        figures=_tokens,
        names_heads=False,
    ),
    "dynamics_flow": Section(
        title="What moves the scores",
        question="Which term moves what, and when?",
        needs=("dynamics_flow",),
        about=ABOUT["dynamics_flow"],
        figures=_flow,
        names_heads=False,
    ),
    "dynamics_path": Section(
        title="How training goes",
        question="When does attention come to mark words?",
        needs=("dynamics_path",),
        about=ABOUT["dynamics_path"],
        figures=_path,
        names_heads=False,
    ),
}
