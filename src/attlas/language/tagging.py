"""Parts of speech of English words by rules: lists, endings, capitals and neighbors.

Nothing is downloaded or learned. The tags and their conventions are those of Universal Dependencies
(de Marneffe et al. 2021): `be` and modals are AUX, possessives PRON, particles ADP. Each word has a
kind, which is a tag or the name of an ambiguity ("noun_verb"); one rule for each ambiguity decides
by the neighboring words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from attlas.language.lists import word_list, word_sections
from attlas.language.words import word_spans

# words of one tag, whatever their neighbors; those with a rule of their own follow that rule
_CLOSED: dict[str, frozenset[str]] = {
    "DET": word_list("determiners", "articles", "always before a noun", "also alone"),
    "PRON": word_list("pronouns"),
    "ADP": word_list("prepositions", "always"),
    **{tag: frozenset(words) for tag, words in word_sections("function_words").items()},
}
_SYMBOLS = frozenset("$%+=#€£¥₹§©®™°±×÷<>|^~/") | {":)", ":(", ";)", ":D", ":-)", ";-)", ":P", "<3"}
_NAME_WORDS = word_list("names", "only with a capital")
_NAMES = word_list("names", "months", "days", "short") - _NAME_WORDS
_PEOPLES = word_list("adjectives", "peoples")
_NOUNS = word_list("nouns", "nouns")
_NOUN_VERBS = word_list("verbs", "noun or verb")
_BE = word_list("verbs", "be") | {"'s"}
_COPULAS = _BE | {"am", "'m", "'re"}
_ARTICLES = word_list("determiners", "articles")
_POSSESSIVES = word_list("determiners", "possessive")
_SUBJECTS = word_list("pronouns_by_use", "subjects")
_SINGULAR = word_list("pronouns_by_use", "subjects of a verb in -s")
_BARE_SUBJECTS = word_list("pronouns_by_use", "subjects of a bare verb")
_CONTRACTED = word_list("pronouns", "contracted before a bare verb")
_CONTRACTED_SUBJECTS = frozenset(word for word in _CLOSED["PRON"] if "'" in word)
_BEFORE_THAT_CLAUSES = word_list("nouns", "before a that-clause")
_BEFORE_TO = word_list("prepositions", "before to")
_IRREGULAR = tuple(row.split("/") for row in word_sections("verbs")["irregular"])
_UNCHANGED = frozenset(base for base, _, participle in _IRREGULAR if base == participle)
_NO_BARE = _BE | word_list("verbs", "no bare verb follows")
_AFTER_IMPERATIVES = word_list("verbs", "after an imperative")
_DEGREES = frozenset(("very", "so", "too", "more", "most", "as", "really"))
_PREFIXES = word_list("prefixes")
_ENDINGS = {
    ending: kind for kind, endings in word_sections("endings").items() for ending in endings
}
_NOT_COMPARED = ("ous", "ful", "al", "ed", "ing", "ic", "ble", "ent", "ant", "ive")
_REACH = 5  # adverbs that are looked past
_CLAUSE_ENDS = frozenset('.,;:!?()"“”–') | {"--"}
_OPENERS = frozenset('.!?:;"“”([*') | {"--", "..."}
_BEFORE_NOUNS = frozenset(("DET", "ADJ", "NUM", "ADP", "SYM"))
_GRADED = frozenset(("ADJ", "ADV", "adjective_adverb", "adjective_verb"))
_PREFIXED = frozenset(("ADJ", "ADV", "past", "ing", "verb", "verbs"))  # also after a prefix
_FINITE_KINDS = frozenset(("AUX", "be", "have", "do", "verbs", "past"))
_NOMINAL_KINDS = frozenset(
    (
        *("NOUN", "PROPN", "ADJ", "NUM", "unknown", "noun_verb", "noun_verbs", "adjective_noun"),
        *("adjective_verb", "adjective_adverb", "people", "ing_noun", "one", "ing", "past", "more"),
    )
)
_AFTER_VERBS = frozenset(
    (
        *("DET", "PRON", "PROPN", "ADP", "ADV", "NUM", "SCONJ", "this", "that", "to", "people"),
        *("what", "as", "no", "both", "for", "before", "about"),
    )
)


def _forms(base: str) -> tuple[str, list[str], list[str]]:
    """Third person, pasts and -ing forms of a regular verb; final consonants single and doubled."""
    last, vowel = base[-1], base[-2] in "aeiou"
    doubles = vowel and last not in "aeiouwxy" and base[-3:-2] not in tuple("aeiou")
    double = base + last if doubles else base
    if last == "e":
        ing = base[:-2] + "ying" if base.endswith("ie") else base[:-1] + "ing"
        return base + "s", [base + "d"], [ing, base + "ing"]
    if last == "y" and not vowel:
        return base[:-1] + "ies", [base[:-1] + "ied"], [base + "ing"]
    third = base + ("es" if base.endswith(("s", "x", "z", "ch", "sh", "o")) else "s")
    return third, [base + "ed", double + "ed"], [base + "ing", double + "ing"]


def _compared(adjective: str) -> list[str]:
    """The comparatives and superlatives of a short adjective."""
    if len(adjective) > 7 or adjective.endswith(_NOT_COMPARED):
        return []
    stem = adjective[:-1] if adjective[-1] in "ey" else adjective
    stem += "i" if adjective[-1] == "y" else ""
    stems = [stem, stem + stem[-1]] if adjective[-1] not in "ey" else [stem]
    return [one + ending for one in stems for ending in ("er", "est")]


def _pairs() -> Iterator[tuple[str, str]]:
    """Word and kind; of several pairs with one word, the last counts."""
    verbs, adjectives = word_sections("verbs"), word_sections("adjectives")
    yield from ((word, "people") for word in _PEOPLES)
    yield from ((word, "NOUN") for word in _NOUNS)
    for word in adjectives["adjectives"]:
        yield from ((form, "ADJ") for form in _compared(word))
    for section, kind in (("verbs", "verb"), ("noun or verb", "noun_verb")):
        for base in verbs[section]:
            third, pasts, ings = _forms(base)
            yield from ((ing, "ing_noun" if ing in _NOUNS else "ing") for ing in ings)
            yield from ((past, "past") for past in pasts)
            yield from ((base, kind), (third, kind + "s"))
    for base, *pasts in _IRREGULAR:
        yield from ((past, "past") for past in pasts if past != base and past not in _NOUN_VERBS)
    for words, kind in (
        (adjectives["adjectives"], "ADJ"),
        (adjectives["adjective or noun"], "adjective_noun"),
        (adjectives["adjective or verb"], "adjective_verb"),
        (adjectives["adjective or adverb"], "adjective_adverb"),
        (word_list("adverbs"), "ADV"),
        (_NAMES, "PROPN"),
        *((words, tag) for tag, words in _CLOSED.items()),
        (_BE, "be"),
    ):
        yield from ((word, kind) for word in words)
    yield from ((word, word) for word in _WORD_RULES)
    yield from _ALIKE.items()


@dataclass
class _Sentence:
    """A sentence being tagged: words in small letters, kinds, tags so far, and one word's sides."""

    lowers: list[str]
    kinds: list[str]
    tags: list[str] = field(default_factory=list)
    finite: bool = False  # whether this clause has its verb
    at: int = 0  # the word that is tagged next
    word_before: str = ""
    tag_before: str = "PUNCT"
    word_after: str = ""
    kind_after: str = "PUNCT"

    def move_to(self, at: int) -> None:
        """Make a word the one that is tagged next."""
        self.at = at
        if at:
            self.word_before, self.tag_before = self.lowers[at - 1], self.tags[at - 1]
        last = at + 1 == len(self.lowers)
        self.word_after = "" if last else self.lowers[at + 1]
        self.kind_after = "PUNCT" if last else self.kinds[at + 1]

    def word(self, at: int) -> str:
        return self.lowers[at] if 0 <= at < len(self.lowers) else ""

    def kind(self, at: int) -> str:
        return self.kinds[at] if 0 <= at < len(self.kinds) else "PUNCT"

    def tag(self, at: int) -> str:
        return self.tags[at] if at >= 0 else "PUNCT"

    @property
    def back(self) -> int:
        """The nearest word before that is neither an adverb nor a negation."""
        at, farthest = self.at - 1, max(self.at - _REACH, 0)
        while at >= farthest and (self.tags[at] == "ADV" or self.lowers[at] in ("not", "n't")):
            at -= 1
        return at

    def ahead(self, at: int) -> int:
        """The nearest word after one that is neither an adverb nor a negation."""
        at, farthest = at + 1, min(at + _REACH, len(self.kinds))
        skipped = ("not", "n't", "only")
        while at < farthest and (self.kinds[at] == "ADV" or self.lowers[at] in skipped):
            at += 1
        return at

    @property
    def wants_verb(self) -> bool:
        """Whether a bare verb is due: after `to`, a modal, `do`, or a pronoun that is a subject."""
        before = self.back
        if before < 0:
            return False
        word, tag = self.lowers[before], self.tags[before]
        if tag == "PART" and word == "to":
            return True
        if tag == "AUX":
            return word not in _NO_BARE
        if tag == "PRON" and word in ("that", "which"):
            return self.tag(before - 1) == "NOUN"
        return word in _BARE_SUBJECTS or word in _CONTRACTED or word in ("let's", "lets")

    @property
    def wants_noun(self) -> bool:
        """Whether a noun is due: after an article, possessive, adjective, number or preposition."""
        tag, word = self.tag_before, self.word_before
        if tag == "PRON":
            return word in _POSSESSIVES
        genitive = tag == "PART" and word not in ("to", "not", "n't")
        return tag in _BEFORE_NOUNS or genitive or word in ("-", "/")

    @property
    def is_determined(self) -> bool:
        """Whether a determiner or possessive comes just before."""
        return self.tag_before == "DET" or self.word_before in _POSSESSIVES

    @property
    def noun_follows(self) -> bool:
        """Whether the next word is likely a noun or part of a noun phrase."""
        return self.kind_after in _NOMINAL_KINDS

    @property
    def clause_follows(self) -> bool:
        """Whether a subject and its verb come next, before the clause ends."""
        if self.word_after in _SUBJECTS or self.word_after in _CONTRACTED_SUBJECTS:
            return True
        for at in range(self.at + 2, min(self.at + 8, len(self.kinds))):
            if self.lowers[at] in _CLAUSE_ENDS or self.kinds[at] in ("that", "PART", "SCONJ"):
                return False
            if self.kinds[at] in _FINITE_KINDS:
                return True
        return False


