"""The query language, and filters by folder and time.

two dogs -people in:2019/beach after:2020-05 before:2021 -in:Screenshots -"red car"
"""

import os
import re
import unicodedata
from dataclasses import dataclass, field
from datetime import date

import numpy as np
from numpy.typing import NDArray

from vsepp.errors import WrongRequest

TOKEN = re.compile(
    r'(?P<minus>-)?(?:(?P<filter>in|after|before):)?(?:"(?P<quoted>[^"]*)"?|(?P<plain>\S+))',
    re.IGNORECASE,
)
DATE_FORMATS = "Write 2020, 2020-05 or 2020-05-17."
DATE = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?")


@dataclass(frozen=True)
class Where:
    """A filter. Folders match by whole names, anywhere in the path, ignoring case."""

    inside: tuple[str, ...] = ()  # in every one of these; "2019/beach" is two folders in a row
    outside: tuple[str, ...] = ()  # in none of these
    after: str | None = None  # inclusive: "2020-05" begins with May
    before: str | None = None  # exclusive: "2021" ends with December 2020

    def accepts_folder(self, folder: str) -> bool:
        path = f"/{normalize_folder(folder)}/"
        inside = all(f"/{normalize_folder(name)}/" in path for name in self.inside)
        return inside and not any(f"/{normalize_folder(name)}/" in path for name in self.outside)

    def accepts_times(self, taken: NDArray[np.datetime64]) -> NDArray[np.bool_]:
        accepted = np.ones(len(taken), dtype=bool)
        if self.after is not None:
            accepted &= taken >= np.datetime64(self.after)
        if self.before is not None:
            accepted &= taken < np.datetime64(self.before)
        return accepted

    def __bool__(self) -> bool:
        return self != Where()


@dataclass(frozen=True)
class QueryPart:
    """A word or a filter of a query."""

    text: str  # as typed
    filter: str  # in, -in, after, before; empty for words
    value: str  # without quotes


@dataclass(frozen=True)
class Query:
    """A parsed query."""

    words: str
    minus: tuple[str, ...] = ()  # words to avoid
    where: Where = Where()
    parts: tuple[QueryPart, ...] = field(default=(), compare=False)


def parse_query(text: str) -> Query:
    """Whatever is no filter and has no minus is a word; quotes keep several words together."""
    words, minus, parts = [], [], []
    filters: dict[str, list[str]] = {"in": [], "-in": [], "after": [], "before": []}
    for token in TOKEN.finditer(text):
        value = token["plain"] if token["quoted"] is None else token["quoted"].strip()
        if not value:
            continue
        name = _filter_name(token) if token["filter"] else ""
        parts.append(QueryPart(token[0], name, value))
        if name:
            filters[name].append(value)
        elif value.lower() in ("in:", "after:", "before:"):
            raise WrongRequest(f"{value} needs a value. Write {value}2019, without a space.")
        elif token["minus"]:
            minus.append(value)
        else:
            words.append(value)
    where = Where(
        inside=tuple(filters["in"]),
        outside=tuple(filters["-in"]),
        after=max(map(_date, filters["after"]), default=None),
        before=min(map(_date, filters["before"]), default=None),
    )
    return Query(" ".join(words), tuple(minus), where, tuple(parts))


def normalize_folder(folder: str) -> str:
    """For comparing: case is ignored, and é is the same as one character or as two."""
    plain = unicodedata.normalize("NFC", folder).casefold()
    return unicodedata.normalize("NFC", plain).replace(os.sep, "/").strip("/")


def _filter_name(token: re.Match[str]) -> str:
    name = token["filter"].lower()
    if not token["minus"]:
        return str(name)
    if name != "in":
        other = "before" if name == "after" else "after"
        raise WrongRequest(f"{token[0]}: write {other}: instead.")
    return "-in"


def _date(written: str) -> str:
    """2020, 2020-5 or 2020-05-17 in ISO format, with the same precision."""
    match = DATE.fullmatch(written)
    if match is None:
        raise WrongRequest(f"{written!r} is not a date. {DATE_FORMATS}")
    year, month, day = match.groups()
    try:
        whole = date(int(year), int(month or 1), int(day or 1)).isoformat()
    except ValueError as error:
        raise WrongRequest(f"{written!r} is not a date ({error}). {DATE_FORMATS}") from error
    return whole[: 10 if day else 7 if month else 4]
