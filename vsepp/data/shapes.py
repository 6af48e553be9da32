"""Generated scenes of three coloured shapes, rendered on demand, with five captions each.

Scenes come in families of four. Three of them change the first in one thing (a colour, a texture,
two shapes that trade places), so that captions differ by a word and hard negatives are near.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vsepp.data.captioned import CaptionedImage, CaptionedImages
from vsepp.errors import WrongRequest

COLOURS = {
    "red": (214, 48, 49),
    "orange": (240, 140, 30),
    "yellow": (246, 214, 60),
    "green": (52, 158, 84),
    "blue": (44, 102, 206),
    "purple": (142, 68, 173),
}
TEXTURES = ("plain", "striped", "dotted", "checkered")
SIZES = {"small": 0.13, "big": 0.19}  # radius, relative to the image
FAMILY = 4  # scenes that differ in one thing
NUM_CAPTIONS = 5
SMALLEST = 64  # pixels; every shape and texture can still be told apart

Field = NDArray[np.float64]


@dataclass(frozen=True)
class Thing:
    """One shape of a scene, its centre at (x, y), y pointing down."""

    shape: str
    colour: str
    texture: str
    size: str
    x: float
    y: float
    tilt: float


@dataclass(frozen=True)
class Scene:
    """Three things on a pale ground."""

    number: int
    things: tuple[Thing, ...]
    ground: tuple[float, float, float]

    def open(self, short_side: int) -> Image.Image:
        """Rendered at the size that is asked for."""
        side = max(short_side, SMALLEST)
        x, y = np.meshgrid(*(2 * [(np.arange(side) + 0.5) / side]))
        # a shade from top to bottom, so that the ground is not one flat colour
        canvas = np.array(self.ground) * (1.04 - 0.1 * y)[..., None]
        for thing in self.things:
            paint, cover = _painted(thing, x, y, side)
            canvas += cover[..., None] * (paint - canvas)
        return Image.fromarray(canvas.clip(0, 255).astype(np.uint8))

    def __str__(self) -> str:
        return f"shapes/{self.number:06d}"


def open_world(where: str) -> CaptionedImages:
    """`shapes:N`: N scenes, the same ones every time; of eight families six train, one is val, one test."""
    count = where.partition(":")[2]
    if not count.isdecimal() or not 8 * FAMILY <= int(count) <= 1_000_000:
        raise WrongRequest(
            f"{where}: write shapes:N with N scenes, from {8 * FAMILY} to 1000000, such as shapes:4000."
        )
    items = [_item(number) for number in range(int(count))]
    return CaptionedImages(f"{where} (generated scenes)", items)


def _item(number: int) -> CaptionedImage:
    family, member = divmod(number, FAMILY)
    scene = _member_of_family(family, member, number)
    generator = np.random.default_rng((1, number))
    captions = tuple(_caption(scene, wording, generator) for wording in range(NUM_CAPTIONS))
    split = {6: "val", 7: "test"}.get(family % 8, "train")
    return CaptionedImage(str(scene), scene, captions, split)


# ---- scenes ---------------------------------------------------------------------------------


def _member_of_family(family: int, member: int, number: int) -> Scene:
    scene = _random_scene(np.random.default_rng((0, family)))
    if member > 0:  # the others change the first one in different ways
        change = (_recolour, _retexture, _swap_places)[member % 3]
        changed = change(scene.things, np.random.default_rng((3, number)))
        scene = replace(scene, things=changed)
    jitter = np.random.default_rng((2, number))
    things = tuple(
        replace(
            thing,
            x=thing.x + jitter.uniform(-0.02, 0.02),
            y=thing.y + jitter.uniform(-0.02, 0.02),
            tilt=jitter.uniform(-0.2, 0.2),
        )
        for thing in scene.things
    )
    red, green, blue = jitter.uniform(205, 245, 3)
    ground = float(red), float(green), float(blue)
    return Scene(number, things, ground)


def _random_scene(generator: np.random.Generator) -> Scene:
    shapes = generator.choice(list(SHAPES), 3, replace=False)
    colours = generator.choice(list(COLOURS), 3, replace=False)
    # one thing in each column and each row of a 3 x 3 board: left, right, above, below are plain
    rows = generator.permutation(3)
    things = tuple(
        Thing(
            str(shapes[i]),
            str(colours[i]),
            str(generator.choice(TEXTURES)),
            str(generator.choice(list(SIZES))),
            x=0.21 + 0.29 * i,
            y=0.21 + 0.29 * float(rows[i]),
            tilt=0.0,
        )
        for i in range(3)
    )
    return Scene(0, things, (0, 0, 0))


def _recolour(things: tuple[Thing, ...], generator: np.random.Generator) -> tuple[Thing, ...]:
    taken = {thing.colour for thing in things}
    colour = generator.choice([colour for colour in COLOURS if colour not in taken])
    chosen = int(generator.integers(3))
    return _with_another(things, chosen, replace(things[chosen], colour=str(colour)))


def _retexture(things: tuple[Thing, ...], generator: np.random.Generator) -> tuple[Thing, ...]:
    chosen = int(generator.integers(3))
    others = [texture for texture in TEXTURES if texture != things[chosen].texture]
    changed = replace(things[chosen], texture=str(generator.choice(others)))
    return _with_another(things, chosen, changed)


def _swap_places(things: tuple[Thing, ...], generator: np.random.Generator) -> tuple[Thing, ...]:
    a, b, c = (things[int(i)] for i in generator.permutation(3))
    return (replace(a, x=b.x, y=b.y), replace(b, x=a.x, y=a.y), c)


def _with_another(things: tuple[Thing, ...], place: int, thing: Thing) -> tuple[Thing, ...]:
    return (*things[:place], thing, *things[place + 1 :])


# ---- captions -------------------------------------------------------------------------------


def _caption(scene: Scene, wording: int, generator: np.random.Generator) -> str:
    a, b, c = (scene.things[int(i)] for i in generator.permutation(3))
    first, second, third = (_named(thing, generator) for thing in (a, b, c))
    relation, back = _relation(a, b, generator), _relation(b, a, generator)
    return (
        f"{first} {relation} {second}, and {third}",
        f"{second} with {first} {relation} it, and {third}",
        f"{first}, {second} and {third}",
        f"there is {second} {back} {first}, and {third}",
        f"{third} {_relation(c, b, generator)} {second} {back} {first}",
    )[wording]


def _named(thing: Thing, generator: np.random.Generator) -> str:
    """A description of the thing, half of the time without its size."""
    size = thing.size if generator.random() < 0.5 else ""
    texture = thing.texture if thing.texture != "plain" else ""
    words = " ".join(word for word in (size, texture, thing.colour, thing.shape) if word)
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _relation(a: Thing, b: Thing, generator: np.random.Generator) -> str:
    """Where `a` is, seen from `b`, along the axis in which they lie further apart."""
    across, down = a.x - b.x, a.y - b.y
    if abs(across) >= abs(down):
        side = "left" if across < 0 else "right"
        return str(generator.choice([f"to the {side} of", f"{side} of"]))
    return str(generator.choice(["above", "over"] if down < 0 else ["below", "under"]))


# ---- pixels ---------------------------------------------------------------------------------


def _painted(thing: Thing, x: Field, y: Field, side: int) -> tuple[Field, Field]:
    """A thing's colour (H, W, 3) and how much of each pixel it covers (H, W)."""
    radius = SIZES[thing.size]
    cos, sin = np.cos(thing.tilt), np.sin(thing.tilt)
    u = (cos * (x - thing.x) + sin * (y - thing.y)) / radius
    v = (cos * (y - thing.y) - sin * (x - thing.x)) / radius
    # An outline one pixel soft: distance to the edge, in pixels.
    cover = (0.5 - SHAPES[thing.shape](u, v) * radius * side).clip(0, 1)
    colour = np.array(COLOURS[thing.colour], dtype=float)
    dark = _pattern(thing.texture, x - thing.x, y - thing.y)[..., None]
    return colour * (1 - 0.55 * dark), cover


