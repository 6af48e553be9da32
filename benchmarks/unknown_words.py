"""How often does a word that the model does not know get a sensible one in its place?

    python benchmarks/unknown_words.py DATA [MODEL]       minutes on one core; DATA is Flickr8k

What is sensible, the people say who described the same picture: where one of them wrote the unknown
word, how often does another caption of that picture have the word that was taken for it? That is
compared with chance (any picture's captions have it), and with the unknown word itself (another caption
repeats it), which no stand-in is expected to reach.

Two kinds of unknown words: those that training captions have fewer than four times, as users would type
them; and known words, a tenth at a time, taken away from the vocabulary. Beside the ways of
`WordMatcher` stands the nearest word by letters, whatever it is.

With a MODEL, a snapshot that was trained on DATA, its words are taken away, too, and test captions with
such a word look for their picture: as they are, with the word unknown, and with another in its place.
"""

import json
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from records import write_record

from vsepp.data.captioned import CaptionedImage
from vsepp.data.collections import open_data
from vsepp.data.features import features_of
from vsepp.data.tokens import Vocabulary
from vsepp.search.embedder import Embedder, load
from vsepp.search.query.spelling import SIMILAR, VERY_SIMILAR, WordMatcher

MIN_COUNT, PARTS, SHOWN = 4, 10, 60
SEARCHED = 1_000  # captions
NEVER_UNKNOWN = 500  # words, the most frequent ones
NO_WORD = "qqqqq"

Place = tuple[int, int]  # a picture and one of its captions


class Pictures:
    """Every picture's captions as sets of words."""

    def __init__(self, items: Sequence[CaptionedImage], cutter: Vocabulary) -> None:
        self.captions = [
            [
                {word.lower() for word, _ in cutter.words_with_known(caption)}
                for caption in item.captions
            ]
            for item in items
        ]
        self.places: defaultdict[str, list[Place]] = defaultdict(list)
        for number, captions in enumerate(self.captions):
            for place, words in enumerate(captions):
                for word in words:
                    if word.isalpha() and len(word) > 1:
                        self.places[word].append((number, place))

    def agreement(self, word: str, stand_in: str) -> float:
        """The share of a word's captions beside which another caption has the stand-in."""
        head = stand_in.split()[-1]
        return statistics.mean(
            any(head in words for n, words in enumerate(self.captions[picture]) if n != place)
            for picture, place in self.places[word]
        )

    def chance(self, stand_in: str) -> float:
        head = stand_in.split()[-1]
        return len({picture for picture, _ in self.places[head]}) / len(self.captions)


Way = Callable[[str], str | None]


def ways_of(known: WordMatcher) -> dict[str, Way]:
    """Each step alone, on what the steps before it leave; then all together, and the careless way."""

    def after(step: Way, *before: Way) -> Way:
        return lambda word: None if any(way(word) for way in before) else step(word)

    def same(word: str) -> str | None:
        return known.spelling(word, VERY_SIMILAR)

    return {
        "another form": known.inflection,
        "nearly the same letters": after(same, known.inflection),
        "two words": after(known.compound, known.inflection, same),
        "like letters": after(
            lambda word: known.spelling(word, SIMILAR), known.inflection, same, known.compound
        ),
        "all": known.nearest,
        "nearest by letters alone": lambda word: known.spelling(word, 0.0),
    }


def judged(pictures: Pictures, words: Sequence[str], way: Way) -> dict[str, Any]:
    answers = {word: answer for word in words if (answer := way(word))}
    if not answers:
        return {"answered": 0.0}
    agreement = [pictures.agreement(word, answer) for word, answer in answers.items()]
    return {
        "answered": round(len(answers) / len(words), 3),
        "agreement": round(statistics.mean(agreement), 3),
        "chance": round(statistics.mean(map(pictures.chance, answers.values())), 3),
        "the_word_itself": round(statistics.mean(pictures.agreement(w, w) for w in answers), 3),
    }


def taken_away(pictures: Pictures, known: Sequence[str]) -> dict[str, Any]:
    """Ten times a tenth of the known words: means, and the spread of the agreement."""
    shuffled = [word for word in known if word in pictures.places]
    random.Random(0).shuffle(shuffled)
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for part in range(PARTS):
        away = shuffled[part::PARTS]
        gone = set(away)
        rest = WordMatcher([word for word in known if word not in gone])
        for name, way in ways_of(rest).items():
            rows[name].append(judged(pictures, away, way))
    return {name: _summary(some) for name, some in rows.items()}


