"""What is wrong with a collection as a test: leaks, captions that fit several photos, queries that nobody answers."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from vsepp.data.captioned import CaptionedImage, FeatureRow
from vsepp.data.pictures import open_picture
from vsepp.data.resources import made_ahead
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.measurement import Measurement
from vsepp.evaluation.metrics.relevance import Ints

HASH_SIDE = 16  # 256 bits: each says whether a spot is brighter than the one to its right
SAME_BITS = 8  # a photo stored anew, in another size or format
# Bits plus twice the levels of 255 in which the colours of 16 x 16 spots differ on average. Flickr8k's test and training photos:
# two of one series have 93, and so have two others; the nearest of those that show something else have 110.
NEAR = 100
# Flat pictures agree in their ground, whatever they show: what is in them has to agree, too. Limits are a little above what those
# two pairs have.
NEAR_STEPS = 0.6  # in brightness, how far apart relative to their sizes: 0.53 and 0.57
NEAR_CONTENT = 0.36  # the same of colours about each picture's mean: 0.35 and 0.31
NEAR_SHARE = 0.3  # of bits that differ where a step is visible: 0.20 and 0.29
VISIBLE = 4  # levels of 255
ROWS_AT_ONCE = 2048
TOP = 10
WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True)
class Leak:
    """A photo that is in two splits, or nearly so."""

    key: str
    other: str
    split: str
    bits: int  # of 256 in which the two differ

    @property
    def is_same(self) -> bool:
        return self.bits <= SAME_BITS


@dataclass(frozen=True)
class Fit:
    """A caption whose words fit another photo's captions as well as its own photo's."""

    caption: int
    others: tuple[int, ...]  # rows of images, the best first
    rank: int


@dataclass(frozen=True)
class Unanswered:
    """A query that all models rank low."""

    direction: str
    query: int
    best_rank: int


@dataclass(frozen=True)
class Confusion:
    """Two photos that are taken for each other."""

    image: int
    other: int
    captions: int  # of either that rank the other photo ahead of their own


@dataclass(frozen=True)
class WordRecall:
    word: str
    captions: int
    recall: float  # R@10 of captions with the word, in percent


@dataclass(frozen=True)
class Audit:
    leaks: Sequence[Leak]
    repeated: Mapping[str, Sequence[int]]  # texts that several photos have, and these photos
    leaked_texts: int  # captions that are in another split, word by word
    fits: Sequence[Fit]
    unanswered: Sequence[Unanswered]
    confusions: Sequence[Confusion]
    words: Sequence[WordRecall]
    num_unanswered: dict[str, int]  # queries that no model has among its first ten


def audit(
    items: Sequence[CaptionedImage],
    others: Sequence[CaptionedImage],
    embeddings: Sequence[Embeddings],
    results: Sequence[Measurement],
) -> Audit:
    """Look at a split with one or more models; `others` are the pictures of all other splits."""
    first, result = embeddings[0], results[0]
    best = {way: np.min([r.ranks[way] for r in results], axis=0) for way in result.ranks}
    top = first.matrix().transposed().top(TOP)[0]  # (C, 10) images that answer each caption
    ranks = result.ranks["images"]
    known = {_plain(text) for item in others for text in item.captions}
    return Audit(
        find_leaks(items, others),
        repeated_texts(first),
        sum(_plain(text) in known for text in first.texts),
        fits_several(first, top, ranks),
        _unanswered(best, result),
        confusions(first, top),
        word_recalls(first, ranks),
        {way: int((ranks > TOP).sum()) for way, ranks in best.items()},
    )


# ---- leaks -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hash:
    """A small picture of a photo, to be compared with many."""

    bits: np.ndarray  # (256,) of -1 and 1, whether it grows brighter from left to right
    steps: np.ndarray  # (256,) by how many levels
    colours: np.ndarray  # (256, 3)

    @property
    def content(self) -> np.ndarray:
        content: np.ndarray = self.colours - self.colours.mean(axis=0)
        return content


def find_leaks(items: Sequence[CaptionedImage], others: Sequence[CaptionedImage]) -> list[Leak]:
    """Photos of another split that look the same, the nearest first."""
    items, others = (
        [i for i in some if not isinstance(i.path, FeatureRow)] for some in (items, others)
    )
    if not items or not others:
        return []
    mine, theirs = difference_hashes(items), difference_hashes(others)
    my_bits, their_bits = (np.stack([one.bits for one in some]) for some in (mine, theirs))
    leaks = []
    for start in range(0, len(others), ROWS_AT_ONCE):
        bits = (HASH_SIDE**2 - my_bits @ their_bits[start : start + ROWS_AT_ONCE].T) / 2
        for a, b in np.argwhere(bits <= NEAR).tolist():
            other = others[start + b]
            if are_near(mine[a], theirs[start + b]):
                leaks.append(Leak(items[a].key, other.key, other.split, int(bits[a, b])))
    return sorted(leaks, key=lambda leak: leak.bits)


def are_near(a: Hash, b: Hash) -> bool:
    """Whether two pictures agree as a whole, and in what is in them."""
    differ = a.bits != b.bits
    if differ.sum() + 2 * np.abs(a.colours - b.colours).mean() > NEAR:
        return False
    visible = np.maximum(np.abs(a.steps), np.abs(b.steps)) > VISIBLE
    if not visible.any():
        return True
    return bool(
        _apart(a.steps, b.steps) <= NEAR_STEPS
        and _apart(a.content, b.content) <= NEAR_CONTENT
        and differ[visible].mean() <= NEAR_SHARE
    )


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    """0 where they are equal, 1 where one is zero wherever the other is not."""
    return float(np.abs(a - b).sum() / np.maximum(np.abs(a), np.abs(b)).sum())


def difference_hashes(items: Sequence[CaptionedImage]) -> list[Hash]:
    return list(made_ahead(items, _difference_hash))


def _difference_hash(item: CaptionedImage) -> Hash:
    picture = open_picture(item.path, 4 * HASH_SIDE).convert("RGB")
    small = picture.convert("L").resize((HASH_SIDE + 1, HASH_SIDE), Image.Resampling.BOX)
    steps = np.diff(np.asarray(small, dtype=np.float32), axis=1).reshape(-1)
    colours = picture.resize((HASH_SIDE, HASH_SIDE), Image.Resampling.BOX)
    return Hash(
        np.where(steps > 0, 1, -1).astype(np.float32),
        steps,
        np.asarray(colours, dtype=np.float32).reshape(-1, 3),
    )


# ---- captions --------------------------------------------------------------------------------


def repeated_texts(embeddings: Embeddings) -> dict[str, list[int]]:
    """Texts that several photos have; the most frequent first."""
    photos: dict[str, set[int]] = {}
    for text, owner in zip(embeddings.texts, embeddings.owners.tolist(), strict=False):
        photos.setdefault(_plain(text), set()).add(owner)
    shared = {text: sorted(some) for text, some in photos.items() if len(some) > 1}
    return dict(sorted(shared.items(), key=lambda pair: -len(pair[1])))


def fits_several(embeddings: Embeddings, top: Ints, ranks: Ints) -> list[Fit]:
    """Captions that rank other photos ahead whose captions have as much in common with them as their own's."""
    words = [frozenset(WORD.findall(text.lower())) for text in embeddings.texts]
    of_image: dict[int, list[int]] = {}
    for row, owner in enumerate(embeddings.owners.tolist()):
        of_image.setdefault(owner, []).append(row)
    found = []
    for caption in np.flatnonzero(ranks > 1).tolist() if words else []:
        own = int(embeddings.owners[caption])
        mine = _overlap(words, caption, (row for row in of_image[own] if row != caption))
        ahead = [i for i in top[caption].tolist() if i != own][: int(ranks[caption]) - 1]
        alike = [i for i in ahead if _overlap(words, caption, of_image[i]) >= max(mine, 0.5)]
        if alike:
            found.append(Fit(caption, tuple(alike), int(ranks[caption])))
    return sorted(found, key=lambda fit: -len(fit.others))


