"""A collection: photos in one file or in a database, searched by words, by a photo or by both."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np

from vsepp import plugins
from vsepp.data.pictures import Picture
from vsepp.errors import WrongRequest
from vsepp.search.adding import IndexingReport, add_photos
from vsepp.search.duplicates import Groups, group_duplicates
from vsepp.search.embed_files import read_captions
from vsepp.search.embedder import Embedder, load
from vsepp.search.embedding import EmbedPhotos, LocalWorkers, Workers, no_cache
from vsepp.search.index.exact import best_rows
from vsepp.search.index.numpy_similarity import SIMILARITIES, Vectors
from vsepp.search.index.protocol import Hit, Index
from vsepp.search.query.compose import encode_query, text_vectors
from vsepp.search.query.language import Query, Where, parse_query
from vsepp.search.query.threshold import ScoreThresholds
from vsepp.search.registry import SCHEME, STORES, find, open_workers
from vsepp.search.results import CaptionHit, SearchResult
from vsepp.search.sources.local import as_path
from vsepp.search.stores.identity import check_model, find_model
from vsepp.search.stores.sqlite import SqliteStore
from vsepp.search.stores.store import Photo, Store, StoreType


class Collection:
    """Any number of threads and processes may search while others add photos."""

    def __init__(self, store: Store, embedder: Embedder | None) -> None:
        self._store = store
        self._embedder = embedder
        self._loading = Lock()

    @classmethod
    def create(cls, place: Path | str, embedder: Embedder) -> "Collection":
        """A new collection for vectors of this model: a file, or what a URL names."""
        store_type, rest = _store_type(str(place))
        return cls(store_type.create(rest, embedder.record()), embedder)

    @classmethod
    def open(
        cls, place: Path | str, embedder: Embedder | None = None, index: str | None = None
    ) -> "Collection":
        """An existing collection. By default, the model that it was made with is loaded when needed.

        `index` names another index for a collection in a file, by URL.
        """
        store_type, rest = _store_type(str(place))
        store = store_type.open(rest) if index is None else SqliteStore.open(str(place), index)
        if embedder is not None:
            check_model(embedder, store.model, store.name)
        return cls(store, embedder)

    @classmethod
    def open_or_create(cls, place: Path | str, embedder: Embedder | None = None) -> "Collection":
        """An existing collection, or a new one: by default for the built-in model."""
        store_type, rest = _store_type(str(place))
        if store_type.exists(rest):
            return cls.open(place, embedder)
        return cls.create(place, embedder or load())

    @property
    def name(self) -> str:
        """The file or URL."""
        return self._store.name

    @property
    def path(self) -> Path:
        """The file, if the collection is one."""
        return Path(self.name)

    def notes(self) -> list[str]:
        """What users should know about where the collection is stored."""
        return self._store.notes() if isinstance(self._store, SqliteStore) else []

    @property
    def embedder(self) -> Embedder:
        with self._loading:
            if self._embedder is None:
                self._embedder = find_model(self._store.model, self.name)
            return self._embedder

    def __len__(self) -> int:
        return len(self._store)

    def photo(self, key: str) -> Photo | None:
        """A photo's metadata; None if there is no photo with this key."""
        return self.photos([key]).get(key)

    def photos(self, keys: Iterable[str]) -> dict[str, Photo]:
        """Metadata by key, of those photos that exist."""
        return self._store.photos(keys)

    def folders(self) -> dict[str, int]:
        """Every folder that contains photos, and how many, without its subfolders."""
        return self._store.folders()

    # ---- add --------------------------------------------------------------------------------

    def add(self, place: Path | str, prune: bool = False, on: str | None = None) -> IndexingReport:
        """Embed what is new or changed in a folder or in shards; `on` names workers by URL.

        With `prune`, photos that are gone from the folder are removed.
        """
        *_, report = self.adding(place, prune, on)
        return report

    def adding(
        self, place: Path | str, prune: bool = False, on: str | None = None
    ) -> Iterator[IndexingReport]:
        """The same, with a report after every batch; a batch that was reported is stored."""
        with self._store.writer() as writer:
            workers: Workers = LocalWorkers()
            cached_embedding = writer.cached_embedding
            if on is not None:
                workers, cached_embedding = open_workers(on), no_cache  # they cannot see the store
            task = EmbedPhotos(self.embedder, cached_embedding)
            yield from add_photos(writer, task, as_path(place), prune, workers)

    # ---- search -----------------------------------------------------------------------------

    def search(
        self,
        text: str | None = None,
        *,
        image: Picture | None = None,
        like: str | None = None,
        k: int = 10,
        min_score: float | None = None,
        fold: bool = False,
    ) -> SearchResult:
        """The photos that match words, a photo (`image`, or `like`: the key of one here), or both.

        The words may contain filters and words to avoid (vsepp.search.query.language); filters alone
        find the newest photos. Photos that match no better than chance are left out, or those that
        score less than `min_score`. `fold` shows one of several near-duplicates.
        """
        if k < 1:
            raise WrongRequest(f"k = {k}: ask for at least one hit.")
        query = parse_query(text or "")
        result = SearchResult(text, _name(image), like, parts=query.parts)
        if not query.words and image is None and like is None:
            return replace(result, hits=self._newest(query, k))
        encoded = encode_query(query, self._photo_vector(image, like), self.embedder)
        result = replace(result, unknown_words=encoded.unknown_words, taken_for=encoded.taken_for)
        if encoded.vector is None:
            return result
        index = self._store.index()
        lowest = min_score
        if lowest is None:
            lowest = self._thresholds.threshold(encoded, len(index))
        search = partial(_search_index, index, encoded.vector, query.where)
        hits, alike = _best_hits(search, k, lowest, like, self._group if fold else _no_groups)
        return replace(result, hits=hits, min_score=lowest, alike=alike)

    def captions(self, image: Picture | None, file: Path, k: int = 10) -> SearchResult:
        """The lines of a text file that match a photo best."""
        if image is None:
            raise WrongRequest("Give the photo that the captions are compared with (image).")
        captions = read_captions(file)
        similarity = SIMILARITIES[self.embedder.architecture.similarity]
        images, texts = self.embedder.embed_images([image]), self.embedder.embed_texts(captions)
        scores = similarity(images, texts)[0]
        hits = [
            CaptionHit(str(row + 1), float(scores[row]), file, captions[row])
            for row in best_rows(scores, k).tolist()
        ]
        return SearchResult(None, _name(image), hits=hits)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @cached_property
    def _thresholds(self) -> ScoreThresholds:
        return ScoreThresholds(self._store, self._random_texts)

    def _random_texts(self, count: int, num_words: int) -> Vectors:
        words = self.embedder.vocabulary.words()
        chosen = np.random.default_rng(0).choice(words, size=(count, num_words))
        return text_vectors([" ".join(text) for text in chosen], self.embedder)

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
                f"There are only words to avoid: {' '.join(query.minus)}. Add words to search for."
            )
        return self._store.newest(query.where, k)

    def _group(self, hits: list[Hit]) -> Groups:
        signatures = self._store.signatures(hit.key for hit in hits)
        return group_duplicates([hit for hit in hits if hit.key in signatures], signatures)


