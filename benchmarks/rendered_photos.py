"""Pictures that cost a decoder what photos cost: rendered, each one different.

Photos have detail at every scale, the finer the fainter. So has this: a piece of noise whose octaves
lose strength as those of photos do, turned, stretched and tinted, with a few sharp edges on top.
"""

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SIZE = (640, 480)
TEXTURE = 2048  # pixels a side, of the noise that all pieces are cut from


def write_photos(folders: list[Path], per_folder: int) -> int:
    """Fill each folder with photos; the number of bytes written."""
    generator = np.random.default_rng(0)
    texture = noise(generator)
    num_bytes = 0
    for folder in folders:
        folder.mkdir(parents=True)
        for number in range(per_folder):
            num_bytes += (folder / f"{number:04d}.jpg").write_bytes(photo(texture, generator))
    return num_bytes


def noise(generator: np.random.Generator) -> Image.Image:
    pixels = np.zeros((TEXTURE, TEXTURE, 3), dtype=np.float32)
    side, strength = 4, 1.0
    while side <= TEXTURE:
        octave = generator.integers(0, 256, (side, side, 3), dtype=np.uint8)
        stretched = Image.fromarray(octave).resize((TEXTURE, TEXTURE), Image.Resampling.BICUBIC)
        pixels += strength * (np.asarray(stretched, dtype=np.float32) - 128)
        side, strength = side * 2, strength * 0.85
    return Image.fromarray(np.clip(128 + pixels * (45 / pixels.std()), 0, 255).astype(np.uint8))


def photo(texture: Image.Image, generator: np.random.Generator) -> bytes:
    picture = turned_piece(texture, generator)
    draw = ImageDraw.Draw(picture)
    for shape in (draw.ellipse, draw.rectangle) * int(generator.integers(1, 4)):
        left, right = sorted(generator.integers(0, SIZE[0], 2).tolist())
        top, bottom = sorted(generator.integers(0, SIZE[1], 2).tolist())
        shape((left, top, right, bottom), outline=colour(generator), width=3)
    file = BytesIO()
    picture.save(file, "JPEG", quality=int(generator.integers(82, 96)))
    return file.getvalue()


def turned_piece(texture: Image.Image, generator: np.random.Generator) -> Image.Image:
    angle, scale = generator.uniform(0, 2 * np.pi), generator.uniform(0.6, 1.5)
    a, b = scale * np.cos(angle), scale * np.sin(angle)
    x, y = generator.uniform(0.4, 0.6, 2) * TEXTURE  # of its middle: far enough from the edges
    middle_x, middle_y = SIZE[0] / 2, SIZE[1] / 2
    matrix = (a, b, x - a * middle_x - b * middle_y, -b, a, y + b * middle_x - a * middle_y)
    piece = texture.transform(
        SIZE, Image.Transform.AFFINE, matrix, resample=Image.Resampling.BILINEAR
    )
    return Image.blend(piece, Image.new("RGB", SIZE, colour(generator)), generator.uniform(0, 0.4))


def colour(generator: np.random.Generator) -> tuple[int, int, int]:
    red, green, blue = generator.integers(0, 256, 3).tolist()
    return red, green, blue
