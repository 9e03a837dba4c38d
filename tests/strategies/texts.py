"""Hypothesis strategies for texts."""

from __future__ import annotations

from hypothesis import strategies as st

SCRIPTS = (
    "a cat's naïve café 3rd x_y",
    "世界カタカナ・한국어",
    "क्षि हिन्दी شَمْس می‌خواهم",
    "👩‍👩‍👧 ❤️ 👍🏽 🇩🇪",
    ".,!? \t\u00a0\u3000",
    "e\u0301o\u0308\u200d\u200c\ufe0f",
)


def texts(max_size: int = 30) -> st.SearchStrategy[str]:
    """Texts of several scripts, of whole words and of loose characters, and of any characters at
    all.
    """
    letters = st.sampled_from(sorted({character for script in SCRIPTS for character in script}))
    words = st.lists(
        st.sampled_from([word for script in SCRIPTS for word in script.split()]), max_size=6
    ).map(" ".join)
    return st.one_of(
        words,
        st.text(letters, max_size=max_size),
        st.text(st.characters(exclude_categories=("Cs",)), max_size=max_size),
    )
