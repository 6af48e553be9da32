"""Does the search show what fits, and hide what does not?

    python benchmarks/cutoff.py DATA [SPLIT]       ten minutes on one core; DATA is Flickr8k, SPLIT is test

Five collections of 60 photos, five of 200, one of 1,000 and one of 8,000, and the model in the box. What should be found,
the captions say: for words, the photos of which one caption has them all (which is not every photo that shows them: where
captions keep quiet about the grass, it counts as wrongly found). For a whole caption it is its photo, if that is among the
first ten. What should not be found: words about things that are not there, words that the model does not know, and
everyday words once all photos that mention their things are taken away.

Beside the search stands a simpler one: texts as the model embeds them, unknown words left as they are, and one bar for all
queries of a length, so high that random words reach it for five photos of the collection, or one in 200. The constants of
vsepp.search.query.threshold and compose were chosen on the validation photos, but with the same everyday and foreign
queries: benchmarks/LOG.md has others.
"""

import json
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from records import write_record

import vsepp
from vsepp.data.collections import open_data
from vsepp.search.index.numpy_similarity import unit
from vsepp.search.query.compose import STOP_WORDS
from vsepp.search.stores.sqlite import SqliteStore
from vsepp.search.stores.store import Embedding, Photo

SIZES = (60, 200, 1_000)  # and all photos
COLLECTIONS = 5  # of a size, as far as the split's photos go
CAPTIONS, MOST_TEXTS, FIRST = 1_000, 300, 10
EVERYDAY = (
    *("dog", "water", "red shirt", "two dogs", "man on a bike", "snow", "man", "beach", "ball"),
    *("grass", "boy", "girl", "people", "child", "soccer", "mountain", "pool", "bike", "red"),
    *("white dog", "black dog", "boy in a pool", "girl in a pink dress", "football", "tree"),
    *("rock climbing", "basketball", "street", "jumping", "skateboard", "running dog", "crowd"),
    *("children playing", "snowboarder", "surfer", "horse", "hat", "car", "swimming", "tennis"),
)
FOREIGN = (
    *("quarterly tax statement", "senate hearing", "tax", "annual report of the company"),
    *("database migration error", "stock market crash", "mortgage interest rate", "the of the of"),
    *("lorem ipsum dolor", "asdf jkl", "qwertyuiop", "xkcd zzzz", "constitutional amendment"),
    *(
        "integral of a function",
        "periodic table",
        "invoice number 4711",
        "screenshot of a terminal",
    ),
    *("receipt", "passport", "spreadsheet", "wedding contract signature", "submarine", "penguin"),
    *("giraffe and zebra", "space shuttle launch", "microscope bacteria", "sushi platter"),
    *("pizza with cheese", "kitchen sink", "bathroom toilet", "laptop keyboard", "elephant"),
    *("airplane cockpit", "cow milking", "circuit board", "x-ray of a chest", "subway map"),
    *("opera house interior", "chess tournament", "bank account", "parliament vote", "printer ink"),
    *("chemistry homework", "nuclear reactor", "bedroom furniture", "dentist appointment"),
    *("election results", "software update", "meeting agenda notes", "helicopter rescue manual"),
)
KIN = {  # words, and what else tells that the thing is there
    "dog": "dogs puppy puppies",
    "snow": "snowy ski skier skis skiing sled sledding snowboard snowboarder snowboarding ice",
    "beach": "ocean sand sea shore waves wave surf surfer",
    "bike": "bicycle bikes bicycles biker bikers biking bicyclist cyclist bmx motorcycle",
    "ball": "balls football soccer basketball baseball tennis volleyball",
    "pool": "swimming swims swim water",
    "horse": "horses",
    "girl": "girls child children kid kids woman women lady baby toddler",
    "car": "cars truck vehicle race traffic",
}


@dataclass(frozen=True)
class World:
    """Photos as vectors (N, D), and of each the words of its captions."""

    vectors: np.ndarray
    captions: Sequence[Sequence[Sequence[str]]]

    def __len__(self) -> int:
        return len(self.vectors)

    def only(self, chosen: Sequence[int]) -> "World":
        return World(self.vectors[list(chosen)], [self.captions[number] for number in chosen])

    def with_words(self, words: Iterable[str]) -> list[int]:
        """The photos of which one caption has all these words."""
        wanted = set(words)
        return [
            number
            for number, captions in enumerate(self.captions)
            if any(wanted <= set(caption) for caption in captions)
        ]

    def without(self, words: Iterable[str]) -> "World":
        gone = {number for word in words for number in self.with_words([word])}
        return self.only([number for number in range(len(self)) if number not in gone])