def _overlap(words: Sequence[frozenset[str]], caption: int, others: Iterable[int]) -> float:
    """The best F1 of a caption's words with those of some others."""
    a = words[caption]
    return max((2 * len(a & words[o]) / max(1, len(a) + len(words[o])) for o in others), default=0)


def word_recalls(embeddings: Embeddings, ranks: Ints, least: int = 10) -> list[WordRecall]:
    """R@10 of captions by word, the worst first; words of few captions are left out."""
    counts: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    least = max(least, len(embeddings.texts) // 500)
    for row, text in enumerate(embeddings.texts):
        for word in set(WORD.findall(text.lower())):
            counts[word] += 1
            hits[word] += int(ranks[row] <= TOP)
    found = [WordRecall(w, n, 100 * hits[w] / n) for w, n in counts.items() if n >= least]
    return sorted(found, key=lambda one: (one.recall, -one.captions, one.word))


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


# ---- queries ---------------------------------------------------------------------------------


def _unanswered(best: Mapping[str, Ints], result: Measurement) -> list[Unanswered]:
    found = []
    for way, ranks in best.items():
        for number in np.argsort(-ranks, kind="stable")[: 2 * TOP].tolist():
            if ranks[number] > TOP:
                query = int(result.queries[way][number])
                found.append(Unanswered(way, query, int(ranks[number])))
    return found


def confusions(embeddings: Embeddings, top: Ints) -> list[Confusion]:
    """Pairs of photos by how many captions of either rank the other one ahead."""
    counts: Counter[tuple[int, int]] = Counter()
    for caption, own in enumerate(embeddings.owners.tolist()):
        for image in top[caption].tolist():
            if image == own:
                break
            counts[min(own, image), max(own, image)] += 1
    return [Confusion(a, b, n) for (a, b), n in counts.most_common(4 * TOP)]
