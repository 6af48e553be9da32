"""How much a stranger may ask for at once. docs/search.md lists the same numbers."""

from dataclasses import dataclass

# Part of the interface, and so of its OpenAPI description.
LONGEST_QUERY = 500  # characters
MOST_HITS = 200  # in one answer
DEEPEST = 10_000  # hits that can be reached by scrolling
DEEPEST_FOLDED = (
    400  # the same when near-duplicates are folded: each is compared with all before it
)
SIDES = (320, 640, 1600)  # pixels of a thumbnail's longer side


@dataclass(frozen=True)
class Limits:
    """What may differ from one service to another."""

    upload_bytes: int = 25_000_000
    uploads_bytes: int = 100_000_000  # of all uploads together
    upload_seconds: float = 60.0  # until an upload must be here
    decoding_seconds: int = 5  # that the decoder may take for one photo
    decoding_bytes: int = 1_000_000_000  # of memory, likewise
    seconds: float = 10.0  # that a request may take
    connections: int = 200
    thumbnail_bytes: int = 64_000_000  # of thumbnails that are kept in memory