def _noun_verb(s: _Sentence) -> str:
    """A noun or a bare verb ("work")."""
    if s.wants_verb:
        return "VERB"
    if s.wants_noun or s.word_after == "of":
        return "NOUN"
    if s.tag_before in ("PUNCT", "CCONJ", "INTJ"):
        imperative = s.kind_after in ("DET", "this") or s.word_after in _AFTER_IMPERATIVES
        return "VERB" if imperative else "NOUN"
    after_plural = s.tag_before in ("NOUN", "PROPN") and s.word_before.endswith("s")
    return "VERB" if after_plural and not s.finite and s.kind_after in _AFTER_VERBS else "NOUN"


def _noun_verbs(s: _Sentence) -> str:
    """A plural or a verb of the third person ("borders")."""
    word, tag = s.word(s.back), s.tag(s.back)
    if word in _SINGULAR and tag == "PRON":
        return "VERB"
    if s.wants_noun or s.word_after in ("of", "are", "were", "have"):
        return "NOUN"
    if tag in ("NOUN", "PROPN") and not s.finite and s.kind_after in _AFTER_VERBS:
        return "VERB"
    return "VERB" if tag == "CCONJ" and s.kind_after in ("DET", "PRON") else "NOUN"


def _verb(s: _Sentence) -> str:
    """A bare verb, rarely a noun ("find")."""
    noun = s.wants_noun and s.word_before not in ("-", "/") and not s.wants_verb
    return "NOUN" if noun else "VERB"


