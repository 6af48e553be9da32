"""Replaces words that the model does not know by words that it knows.

First by another inflection of the same word (dogs, dog; skated, skating), then by the two words of a
compound (cornfield, corn field), and by the word with the most similar n-grams, which finds typing errors
(haloween, halloween) and relatives (violinist, violin). The rules for inflections are English, n-grams work
for any alphabet. How often that helps: benchmarks/unknown_words.py.
"""

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

VOWELS = frozenset("aeiouy")
MIN_STEM = 3  # letters; also of a part of a compound
MIN_COMPOUND = 7  # shorter words consist of two only by accident: mid-get
MIN_SPELLING = 5  # with fewer letters, other words are too similar
SIMILAR, VERY_SIMILAR = 0.6, 0.75  # cosines of two words' n-grams
# Endings of inflections, and what they replace; the likelier one first.
ENDINGS = (
    ("ies", "y"), ("ves", "f"), ("ves", "fe"), ("s", ""), ("es", ""),
    ("ied", "y"), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e"),
    ("er", ""), ("er", "e"), ("ier", "y"), ("est", ""), ("est", "e"), ("iest", "y"),
    ("ily", "y"), ("ly", ""), ("y", ""), ("y", "e"),
)  # fmt: skip
NOT_A_PLURAL = ("ss", "us", "is")
NEVER_DOUBLED = VOWELS | frozenset("sfz")  # kissing is not of kis


class WordMatcher:
    """Finds the nearest of the known words, which are given the most frequent first."""

    def __init__(self, words: Sequence[str]) -> None:
        self._known = frozenset(words)
        self._by_stem: dict[str, str] = {}
        for word in words:
            for base in (word, *stems(word)):
                self._by_stem.setdefault(base, word)
        self._spellings = _NgramIndex(words)

    def nearest(self, word: str) -> str | None:
        """The known word, or two words, that an unknown one probably means."""
        word = unicodedata.normalize("NFKC", word).lower()  # as in the vocabulary
        return (
            self.inflection(word)
            or self.spelling(word, VERY_SIMILAR)  # matchin is not a mat and a chin
            or self.compound(word)
            or self.spelling(word, SIMILAR)
        )

    def inflection(self, word: str) -> str | None:
        """dog for dogs; and dogs for dog, where only that is known."""
        related = (self._by_stem.get(base) for base in (word, *stems(word)))
        return self._known_stem(word) or next(filter(None, related), None)

    def compound(self, word: str) -> str | None:
        """Two known words, as equal in length as possible."""
        if len(word) < MIN_COMPOUND:
            return None
        cuts = range(MIN_STEM, len(word) - MIN_STEM + 1)
        for cut in sorted(cuts, key=lambda cut: abs(2 * cut - len(word))):
            if word[:cut] not in self._known:
                continue
            plural = f"{word[cut:]}s"
            if last := self._known_stem(word[cut:]) or (plural if plural in self._known else None):
                return f"{word[:cut]} {last}"
        return None

    def spelling(self, word: str, least: float) -> str | None:
        """The word with the most similar n-grams, if they are similar enough."""
        if len(word) < MIN_SPELLING or not word.isalpha():
            return None
        nearest, similarity = self._spellings.nearest(word)
        return nearest if similarity >= least else None

    def _known_stem(self, word: str) -> str | None:
        return next((base for base in (word, *stems(word)) if base in self._known), None)


def stems(word: str) -> Iterator[str]:
    """What a word may be an inflection of."""
    for ending, before in ENDINGS:
        if not word.endswith(ending) or (ending == "s" and word.endswith(NOT_A_PLURAL)):
            continue
        stem = word.removesuffix(ending)
        shortest = MIN_STEM + (ending == "y")  # busy is not of bus
        if len(stem) < shortest or (stem.isascii() and VOWELS.isdisjoint(stem)):
            continue
        yield stem + before
        is_doubled = len(stem) > MIN_STEM and stem[-1] == stem[-2] not in NEVER_DOUBLED
        if is_doubled and before == "" and not ending.endswith("s"):
            yield stem[:-1]  # running, run


class _NgramIndex:
    """Words as TF-IDF vectors of their n-grams."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [word for word in words if len(word) >= MIN_SPELLING and word.isalpha()]
        self._containing: defaultdict[str, list[int]] = defaultdict(list)
        for number, word in enumerate(self._words):
            for ngram in ngrams(word):
                self._containing[ngram].append(number)
        self._lengths = [self._length(ngrams(word)) for word in self._words]

    def nearest(self, word: str) -> tuple[str, float]:
        """The word with the largest cosine, and that cosine."""
        wanted = ngrams(word)
        shared: defaultdict[int, float] = defaultdict(float)
        for ngram in wanted:
            for number in self._containing.get(ngram, ()):
                shared[number] += self._weight(ngram) ** 2
        length = self._length(wanted)
        best, similarity = "", 0.0
        for number in sorted(shared):  # of equals, the most frequent
            if self._words[number][0] != word[0]:
                continue  # tones are not stones: typing errors and relatives begin alike
            cosine = shared[number] / (length * self._lengths[number])
            if cosine > similarity:
                best, similarity = self._words[number], cosine
        return best, similarity

    def _weight(self, ngram: str) -> float:
        return math.log((1 + len(self._words)) / (1 + len(self._containing.get(ngram, ())))) + 1

    def _length(self, ngrams_of_word: Iterable[str]) -> float:
        return math.sqrt(sum(self._weight(ngram) ** 2 for ngram in ngrams_of_word))


def ngrams(word: str) -> set[str]:
    marked = f"<{word}>"
    return {
        marked[start : start + size]
        for size in (2, 3, 4)
        for start in range(len(marked) - size + 1)
    }