Answer = tuple[np.ndarray, int]  # photos, the best first, and how many of them are shown
Search = Callable[[str], Answer]


def telling_words(caption: Iterable[str]) -> list[str]:
    return [word for word in caption if word not in STOP_WORDS and word.isalpha()]


def ours(world: World, model: vsepp.Embedder, folder: Path) -> Search:
    """The search as it is, on a collection of these photos."""
    file = Path(tempfile.mkdtemp(dir=folder)) / "photos.vse"
    vsepp.Collection.create(file, model).close()
    photos = SqliteStore.open(file)
    photos.put(
        (
            Photo(Path(f"/{n}"), 1, 1, "2020-01-01T00:00:00", 1, 1, n.to_bytes(16)),
            Embedding(vector, b""),
        )
        for n, vector in enumerate(world.vectors)
    )
    photos.close()
    collection = vsepp.Collection.open(file, model)

    def search(text: str) -> Answer:
        every = collection.search(text, k=len(world), min_score=-9)
        lowest = collection.search(text, k=1).min_score
        shown = 0 if lowest is None else sum(hit.score >= lowest for hit in every)
        return np.array([int(hit.path.name) for hit in every]), shown

    return search


def simple(world: World, model: vsepp.Embedder) -> Search:
    """Texts as they are embedded, and one bar for all queries of a length."""
    sample = world.vectors[:: -(-len(world) // 2_000)]
    bars: dict[int, float] = {}

    def bar(length: int) -> float:
        if length not in bars:
            words = np.random.default_rng(0).choice(model.vocabulary.words(), size=(256, length))
            texts = unit(model.embed_texts([" ".join(text) for text in words]))
            bars[length] = float(np.quantile(sample @ texts.T, 1 - min(1 / 200, 5 / len(world))))
        return bars[length]

    def search(text: str) -> Answer:
        judged = model.vocabulary.words_with_known(text)
        if not any(known for _, known in judged):
            return np.zeros(0, dtype=int), 0
        scores = world.vectors @ unit(model.embed_texts([text]))[0]
        return np.argsort(-scores, kind="stable"), int((scores >= bar(min(16, len(judged)))).sum())

    return search


def found(search: Search, world: World, texts: Iterable[str]) -> dict[str, Any]:
    """Texts whose words captions have: precision and recall of what is shown, and of the ranking."""
    rows = []
    for text in texts:
        right = world.with_words(telling_words(text.split()))
        order, shown = search(text)
        if not right or not len(order):
            continue
        is_right = np.isin(order, right)
        hits, places = np.cumsum(is_right), np.arange(1, len(order) + 1)
        f1 = 2 * hits / (places + len(right))
        last = shown - 1
        reached = (hits[last] / max(1, shown), hits[last] / len(right), f1[last])
        rows.append(
            (*(reached if shown else (np.nan, 0.0, 0.0)), f1.max(), shown, len(right),
             float((hits / places)[is_right].mean()))
        )  # fmt: skip
    table = np.array(rows)
    _, recall, f1, best, shown, right, average = table.mean(axis=0)
    answered = table[table[:, 4] > 0, 0]
    precision = answered.mean() if len(answered) else np.nan
    return {
        "n": len(rows),
        "precision": None if np.isnan(precision) else round(precision, 2),
        "recall": round(recall, 2),
        "f1": round(f1, 2),
        "f1_of_the_best_bar_for_each": round(best, 2),
        "average_precision": round(average, 3),
        "shown": round(shown, 1),
        "right": round(right, 1),
        "none_shown": round(float((table[:, 4] == 0).mean()), 2),
    }


def kept(search: Search, captions: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Captions of the first photos: of the right ones among the first ten, the share that is shown."""
    stay, shown = [], []
    texts = [(owner, text) for owner, some in enumerate(captions) for text in some]
    for number in np.random.default_rng(1).permutation(len(texts))[:CAPTIONS]:
        owner, text = texts[number]
        order, count = search(text)
        place = int(np.flatnonzero(order == owner)[0])
        shown.append(count)
        if place < FIRST:
            stay.append(place < count)
    return {
        "n": len(shown),
        "among_the_first_ten": round(len(stay) / len(shown), 3),
        "kept": round(statistics.mean(stay), 3),
        "shown": statistics.median(shown),
    }


def counted(shown: Sequence[int]) -> dict[str, Any]:
    return {
        "n": len(shown),
        "median": statistics.median(shown),
        "nine_of_ten_at_most": int(np.quantile(shown, 0.9, method="higher")),
        "most": max(shown),
        "none_shown": round(statistics.mean(count == 0 for count in shown), 2),
    }


def measured_with(
    make: Callable[[World], Search],
    world: World,
    captions: Sequence[Sequence[str]],
    model: vsepp.Embedder,
) -> dict[str, Any]:
    search = make(world)
    rare = model.vocabulary.words()[300:]
    random = [
        " ".join(np.random.default_rng(n).choice(rare, 1 + n % 3)) for n in range(len(FOREIGN))
    ]
    words, pairs = frequent(world, model)
    absent = [(word, world.without([word, *kin.split()])) for word, kin in KIN.items()]
    return {
        "everyday": found(search, world, EVERYDAY),
        "words": found(search, world, words),
        "pairs": found(search, world, pairs),
        "captions": kept(search, captions),
        "foreign": counted([search(text)[1] for text in FOREIGN]),
        "random_rare_words": counted([search(text)[1] for text in random]),
        "absent": counted([make(rest)(word)[1] for word, rest in absent if len(rest) > 20]),
    }


def averaged(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Over collections of one size; of the most, the most."""
    rows = {key: [part[key] for part in parts] for key in parts[0]}
    return {
        key: averaged(values)
        if isinstance(values[0], dict)
        else max(values)
        if key == "most"
        else sum(values)
        if key == "n"
        else round(statistics.mean(value for value in values if value is not None), 3)
        for key, values in rows.items()
    }


def frequent(world: World, model: vsepp.Embedder) -> tuple[list[str], list[str]]:
    """Words that captions of one photo in 100 have, and neighbours that those of one in 200 have."""
    words: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    known = set(model.vocabulary.words()) - STOP_WORDS
    for captions in world.captions:
        words.update({word for caption in captions for word in caption})
        pairs.update(
            {
                f"{one} {two}"
                for caption in captions
                for one, two in pairwise(caption)
                if {one, two} <= known and (one + two).isalpha()
            }
        )
    least = max(4, len(world) // 100)
    some = [word for word, n in words.items() if n >= least and word in known and word.isalpha()]
    others = [pair for pair, n in pairs.items() if n >= max(3, least // 2)]
    return _some(some), _some(others)


def _some(texts: Sequence[str]) -> list[str]:
    order = np.random.default_rng(0).permutation(len(texts))[:MOST_TEXTS]
    return [texts[number] for number in order]


def worlds(data: str, split: str, model: vsepp.Embedder) -> dict[str, tuple[World, list[str]]]:
    """The photos of every split, and one caption after another of each."""
    made = {}
    for name in (split, *({"train", "val", "test"} - {split})):
        items = list(open_data(data).split(name))
        vectors = model.embed_images(item.path for item in items)
        words = [
            [
                [word.lower() for word, _ in model.vocabulary.words_with_known(text)]
                for text in item.captions
            ]
            for item in items
        ]
        made[name] = World(vectors, words), [text for item in items for text in item.captions]
    return made


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    split = sys.argv[2] if len(sys.argv) == 3 else "test"
    model = vsepp.load()
    made = worlds(sys.argv[1], split, model)
    (own, texts), *others = made.values()
    order = np.random.default_rng(0).permutation(len(own))
    whole = World(
        np.concatenate([own.vectors[order], *(world.vectors for world, _ in others)]),
        [*own.only(order).captions, *(c for world, _ in others for c in world.captions)],
    )
    measured: dict[str, Any] = {"data": Path(sys.argv[1]).name, "split": split, "sizes": {}}
    captions = [texts[5 * number : 5 * number + 5] for number in order]
    for size in (*SIZES, len(whole)):
        ways: dict[str, list[Any]] = {"simple": [], "ours": []}
        for start in range(0, min(len(own), COLLECTIONS * size), size):
            world = whole.only(range(start, start + size))
            asked = captions[start : start + size]
            ways["simple"].append(measured_with(lambda w: simple(w, model), world, asked, model))
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder)
                ways["ours"].append(
                    measured_with(lambda w, p=place: ours(w, model, p), world, asked, model)
                )
        measured["sizes"][str(size)] = {name: averaged(parts) for name, parts in ways.items()}
        print(size, json.dumps(measured["sizes"][str(size)]), flush=True)
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


if __name__ == "__main__":
    main()
