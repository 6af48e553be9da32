"""The language of the search box: words, words to leave out, folders and times.

two dogs -people in:2019/beach after:2020-05 before:2021 -in:Screenshots -"red car"
"""

import re
from dataclasses import dataclass
from datetime import date

from vsepp.errors import WrongRequest
from vsepp.search.where import EVERYWHERE, Where

TOKEN = re.compile(
    r'(?P<minus>-)?(?:(?P<filter>in|after|before):)?(?:"(?P<quoted>[^"]*)"?|(?P<plain>\S+))',
    re.IGNORECASE,
)
DATES = "Write 2020, 2020-05 or 2020-05-17."
DAY = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?")


@dataclass(frozen=True)
class Query:
    """What somebody typed, understood."""

    words: str
    minus: tuple[str, ...] = ()
    where: Where = EVERYWHERE


def understood(text: str) -> Query:
    """Words are what is not a filter and has no minus; quotes hold several words together."""
    words, minus = [], []
    found: dict[str, list[str]] = {"in": [], "-in": [], "after": [], "before": []}
    for token in TOKEN.finditer(text):
        value = token["plain"] if token["quoted"] is None else token["quoted"].strip()
        if not value:
            continue
        if token["filter"]:
            found[_filter_name(token)].append(value)
        elif value.lower() in ("in:", "after:", "before:"):
            raise WrongRequest(f"{value} stands alone. Write {value}2019, without a space.")
        elif token["minus"]:
            minus.append(value)
        else:
            words.append(value)
    where = Where(
        inside=tuple(found["in"]),
        outside=tuple(found["-in"]),
        after=max(map(_day, found["after"]), default=None),
        before=min(map(_day, found["before"]), default=None),
    )
    return Query(" ".join(words), tuple(minus), where)


def _filter_name(token: re.Match[str]) -> str:
    name = token["filter"].lower()
    if not token["minus"]:
        return str(name)
    if name != "in":
        other = "before" if name == "after" else "after"
        raise WrongRequest(f"{token[0]}: write {other}: instead.")
    return "-in"


def _day(written: str) -> str:
    """2020, 2020-5 or 2020-05-17 as ISO writes it, no more exact than it was."""
    match = DAY.fullmatch(written)
    if match is None:
        raise WrongRequest(f"{written!r} is no date. {DATES}")
    year, month, day = match.groups()
    try:
        whole = date(int(year), int(month or 1), int(day or 1)).isoformat()
    except ValueError as error:
        raise WrongRequest(f"{written!r} is no date ({error}). {DATES}") from error
    return whole[: 10 if day else 7 if month else 4]
