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
    seconds: float = 10.0  # that a request may take
    thumbnail_bytes: int = 64_000_000  # of thumbnails that are kept in memory
