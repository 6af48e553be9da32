"""Squeezes the photos of tar shards to one square size, as COCO's training photos are at hand.

    python results/squeezed_shards.py SHARDS INTO [SIDE]

Random crops of the original pixels (data.crop_from=original) then show parts of squeezed photos, as a model that looks at squeezed
ones needs them. Validation photos, and those that have the size already, are copied as they are.
"""

import io
import sys
import tarfile
from pathlib import Path

from PIL import Image, ImageOps

SIDE, QUALITY = 256, 95


def squeezed(content: bytes, side: int) -> bytes:
    picture = Image.open(io.BytesIO(content))
    if picture.size == (side, side):
        return content
    upright = ImageOps.exif_transpose(picture).convert("RGB")
    file = io.BytesIO()
    upright.resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def main() -> None:
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    folder, into = map(Path, sys.argv[1:3])
    side = int(sys.argv[3]) if len(sys.argv) == 4 else SIDE
    into.mkdir(parents=True, exist_ok=True)
    for shard in sorted(folder.glob("*.tar")):
        with tarfile.open(shard) as tar, tarfile.open(into / shard.name, "w") as copy:
            for member in tar:
                content = tar.extractfile(member).read()
                if member.name.endswith(".jpg") and "-train-" in shard.name:
                    content = squeezed(content, side)
                    member.size = len(content)
                copy.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    main()
