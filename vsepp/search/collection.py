"""A photo folder made searchable: one SQLite file, searched with words, photos or both."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from types import TracebackType

import numpy as np

from vsepp.data.pictures import Picture
from vsepp.errors import WrongRequest
from vsepp.search.adding import Report, adding
from vsepp.search.captions import best_captions
from vsepp.search.compose import question
from vsepp.search.cutoff import Cutoffs
from vsepp.search.duplicates import Folded, folded
from vsepp.search.embedder import Embedder, load
from vsepp.search.found import Found
from vsepp.search.identity import check_model, find_model, model_of
from vsepp.search.index import Hit, Index
from vsepp.search.large import index_of, keep_graph, named_index_of
from vsepp.search.live import LiveIndex
from vsepp.search.photos import Photo, Photos
from vsepp.search.query import Query, understood
from vsepp.search.similarity import Vectors
from vsepp.search.sqlite_file import exists
from vsepp.search.suspects import Suspect
from vsepp.search.where import Where

KEY = re.compile("[1-9][0-9]{0,17}")


class Collection:
    """Photos that any number of threads and processes may search while others add."""

    def __init__(self, photos: Photos, live: LiveIndex, embedder: Embedder | None) -> None:
        self._photos = photos
        self._live = live
        self._embedder = embedder
        self._loading = Lock()
        self._cutoffs = Cutoffs(photos, self._random_texts)

    @classmethod
    def create(cls, path: Path | str, embedder: Embedder) -> "Collection":
        """A new collection, for vectors of this model."""
        photos = Photos.create(Path(path).expanduser(), model_of(embedder))
        return cls(photos, index_of(photos), embedder)

    @classmethod
    def open(
        cls, path: Path | str, embedder: Embedder | None = None, index: str | None = None
    ) -> "Collection":
        """One that exists. Without a model, its own is loaded when it is needed.

        `index` names an index by URL; without, the one is taken that fits the collection's size.
        """
        photos = Photos.open(Path(path).expanduser())
        if embedder is not None:
            check_model(embedder, photos.model, photos.path)
        live = index_of(photos) if index is None else named_index_of(photos, index)
        return cls(photos, live, embedder)

    @classmethod
    def open_or_create(cls, path: Path | str, embedder: Embedder | None = None) -> "Collection":
        """One that exists, or a new one: without a model, for the one in the box."""
        if exists(Path(path).expanduser()):
            return cls.open(path, embedder)
        return cls.create(path, embedder or load())

    @property
    def path(self) -> Path:
        return self._photos.path

    @property
    def embedder(self) -> Embedder:
        with self._loading:
            if self._embedder is None:
                self._embedder = find_model(self._photos.model, self.path)
            return self._embedder

    def __len__(self) -> int:
        return len(self._photos)

    def photo(self, key: str) -> Photo | None:
        """What is known of a photo, or None where there is none with this key."""
        number = _number(key)
        return None if number is None else self._photos.photo(number)

    def folders(self) -> dict[str, int]:
        """Every folder with photos in it, and how many there are: those of its folders apart."""
        return self._photos.folders()

    # ---- adding -----------------------------------------------------------------------------

    def add(self, place: Path | str, prune: bool = False) -> Report:
        """Embed what is new or changed below a folder; with `prune`, drop what is gone from there."""
        *_, report = self.adding(place, prune)
        return report

    def adding(self, place: Path | str, prune: bool = False) -> Iterator[Report]:
        """The same, with a report after every batch; every batch is kept, whatever happens next."""
        place = Path(place).expanduser().resolve()
        # A connection of its own: those who search see what it commits.
        photos = Photos.open(self.path)
        try:
            yield from adding(photos, self.embedder, place, prune)
            keep_graph(photos)
        finally:
            photos.close()

    # ---- searching --------------------------------------------------------------------------

    def search(
        self,
        text: str | None = None,
        *,
        image: Picture | None = None,
        like: str | None = None,
        k: int = 10,
        min_score: float | None = None,
        fold: bool = False,
    ) -> Found:
        """The photos that fit words, a photo (any `image`, or one here, `like` its key), or both.

        The words may hold filters and words to leave out (vsepp.search.query); filters alone find the
        photos taken last. What fits no better than chance is left out, or what scores less than
        `min_score`. `fold` shows one of several photos that are nearly the same.
        """
        if k < 1:
            raise WrongRequest(f"k = {k}: ask for at least one hit.")
        query = understood(text or "")
        found = Found(text, _name(image), like)
        if not query.words and image is None and like is None:
            return replace(found, hits=self._newest(query, k))
        asked = question(query, self._photo_vector(image, like), self.embedder)
        found = replace(found, unknown_words=asked.unknown_words, taken_for=asked.taken_for)
        if asked.vector is None:
            return found
        index = self._live.current()
        lowest = self._cutoffs.of(asked.kind, len(index)) if min_score is None else min_score
        best = partial(_best_of, index, asked.vector, query.where)
        hits, alike = _enough(best, k, lowest, like, self._folded if fold else _as_they_are)
        return replace(found, hits=hits, min_score=lowest, alike=alike)

    def captions(self, image: Picture | None, file: Path, k: int = 10) -> Found:
        """The captions in a file, one a line, that fit a photo best."""
        if image is None:
            raise WrongRequest("Give the photo that the captions shall fit: --image FILE.")
        hits = best_captions(self.embedder, _guarded(image), file, k)
        return Found(None, _name(image), hits=hits)

    def close(self) -> None:
        self._photos.close()

    def __enter__(self) -> "Collection":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _photo_vector(self, image: Picture | None, like: str | None) -> Vectors | None:
        # -> (1, D)
        if image is not None and like is not None:
            raise WrongRequest("Give a photo or the key of one, not both.")
        if image is not None:
            return self.embedder.embed_images([_guarded(image)])
        if like is None:
            return None
        number = _number(like)
        vectors = self._photos.vectors([] if number is None else [number])
        if not vectors:
            raise WrongRequest(f"There is no photo {like!r} in {self.path}.")
        return np.array(list(vectors.values()))

    def _newest(self, query: Query, k: int) -> list[Hit]:
        if query.minus:
            raise WrongRequest(
                f"There are only words to leave out: {' '.join(query.minus)}. Say what to look for."
            )
        return [Hit(str(n), 0.0, path) for n, path in self._photos.newest(query.where, k)]

    def _folded(self, hits: list[Hit]) -> Folded:
        looks = self._photos.looks(int(hit.key) for hit in hits)
        there = [hit for hit in hits if int(hit.key) in looks]
        return folded(there, {str(number): look for number, look in looks.items()})

    def _random_texts(self, count: int, num_words: int) -> Vectors:
        words = self.embedder.vocabulary.words()
        chosen = np.random.default_rng(0).choice(words, size=(count, num_words))
        return self.embedder.embed_texts([" ".join(text) for text in chosen])


def _name(image: Picture | None) -> str | None:
    return str(image) if isinstance(image, (str, Path)) else None


def _guarded(image: Picture) -> Picture:
    """A file may be anything: a bomb, or what a decoder would run a program for."""
    return Suspect(Path(image)) if isinstance(image, (str, Path)) else image


def _number(key: str) -> int | None:
    """A photo's number as its key says it, no more of them than SQLite can count."""
    return int(key) if KEY.fullmatch(key) else None


def _best_of(index: Index, vector: Vectors, where: Where, k: int) -> list[Hit]:
    (hits,) = index.search(vector, k, where)
    return hits


def _enough(
    best: Callable[[int], list[Hit]],
    k: int,
    lowest: float,
    besides: str | None,
    fold: Callable[[list[Hit]], Folded],
) -> Folded:
    """Ask for more and more until k hits remain, or none are left that score enough."""
    asked = k if besides is None else k + 1
    while True:
        hits = best(asked)
        good = [hit for hit in hits if hit.score >= lowest and hit.key != besides]
        kept, alike = fold(good)
        if len(kept) >= k or len(hits) < asked or hits[-1].score < lowest:
            shown = kept[:k]
            return shown, {hit.key: alike[hit.key] for hit in shown if hit.key in alike}
        asked *= 4


def _as_they_are(hits: list[Hit]) -> Folded:
    return hits, {}
