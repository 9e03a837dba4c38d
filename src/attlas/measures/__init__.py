"""One file, one question about heads or tokens."""

from attlas.support.subject import Subject

SUBJECT = Subject(
    name="measures",
    package=__name__,
    measures={
        "surface": (
            "surface:Surface",
            "How much does each head attend to itself, its neighbours, [CLS], [SEP] "
            "and punctuation?",
        ),
        "entropy": ("entropy:Entropy", "Does each head attend to few tokens or to many?"),
        "positions": (
            "positions:Positions",
            "How far away, and on which side, does each head look?",
        ),
        "totals": (
            "totals:Totals",
            "How much attention does each token of each text receive?",
        ),
        "topk": (
            "topk:TopK",
            "Which tokens are attended to most, and which attend most, in all heads together?",
        ),
        "heatmap": (
            "heatmap:Heatmap",
            "Which pattern does each head's attention make, over whole texts of any length?",
        ),
        "position_bias": (
            "position_bias:PositionBias",
            "Do tokens receive attention for their position rather than their content?",
        ),
        "examples": (
            "examples:Examples",
            "In which texts does a head do most, and least, of what it does?",
        ),
        "targets": (
            "targets:Targets",
            "How much does each head attend to the words that you name?",
        ),
        "head_distance": ("head_distance:HeadDistance", "Which heads attend to the same tokens?"),
        "special_gradient": (
            "special_gradient:SpecialGradient",
            "How sensitive is the loss to attention to [SEP], [CLS], punctuation and other tokens?",
        ),
        "importance": ("importance:Importance", "Which heads matter for the model's predictions?"),
    },
    section="section",
)