def _ing(s: _Sentence) -> str:
    """A participle, or a noun after an article and before "of"."""
    if s.word_after == "of" and s.tag_before in ("DET", "ADJ"):
        return "NOUN"
    noun = s.is_determined or s.tag_before in ("ADJ", "NUM")
    return "NOUN" if noun and not s.noun_follows else "VERB"


def _ing_noun(s: _Sentence) -> str:
    """A noun that is a participle after `be` ("building")."""
    return "VERB" if s.word(s.back) in _COPULAS and s.kind_after in _AFTER_VERBS else "NOUN"


def _unknown(s: _Sentence) -> str:
    """An unlisted word: a noun, but a verb where one is due."""
    word = s.word(s.at)
    if not word.endswith("s") or word.endswith("ss"):
        return "VERB" if s.wants_verb else "NOUN"
    subject = s.word(s.back) in ("he", "she", "it", "who", "which") and s.tag(s.back) == "PRON"
    return "VERB" if subject else "NOUN"


def _adjective_noun(s: _Sentence) -> str:
    """An adjective before a noun or alone after a copula or an adverb, else a noun ("public")."""
    if s.noun_follows and s.kind_after not in ("NUM", "past", "ing"):
        return "ADJ"
    return "ADJ" if s.word(s.back) in _BE or s.word_before in _DEGREES else "NOUN"


