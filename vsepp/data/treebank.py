"""Splits captions into words like nltk's word_tokenize, without its data: Punkt sentences, Penn Treebank rules.

The authors' vocabularies hold such words: "do" and "n't", "``" and "''" for quotes, a period apart only where a
sentence ends. nltk has changed its rules since: the release was made with version 3.2, for which "field.." is one
word and "'stop" another; later versions split both.

Punkt weighs capitals and twenty thousand words. Of all that, lower-case text leaves little: its abbreviations, and
the rule that a number or an initial does not end a sentence before a word.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

Rule = tuple[re.Pattern[str], str]


def _rules(*pairs: tuple[str, str]) -> tuple[Rule, ...]:
    return tuple((re.compile(pattern), replacement) for pattern, replacement in pairs)


APART, TWO = r" \g<0> ", r" \1 \2 "
AFTER_OPENING = r"(?<=[ (\[{<])"

# Words are what spaces separate after all rules have been applied in order.
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
    """The words of a text as nltk 3.2 split them when the release was made."""
    return [word for part in sentences(text.lower()) for word in _cut(part, RULES_OF_2017)]


def treebank_words(text: str) -> list[str]:
    """The words of a text as nltk 3.10 splits them."""
    return [word for part in sentences(text.lower()) for word in _cut(part, RULES_OF_TODAY)]


CUTTERS: dict[str, Callable[[str], list[str]]] = {
    "nltk-3.2": treebank_words_of_2017,
    "nltk-3.10": treebank_words,
}


def cutter_of(words: Iterable[str]) -> str:
    """The rules that made a vocabulary: today's would split some of 2017's words."""
    others = (word for word in words if word != "'ye")  # both split it off "d'ye", and never again
    is_old = any(
        len(_cut(word, RULES_OF_TODAY)) > len(_cut(word, RULES_OF_2017)) for word in others
    )
    return "nltk-3.2" if is_old else "nltk-3.10"


def _cut(sentence: str, rules: Iterable[Rule]) -> list[str]:
    for pattern, replacement in rules:
        sentence = pattern.sub(replacement, sentence)
    return sentence.split()


# Abbreviations of Punkt's English model, when a period follows.
ABBREVIATIONS = """
    a.a a.c a.d a.g a.h a.m a.m.e a.s a.t adm ala ariz aug ave b.f b.v bros c c.i.t c.o.m.b c.v calif chg
    cie co col colo conn corp cos ct d d.c d.h d.w dec dr e e.f e.h e.l e.m f f.g f.j feb fla fri ft g g.d
    g.f g.k ga gen h h.c h.f h.m i.m.s ill inc j.b j.c j.j j.k j.p j.r jan jr k kan ky l l.a l.f l.p lt ltd
    m m.b.a m.d.c m.j maj messrs mg mich minn mr mrs ms n n.c n.d n.h n.j n.m n.v n.y nev nov oct ok okla
    ore p p.a.m p.m pa ph.d prof r r.a r.h r.i r.j r.k r.t rep reps s s.a s.a.y s.c s.g s.p.a s.s sen sep
    sept sr st sw t t.j tenn tues u.k u.n u.s u.s.a u.s.s.r v va vs vt w w.c w.r w.va w.w wash wed wis yr
"""
_ABBREVIATED = frozenset(ABBREVIATIONS.split())
# Sentence starters of Punkt's English that are never capitalised.
STARTERS = ("administrators", "b-week", "r-revised", "z-holiday")

QUOTES = "‘’“”«»"
PUNCTUATION = rf"[?!)\";}}\]*:@'({{\[{QUOTES}]"  # never part of a word
MARK = r"(?:-{2,}|\.{2,})"  # dash or ellipsis
# Text up to a possible end of a sentence, and what follows.
_END = re.compile(rf"(?<!\S)\S*[.?!](?=(?P<after>{PUNCTUATION}|\s+(?P<next>\S+)))")
_WORD = re.compile(
    rf"{MARK}"
    rf"|[^\s(\"`{{\[:;&#*@)}}\]\-,](?:(?!{PUNCTUATION}|{MARK}|,(?:\s|$|{PUNCTUATION}|{MARK}))\S)*"
    r"|\S"
)
_NUMBER_OR_INITIAL = re.compile(r"(?:-?[.,]?\d[\d,.-]*|[^\W\d])\.")
_CLOSING = re.compile(rf"[\"')\]}}{QUOTES}]+?(?:\s+|(?=--)|$)", re.MULTILINE)


def sentences(text: str) -> list[str]:
    """The sentences of a lower-case text."""
    found, taken = [], 0
    for (start, end), (after, last) in pairwise([*_spans(text), (len(text), len(text))]):
        # Closing brackets and quotes after a period belong to the sentence before.
        closing = _CLOSING.match(text, after, last)
        if closing:
            end = after + len(closing[0].rstrip())
        found.append(text[start + taken : end])
        taken = len(closing[0]) if closing else 0
    return [sentence for sentence in found if sentence]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for place in _END.finditer(text):
        words = _WORD.findall(place[0] + place["after"])
        if any(_ends(word, following) for word, following in pairwise(words)):
            yield start, place.end()
            start = place.start("next") if place["next"] else place.end()
    yield start, len(text.rstrip())


def _ends(word: str, following: str) -> bool:
    """Whether a sentence ends with this word."""
    if word in (".", "?", "!"):
        return True
    if not word.endswith(".") or word.endswith(".."):
        return False
    stem = word[:-1]
    if stem in _ABBREVIATED or stem.rpartition("-")[2] in _ABBREVIATED:
        return False
    return not (_NUMBER_OR_INITIAL.fullmatch(word) and _goes_on(following))


def _goes_on(following: str) -> bool:
    is_word = following[0].islower() and following.removesuffix(".") not in STARTERS
    return is_word or following in (*";:,.!?",)
