"""What a search returns: the hits, and what users should know about them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from vsepp.search.index.protocol import Hit
from vsepp.search.query.language import QueryPart
from vsepp.search.sources.local import address


@dataclass(frozen=True)
class CaptionHit(Hit):
    """A caption that was found: its key is its line in the file, its path the file."""

    caption: str


@dataclass(frozen=True)
class SearchResult:
    """The hits, the best first. Can be iterated and counted like a list of them."""

    query: str | None
    image: str | None = None
    like: str | None = None  # a photo's key
    hits: Sequence[Hit] = ()
    min_score: float | None = None  # hits below it were left out
    unknown_words: Sequence[str] = ()  # of the query: the model has never seen them
    taken_for: Mapping[str, str] = field(default_factory=dict)  # other such words, for known ones
    alike: Mapping[str, Sequence[Hit]] = field(default_factory=dict)  # near-duplicates, by key
    parts: Sequence[QueryPart] = ()  # of the query, as parsed

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]

    def as_dict(self) -> dict[str, Any]:
        """As `vsepp search --json` prints it."""
        return {
            "query": self.query,
            "image": self.image,
            "like": self.like,
            "hits": [_plain(hit) for hit in self.hits],
            "min_score": self.min_score,
            "unknown_words": list(self.unknown_words),
            "taken_for": dict(self.taken_for),
            "alike": {key: [_plain(hit) for hit in hits] for key, hits in self.alike.items()},
        }

    def table(self) -> str:
        """Lines for people and programs, not a table that wraps: paths must stay whole."""
        lines = ["score   found"]
        for hit in self.hits:
            lines.append(f"{hit.score:6.3f}  {getattr(hit, 'caption', address(hit.path))}")
            lines += [f"  alike {address(other.path)}" for other in self.alike.get(hit.key, ())]
        return "\n".join(lines)

    def notes(self) -> list[str]:
        """What users should know beside the hits."""
        notes = [f"Taking {word!r} for {known!r}." for word, known in self.taken_for.items()]
        if self.unknown_words:
            notes.append(f"Words that the model does not know: {', '.join(self.unknown_words)}.")
        if not self.hits and self.min_score is not None:
            notes.append(f"No photo scores {self.min_score:.3f} or more.")
        return notes


def _plain(hit: Hit) -> dict[str, Any]:
    return {**asdict(hit), "path": address(hit.path)}
