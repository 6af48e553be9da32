"""Files -> photos with their vectors: the task that workers are given."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, islice

from PIL import Image

from vsepp.data.resources import made_ahead
from vsepp.search.duplicates import look_of
from vsepp.search.embedder import Embedder
from vsepp.search.reading import Read, read
from vsepp.search.remembered import Embedded, Photo
from vsepp.search.shards import Held
from vsepp.search.sources import Part
from vsepp.search.walk import Broken, File, Skipped

MadeBefore = Callable[[Photo], Embedded | None]
PIECE = 8  # files that a thread reads in one go: the threads are through at nearly the same time
LARGE = 16_000_000  # bytes of a piece: no more files are put to it
TOGETHER = 32  # files whose vectors are handed on in one go
AHEAD = 4 * TOGETHER  # files that are read at most before the net has seen them


@dataclass(frozen=True)
class Made:
    """What came of some files of a part."""

    photos: list[tuple[Photo, Embedded]]
    broken: list[Broken]
    shard: File | None = None
    tally: "Tally | None" = None  # with the last of a shard


@dataclass(frozen=True)
class Tally:
    """How many pictures a shard holds, how many of them were not known, and what else there is to say."""

    members: int
    wanted: int
    gone: tuple[str, ...] = ()  # known, and not in it any more
    skipped: Mapping[str, int] = field(default_factory=dict)  # by kind


def nothing_is_known(photo: Photo) -> None:
    """For workers that cannot look into the collection."""


@dataclass(frozen=True)
class EmbedPhotos:
    """Reads, decodes and embeds; with it travels the model, so that workers need none of their own."""

    embedder: Embedder
    made_before: MadeBefore = nothing_is_known

    def ready(self, threads: int | None = None) -> Callable[[Iterable[Part]], Iterator[Made]]:
        return partial(self._made, threads=threads)

    def _made(self, parts: Iterable[Part], threads: int | None) -> Iterator[Made]:
        """Files are read and decoded in threads while the net is busy."""
        pieces = made_ahead(_pieces(parts), self._read, AHEAD // PIECE, threads, _num_bytes)
        for batch in _batches(pieces):
            good = [item for item in batch.items if isinstance(item, Read)]
            yield Made(
                list(zip((item.photo for item in good), self._embedded(good), strict=True)),
                [item for item in batch.items if isinstance(item, Broken)],
                batch.shard,
                batch.tally,
            )

    def _read(self, piece: "_Piece") -> "_Piece":
        view = self.embedder.architecture.view
        items = [
            read(item, view, self.made_before) if isinstance(item, File) else item
            for item in piece.items
        ]
        return replace(piece, items=items)

    def _embedded(self, batch: list[Read]) -> Iterator[Embedded]:
        view = self.embedder.architecture.view
        pictures = [item.made for item in batch if isinstance(item.made, Image.Image)]
        vectors = iter(self.embedder.embed_pixels(map(view.cut, pictures)))
        for item in batch:
            if isinstance(item.made, Embedded):
                yield item.made
            else:
                yield Embedded(next(vectors), look_of(item.made))


@dataclass(frozen=True)
class _Piece:
    """Files of one part, before and after they are read."""

    items: Sequence[File | Read | Broken]
    shard: File | None = None
    tally: Tally | None = None


def _num_bytes(piece: _Piece) -> int:
    """That are in memory before they are read: of members of a shard."""
    return sum(len(item.data) for item in piece.items if isinstance(item, Held))


def _pieces(parts: Iterable[Part]) -> Iterator[_Piece]:
    for part in parts:
        if part.shard is not None:
            yield from _pieces_of_shard(part.shard, part)
        else:
            files = (file for file in part.files() if not isinstance(file, Skipped))
            while items := list(islice(files, PIECE)):
                yield _Piece(items)


def _pieces_of_shard(shard: File, part: Part) -> Iterator[_Piece]:
    members, wanted = set(), 0
    items: list[File | Broken] = []
    skipped: Counter[str] = Counter()
    for file in part.files():
        if isinstance(file, Skipped):
            skipped[file.kind] += 1
            continue
        if file.path not in members and part.wants(file):
            items.append(file)
            wanted += 1
        members.add(file.path)  # a tar may hold a name twice: the first counts
        if len(items) == PIECE or _num_bytes(_Piece(items)) > LARGE:
            yield _Piece(items, shard)
            items = []
    gone = tuple(part.known.keys() - members)
    yield _Piece(items, shard, Tally(len(members), wanted, gone, skipped))


def _batches(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """As many as are handed on in one go, all of one shard."""
    for shard, together in groupby(pieces, key=lambda piece: piece.shard):
        items: list[File | Read | Broken] = []
        for piece in together:
            items += piece.items
            if piece.tally or len(items) >= TOGETHER:
                yield _Piece(items, shard, piece.tally)
                items = []
        if items:
            yield _Piece(items)
