"""Words that the model does not know, taken for words that it knows.

First for another form of the same word (dogs, dog; skated, skating), then for the two words that it is
made of (cornfield, corn field), and for the word that shares the most of its letters in a row, which finds
slips of the pen (haloween, halloween) and relatives (violinist, violin). The rules for forms are English,
letters are anybody's. How often that makes sense: benchmarks/unknown_words.py.
"""

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

VOWELS = frozenset("aeiouy")
SHORTEST = 3  # letters of a word's base, or of a part of it
SHORTEST_PAIR = 7  # shorter ones are made of two words by accident: mid-get
SHORTEST_TO_SPELL = 5  # with fewer letters, another word is too near
ALIKE, NEARLY_THE_SAME = 0.6, 0.75  # the cosine of two words' letters
# What forms end with, and what stood there before; the likelier reading first.
ENDINGS = (
    ("ies", "y"), ("ves", "f"), ("ves", "fe"), ("s", ""), ("es", ""),
    ("ied", "y"), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e"),
    ("er", ""), ("er", "e"), ("ier", "y"), ("est", ""), ("est", "e"), ("iest", "y"),
    ("ily", "y"), ("ly", ""), ("y", ""), ("y", "e"),
)  # fmt: skip
NOT_A_PLURAL = ("ss", "us", "is")
NEVER_DOUBLED = VOWELS | frozenset("sfz")  # kissing is not of kis


class LikelyWords:
    """The known words, the most frequent first, made ready to be compared with others."""

    def __init__(self, words: Sequence[str]) -> None:
        self._known = frozenset(words)
        self._of_base: dict[str, str] = {}
        for word in words:
            for base in (word, *bases(word)):
                self._of_base.setdefault(base, word)
        self._spellings = _Spellings(words)

    def nearest(self, word: str) -> str | None:
        """The known word, or the two words, that an unknown one is likely to stand for."""
        word = unicodedata.normalize("NFKC", word).lower()  # as known words are written
        return (
            self.form(word)
            or self.spelling(word, NEARLY_THE_SAME)  # matchin is not a mat and a chin
            or self.parts(word)
            or self.spelling(word, ALIKE)
        )

    def form(self, word: str) -> str | None:
        """dog for dogs; and dogs for dog, where only that is known."""
        related = (self._of_base.get(base) for base in (word, *bases(word)))
        return self._base(word) or next(filter(None, related), None)

    def parts(self, word: str) -> str | None:
        """Two known words, of lengths as even as can be."""
        if len(word) < SHORTEST_PAIR:
            return None
        cuts = range(SHORTEST, len(word) - SHORTEST + 1)
        for cut in sorted(cuts, key=lambda cut: abs(2 * cut - len(word))):
            if word[:cut] not in self._known:
                continue
            plural = f"{word[cut:]}s"
            if last := self._base(word[cut:]) or (plural if plural in self._known else None):
                return f"{word[:cut]} {last}"
        return None

    def spelling(self, word: str, least: float) -> str | None:
        """The word whose letters are most alike, where they are that much."""
        if len(word) < SHORTEST_TO_SPELL or not word.isalpha():
            return None
        nearest, likeness = self._spellings.nearest(word)
        return nearest if likeness >= least else None

    def _base(self, word: str) -> str | None:
        return next((base for base in (word, *bases(word)) if base in self._known), None)


def bases(word: str) -> Iterator[str]:
    """What a word may be a form of."""
    for ending, before in ENDINGS:
        if not word.endswith(ending) or (ending == "s" and word.endswith(NOT_A_PLURAL)):
            continue
        stem = word.removesuffix(ending)
        shortest = SHORTEST + (ending == "y")  # busy is not of bus
        if len(stem) < shortest or (stem.isascii() and VOWELS.isdisjoint(stem)):
            continue
        yield stem + before
        is_doubled = len(stem) > SHORTEST and stem[-1] == stem[-2] not in NEVER_DOUBLED
        if is_doubled and before == "" and not ending.endswith("s"):
            yield stem[:-1]  # running, run


class _Spellings:
    """Words as the runs of two to four letters that they contain; the rarer one is, the more it tells."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [word for word in words if len(word) >= SHORTEST_TO_SPELL and word.isalpha()]
        self._holders: defaultdict[str, list[int]] = defaultdict(list)
        for number, word in enumerate(self._words):
            for run in runs(word):
                self._holders[run].append(number)
        self._lengths = [self._length(runs(word)) for word in self._words]

    def nearest(self, word: str) -> tuple[str, float]:
        """The word with the largest cosine, and that cosine."""
        wanted = runs(word)
        shared: defaultdict[int, float] = defaultdict(float)
        for run in wanted:
            for number in self._holders.get(run, ()):
                shared[number] += self._weight(run) ** 2
        length = self._length(wanted)
        best, likeness = "", 0.0
        for number in sorted(shared):  # of equals, the most frequent
            if self._words[number][0] != word[0]:
                continue  # tones are no stones: slips and relatives begin alike
            cosine = shared[number] / (length * self._lengths[number])
            if cosine > likeness:
                best, likeness = self._words[number], cosine
        return best, likeness

    def _weight(self, run: str) -> float:
        return math.log((1 + len(self._words)) / (1 + len(self._holders.get(run, ())))) + 1

    def _length(self, some: Iterable[str]) -> float:
        return math.sqrt(sum(self._weight(run) ** 2 for run in some))


def runs(word: str) -> set[str]:
    marked = f"<{word}>"
    return {
        marked[start : start + size]
        for size in (2, 3, 4)
        for start in range(len(marked) - size + 1)
    }
