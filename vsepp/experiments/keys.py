"""Tables of keys -> frozen dataclasses: a key that does not exist is answered with those that do."""

import tomllib
import typing
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from vsepp.errors import WrongRequest

T = TypeVar("T")
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}

NO_EFFECT = "no effect"
# A key that cannot change the model that a run ends with, or only what is compared by its content.
NoEffect = Annotated[T, NO_EFFECT]


def decisive_keys(keys: Any, path: str = "") -> dict[str, Any]:
    """All other keys of a dataclass, by their dotted names."""
    found: dict[str, Any] = {}
    for key, kind in typing.get_type_hints(type(keys), include_extras=True).items():
        value, name = getattr(keys, key), f"{path}{key}"
        if NO_EFFECT not in getattr(kind, "__metadata__", ()):
            found |= decisive_keys(value, f"{name}.") if is_dataclass(value) else {name: value}
    return found


def read_keys(kind: type[T], changes: Iterable[str], content: dict[str, Any] | None = None) -> T:
    """A dataclass of keys from a table and `--set` changes to it."""
    content = {} if content is None else content
    for change in changes:
        apply(content, change)
    return _read(kind, content, "")


def apply(content: dict[str, Any], change: str) -> None:
    """Put one `--set key.path=value` into a table."""
    path, equals, text = change.partition("=")
    if not equals:
        raise WrongRequest(f"--set {change}: write it as key=value, such as loss.margin=0.1.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    *above, last = path.strip().split(".")
    place: Any = content
    for step in above:
        if isinstance(place, list):
            place = place[_position(place, step, change)]
        elif isinstance(place, dict):
            place = place.setdefault(step, {})
    if isinstance(place, list):
        place[_position(place, last, change)] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise WrongRequest(f"--set {change}: {'.'.join(above)} holds a value, not keys.")


def _position(items: list[Any], step: str, change: str) -> int:
    if not step.isdecimal() or int(step) >= len(items):
        raise WrongRequest(
            f"--set {change}: {step} is not an item; there are 0 to {len(items) - 1}."
        )
    return int(step)


def _read(kind: type[T], content: Any, path: str) -> T:
    """A dataclass from a TOML table: keys known, types right."""
    if not isinstance(content, dict):
        raise WrongRequest(f"{path or 'A recipe'} takes keys, not {content!r}.")
    types_of = typing.get_type_hints(kind)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for key in content:
        if key not in known:
            where = f"{path}.{key}" if path else key
            raise WrongRequest(f"Unknown key {where}. Known: {', '.join(known)}.")
    values = {
        key: _value(types_of[key], value, f"{path}.{key}" if path else key)
        for key, value in content.items()
    }
    try:
        return kind(**values)
    except TypeError as error:  # a key without default is missing
        raise WrongRequest(
            f"{path or 'The recipe'}: {str(error).partition(')')[2].strip()}."
        ) from error


def _value(wanted: Any, value: Any, path: str) -> Any:
    if get_origin(wanted) is UnionType:  # a table that may be absent
        wanted = next(kind for kind in get_args(wanted) if kind is not NoneType)
    if is_dataclass(wanted):
        return _read(wanted, value, path)  # type: ignore[arg-type]
    if get_origin(wanted) is tuple:
        if not isinstance(value, list):
            raise WrongRequest(f"{path} takes a list, not {value!r}.")
        inner = get_args(wanted)[0]
        return tuple(_value(inner, item, f"{path}.{n}") for n, item in enumerate(value))
    if get_origin(wanted) is Literal:
        if value not in get_args(wanted):
            raise WrongRequest(f"{path} takes {' or '.join(get_args(wanted))}, not {value!r}.")
        return value
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not wanted:
        raise WrongRequest(f"{path} takes {WORDS[wanted]}, not {value!r}.")
    return value
