from pathlib import Path

from vsepp.data.image_file import NAMES
from vsepp.data.resources import MOST_MEMORY
from vsepp.service.limits import (
    MAX_DEPTH,
    MAX_DEPTH_FOLDED,
    MAX_HITS,
    MAX_QUERY,
    THUMBNAIL_SIDES,
    Limits,
)

DOCS = (Path(__file__).parents[2] / "docs" / "search.md").read_text()


def test_the_docs_state_the_limits_as_they_are():
    limits = Limits()
    for said in (
        f"{limits.upload_bytes / 1e6:.0f} MB, {MOST_MEMORY / 1e6:.0f} MB of memory to decode it; "
        f"{NAMES}, by its content",
        f"{limits.uploads_bytes / 1e6:.0f} MB, then 503",
        f"each has {limits.upload_seconds:g} seconds",
        f"{limits.decoding_seconds} seconds and {limits.decoding_bytes / 1e6:,.0f} MB of memory",
        f"| connections | {limits.connections} |",
        f"{MAX_QUERY} characters",
        f"{MAX_HITS} in one answer, {MAX_DEPTH:,} by scrolling, {MAX_DEPTH_FOLDED} when",
        f"{limits.seconds:g} seconds",
        f"{limits.thumbnail_bytes / 1e6:.0f} MB, the last used",
        "{}, {} or {}".format(*THUMBNAIL_SIDES),
    ):
        assert said in DOCS