def _adjective_verb(s: _Sentence) -> str:
    """An adjective that is a verb where one is due ("open")."""
    imperative = s.tag_before in ("PUNCT", "CCONJ") and s.kind_after in ("DET", "this")
    return "VERB" if imperative or s.wants_verb else "ADJ"


def _adjective_adverb(s: _Sentence) -> str:
    """An adjective before a noun or after an article or copula, else an adverb ("early")."""
    if s.is_determined or (s.word(s.back) in _COPULAS and s.kind_after != "past"):
        return "ADJ"
    return "ADJ" if s.noun_follows and s.kind_after not in ("past", "ing", "PROPN") else "ADV"


def _people(s: _Sentence) -> str:
    """A people or a faith: an adjective, but part of a name, or a language after "in"."""
    if "PROPN" in (s.kind_after, s.tag_before):
        return "PROPN"
    return "PROPN" if s.tag_before == "ADP" and not s.noun_follows else "ADJ"


def _be(s: _Sentence) -> str:
    """The copula and auxiliary, a verb after "there"; "'s" marks the genitive after a noun."""
    if s.word(s.at) == "'s":
        return _apostrophe(s)
    return "VERB" if s.word(s.back) == "there" and s.tag(s.back) == "PRON" else "AUX"


def _apostrophe(s: _Sentence) -> str:
    if s.word_before in ("let", "there"):
        return {"let": "PRON", "there": "VERB"}[s.word_before]
    if s.word_before in _SINGULAR or s.word_before in ("here", "what", "where", "how", "when"):
        return "AUX"
    return "AUX" if s.kind_after in ("DET", "PART", "no") and s.tag_before != "PART" else "PART"


def _have(s: _Sentence) -> str:
    """An auxiliary before a participle, else a verb."""
    at = s.ahead(s.at)
    if s.kind(at) == "PRON" and s.word(at) in _SUBJECTS:
        at = s.ahead(at)
    word = s.word(at)
    perfect = s.kind(at) in ("past", "be") or word in _UNCHANGED or word in ("had", "done")
    return "AUX" if perfect and not word.startswith(("is", "'s")) else "VERB"


def _do(s: _Sentence) -> str:
    """An auxiliary before a negation, a bare verb or a subject, else a verb."""
    if s.word_after in ("not", "n't"):
        return "AUX"
    at = s.ahead(s.at)
    kind, before = s.kind(at), ("PUNCT", "ADV", "PRON", "CCONJ", "NOUN")
    if s.word(at) in _SUBJECTS and s.tag_before in before:
        return "AUX"
    bare = kind in ("verb", "be", "have")
    return "AUX" if bare or (kind == "noun_verb" and s.kind(at + 1) in _AFTER_VERBS) else "VERB"


def _to(s: _Sentence) -> str:
    """The mark of an infinitive, else a preposition."""
    at = s.ahead(s.at)
    kind, after = s.kind(at), s.kind(at + 1)
    if kind in ("verb", "be", "have", "do", "like"):
        return "PART"
    if kind in ("noun_verb", "adjective_verb"):
        noun = s.word(at + 1) == "of" or after in ("NOUN", "be", "noun_verbs")
        return "ADP" if noun or s.word_before in _BEFORE_TO else "PART"
    bare = kind == "unknown" and not s.word(at).endswith("s")
    return "PART" if bare and after in ("DET", "PRON", "this", "that") else "ADP"


def _that(s: _Sentence) -> str:
    """A relative or a demonstrative pronoun, a determiner, or the mark of a clause."""
    before, after = s.tag_before, s.kind_after
    if after in _FINITE_KINDS or s.kind(s.ahead(s.at)) in _FINITE_KINDS or after == "PUNCT":
        return "PRON"
    if before in ("PUNCT", "ADP", "CCONJ", "PART") and not s.clause_follows:
        return "DET" if s.noun_follows else "PRON"
    if after in ("PRON", "DET", "PROPN", "there"):
        relative = before == "NOUN" and s.word_before not in _BEFORE_THAT_CLAUSES
        return "PRON" if relative else "SCONJ"
    verb_like = before == "NOUN" and after in ("noun_verb", "unknown")
    if verb_like and s.kind(s.at + 2) in _AFTER_VERBS | {"PUNCT"}:
        return "PRON"
    if s.noun_follows and not s.clause_follows:
        return "DET"
    return "PRON" if before == "NOUN" and after in ("verb", "noun_verb", "ADV") else "SCONJ"


