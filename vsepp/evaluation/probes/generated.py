"""Probes that are made here: of the built-in world, where truth is known, and of any captions by exchanging words.

Six kinds: attribute, object, relation, order (the same words in other places), negation and counting.
"""

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from vsepp.data.captioned import CaptionedImage
from vsepp.data.shapes import COLOURS, SHAPES, Scene, Thing
from vsepp.evaluation.probes.probe import Probe

KINDS = ("attribute", "object", "relation", "order", "negation", "counting")


# ---- the built-in world ----------------------------------------------------------------------


def world_probes(items: Sequence[CaptionedImage], seed: int = 0) -> list[Probe]:
    """One probe of each kind for each scene; what is said is true or false by construction."""
    probes = []
    for number, item in enumerate(items):
        if isinstance(item.path, Scene):
            generator = np.random.default_rng((seed, number))
            probes += [_world_probe(kind, item.path, generator) for kind in KINDS]
    return probes


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
        "counting": (f"one {a.shape}", f"two {a.shape}s"),
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
DENIED = ((" is ", " is not "), (" are ", " are not "), (" with ", " without "), ("a ", "no "))


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


def _exchange(groups: Iterable[Sequence[str]]) -> Callable[[str, np.random.Generator], str | None]:
    """Replaces the first word of a group by another of the group that the caption does not have."""
    group_of = {word: group for group in groups for word in group}

    def change(text: str, generator: np.random.Generator) -> str | None:
        words = text.split()
        lower = [word.lower().strip(".,") for word in words]
        place = next((n for n, word in enumerate(lower) if word in group_of), None)
        if place is None:
            return None
        others = [word for word in group_of[lower[place]] if word not in lower]
        words[place] = str(generator.choice(others))
        return " ".join(words)

    return change


def _turn_relation(text: str, generator: np.random.Generator) -> str | None:
    words = text.split()
    place = next((n for n, word in enumerate(words) if word.lower() in OPPOSITES), None)
    if place is None:
        return None
    return " ".join([*words[:place], OPPOSITES[words[place].lower()], *words[place + 1 :]])


def _reorder(text: str, generator: np.random.Generator) -> str | None:
    """The same words, shuffled; the end of the sentence stays where it is."""
    words = re.findall(r"\w[\w'-]*", text.lower())
    if len(set(words)) < 4:
        return None
    ended = text.rstrip().endswith(".")
    return " ".join(generator.permutation(words).tolist()) + (" ." if ended else "")


def _deny(text: str, generator: np.random.Generator) -> str | None:
    for said, denied in DENIED:
        if said in text.lower():
            start = text.lower().index(said)
            return text[:start] + denied + text[start + len(said) :]
    return None


CHANGES: dict[str, Callable[[str, np.random.Generator], str | None]] = {
    "attribute": _exchange([COLOUR_WORDS]),
    "object": _exchange(OBJECT_WORDS),
    "relation": _turn_relation,
    "order": _reorder,
    "negation": _deny,
    "counting": _exchange([COUNT_WORDS]),
}
