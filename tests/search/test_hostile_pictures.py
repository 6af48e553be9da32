"""Pictures that strangers made, in folders and shards that are indexed, searched and embedded."""

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vsepp
from tests.hostile import EPS, many_scans, png
from tests.memory import peak_extra_megabytes
from tests.models import SCENES
from tests.pictures import HEIC
from tests.shards import as_jpeg, write_parquet, write_tar
from vsepp.data import resources
from vsepp.data.image_file import MOST_BYTES
from vsepp.errors import WorkFailed
from vsepp.search import embedding
from vsepp.search.embed_files import embed_folder
from vsepp.search.embedding import EmbedPhotos
from vsepp.search.sources import archives
from vsepp.search.sources.archives import InMemoryFile, Shard, read_parquet, read_tar
from vsepp.search.sources.local import Broken, File

RED = as_jpeg(Image.new("RGB", (60, 40), "red"))


@pytest.fixture
def embedder():
    return vsepp.load(SCENES)


@pytest.fixture
def folder(tmp_path):
    """Two photos, and all that must not stop anybody."""
    photos = tmp_path / "photos"
    (photos / ".hidden").mkdir(parents=True)
    for name, data in {
        "a.jpg": RED,
        "b.jpg": RED[:-40],
        "c.jpg": EPS,
        "d.jpg": many_scans(64, 200),
        "e.HEIC": HEIC.read_bytes(),
        ".hidden/f.jpg": RED,
        "._g.jpg": b"of macOS",
    }.items():
        (photos / name).write_bytes(data)
    os.mkfifo(photos / "h.jpg")
    (photos / "i.jpg").symlink_to("/dev/zero")
    (photos / "j.jpg").mkdir()
    return photos


BROKEN = {
    "b.jpg": "truncated",
    "c.jpg": "not a supported image file",
    "d.jpg": "over 100 scans",
    "h.jpg": "not a regular file",
    "i.jpg": "not a regular file",
}


def reasons(broken):
    return {Path(item.path).name: item.reason for item in broken}


def check_broken(broken):
    found = reasons(broken)
    assert found.keys() == BROKEN.keys()
    assert all(reason in found[name] for name, reason in BROKEN.items())


def test_what_cannot_be_read_is_a_line_in_the_report(embedder, folder, tmp_path):
    with vsepp.Collection.create(tmp_path / "photos.vse", embedder) as collection:
        report = collection.add(folder)
        assert report.added == len(collection) == 2
    check_broken(report.broken)


def test_embed_leaves_out_what_cannot_be_read(embedder, folder, tmp_path):
    *_, rows = embed_folder(embedder, folder, tmp_path / "v.npy")
    assert rows.names == ["a.jpg", "e.HEIC"]
    check_broken(rows.broken)
    vectors = np.load(tmp_path / "v.npy")
    assert vectors.dtype == np.float32
    expected = embedder.embed_images([folder / name for name in rows.names])
    assert np.allclose(vectors, expected, atol=1e-6)
    assert (tmp_path / "v.json").read_text() == '[\n"a.jpg",\n"e.HEIC"\n]\n'
    assert not list(tmp_path.glob("*.part"))


