"""Captions -> words as nltk's word_tokenize cuts them: Punkt's sentences, the Penn Treebank's rules.

The authors' vocabularies hold such words: "do" and "n't", "``" and "''" for quotes, a period apart
only where a sentence ends. nltk has changed its rules since: the release was made with version 3.2,
for which "field.." is one word and "'stop" another; later versions cut both in two.
"""

import re
from collections.abc import Callable, Iterable

from vsepp.data.sentences import sentences

Rule = tuple[re.Pattern[str], str]


def _rules(*pairs: tuple[str, str]) -> tuple[Rule, ...]:
    return tuple((re.compile(pattern), replacement) for pattern, replacement in pairs)


APART, TWO = r" \g<0> ", r" \1 \2 "
AFTER_OPENING = r"(?<=[ (\[{<])"

# A word is what stands between spaces when all rules have been applied, one after the other.
FINAL_PERIOD = (r"(?<=[^.])\.(?=[\])}>\"'»”’ ]*+\s*$)", APART)
COMMAS = (r"([:,])(\D)", r" \1 \2"), (r"[:,]$", APART)
APOSTROPHE = (r"(?<=[^'])' ", APART)
CLITICS = (r"(?<=[^' ])(?:'[smd]?) ", APART), (r"(?<=[^' ])(?:'(?:ll|re|ve)|n't) ", APART)
CONTRACTIONS = (
    (r"\b(can)(not)\b", TWO),
    (r"\b(d)('ye)\b", TWO),
    (r"\b(gim|lem)(me)\b", TWO),
    (r"\b(gon)(na)\b", TWO),
    (r"\b(got)(ta)\b", TWO),
    (r" ('t)(is)\b", TWO),
    (r" ('t)(was)\b", TWO),
)

RULES_OF_2017 = _rules(
    (r"[«“‘]|``", APART),
    (r'^"', " `` "),
    (AFTER_OPENING + r'"', " `` "),
    FINAL_PERIOD,
    *COMMAS,
    (r"\.\.\.|[;@#$%&?!]", APART),
    APOSTROPHE,
    (r"[\[\](){}<>»”’]|--", APART),
    (r"^|$", " "),
    (r'"', " '' "),
    (r"(\S)('')", r"\1 \2 "),
    *CLITICS,
    (r"\b(mor)('n)\b", TWO),
    (r"\b(wan)(na)\s", TWO),
    *CONTRACTIONS,
)
RULES_OF_TODAY = _rules(
    (r"``|[«“‘„`]", APART),
    (r'^"', " `` "),
    (AFTER_OPENING + r"(?:\"|'')", " `` "),
    (r"(?<!\w)'(?=\w)(?!(?:re|ve|ll|[mtsdn])\b)", "' "),
    FINAL_PERIOD,
    *COMMAS,
    (r"\.{2,}|[;@#$%&?!‒-―]", APART),
    APOSTROPHE,
    (r"[*\[\](){}<>»”’]|--", APART),
    (r"''|\"", " '' "),
    (r"\s+|^|$", " "),
    *CLITICS,
    (r"\b(more)('n)\b", TWO),
    (r"\b(wan)(na)(?=\s)", TWO),
    *CONTRACTIONS,
)


def treebank_words_of_2017(text: str) -> list[str]:
    """The words and marks of a text, as nltk 3.2 cut them when the release was made."""
    return [word for part in sentences(text.lower()) for word in _cut(part, RULES_OF_2017)]


def treebank_words(text: str) -> list[str]:
    """The words and marks of a text, as nltk 3.10 cuts them."""
    return [word for part in sentences(text.lower()) for word in _cut(part, RULES_OF_TODAY)]


CUTTERS: dict[str, Callable[[str], list[str]]] = {
    "nltk-3.2": treebank_words_of_2017,
    "nltk-3.10": treebank_words,
}


def cutter_of(words: Iterable[str]) -> str:
    """By which rules a vocabulary was made: those of today would cut some of 2017's words in two."""
    telling = (word for word in words if word != "'ye")  # both cut it off "d'ye", and never again
    is_old = any(
        len(_cut(word, RULES_OF_TODAY)) > len(_cut(word, RULES_OF_2017)) for word in telling
    )
    return "nltk-3.2" if is_old else "nltk-3.10"


def _cut(sentence: str, rules: Iterable[Rule]) -> list[str]:
    for pattern, replacement in rules:
        sentence = pattern.sub(replacement, sentence)
    return sentence.split()
