"""Parts of speech of English words by rules: lists, endings, capitals and neighbors.

Nothing is downloaded or learned. The tags and their conventions are those of Universal Dependencies
(de Marneffe et al. 2021): `be` and modals are AUX, possessives PRON, particles ADP. Each word has a
kind, which is a tag or the name of an ambiguity ("noun_verb"); one rule for each ambiguity decides
by the neighboring words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
_PREFIXES = word_list("prefixes")
_ENDINGS = {
    ending: kind for kind, endings in word_sections("endings").items() for ending in endings
}
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
    double = (
        base + last
        if vowel and last not in "aeiouwxy" and base[-3:-2] not in tuple("aeiou")
        else base
    )
    if last == "e":
        ing = base[:-2] + "ying" if base.endswith("ie") else base[:-1] + "ing"
        return base + "s", [base + "d"], [ing, base + "ing"]
    if last == "y" and not vowel:
        return base[:-1] + "ies", [base[:-1] + "ied"], [base + "ing"]
    hissing = base.endswith(("s", "x", "z", "ch", "sh", "o"))
    return (
        base + ("es" if hissing else "s"),
        [base + "ed", double + "ed"],
        [base + "ing", double + "ing"],
    )


def _compared(adjective: str) -> list[str]:
    """The comparatives and superlatives of a short adjective."""
    if len(adjective) > 7 or adjective.endswith(
        ("ous", "ful", "al", "ed", "ing", "ic", "ble", "ent", "ant", "ive")
    ):
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
    """A sentence being tagged: its words in small letters, their kinds, and the tags so far."""

    lowers: list[str]
    kinds: list[str]
    tags: list[str]
    finite: bool = False  # whether this clause has its verb

    def word(self, index: int) -> str:
        return self.lowers[index] if 0 <= index < len(self.lowers) else ""

    def kind(self, index: int) -> str:
        return self.kinds[index] if 0 <= index < len(self.kinds) else "PUNCT"

    def tag(self, index: int) -> str:
        return self.tags[index] if index >= 0 else "PUNCT"

    def back(self, index: int) -> int:
        """The nearest index before that is no adverb and no negation."""
        index, farthest = index - 1, max(index - _REACH, 0)
        while index >= farthest and (
            self.tags[index] == "ADV" or self.lowers[index] in ("not", "n't")
        ):
            index -= 1
        return index

    def ahead(self, index: int) -> int:
        """The nearest index after that is no adverb and no negation."""
        index, farthest = index + 1, min(index + _REACH, len(self.kinds))
        while index < farthest and (
            self.kinds[index] == "ADV" or self.lowers[index] in ("not", "n't", "only")
        ):
            index += 1
        return index

    def wants_verb(self, index: int) -> bool:
        """Whether a bare verb is due: after `to`, a modal, `do`, or a pronoun that is a subject."""
        before = self.back(index)
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

    def wants_noun(self, index: int) -> bool:
        """Whether a noun is due: after an article, possessive, adjective, number or preposition."""
        tag, word = self.tag(index - 1), self.word(index - 1)
        if tag == "PRON":
            return word in _POSSESSIVES
        return (
            tag in _BEFORE_NOUNS
            or (tag == "PART" and word not in ("to", "not", "n't"))
            or word in ("-", "/")
        )

    def noun_follows(self, index: int) -> bool:
        """Whether the next word is likely a noun or part of a noun phrase."""
        return self.kind(index + 1) in _NOMINAL_KINDS

    def clause_follows(self, index: int) -> bool:
        """Whether a subject and its verb come next, before the clause ends."""
        if self.word(index + 1) in _SUBJECTS or self.word(index + 1) in _CONTRACTED_SUBJECTS:
            return True
        for there in range(index + 2, min(index + 8, len(self.kinds))):
            if self.lowers[there] in _CLAUSE_ENDS or self.kinds[there] in ("that", "PART", "SCONJ"):
                return False
            if self.kinds[there] in _FINITE_KINDS:
                return True
        return False


def _noun_verb(s: _Sentence, index: int) -> str:
    """A noun or a bare verb ("work")."""
    if s.wants_verb(index):
        return "VERB"
    before, after = s.tag(index - 1), s.kind(index + 1)
    if s.wants_noun(index) or s.word(index + 1) == "of":
        return "NOUN"
    if before in ("PUNCT", "CCONJ", "INTJ") and (
        after in ("DET", "this") or s.word(index + 1) in _AFTER_IMPERATIVES
    ):
        return "VERB"
    if (
        before in ("NOUN", "PROPN")
        and not s.finite
        and s.word(index - 1).endswith("s")
        and after in _AFTER_VERBS
    ):
        return "VERB"
    return "NOUN"


def _noun_verbs(s: _Sentence, index: int) -> str:
    """A plural or a verb of the third person ("borders")."""
    if s.word(s.back(index)) in _SINGULAR and s.tag(s.back(index)) == "PRON":
        return "VERB"
    if s.wants_noun(index) or s.word(index + 1) in ("of", "are", "were", "have"):
        return "NOUN"
    before = s.tag(s.back(index))
    if before in ("NOUN", "PROPN") and not s.finite and s.kind(index + 1) in _AFTER_VERBS:
        return "VERB"
    return "VERB" if before == "CCONJ" and s.kind(index + 1) in ("DET", "PRON") else "NOUN"


def _verb(s: _Sentence, index: int) -> str:
    """A bare verb, rarely a noun ("find")."""
    if s.wants_verb(index):
        return "VERB"
    return "NOUN" if s.wants_noun(index) and s.word(index - 1) not in ("-", "/") else "VERB"


def _verbs(s: _Sentence, index: int) -> str:
    """A verb of the third person, rarely a plural ("finds")."""
    return "NOUN" if s.wants_noun(index) else "VERB"


def _left(s: _Sentence, index: int) -> str:
    """A past, or an adjective after an article."""
    return "ADJ" if s.tag(index - 1) == "DET" or s.word(index - 1) in _POSSESSIVES else "VERB"


def _pretty(s: _Sentence, index: int) -> str:
    """An adverb before an adjective or adverb ("pretty good"), else an adjective."""
    return "ADV" if s.kind(index + 1) in ("ADJ", "ADV", "more", "adjective_adverb") else "ADJ"


def _ing(s: _Sentence, index: int) -> str:
    """A participle, or a noun after an article and before "of"."""
    if s.word(index + 1) == "of" and s.tag(index - 1) in ("DET", "ADJ"):
        return "NOUN"
    noun = s.tag(index - 1) in ("DET", "ADJ", "NUM") or s.word(index - 1) in _POSSESSIVES
    return "NOUN" if noun and not s.noun_follows(index) else "VERB"


def _ing_noun(s: _Sentence, index: int) -> str:
    """A noun that is a participle after `be` ("building")."""
    before = s.word(s.back(index))
    return (
        "VERB"
        if (before in _BE or before in ("am", "'m", "'re")) and s.kind(index + 1) in _AFTER_VERBS
        else "NOUN"
    )


def _unknown(s: _Sentence, index: int) -> str:
    """An unlisted word: a noun, but a verb where one must stand."""
    word = s.word(index)
    if word.endswith("s") and not word.endswith("ss"):
        before = s.back(index)
        return (
            "VERB"
            if s.word(before) in ("he", "she", "it", "who", "which") and s.tag(before) == "PRON"
            else "NOUN"
        )
    return "VERB" if s.wants_verb(index) else "NOUN"


def _adjective_noun(s: _Sentence, index: int) -> str:
    """An adjective before a noun or alone after a copula or an adverb, else a noun ("public")."""
    if s.noun_follows(index) and s.kind(index + 1) not in ("NUM", "past", "ing"):
        return "ADJ"
    if s.word(s.back(index)) in _BE or s.word(index - 1) in (
        "very",
        "so",
        "too",
        "more",
        "most",
        "as",
        "really",
    ):
        return "ADJ"
    return "NOUN"


def _adjective_verb(s: _Sentence, index: int) -> str:
    """An adjective that is a verb where one must stand ("open")."""
    if s.wants_verb(index):
        return "VERB"
    return (
        "VERB"
        if s.tag(index - 1) in ("PUNCT", "CCONJ") and s.kind(index + 1) in ("DET", "this")
        else "ADJ"
    )


def _adjective_adverb(s: _Sentence, index: int) -> str:
    """An adjective before a noun or after an article or copula, else an adverb ("early")."""
    before = s.word(s.back(index))
    if s.tag(index - 1) == "DET" or s.word(index - 1) in _POSSESSIVES:
        return "ADJ"
    if (before in _BE or before in ("'m", "'re", "am")) and s.kind(index + 1) != "past":
        return "ADJ"
    return (
        "ADJ"
        if s.noun_follows(index) and s.kind(index + 1) not in ("past", "ing", "PROPN")
        else "ADV"
    )


def _people(s: _Sentence, index: int) -> str:
    """A people or a faith: an adjective, but part of a name, or a language after "in"."""
    after = s.kind(index + 1)
    if after == "PROPN" or s.tag(index - 1) == "PROPN":
        return "PROPN"
    return "PROPN" if s.tag(index - 1) == "ADP" and not s.noun_follows(index) else "ADJ"


def _be(s: _Sentence, index: int) -> str:
    """The copula and auxiliary, a verb after "there"; "'s" marks the genitive after a noun."""
    if s.lowers[index] == "'s":
        return _apostrophe(s, index)
    return "VERB" if s.word(s.back(index)) == "there" and s.tag(s.back(index)) == "PRON" else "AUX"


def _apostrophe(s: _Sentence, index: int) -> str:
    before, after = s.word(index - 1), s.kind(index + 1)
    if before == "let":
        return "PRON"
    if before in _SINGULAR or before in ("there", "here", "what", "where", "how", "when"):
        return "VERB" if before == "there" else "AUX"
    return "AUX" if after in ("DET", "PART", "no") and s.tag(index - 1) != "PART" else "PART"


def _have(s: _Sentence, index: int) -> str:
    """An auxiliary before a participle, else a verb."""
    there = s.ahead(index)
    if s.kind(there) == "PRON" and s.word(there) in _SUBJECTS:
        there = s.ahead(there)
    perfect = (
        s.kind(there) in ("past", "be")
        or s.word(there) in _UNCHANGED
        or s.word(there) in ("had", "done")
    )
    return "AUX" if perfect and not s.word(there).startswith(("is", "'s")) else "VERB"


def _do(s: _Sentence, index: int) -> str:
    """An auxiliary before a negation, a bare verb or a subject, else a verb."""
    if s.word(index + 1) in ("not", "n't"):
        return "AUX"
    there = s.ahead(index)
    if s.word(there) in _SUBJECTS and s.tag(index - 1) in ("PUNCT", "ADV", "PRON", "CCONJ", "NOUN"):
        return "AUX"
    bare = s.kind(there) in ("verb", "be", "have") or (
        s.kind(there) == "noun_verb" and s.kind(there + 1) in _AFTER_VERBS
    )
    return "AUX" if bare else "VERB"


def _to(s: _Sentence, index: int) -> str:
    """The mark of an infinitive, else a preposition."""
    there = s.ahead(index)
    kind, word = s.kind(there), s.word(there)
    if kind in ("verb", "be", "have", "do", "like"):
        return "PART"
    if kind in ("noun_verb", "adjective_verb"):
        noun = (
            s.word(there + 1) == "of"
            or s.kind(there + 1) in ("NOUN", "be", "noun_verbs")
            or s.word(index - 1) in _BEFORE_TO
        )
        return "ADP" if noun else "PART"
    if kind == "unknown" and not word.endswith("s"):
        return "PART" if s.kind(there + 1) in ("DET", "PRON", "this", "that") else "ADP"
    return "ADP"


def _that(s: _Sentence, index: int) -> str:
    """A relative or a demonstrative pronoun, a determiner, or the mark of a clause."""
    before, after = s.tag(index - 1), s.kind(index + 1)
    if after in _FINITE_KINDS or s.kind(s.ahead(index)) in _FINITE_KINDS or after == "PUNCT":
        return "PRON"
    if before in ("PUNCT", "ADP", "CCONJ", "PART") and not s.clause_follows(index):
        return "DET" if s.noun_follows(index) else "PRON"
    if after in ("PRON", "DET", "PROPN", "there"):
        return (
            "PRON"
            if before == "NOUN" and s.word(index - 1) not in _BEFORE_THAT_CLAUSES
            else "SCONJ"
        )
    if (
        before == "NOUN"
        and after in ("noun_verb", "unknown")
        and s.kind(index + 2) in _AFTER_VERBS | {"PUNCT"}
    ):
        return "PRON"
    if s.noun_follows(index) and not s.clause_follows(index):
        return "DET"
    return "PRON" if before == "NOUN" and after in ("verb", "noun_verb", "ADV") else "SCONJ"


def _this(s: _Sentence, index: int) -> str:
    return "DET" if s.noun_follows(index) else "PRON"


def _there(s: _Sentence, index: int) -> str:
    after = s.kind(s.ahead(index))
    exists = after in ("AUX", "be", "have") or s.word(s.ahead(index)) in ("seems", "seem", "exists")
    return "PRON" if exists else "ADV"


def _what(s: _Sentence, index: int) -> str:
    return (
        "DET"
        if s.kind(index + 1) in ("NOUN", "noun_verb") and s.tag(index - 1) != "NOUN"
        else "PRON"
    )


def _both(s: _Sentence, index: int) -> str:
    """The first half of a conjunction if the second follows ("both ... and"), else a determiner."""
    second = {"both": "and", "either": "or", "neither": "nor"}[s.lowers[index]]
    if second in s.lowers[index + 2 : index + 6]:
        return "CCONJ"
    return "ADV" if s.lowers[index] == "either" and not s.noun_follows(index) else "DET"


def _no(s: _Sentence, index: int) -> str:
    alone = s.tag(index - 1) == "PUNCT" and s.kind(index + 1) == "PUNCT"
    return "INTJ" if alone else "ADV" if s.word(index + 1) in ("longer", "more", "less") else "DET"


def _more(s: _Sentence, index: int) -> str:
    """An adverb before an adjective or adverb, else an adjective."""
    after = s.kind(index + 1)
    if (
        after in _GRADED
        or after in ("past", "ing")
        or (after == "PUNCT" and s.lowers[index] == "much")
    ):
        return "ADV"
    noun = (
        s.noun_follows(index)
        or after == "ADP"
        or s.tag(index - 1) in ("VERB", "DET", "ADP", "NUM", "ADV")
    )
    return "ADJ" if noun else "ADV"


def _enough(s: _Sentence, index: int) -> str:
    return (
        "ADV" if s.tag(index - 1) in ("ADJ", "ADV", "VERB") and not s.noun_follows(index) else "ADJ"
    )


def _one(s: _Sentence, index: int) -> str:
    """A number, or the noun that stands for another ("the red one")."""
    alone = not s.noun_follows(index) and s.word(index + 1) not in ("of", "-")
    if alone and s.tag(index - 1) in ("DET", "ADJ", "PRON"):
        return "NOUN"
    return "PRON" if alone and s.kind(index + 1) in ("AUX", "have", "verb") else "NUM"


def _as(s: _Sentence, index: int) -> str:
    """An adverb in the first half of "as ... as", the mark of a clause, else a preposition."""
    after = s.kind(index + 1)
    if "as" in s.lowers[index + 2 : index + 5] and (after in _GRADED or after == "more"):
        return "ADV"
    return "SCONJ" if s.clause_follows(index) or after in ("past", "ing") else "ADP"


def _before(s: _Sentence, index: int) -> str:
    """The mark of a clause, else a preposition, or an adverb with nothing after it ("before")."""
    after = s.kind(index + 1)
    if after == "ing" or s.clause_follows(index):
        return "SCONJ"
    return "ADV" if after == "PUNCT" and s.lowers[index] == "before" else "ADP"


def _while(s: _Sentence, index: int) -> str:
    return "NOUN" if s.tag(index - 1) in ("DET", "ADJ") else "SCONJ"


def _because(s: _Sentence, index: int) -> str:
    return "ADP" if s.word(index + 1) == "of" else "SCONJ"


def _though(s: _Sentence, index: int) -> str:
    return "ADV" if s.kind(index + 1) == "PUNCT" else "SCONJ"


def _once(s: _Sentence, index: int) -> str:
    clause = s.tag(index - 1) == "PUNCT" and s.clause_follows(index)
    return "SCONJ" if clause or s.word(index + 1) in _SUBJECTS else "ADV"


def _like(s: _Sentence, index: int) -> str:
    """A verb where one must stand, else a preposition or the mark of a clause."""
    if s.wants_verb(index):
        return "VERB"
    return "SCONJ" if s.word(index + 1) in _SUBJECTS else "ADP"


def _than(s: _Sentence, index: int) -> str:
    return "SCONJ" if s.word(index + 1) in _SUBJECTS else "ADP"


def _about(s: _Sentence, index: int) -> str:
    after = s.kind(index + 1)
    return "ADV" if after == "NUM" else "SCONJ" if after == "ing" else "ADP"


def _for(s: _Sentence, index: int) -> str:
    """A preposition, the mark of a clause before a participle."""
    return "SCONJ" if s.kind(index + 1) == "ing" else "ADP"


def _back(s: _Sentence, index: int) -> str:
    if s.wants_verb(index):
        return "VERB"
    return (
        "NOUN" if s.tag(index - 1) in ("DET", "ADJ") or s.word(index - 1) in _POSSESSIVES else "ADV"
    )


def _well(s: _Sentence, index: int) -> str:
    return "INTJ" if s.tag(index - 1) == "PUNCT" and s.word(index + 1) in (",", "...") else "ADV"


def _only(s: _Sentence, index: int) -> str:
    return "ADJ" if s.tag(index - 1) == "DET" or s.word(index - 1) in _POSSESSIVES else "ADV"


def _quite(s: _Sentence, index: int) -> str:
    return "DET" if s.word(index + 1) in ("a", "an", "the") else "ADV"


def _half(s: _Sentence, index: int) -> str:
    return "DET" if s.word(index + 1) in ("a", "an", "the") else "NOUN"


def _dash(s: _Sentence, index: int) -> str:
    return "SYM" if s.tag(index - 1) == "NUM" and s.kind(index + 1) == "NUM" else "PUNCT"


def _prime(s: _Sentence, index: int) -> str:
    """A lone apostrophe: the genitive of a plural, else a quotation mark."""
    owner = s.tag(index - 1) in ("NOUN", "PROPN") and s.word(index - 1).endswith("s")
    return "PART" if owner and s.noun_follows(index) else "PUNCT"


_Rule = Callable[[_Sentence, int], str]
_WORD_RULES: dict[str, _Rule] = {  # rules for single words
    "have": _have,
    "do": _do,
    "to": _to,
    "that": _that,
    "this": _this,
    "there": _there,
    "what": _what,
    "both": _both,
    "no": _no,
    "more": _more,
    "enough": _enough,
    "one": _one,
    "as": _as,
    "before": _before,
    "while": _while,
    "because": _because,
    "though": _though,
    "once": _once,
    "like": _like,
    "than": _than,
    "about": _about,
    "for": _for,
    "back": _back,
    "well": _well,
    "only": _only,
    "quite": _quite,
    "half": _half,
    "left": _left,
    "pretty": _pretty,
    "-": _dash,
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
    "verbs": _verbs,
    "ing": _ing,
    "ing_noun": _ing_noun,
    "unknown": _unknown,
    "adjective_noun": _adjective_noun,
    "adjective_verb": _adjective_verb,
    "adjective_adverb": _adjective_adverb,
    "people": _people,
}
_PLAIN = {
    "past": "VERB"
}  # kinds that are always of one tag, yet tell their neighbours more than it does
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
    if word in _SYMBOLS:
        return "SYM"
    return (
        "PUNCT" if all(unicodedata.category(character)[0] in "PZC" for character in word) else "SYM"
    )


def _kinds_of(words: Sequence[str], lowers: list[str]) -> list[str]:
    """The kind of each word, from its look and its capital."""
    kinds = [_guess(lower) for lower in lowers]
    if _shouted(words):
        return kinds
    opening = True  # whether a capital here may be the sentence's own
    for index, word in enumerate(words):
        kind = kinds[index]
        if word == "I":
            kinds[index] = "PROPN" if _numeral(kinds, index) else kind
        elif word[:1].isupper():
            kinds[index] = (
                _opening(words, lowers, kinds, index)
                if opening
                else _capital(word, lowers[index], kind)
            )
        if kind not in ("PUNCT", "SYM", "NUM", "-", "'"):
            opening = False
        elif word in _OPENERS:
            opening = True
    return kinds


def _numeral(kinds: list[str], index: int) -> bool:
    """Whether "I" is the number of the name before it ("World War I") and no subject."""
    named = index > 0 and kinds[index - 1] == "PROPN"
    return named and (
        index + 1 == len(kinds) or kinds[index + 1] in ("PUNCT", "CCONJ", "for", "ADP")
    )


def _shouted(words: Sequence[str]) -> bool:
    """Whether most words are in capitals, so that capitals say nothing."""
    long = [word for word in words if len(word) > 1 and word.isalpha()]
    return len(long) > 2 and 2 * sum(map(str.isupper, long)) > len(long)


def _capital(word: str, lower: str, kind: str) -> str:
    """The kind of a capitalised word inside a sentence: a name unless listed otherwise."""
    if lower in _PEOPLES:
        return "people"
    if (
        lower in _FUNCTION_WORDS
        and lower not in _NAME_WORDS
        and (len(word) == 1 or not word.isupper())
    ):
        return kind
    return "PROPN"


def _opening(words: Sequence[str], lowers: list[str], kinds: list[str], index: int) -> str:
    """The kind of a capitalised word that opens a sentence.

    As in small letters if it is listed, else by its ending, else a name.
    """
    word, lower, kind = words[index], lowers[index], kinds[index]
    follower = words[index + 1] if index + 1 < len(words) else ""
    named = follower[:1].isupper() and _capital(follower, lowers[index + 1], "") == "PROPN"
    if lower in _PEOPLES:
        return "people"
    if lower in _FUNCTION_WORDS or kind in ("ADV", "ing", "past"):
        return kind
    if len(word) > 1 and word.isupper():
        return "PROPN"
    if lower in _KINDS:
        return "PROPN" if named and kind in ("NOUN", "noun_verb", "ADJ", "adjective_noun") else kind
    plural = (
        lower.endswith("s")
        and not lower.endswith(("ss", "us", "is", "'s"))
        and follower[:1].islower()
    )
    return kind if not named and (kind != "unknown" or plural) else "PROPN"


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
    s = _Sentence(lowers, _kinds_of(words, lowers), [])
    for index, kind in enumerate(s.kinds):
        rule = _RULES.get(kind)
        tag = _PLAIN.get(kind, kind) if rule is None else rule(s, index)
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
