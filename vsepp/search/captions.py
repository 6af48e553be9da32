"""Photo -> captions: which lines of a file describe a photo best."""

from dataclasses import dataclass
from pathlib import Path

from vsepp.data.pictures import Picture
from vsepp.search.embed_files import read_captions
from vsepp.search.embedder import Embedder
from vsepp.search.index import Hit, best_rows
from vsepp.search.similarity import SIMILARITIES


@dataclass(frozen=True)
class CaptionHit(Hit):
    """A caption that was found: its key is its number in the file, its path the file."""

    caption: str


def best_captions(embedder: Embedder, image: Picture, file: Path, k: int) -> list[CaptionHit]:
    """The captions in a file, one a line, that fit a photo best."""
    captions = read_captions(file)
    similarity = SIMILARITIES[embedder.architecture.similarity]
    scores = similarity(embedder.embed_images([image]), embedder.embed_texts(captions))[0]
    return [
        CaptionHit(str(row + 1), float(scores[row]), file, captions[row])
        for row in best_rows(scores, k).tolist()
    ]