def test_embed_of_nothing_but_broken_pictures(embedder, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(EPS)
    *_, rows = embed_folder(embedder, tmp_path / "photos", tmp_path / "v.npy")
    assert (len(rows.names), len(rows.broken)) == (0, 1)
    assert np.load(tmp_path / "v.npy").shape == (0, embedder.dim)


def test_embed_writes_names_that_are_no_text(embedder, tmp_path):
    (tmp_path / "photos").mkdir()
    name = os.fsdecode(b"caf\xe9.jpg")
    (tmp_path / "photos" / name).write_bytes(RED)
    *_, rows = embed_folder(embedder, tmp_path / "photos", tmp_path / "v.npy")
    assert rows.names == [name]
    assert r"caf\udce9.jpg" in (tmp_path / "v.json").read_text()


def test_a_photo_of_a_search_may_be_anything(collection, tmp_path):
    (tmp_path / "query.jpg").write_bytes(EPS)
    with pytest.raises(WorkFailed, match=r"query\.jpg cannot.*: not a supported image file"):
        collection.search(image=tmp_path / "query.jpg")


@pytest.mark.slow
def test_a_bomb_is_a_line_in_the_report_and_is_not_decoded(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "bomb.png").write_bytes(png(9_000))
    used = peak_extra_megabytes(
        f"""
        import vsepp
        collection = vsepp.Collection.create({str(tmp_path / "photos.vse")!r}, vsepp.load({str(SCENES)!r}))
        """,
        f"assert len(collection.add({str(tmp_path / 'photos')!r}).broken) == 1",
    )
    assert used < 60


# ---- shards ---------------------------------------------------------------------------------


def listed(path, read=read_tar):
    with path.open("rb") as file:
        return list(read(File(str(path), path.stat().st_size, 1), file))


def huge_member(path, size, name="x.jpg", kind=tarfile.REGTYPE):
    """A gzipped tar of few bytes with a member of very many, and a photo behind it."""
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(member.tobuf())
        for _ in range(size // 2**20):
            file.write(bytes(2**20))
        with tarfile.open(fileobj=file, mode="w") as tar:
            photo = tarfile.TarInfo("y.jpg")
            photo.size = len(RED)
            tar.addfile(photo, io.BytesIO(RED))


@pytest.mark.slow
def test_the_size_of_a_member_is_looked_at_before_it_is_read(tmp_path):
    size = (MOST_BYTES // 2**20 + 1) * 2**20
    huge_member(tmp_path / "a.tar", size)
    first, second = listed(tmp_path / "a.tar")
    assert first == Broken(
        f"{tmp_path}/a.tar/x.jpg", f"{size:,} bytes, and the limit is 400,000,000"
    )
    assert second.read() == RED
    used = peak_extra_megabytes(
        "from tests.search.test_hostile_pictures import listed; from pathlib import Path",
        f"listed(Path({str(tmp_path / 'a.tar')!r}))",
    )
    assert used < 20


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_of_megabytes_is_refused(tmp_path, kind):
    huge_member(tmp_path / "a.tar", 8 * 2**20, "pax", kind)
    with pytest.raises(tarfile.ReadError, match="a header of 8 MB"):
        listed(tmp_path / "a.tar")


def test_members_stay_inside_and_links_are_not_followed(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        for name in ("../../up.jpg", "/etc/root.jpg", "a/../b.jpg", "./c.jpg"):
            member = tarfile.TarInfo(name)
            member.size = len(RED)
            tar.addfile(member, io.BytesIO(RED))
        for name, kind in (("sym.jpg", tarfile.SYMTYPE), ("hard.jpg", tarfile.LNKTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    found = [file.path.removeprefix(f"{path}/") for file in listed(path)]
    assert found == ["up.jpg", "etc/root.jpg", "a/b.jpg", "c.jpg"]


@pytest.mark.parametrize("packed", [gzip, bz2, lzma])
def test_a_compressed_tar_is_read(tmp_path, packed):
    write_tar(tmp_path / "a.tar", {"x.jpg": RED, "y.jpg": RED})
    (tmp_path / "a.tgz").write_bytes(packed.compress((tmp_path / "a.tar").read_bytes()))
    assert [file.read() for file in listed(tmp_path / "a.tgz")] == [RED, RED]


def test_rows_of_a_parquet_file_are_taken_by_their_size(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    write_parquet(path, {"image": [RED, None, bytes(5000), RED], "name": ["a", "b", "c", "d"]})
    monkeypatch.setattr(archives, "MOST_BYTES", 4000)
    found = listed(path, read_parquet)
    assert [type(item) for item in found] == [InMemoryFile, InMemoryFile, Broken, InMemoryFile]
    assert [item.read() for item in found if isinstance(item, File)] == [RED, b"", RED]
    assert found[2].reason == "5,000 bytes, and the limit is 400,000,000"
    structs = [{"bytes": RED, "path": "x/a.jpg"}, {"bytes": RED, "path": None}, None]
    write_parquet(path, {"image": structs})
    found = listed(path, read_parquet)
    assert [item.path.removeprefix(f"{path}/") for item in found] == ["x/0-a.jpg", "1", "2"]
    assert [item.read() for item in found] == [RED, RED, b""]


def test_pictures_of_shards_that_wait_are_bounded_together(tmp_path, embedder, monkeypatch):
    """However many tasks may wait: a few large pictures are enough."""
    monkeypatch.setattr(resources, "MOST_BYTES", 3_000_000)
    monkeypatch.setattr(embedding, "CHUNK_BYTES", 500_000)
    large = as_jpeg(Image.new("RGB", (40, 40))) + bytes(1_000_000)
    write_tar(tmp_path / "a.tar", {f"{n:02}.jpg": large for n in range(40)})
    shard = File(str(tmp_path / "a.tar"), 1, 1)
    taken = 0

    def watched(part, real=Shard.images):
        nonlocal taken
        for file in real(part):
            taken += 1
            yield file

    monkeypatch.setattr(Shard, "images", watched)
    made, most = 0, 0
    for batch in EmbedPhotos(embedder).ready(2)([Shard(shard, {})]):
        most = max(most, taken - made)
        made += len(batch.photos)
    assert made == taken == 40
    assert most <= embedding.FILES_PER_BATCH + 3 + 2


# ---- no program is started ------------------------------------------------------------------

VERBS = """
import sys
from pathlib import Path
from typer.testing import CliRunner
from vsepp.cli import app
home, model = Path(sys.argv[1]), sys.argv[2]
photos, data, skip = str(home / "photos"), str(home / "data"), ["--set", "data.on_error=skip"]
runner = CliRunner()
for code, *words in (
    (0, "index", photos, "--into", str(home / "p.vse"), "--model", model),
    (1, "search", str(home / "p.vse"), "--image", f"{photos}/a.jpg", "--model", model),
    (0, "embed", model, "--images", photos, "--into", str(home / "v.npy")),
    (0, "data", data),
    (2, "evaluate", model, "--data", data),
    (0, "evaluate", model, "--data", data, *skip),
    (2, "train", "scratch", "--data", data, "--into", str(home / "run")),
    (0, "train", "scratch", "--data", data, "--into", str(home / "run"), *skip,
     "--set", "max_epochs=1", "--set", "graphs=false", "--set", "batch_size=2"),
    (0, "precompute", data, "--backbone", "small", "--into", str(home / "features"), *skip,
     "--set", "model.weights=none"),
    (0, "figures", "compare", model, model, "--data", data, "--into", str(home / "figures"), *skip),
):
    done = runner.invoke(app, words)
    assert done.exit_code == code, (words, done.output, done.exception)
    print(words[0])
"""


@pytest.mark.slow
def test_no_verb_starts_a_program_for_a_picture(tmp_path):
    """PostScript that is called a JPEG: Pillow would give it to Ghostscript."""
    programs, started = tmp_path / "bin", tmp_path / "started"
    programs.mkdir()
    stand_in = programs / "gs"
    stand_in.write_text(f'#!/bin/sh\necho "$@" >> {started}\n')
    stand_in.chmod(0o755)
    (tmp_path / "photos").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(EPS)
    rows = ["image,caption,split"]
    for number, split in enumerate(["train"] * 6 + ["val"] * 3 + ["test"] * 3):
        (tmp_path / "data" / f"{number}.jpg").write_bytes(RED if number % 3 else EPS)
        rows.append(f"{number}.jpg,a dog number {number},{split}")
    (tmp_path / "data" / "captions.csv").write_text("\n".join(rows))
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", VERBS, tmp_path, SCENES],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 10
    assert not started.exists(), started.read_text()
    # The stand-in is found where nobody looks at the format.
    plainly = f"from PIL import Image; Image.open({str(tmp_path / 'photos' / 'a.jpg')!r}).load()"
    subprocess.run([sys.executable, "-c", plainly], env=environment, capture_output=True)
    assert started.exists()
