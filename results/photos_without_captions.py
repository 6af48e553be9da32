"""COCO's training photos that no captions are known of, as tar shards of photos alone: something to distill a teacher on.

    python results/photos_without_captions.py GITDIR CAPTIONS HELD_OUT INTO SHARDS [SHARDS ...]

GITDIR is a git directory with train2017/*.jpg, CAPTIONS the JSON file of the photos that have some (maybe packed by gzip). HELD_OUT is a
folder of CSV files that name every photo of Karpathy's val and test (Crisscrossed Captions: sits_val.csv, sits_test.csv, ...);
none of them is taken. SHARDS are folders with tar shards of val and test; what looks like one of their photos, as
it is or mirrored, is left out by the rule of results/world.py. results/photos-without-captions.json has the counts.
"""

import gzip
import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from world import Photo, look, looks_like_any, photos

RECORD = Path(__file__).with_name("photos-without-captions.json")
SHARD_SIZE = 50e6
HELD_OUT_NAME = re.compile(r"COCO_[a-z]+2014_(\d{12})")
BATCH = 1000
# Mapped once: by default git maps parts of a pack of 1.6 GB again and again.
WHOLE_PACK = ("-c", "core.packedGitWindowSize=4g", "-c", "core.packedGitLimit=8g")


def names_in(gitdir: Path) -> list[str]:
    listed = ["git", "-C", str(gitdir), "ls-tree", "--name-only", "HEAD:train2017"]
    return subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()


def read(gitdir: Path, names: list[str]) -> Iterator[bytes]:
    asked = "".join(f"HEAD:train2017/{name}\n" for name in names).encode()
    command = ["git", *WHOLE_PACK, "-C", str(gitdir), "cat-file", "--batch"]
    answer = io.BytesIO(
        subprocess.run(command, input=asked, check=True, capture_output=True).stdout
    )
    for _ in names:
        yield answer.read(int(answer.readline().split()[2]))
        answer.read(1)


def unlike(tests: list[Photo], gitdir: Path, names: list[str]) -> Iterator[tuple[str, bytes]]:
    """The photos that look like none of the tests."""
    for start in range(0, len(names), BATCH):
        some = names[start : start + BATCH]
        contents = list(read(gitdir, some))
        found = [
            Photo("coco", "", gitdir, name, look(jpeg), 0)
            for name, jpeg in zip(some, contents, strict=True)
        ]
        alike = looks_like_any(found, tests)
        for name, jpeg, is_out in zip(some, contents, alike, strict=True):
            if not is_out:
                yield name, jpeg


def parted(named: Iterator[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    """One part for each shard."""
    part, size = [], 0
    for name, jpeg in named:
        part.append((name, jpeg))
        size += len(jpeg)
        if size >= SHARD_SIZE:
            yield part
            part, size = [], 0
    if part:
        yield part


def write(part: list[tuple[str, bytes]], file: Path) -> None:
    with tarfile.open(file, "w") as shard:
        for name, jpeg in part:
            member = tarfile.TarInfo(name)
            member.size = len(jpeg)
            shard.addfile(member, io.BytesIO(jpeg))


def main() -> None:
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    gitdir, captions, held_out, into, *folders = map(Path, sys.argv[1:])
    content = captions.read_bytes()
    with_captions = set(
        json.loads(gzip.decompress(content) if captions.suffix == ".gz" else content)
    )
    evaluated = {
        f"{number}.jpg"
        for file in held_out.glob("*.csv")
        for number in HELD_OUT_NAME.findall(file.read_text(encoding="utf-8"))
    }
    here = names_in(gitdir)
    names = sorted(set(here) - with_captions - evaluated)
    shards = [shard for folder in folders for shard in sorted(folder.glob("*.tar"))]
    tests = list(photos("", [shard for shard in shards if "-train-" not in shard.name]))
    into.mkdir(parents=True, exist_ok=True)
    taken = 0
    for number, part in enumerate(parted(unlike(tests, gitdir, names))):
        write(part, into / f"coco-photos-{number:03d}.tar")
        taken += len(part)
    counts = {
        "photos in the folder": len(here),
        "with captions": len(set(here) & with_captions),
        "of Karpathy's val and test": len(set(here) & evaluated),
        "near-duplicates of val and test": len(names) - taken,
        "taken": taken,
    }
    RECORD.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(counts, indent=2))


if __name__ == "__main__":
    main()