def _there(s: _Sentence) -> str:
    """A pronoun before a verb of existence, else an adverb."""
    at = s.ahead(s.at)
    exists = s.kind(at) in ("AUX", "be", "have") or s.word(at) in ("seems", "seem", "exists")
    return "PRON" if exists else "ADV"


def _both(s: _Sentence) -> str:
    """The first half of a conjunction if the second follows ("both ... and"), else a determiner."""
    word = s.word(s.at)
    second = {"both": "and", "either": "or", "neither": "nor"}[word]
    if second in s.lowers[s.at + 2 : s.at + 6]:
        return "CCONJ"
    return "ADV" if word == "either" and not s.noun_follows else "DET"


def _no(s: _Sentence) -> str:
    """An interjection if it stands alone, an adverb before "longer", else a determiner."""
    if s.tag_before == "PUNCT" and s.kind_after == "PUNCT":
        return "INTJ"
    return "ADV" if s.word_after in ("longer", "more", "less") else "DET"


def _more(s: _Sentence) -> str:
    """An adverb before an adjective or adverb, else an adjective."""
    after = s.kind_after
    if after in _GRADED or after in ("past", "ing"):
        return "ADV"
    if after == "PUNCT" and s.word(s.at) == "much":
        return "ADV"
    noun = s.noun_follows or after == "ADP"
    return "ADJ" if noun or s.tag_before in ("VERB", "DET", "ADP", "NUM", "ADV") else "ADV"


def _one(s: _Sentence) -> str:
    """A number, or the noun that stands for another ("the red one")."""
    if s.noun_follows or s.word_after in ("of", "-"):
        return "NUM"
    if s.tag_before in ("DET", "ADJ", "PRON"):
        return "NOUN"
    return "PRON" if s.kind_after in ("AUX", "have", "verb") else "NUM"


def _as(s: _Sentence) -> str:
    """An adverb in the first half of "as ... as", the mark of a clause, else a preposition."""
    graded = s.kind_after in _GRADED or s.kind_after == "more"
    if graded and "as" in s.lowers[s.at + 2 : s.at + 5]:
        return "ADV"
    return "SCONJ" if s.clause_follows or s.kind_after in ("past", "ing") else "ADP"


def _before(s: _Sentence) -> str:
    """The mark of a clause, else a preposition, or an adverb with nothing after it ("before")."""
    if s.kind_after == "ing" or s.clause_follows:
        return "SCONJ"
    return "ADV" if s.kind_after == "PUNCT" and s.word(s.at) == "before" else "ADP"


def _once(s: _Sentence) -> str:
    """The mark of a clause, else an adverb."""
    clause = s.tag_before == "PUNCT" and s.clause_follows
    return "SCONJ" if clause or s.word_after in _SUBJECTS else "ADV"


def _like(s: _Sentence) -> str:
    """A verb where one is due, else a preposition or the mark of a clause."""
    return "VERB" if s.wants_verb else _than(s)


def _than(s: _Sentence) -> str:
    """The mark of a clause before a subject, else a preposition."""
    return "SCONJ" if s.word_after in _SUBJECTS else "ADP"


def _about(s: _Sentence) -> str:
    """An adverb before a number, the mark of a clause before a participle, else a preposition."""
    return {"NUM": "ADV", "ing": "SCONJ"}.get(s.kind_after, "ADP")


def _back(s: _Sentence) -> str:
    """A verb where one is due, a noun after a determiner or adjective, else an adverb."""
    if s.wants_verb:
        return "VERB"
    return "NOUN" if s.is_determined or s.tag_before == "ADJ" else "ADV"


def _prime(s: _Sentence) -> str:
    """A lone apostrophe: the genitive of a plural, else a quotation mark."""
    owner = s.tag_before in ("NOUN", "PROPN") and s.word_before.endswith("s")
    return "PART" if owner and s.noun_follows else "PUNCT"


