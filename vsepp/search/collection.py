"""Photos made searchable: in one file or in a database, searched with words, photos or both."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from types import TracebackType

import numpy as np

from vsepp.data.pictures import Picture
from vsepp.errors import WrongRequest
from vsepp.search.adding import adding
from vsepp.search.captions import best_captions
from vsepp.search.compose import question
from vsepp.search.cutoff import Cutoffs
from vsepp.search.duplicates import Folded, folded
from vsepp.search.embedder import Embedder, load
from vsepp.search.embedding import EmbedPhotos, nothing_is_known
from vsepp.search.file_store import FileStore
from vsepp.search.found import Found
from vsepp.search.identity import check_model, find_model, model_of
from vsepp.search.index import Hit, Index
from vsepp.search.places import as_path
from vsepp.search.plugins import create_store, open_store, open_workers, store_exists
from vsepp.search.query import Query, understood
from vsepp.search.remembered import Photo
from vsepp.search.report import Report
from vsepp.search.similarity import Vectors
from vsepp.search.store import Store
from vsepp.search.telling import telling
from vsepp.search.where import Where


class Collection:
    """Photos that any number of threads and processes may search while others add."""

    def __init__(self, store: Store, embedder: Embedder | None) -> None:
        self._store = store
        self._embedder = embedder
        self._loading = Lock()
        self._cutoffs = Cutoffs(store, self._random_texts)

    @classmethod
    def create(cls, place: Path | str, embedder: Embedder) -> "Collection":
        """A new collection, for vectors of this model: in a file, or where a URL says."""
        return cls(create_store(str(place), model_of(embedder)), embedder)

    @classmethod
    def open(
        cls, place: Path | str, embedder: Embedder | None = None, index: str | None = None
    ) -> "Collection":
        """One that exists. Without a model, its own is loaded when it is needed.

        `index` names another index for a collection in a file, by URL.
        """
        store = open_store(str(place)) if index is None else FileStore.open(str(place), index)
        if embedder is not None:
            check_model(embedder, store.model, store.name)
        return cls(store, embedder)

    @classmethod
    def open_or_create(cls, place: Path | str, embedder: Embedder | None = None) -> "Collection":
        """One that exists, or a new one: without a model, for the one in the box."""
        if store_exists(str(place)):
            return cls.open(place, embedder)
        return cls.create(place, embedder or load())

    @property
    def name(self) -> str:
        """The file or the URL that it lies in."""
        return self._store.name

    @property
    def path(self) -> Path:
        """The same as a path: the file, where it is one."""
        return Path(self.name)

    def notes(self) -> list[str]:
        """What its users should know about where it lies."""
        return self._store.notes() if isinstance(self._store, FileStore) else []

    @property
    def embedder(self) -> Embedder:
        with self._loading:
            if self._embedder is None:
                self._embedder = find_model(self._store.model, self.name)
            return self._embedder

    def __len__(self) -> int:
        return len(self._store)

    def photo(self, key: str) -> Photo | None:
        """What is known of a photo, or None where there is none with this key."""
        return self.photos([key]).get(key)

    def photos(self, keys: Iterable[str]) -> dict[str, Photo]:
        """What is known of several, by key: of those that are still there."""
        return self._store.photos(keys)

    def folders(self) -> dict[str, int]:
        """Folders with photos in them, and how many there are: those of their folders apart."""
        return self._store.folders()

    # ---- adding -----------------------------------------------------------------------------

    def add(self, place: Path | str, prune: bool = False, on: str | None = None) -> Report:
        """Embed what is new or changed in a folder or in shards; `on` names workers by URL.

        With `prune`, what is gone from the folder is dropped.
        """
        *_, report = self.adding(place, prune, on)
        return report

    def adding(
        self, place: Path | str, prune: bool = False, on: str | None = None
    ) -> Iterator[Report]:
        """The same, with a report after every batch; every batch is kept, whatever happens next."""
        workers = open_workers(on)
        with self._store.writing() as ledger:
            # Workers elsewhere do not see the ledger: what they are given is embedded.
            task = EmbedPhotos(
                self.embedder, ledger.made_before if on is None else nothing_is_known
            )
            yield from adding(ledger, task, as_path(place), prune, workers)

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
        index = self._store.index()
        lowest = self._cutoffs.of(asked, len(index)) if min_score is None else min_score
        best = partial(_best_of, index, asked.vector, query.where)
        hits, alike = _enough(best, k, lowest, like, self._folded if fold else _as_they_are)
        return replace(found, hits=hits, min_score=lowest, alike=alike)

    def captions(self, image: Picture | None, file: Path, k: int = 10) -> Found:
        """The captions in a file, one a line, that fit a photo best."""
        if image is None:
            raise WrongRequest("Give the photo that the captions shall fit: --image FILE.")
        hits = best_captions(self.embedder, image, file, k)
        return Found(None, _name(image), hits=hits)

    def close(self) -> None:
        self._store.close()

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
            return self.embedder.embed_images([image])
        if like is None:
            return None
        vectors = self._store.vectors([like])
        if not vectors:
            raise WrongRequest(f"There is no photo {like!r} in {self.name}.")
        return np.array(list(vectors.values()))

    def _newest(self, query: Query, k: int) -> list[Hit]:
        if query.minus:
            raise WrongRequest(
                f"There are only words to leave out: {' '.join(query.minus)}. Say what to look for."
            )
        return self._store.newest(query.where, k)

    def _folded(self, hits: list[Hit]) -> Folded:
        looks = self._store.looks(hit.key for hit in hits)
        return folded([hit for hit in hits if hit.key in looks], looks)

    def _random_texts(self, count: int, num_words: int) -> Vectors:
        words = self.embedder.vocabulary.words()
        chosen = np.random.default_rng(0).choice(words, size=(count, num_words))
        return telling([" ".join(text) for text in chosen], self.embedder)


def _name(image: Picture | None) -> str | None:
    return str(image) if isinstance(image, (str, Path)) else None


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
