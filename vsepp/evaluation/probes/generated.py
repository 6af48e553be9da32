"""Probes that are made here: of the built-in world, where truth is known, and of any captions by exchanging words.

Six kinds: attribute, object, relation, order (the same words in other places), negation and counting.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from vsepp.data.captioned import CaptionedImage
from vsepp.data.shapes import COLOURS, SHAPES, Scene, Thing
from vsepp.evaluation.probes.probe import Probe

KINDS = ("attribute", "object", "relation", "order", "negation", "counting")
COUNTS = (1, 2), (2, 1), (2, 3), (3, 2), (3, 1), (1, 3)  # things that are there, and that are said


# ---- the built-in world ----------------------------------------------------------------------


def world_probes(items: Sequence[CaptionedImage], seed: int = 0) -> list[Probe]:
    """One probe of each kind for each scene; what is said is true or false by construction."""
    probes = []
    for number, item in enumerate(items):
        if isinstance(item.path, Scene):
            generator = np.random.default_rng((seed, number))
            probes += [_world_probe(kind, item.path, generator) for kind in KINDS[:-1]]
            probes.append(_counting_probe(item.path, number))
    return probes


def _counting_probe(scene: Scene, number: int) -> Probe:
    """One, two or three things of the scene get one shape; each number is as often true as false."""
    true, false = COUNTS[number % len(COUNTS)]
    shape = scene.things[number % 3].shape
    chosen = {(number + step) % 3 for step in range(true)}
    things = tuple(
        replace(thing, shape=shape) if n in chosen else thing
        for n, thing in enumerate(scene.things)
    )
    return Probe(
        "counting", replace(scene, things=things), _counted(true, shape), (_counted(false, shape),)
    )


def _counted(count: int, shape: str) -> str:
    plural = "" if count == 1 else "es" if shape.endswith("s") else "s"
    return f"{COUNT_WORDS[count - 1]} {shape}{plural}"


def _world_probe(kind: str, scene: Scene, generator: np.random.Generator) -> Probe:
    a, b, _ = (scene.things[int(n)] for n in generator.permutation(3))
    absent = str(generator.choice([s for s in SHAPES if s not in {t.shape for t in scene.things}]))
    unused = str(
        generator.choice([c for c in COLOURS if c not in {t.colour for t in scene.things}])
    )
    true, false = {
        "attribute": (_thing(a), f"{_article(unused)} {unused} {a.shape}"),
        "object": (_thing(a), f"{_article(a.colour)} {a.colour} {absent}"),
        "relation": (_relation(a, b), _relation(a, b, turned=True)),
        "order": (
            f"{_thing(a)} and {_thing(b)}",
            f"{_article(b.colour)} {b.colour} {a.shape} and {_article(a.colour)} {a.colour} {b.shape}",
        ),
        "negation": (f"a {a.shape} and no {absent}", f"a {absent} and no {a.shape}"),
    }[kind]
    return Probe(kind, scene, true, (false,))


def _thing(thing: Thing) -> str:
    return f"{_article(thing.colour)} {thing.colour} {thing.shape}"


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _relation(a: Thing, b: Thing, turned: bool = False) -> str:
    """Where `a` is, seen from `b`, along the axis in which they lie further apart."""
    across, down = a.x - b.x, a.y - b.y
    if abs(across) >= abs(down):
        side = ("left", "right")[int((across > 0) != turned)]
        return f"{_thing(a)} to the {side} of {_thing(b)}"
    return f"{_thing(a)} {('above', 'below')[int((down > 0) != turned)]} {_thing(b)}"


# ---- any captions ----------------------------------------------------------------------------

COLOUR_WORDS = (
    "red",
    "orange",
    "yellow",
    "green",
    "blue",
    "purple",
    "pink",
    "brown",
    "black",
    "white",
)
OBJECT_WORDS = (
    ("man", "woman", "boy", "girl", "dog", "cat", "horse", "bird"),
    ("men", "women", "boys", "girls", "dogs", "cats", "horses", "birds"),
    ("bicycle", "motorcycle", "skateboard", "car", "truck", "surfboard"),
    ("beach", "street", "field", "mountain", "pool", "forest"),
)
COUNT_WORDS = ("one", "two", "three", "four", "five", "six")
OPPOSITES = {
    "left": "right", "right": "left", "above": "below", "below": "above", "inside": "outside",
    "outside": "inside", "up": "down", "down": "up", "behind": "in front of",
    "under": "on top of", "into": "out of", "over": "under",
}  # fmt: skip
DENIED = {"is": "is not", "are": "are not", "with": "without", "a": "no", "an": "no"}
A_WORD = re.compile(r"\w[\w'-]*")


def caption_probes(items: Sequence[CaptionedImage], seed: int = 0) -> list[Probe]:
    """One probe of each kind for each picture that has a caption for it.

    A caption with a word exchanged is taken for false; now and then it happens to be true.
    """
    probes = []
    for number, item in enumerate(items):
        generator = np.random.default_rng((seed, number))
        for kind, change in CHANGES.items():
            made = ((text, change(text, generator)) for text in item.captions)
            found = next(((a, b) for a, b in made if b is not None and b != a), None)
            if found:
                probes.append(Probe(kind, item.path, found[0], (found[1],)))
    return probes


# A false caption keeps the form of the true one, capital and marks: what is told apart shall be its meaning.


def _exchange(groups: Iterable[Sequence[str]]) -> Callable[[str, np.random.Generator], str | None]:
    """Replaces the first word of a group by another of the group that the caption does not have."""
    group_of = {word: group for group in groups for word in group}

    def change(text: str, generator: np.random.Generator) -> str | None:
        words = _words(text)
        place = next((n for n, word in enumerate(words) if word.lower() in group_of), None)
        if place is None:
            return None
        known = {word.lower() for word in words}
        others = [word for word in group_of[words[place].lower()] if word not in known]
        chosen = str(generator.choice(others))
        if place and words[place - 1].lower() in ("a", "an"):
            words[place - 1] = _as_written(words[place - 1], _article(chosen))
        return _with_words(text, _replaced(words, place, chosen))

    return change


def _turn_relation(text: str, generator: np.random.Generator) -> str | None:
    words = _words(text)
    place = next((n for n, word in enumerate(words) if word.lower() in OPPOSITES), None)
    if place is None:
        return None
    return _with_words(text, _replaced(words, place, OPPOSITES[words[place].lower()]))


def _reorder(text: str, generator: np.random.Generator) -> str | None:
    """The same words, shuffled; marks stay where they are."""
    words = _words(text)
    if len({word.lower() for word in words}) < 4:
        return None
    first = words[0]
    words = generator.permutation([first.lower(), *words[1:]]).tolist()
    return _with_words(text, _replaced(words, 0, words[0], like=first))


def _deny(text: str, generator: np.random.Generator) -> str | None:
    words = _words(text)
    lower = [word.lower() for word in words]
    said = next((word for word in DENIED if word in lower), None)
    if said is None:
        return None
    return _with_words(text, _replaced(words, lower.index(said), DENIED[said]))


def _words(text: str) -> list[str]:
    return A_WORD.findall(text)


def _with_words(text: str, words: Sequence[str]) -> str:
    """The text with other words between its marks."""
    remaining = iter(words)
    return A_WORD.sub(lambda _: next(remaining), text)


def _replaced(words: Sequence[str], place: int, word: str, like: str = "") -> list[str]:
    return [*words[:place], _as_written(like or words[place], word), *words[place + 1 :]]


def _as_written(old: str, new: str) -> str:
    """With a capital where the old word has one."""
    return new[0].upper() + new[1:] if old[0].isupper() else new


CHANGES: dict[str, Callable[[str, np.random.Generator], str | None]] = {
    "attribute": _exchange([COLOUR_WORDS]),
    "object": _exchange(OBJECT_WORDS),
    "relation": _turn_relation,
    "order": _reorder,
    "negation": _deny,
    "counting": _exchange([COUNT_WORDS]),
}