_Rule = Callable[[_Sentence], str]
_WORD_RULES: dict[str, _Rule] = {  # rules for single words
    "have": _have,
    "do": _do,
    "to": _to,
    "that": _that,
    "this": lambda s: "DET" if s.noun_follows else "PRON",
    "there": _there,
    "what": lambda s: (
        "DET" if s.kind_after in ("NOUN", "noun_verb") and s.tag_before != "NOUN" else "PRON"
    ),
    "both": _both,
    "no": _no,
    "more": _more,
    "enough": lambda s: (
        "ADV" if s.tag_before in ("ADJ", "ADV", "VERB") and not s.noun_follows else "ADJ"
    ),
    "one": _one,
    "as": _as,
    "before": _before,
    "while": lambda s: "NOUN" if s.tag_before in ("DET", "ADJ") else "SCONJ",
    "because": lambda s: "ADP" if s.word_after == "of" else "SCONJ",
    "though": lambda s: "ADV" if s.kind_after == "PUNCT" else "SCONJ",
    "once": _once,
    "like": _like,
    "than": _than,
    "about": _about,
    "for": lambda s: "SCONJ" if s.kind_after == "ing" else "ADP",
    "back": _back,
    "well": lambda s: "INTJ" if s.tag_before == "PUNCT" and s.word_after in (",", "...") else "ADV",
    "only": lambda s: "ADJ" if s.is_determined else "ADV",
    "quite": lambda s: "DET" if s.word_after in _ARTICLES else "ADV",
    "half": lambda s: "DET" if s.word_after in _ARTICLES else "NOUN",
    "left": lambda s: "ADJ" if s.is_determined else "VERB",
    "pretty": lambda s: (  # "pretty good"
        "ADV" if s.kind_after in ("ADJ", "ADV", "more", "adjective_adverb") else "ADJ"
    ),
    "-": lambda s: "SYM" if s.tag_before == s.kind_after == "NUM" else "PUNCT",
    "'": _prime,
}
_ALIKE: dict[str, str] = {  # words that follow the rule of another
    word: rule
    for rule, words in {
        "have": ("has", "had", "having"),
        "do": ("does", "did", "doing", "done"),
        "this": ("these", "those"),
        "what": ("which",),
        "both": ("either", "neither"),
        "more": ("most", "less", "least", "much"),
        "before": ("after", "since", "until", "till"),
        "for": ("in", "by", "of", "with", "from", "at", "on", "without"),
        "-": ("–",),
    }.items()
    for word in words
}
_RULES: dict[str, _Rule] = _WORD_RULES | {
    "be": _be,
    "noun_verb": _noun_verb,
    "noun_verbs": _noun_verbs,
    "verb": _verb,
    "verbs": lambda s: "NOUN" if s.wants_noun else "VERB",  # "finds", rarely a plural
    "past": lambda s: "VERB",  # a kind of its own for its neighbours
    "ing": _ing,
    "ing_noun": _ing_noun,
    "unknown": _unknown,
    "adjective_noun": _adjective_noun,
    "adjective_verb": _adjective_verb,
    "adjective_adverb": _adjective_adverb,
    "people": _people,
}
_KINDS: dict[str, str] = dict(_pairs())
_FUNCTION_WORDS = _BE.union(*_CLOSED.values(), _WORD_RULES, _ALIKE)


@lru_cache(maxsize=65536)
def _guess(lower: str) -> str:
    """The kind of a word by its form: listed, a number, a mark, a prefixed word, or an ending."""
    known = _KINDS.get(lower)
    if known is not None:
        return known
    if not any(map(str.isalpha, lower)):
        return _mark_or_number(lower)
    if any(map(str.isdigit, lower)):
        return "ADJ" if lower.endswith(("st", "nd", "rd", "th")) and lower[0].isdigit() else "NOUN"
    if lower.endswith("'s"):
        return "NOUN"
    for size in range(2, 6):
        if lower[:size] in _PREFIXES and _KINDS.get(lower[size:]) in _PREFIXED:
            return _KINDS[lower[size:]]
    if len(lower) > 4:
        for size in range(min(len(lower) - 2, 7), 1, -1):
            if lower[-size:] in _ENDINGS:
                return _ENDINGS[lower[-size:]]
    return "unknown"


def _mark_or_number(word: str) -> str:
    if any(map(str.isnumeric, word)):
        return "NUM"
    marks = all(unicodedata.category(character)[0] in "PZC" for character in word)
    return "PUNCT" if marks and word not in _SYMBOLS else "SYM"