def _pattern(texture: str, x: Field, y: Field) -> Field:
    """Where the texture is darker than the colour; its grain does not grow with the thing."""
    if texture == "striped":
        return (np.sin(2 * np.pi * (x + y) / 0.11) > 0.1).astype(float)
    if texture == "dotted":
        return (np.cos(2 * np.pi * x / 0.1) + np.cos(2 * np.pi * y / 0.1) > 0.9).astype(float)
    if texture == "checkered":
        return (np.sin(2 * np.pi * x / 0.15) * np.sin(2 * np.pi * y / 0.15) > 0).astype(float)
    return np.zeros_like(x)


def _triangle(u: Field, v: Field) -> Field:
    return np.maximum(v - 0.6, 0.83 * np.abs(u) - 0.56 * v - 0.56)


def _cross(u: Field, v: Field) -> Field:
    upright = np.maximum(np.abs(u) - 0.34, np.abs(v) - 0.98)
    lying = np.maximum(np.abs(u) - 0.98, np.abs(v) - 0.34)
    return np.minimum(upright, lying)


def _star(u: Field, v: Field) -> Field:
    turn = np.arctan2(u, -v) % (2 * np.pi / 5)
    turn = np.minimum(turn, 2 * np.pi / 5 - turn)  # within half an arm
    return np.hypot(u, v) * (np.cos(turn) + 1.15 * np.sin(turn)) - 1.0


# Distance to the outline, negative inside, in units of the thing's radius.
SHAPES: dict[str, Callable[[Field, Field], Field]] = {
    "circle": lambda u, v: np.hypot(u, v) - 0.92,
    "square": lambda u, v: np.maximum(np.abs(u), np.abs(v)) - 0.82,
    "triangle": _triangle,
    "ring": lambda u, v: np.abs(np.hypot(u, v) - 0.7) - 0.28,
    "cross": _cross,
    "star": _star,
}