def _summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    full = [row for row in rows if "agreement" in row]
    means = {key: round(statistics.mean(row[key] for row in full), 3) for key in full[0]}
    spread = [min(row["agreement"] for row in full), max(row["agreement"] for row in full)]
    return means | {"agreement_spread": spread, "n": len(full)}


def searched(model: Embedder, test: Sequence[CaptionedImage]) -> dict[str, Any]:
    """R@1, 5 and 10 of test captions that lose a word, in three ways."""
    known = model.vocabulary.words()[NEVER_UNKNOWN:]
    random.Random(0).shuffle(known)
    owners, *ways = zip(*_captions_that_lose_words(model, test, known), strict=True)
    images = _images(model, test)
    return {"captions": len(owners)} | {
        name: _recalls(model.embed_texts(texts) @ images.T, np.array(owners))
        for name, texts in zip(("known", "unknown", "taken for another"), ways, strict=True)
    }


def _captions_that_lose_words(
    model: Embedder, test: Sequence[CaptionedImage], known: Sequence[str]
) -> list[tuple[int, str, str, str]]:
    """Whose caption it is; as it is, with words unknown, with others in their place."""
    found = []
    for part in range(PARTS):
        gone = set(known[part::PARTS])
        rest = WordMatcher([word for word in model.vocabulary.words() if word not in gone])
        stand_ins = {word: other for word in gone if (other := rest.nearest(word))}
        for owner, item in enumerate(test):
            for caption in item.captions:
                words = [word.lower() for word, _ in model.vocabulary.words_with_known(caption)]
                if not stand_ins.keys() & words:
                    continue
                without = " ".join(NO_WORD if w in stand_ins else w for w in words)
                replaced = " ".join(stand_ins.get(word, word) for word in words)
                found.append((owner, " ".join(words), without, replaced))
    return random.Random(1).sample(found, min(SEARCHED, len(found)))


def _images(model: Embedder, test: Sequence[CaptionedImage]) -> np.ndarray:
    features = features_of(test)
    if features is not None:
        return model.embed_features(np.asarray(features, dtype=np.float32))
    return model.embed_images(item.path for item in test)


def _recalls(scores: np.ndarray, owners: np.ndarray) -> dict[str, float]:
    own = scores[np.arange(len(owners)), owners]
    ranks = (scores >= own[:, None]).sum(axis=1)
    return {f"r{k}": round(100 * float((ranks <= k).mean()), 1) for k in (1, 5, 10)}


def microseconds(work: Callable[[str], object], words: Iterable[str]) -> float:
    words = list(words)
    started = time.perf_counter()
    for word in words:
        work(word)
    return round(1e6 * (time.perf_counter() - started) / len(words))


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    data = open_data(sys.argv[1])
    train = data.split("train")
    everything = [item for split in ("train", "val", "test") for item in data.split(split)]
    vocabulary = Vocabulary.learn((c for item in train for c in item.captions), MIN_COUNT)
    pictures, known = Pictures(everything, vocabulary), vocabulary.words()
    unknown = sorted(set(pictures.places) - set(known))
    started = time.perf_counter()
    likely = WordMatcher(known)
    made_ready = time.perf_counter() - started
    pairs = [f"{word}: {likely.nearest(word)}" for word in unknown if likely.nearest(word)]
    measured = {
        "data": Path(sys.argv[1]).name,
        "known_words": len(known),
        "unknown_words": len(unknown),
        "never_known": {n: judged(pictures, unknown, way) for n, way in ways_of(likely).items()},
        "taken_away": taken_away(pictures, known),
        "milliseconds_to_make_ready": round(1e3 * made_ready),
        "microseconds_a_word": microseconds(likely.nearest, unknown[:500]),
        "a_random_sample": random.Random(1).sample(pairs, SHOWN),
    }
    if len(sys.argv) == 3:
        measured["searched"] = searched(load(sys.argv[2]), data.split("test"))
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


if __name__ == "__main__":
    main()
