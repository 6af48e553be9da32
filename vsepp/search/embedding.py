"""Files -> photos with their vectors: the task that workers are given."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from PIL import Image

from vsepp.data.ahead import made_ahead
from vsepp.search.duplicates import look_of
from vsepp.search.embedder import BATCH, Embedder
from vsepp.search.photos import Embedded, Photo
from vsepp.search.reading import Read, read
from vsepp.search.sources import Part
from vsepp.search.walk import Broken, File

OfContent = Callable[[bytes], Embedded | None]


@dataclass(frozen=True)
class Made:
    """What came of some files of a part."""

    photos: list[tuple[Photo, Embedded]]
    broken: list[Broken]
    shard: File | None = None
    tally: "Tally | None" = None  # with the last of a shard


@dataclass(frozen=True)
class Tally:
    """How many pictures a shard holds, and how many of them were not known."""

    members: int
    wanted: int


def nothing_is_known(content: bytes) -> None:
    """For workers that cannot look into the collection."""


@dataclass(frozen=True)
class EmbedPhotos:
    """Reads, decodes and embeds; with it travels the model, so that workers need none of their own."""

    embedder: Embedder
    of_content: OfContent = nothing_is_known

    def ready(self, threads: int | None = None) -> Callable[[Iterable[Part]], Iterator[Made]]:
        return partial(self._made, threads=threads)

    def _made(self, parts: Iterable[Part], threads: int | None) -> Iterator[Made]:
        """Files are read and decoded in threads while the net is busy."""
        for portion, items in made_ahead(_portions(parts), self._read, threads):
            good = [item for item in items if isinstance(item, Read)]
            yield Made(
                list(zip((item.photo for item in good), self._embedded(good), strict=True)),
                [item for item in items if isinstance(item, Broken)],
                portion.shard,
                portion.tally,
            )

    def _read(self, portion: "_Portion") -> tuple["_Portion", list[Read | Broken]]:
        short_side = self.embedder.architecture.resize
        return portion, [
            file if isinstance(file, Broken) else read(file, short_side, self.of_content)
            for file in portion.files
        ]

    def _embedded(self, batch: list[Read]) -> Iterator[Embedded]:
        pictures = [item.made for item in batch if isinstance(item.made, Image.Image)]
        vectors = iter(self.embedder.embed_images(pictures))
        for item in batch:
            if isinstance(item.made, Embedded):
                yield item.made
            else:
                yield Embedded(next(vectors), look_of(item.made))


@dataclass(frozen=True)
class _Portion:
    """As many files as the net takes at once."""

    files: list[File | Broken]
    shard: File | None = None
    tally: Tally | None = None


def _portions(parts: Iterable[Part]) -> Iterator[_Portion]:
    for part in parts:
        if part.shard is None:
            yield from map(_Portion, _batched(part.files()))
        else:
            yield from _portions_of_shard(part.shard, part)


def _portions_of_shard(shard: File, part: Part) -> Iterator[_Portion]:
    members, wanted = set(), 0
    files: list[File | Broken] = []
    for file in part.files():
        if file.path not in members and part.wants(file):
            files.append(file)
            wanted += 1
        members.add(file.path)  # a tar may hold a name twice: the first counts
        if len(files) == BATCH:
            yield _Portion(files, shard)
            files = []
    yield _Portion(files, shard, Tally(len(members), wanted))


def _batched(files: Iterable[File | Broken]) -> Iterator[list[File | Broken]]:
    iterator = iter(files)
    while batch := list(islice(iterator, BATCH)):
        yield batch