def _kinds_of(words: Sequence[str], lowers: list[str]) -> list[str]:
    """The kind of each word, from its look and its capital."""
    kinds = [_guess(lower) for lower in lowers]
    if _shouted(words):
        return kinds
    opening = True  # whether a capital here may be the sentence's own
    for at, word in enumerate(words):
        kind = kinds[at]
        if word == "I":
            kinds[at] = "PROPN" if _numeral(kinds, at) else kind
        elif word[:1].isupper() and opening:
            kinds[at] = _opening(words, lowers, kinds, at)
        elif word[:1].isupper():
            kinds[at] = _capital(word, lowers[at], kind)
        if kind not in ("PUNCT", "SYM", "NUM", "-", "'"):
            opening = False
        elif word in _OPENERS:
            opening = True
    return kinds


def _numeral(kinds: list[str], at: int) -> bool:
    """Whether "I" is the number of the name before it ("World War I"), not a subject."""
    ends = at + 1 == len(kinds) or kinds[at + 1] in ("PUNCT", "CCONJ", "for", "ADP")
    return ends and at > 0 and kinds[at - 1] == "PROPN"


def _shouted(words: Sequence[str]) -> bool:
    """Whether most words are in capitals, so that capitals carry no information."""
    long = [word for word in words if len(word) > 1 and word.isalpha()]
    return len(long) > 2 and 2 * sum(map(str.isupper, long)) > len(long)


def _capital(word: str, lower: str, kind: str) -> str:
    """The kind of a capitalised word inside a sentence: a name unless listed otherwise."""
    if lower in _PEOPLES:
        return "people"
    shouted = len(word) > 1 and word.isupper()
    listed = lower in _FUNCTION_WORDS and lower not in _NAME_WORDS
    return kind if listed and not shouted else "PROPN"


def _opening(words: Sequence[str], lowers: list[str], kinds: list[str], at: int) -> str:
    """The kind of a capitalised word that opens a sentence.

    As in small letters if it is listed, else by its ending, else a name.
    """
    word, lower, kind = words[at], lowers[at], kinds[at]
    follower = words[at + 1] if at + 1 < len(words) else ""
    named = follower[:1].isupper() and _capital(follower, lowers[at + 1], "") == "PROPN"
    if lower in _PEOPLES:
        return "people"
    if lower in _FUNCTION_WORDS or kind in ("ADV", "ing", "past"):
        return kind
    if len(word) > 1 and word.isupper():
        return "PROPN"
    if lower in _KINDS:
        return "PROPN" if named and kind in ("NOUN", "noun_verb", "ADJ", "adjective_noun") else kind
    plural = lower.endswith("s") and not lower.endswith(("ss", "us", "is", "'s"))
    known = kind != "unknown" or (plural and follower[:1].islower())
    return kind if known and not named else "PROPN"


@dataclass(frozen=True)
class Word:
    """A word of a text, by its characters, with its tag."""

    start: int
    stop: int
    string: str
    tag: str


def tag_words(words: Sequence[str]) -> list[str]:
    """The universal tag of each word of one sentence.

    >>> tag_words("She was born in Vienna and sells old books .".split())
    ['PRON', 'AUX', 'VERB', 'ADP', 'PROPN', 'CCONJ', 'VERB', 'ADJ', 'NOUN', 'PUNCT']
    """
    lowers = [word.lower().replace("’", "'") for word in words]
    s = _Sentence(lowers, _kinds_of(words, lowers))
    for at, kind in enumerate(s.kinds):
        tag = kind
        if kind in _RULES:
            s.move_to(at)
            tag = _RULES[kind](s)
        s.tags.append(tag)
        if tag in ("AUX", "VERB"):
            s.finite = s.finite or kind != "ing"
        elif tag in ("PUNCT", "CCONJ", "SCONJ") or kind in ("what", "that"):
            s.finite = False
    return s.tags


def tagged(text: str) -> list[Word]:
    """The words of one sentence with their tags.

    >>> [word.tag for word in tagged("Open the old book.")]
    ['VERB', 'DET', 'ADJ', 'NOUN', 'PUNCT']
    """
    spans = word_spans(text)
    strings = [text[start:stop] for start, stop in spans]
    return [
        Word(*span, string, tag)
        for span, string, tag in zip(spans, strings, tag_words(strings), strict=True)
    ]
