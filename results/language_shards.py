"""Adds captions of other languages to Flickr8k's photos, as tar shards to learn from and to measure on.

    python results/language_shards.py CAPTIONS WORLD [once]
    python results/language_shards.py CAPTIONS FLICKR8K INTO

CAPTIONS is a JSON file, maybe packed by gzip: {KEY: {"de": [...], "fr": [...], ...}}.

The first form adds to what results/world.py wrote, so near-duplicates of held-out photos stay out. Each training photo comes
once more for each language, under a key of its own such as KEY-de: with data.captions_per_epoch = 1, every epoch sees
each photo in every language. A validation photo gets the captions of all languages itself: as a second photo it
would tie with itself for the first place. With "once", each training photo comes once more for all languages
together, so that epochs in which the net learns stay short, and validation photos stay English.

The second form writes INTO/de, INTO/fr, ...: val and test with the captions of one language, and only the photos that have some.
"""

import gzip
import io
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

Captions = dict[str, dict[str, list[str]]]


def read_captions(file: Path) -> Captions:
    content = file.read_bytes()
    captions: Captions = json.loads(gzip.decompress(content) if file.suffix == ".gz" else content)
    return captions


def languages_of(captions: Captions) -> list[str]:
    return sorted({language for photo in captions.values() for language in photo})


def photos(shard: Path) -> Iterator[tuple[str, bytes, dict]]:
    """Key, image file and label."""
    with tarfile.open(shard) as tar:
        for member in tar.getmembers():
            if member.name.endswith(".jpg"):
                key = member.name.removesuffix(".jpg")
                label = json.load(tar.extractfile(f"{key}.json"))
                yield key, tar.extractfile(member).read(), label


def write(found: list[tuple[str, bytes, dict]], shard: Path) -> None:
    """A shard, unless it would be empty."""
    if not found:
        return
    draft = shard.with_suffix(".part")
    with tarfile.open(draft, "w") as tar:
        for key, image, label in found:
            for suffix, content in (("jpg", image), ("json", json.dumps(label).encode())):
                member = tarfile.TarInfo(f"{key}.{suffix}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    draft.replace(shard)


def in_language(shard: Path, captions: Captions, language: str, ending: str = "") -> list:
    """The shard's photos that have captions of this language, with these alone."""
    return [
        (key + ending, image, {"captions": captions[key][language], "split": label["split"]})
        for key, image, label in photos(shard)
        if language in captions.get(key, {})
    ]


def in_all_languages(shard: Path, captions: Captions) -> list:
    """The shard's photos, each with its captions of all languages; they may have some of them already."""
    together = []
    for key, image, label in photos(shard):
        others = [text for texts in captions.get(key, {}).values() for text in texts]
        said = list(dict.fromkeys([*label["captions"], *others]))
        together.append((key, image, {"captions": said, "split": label["split"]}))
    return together


def add_to_world(captions: Captions, world: Path) -> None:
    for shard in sorted(world.glob("flickr8k-train-???.tar")):
        for language in languages_of(captions):
            found = in_language(shard, captions, language, f"-{language}")
            write(found, shard.with_stem(f"{shard.stem}-{language}"))
            print(f"{shard.stem}-{language}: {len(found):,} photos")
    for shard in sorted(world.glob("flickr8k-val-???.tar")):
        found = in_all_languages(shard, captions)
        write(found, shard)
        print(f"{shard.stem}: {sum(len(label['captions']) for *_, label in found):,} captions")


def add_once_to_world(captions: Captions, world: Path) -> None:
    for shard in sorted(world.glob("flickr8k-train-???.tar")):
        found = []
        for key, image, label in photos(shard):
            others = [text for texts in captions.get(key, {}).values() for text in texts]
            if others:
                found.append((f"{key}-xx", image, label | {"captions": others}))
        write(found, shard.with_stem(f"{shard.stem}-xx"))
        print(f"{shard.stem}-xx: {len(found):,} photos")


def write_each_language(captions: Captions, flickr8k: Path, into: Path) -> None:
    for language in languages_of(captions):
        (into / language).mkdir(parents=True, exist_ok=True)
        for split in ("val", "test"):
            for shard in sorted(flickr8k.glob(f"flickr8k-{split}-???.tar")):
                found = in_language(shard, captions, language)
                write(found, into / language / shard.name)
                print(f"{language}/{shard.stem}: {len(found):,} photos")


def main() -> None:
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    captions, folder = read_captions(Path(sys.argv[1])), Path(sys.argv[2])
    if not list(folder.glob("flickr8k-*-???.tar")):
        sys.exit(f"{folder} has no shards such as flickr8k-train-000.tar.")
    if len(sys.argv) == 3:
        add_to_world(captions, folder)
    elif sys.argv[3] == "once":
        add_once_to_world(captions, folder)
    else:
        write_each_language(captions, folder, Path(sys.argv[3]))


if __name__ == "__main__":
    main()