def _store_type(place: str) -> tuple[StoreType, str]:
    """A URL names its store by its scheme; everything else is a file."""
    match = SCHEME.match(place)
    if match and (match[1] in plugins.offered(STORES) or match[2].startswith("//")):
        return find(STORES, "store", place)
    return SqliteStore, place


def _name(image: Picture | None) -> str | None:
    return str(image) if isinstance(image, (str, Path)) else None


def _search_index(index: Index, vector: Vectors, where: Where, k: int) -> list[Hit]:
    (hits,) = index.search(vector, k, where)
    return hits


def _best_hits(
    search: Callable[[int], list[Hit]],
    k: int,
    lowest: float,
    excluded: str | None,
    group: Callable[[list[Hit]], Groups],
) -> Groups:
    """Ask for more and more until k hits remain, or none are left that score enough."""
    asked = k if excluded is None else k + 1
    while True:
        hits = search(asked)
        good = [hit for hit in hits if hit.score >= lowest and hit.key != excluded]
        shown, alike = group(good)
        if len(shown) >= k or len(hits) < asked or hits[-1].score < lowest:
            shown = shown[:k]
            return shown, {hit.key: alike[hit.key] for hit in shown if hit.key in alike}
        asked *= 4


def _no_groups(hits: list[Hit]) -> Groups:
    return hits, {}
