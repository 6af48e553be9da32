"""Bytes, texts and documents, changed as an attacker or a bad disk would; the same for the same seed."""

import random
from typing import Any

NUMBERS = (0, 1, -1, 2, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**64, -(2**63), 10**30)
ODD: tuple[Any, ...] = (
    *NUMBERS,
    1e308,
    float("nan"),
    float("inf"),
    0.5,
    True,
    None,
    "",
    " ",
    "\x00",
    "a" * 10_000,
    "../../../../etc/passwd",
    "/dev/zero",
    "\ud800",
    "\u202e",
    "🐕" * 50,
    "%s%n%x",
    "'; DROP TABLE photos; --",
    "<script>alert(1)</script>",
    [],
    {},
    [[]],
    [None] * 1000,
    {"a": {"b": {"c": []}}},
)


def changed(chance: random.Random, content: bytes, others: list[bytes] | None = None) -> bytes:
    """One to six changes, most of them near the beginning, where headers are."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 6)):
        _change(chance, data, others or [content])
    return bytes(data)


def _change(chance: random.Random, data: bytearray, others: list[bytes]) -> None:
    if not data:
        data += chance.randbytes(chance.randint(0, 50))
    near = chance.choice((64, 512, len(data), len(data)))
    at = chance.randrange(min(near, len(data)) or 1)
    length = chance.choice((1, 1, 2, 4, 8, 40, 400))
    match chance.randrange(9):
        case 0:
            data[at : at + 1] = bytes([data[at] ^ (1 << chance.randrange(8))]) if data else b""
        case 1:
            data[at : at + length] = chance.randbytes(length)
        case 2:
            del data[at : at + length]
        case 3:
            data[at:at] = chance.randbytes(length)
        case 4:
            data[at : at + length] = chance.choice((b"\x00", b"\xff", b"\x7f", b"A")) * length
        case 5:
            number = chance.choice(NUMBERS) % 2**64
            size = chance.choice((2, 4, 8))
            order = chance.choice(("big", "little"))
            data[at : at + size] = (number % 2 ** (8 * size)).to_bytes(size, order)
        case 6:
            data[at:at] = data[at : at + length] * chance.choice((1, 3, 100))
        case 7:
            other = chance.choice(others)
            start = chance.randrange(len(other) or 1)
            data[at : at + length] = other[start : start + length]
        case 8:
            if chance.random() < 0.3:
                del data[at:]


def changed_text(chance: random.Random, text: str) -> bytes:
    """Some words, separators or whole lines replaced; sometimes in another encoding, sometimes bytes too."""
    words = text.split(" ")
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(words))
        signs = (
            '"',
            ",",
            "\t",
            "\n",
            "\r",
            "{",
            "[",
            "\\",
            "\x00",
            "\ufeff",
            "]" * 50,
            "[" * 5_000,
        )
        words[at] = chance.choice(
            (str(chance.choice(ODD)), words[at] + chance.choice(signs), "", words[-1])
        )
    encoding = chance.choice(("utf-8", "utf-8", "utf-8", "utf-16", "latin-1", "utf-8-sig"))
    content = " ".join(words).encode(encoding, errors="replace")
    return changed(chance, content) if chance.random() < 0.3 else content


def changed_document(chance: random.Random, document: Any) -> Any:
    """A JSON document with one to four values replaced, removed, doubled or renamed."""
    for _ in range(chance.randint(1, 4)):
        document = _replaced(chance, document, chance.randint(1, 6))
    return document


def _replaced(chance: random.Random, value: Any, depth: int) -> Any:
    if depth == 0 or not isinstance(value, (dict, list)) or not value:
        return chance.choice(ODD)
    if isinstance(value, list):
        at = chance.randrange(len(value))
        return [*value[:at], _replaced(chance, value[at], depth - 1), *value[at + 1 :]]
    key = chance.choice(list(value))
    match chance.randrange(6):
        case 0:
            return {name: one for name, one in value.items() if name != key}
        case 1:
            return {
                (str(chance.choice(ODD)) if name == key else name): one
                for name, one in value.items()
            }
        case _:
            return value | {key: _replaced(chance, value[key], depth - 1)}
