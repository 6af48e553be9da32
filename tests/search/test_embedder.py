import numpy as np
import pytest
from PIL import Image

import vsepp
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.embed_files import embed_captions_file, embed_folder
from vsepp.search.embedder import IMAGE_BATCH, TEXT_BATCH

pytestmark = pytest.mark.slow


def test_many_texts_come_back_in_their_order(snapshot_folder):
    embedder = vsepp.load(snapshot_folder)
    texts = ["a red circle", "a small dotted blue star left of a ring", ""] * TEXT_BATCH
    together = embedder.embed_texts(texts)
    one_by_one = np.concatenate([embedder.embed_texts([text]) for text in texts[:3]])
    np.testing.assert_allclose(together, np.tile(one_by_one, (TEXT_BATCH, 1)), atol=1e-6)
    assert together.dtype == np.float32


def test_files_scenes_and_open_pictures_are_the_same(snapshot_folder, world, tmp_path):
    embedder = vsepp.load(snapshot_folder)
    scene = world.items[0].path
    scene.open(64).save(tmp_path / "scene.png")
    forms = [scene, scene.open(64), tmp_path / "scene.png", str(tmp_path / "scene.png")]
    vectors = embedder.embed_images(forms * IMAGE_BATCH)
    assert vectors.shape == (4 * IMAGE_BATCH, embedder.dim)
    np.testing.assert_allclose(vectors, np.tile(vectors[0], (4 * IMAGE_BATCH, 1)), atol=1e-6)


def test_an_open_picture_may_come_many_times(snapshot_folder, tmp_path):
    """Files are decoded in threads; one that is open but not read yet must not be read by two at once."""
    noise = np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    embedder = vsepp.load(snapshot_folder)
    expected = embedder.embed_images([tmp_path / "noise.png"])
    with Image.open(tmp_path / "noise.png") as picture:
        vectors = embedder.embed_images([picture] * 20)
    np.testing.assert_allclose(vectors, np.tile(expected, (20, 1)), atol=1e-6)


def test_a_file_that_is_no_picture_is_named(snapshot_folder, tmp_path):
    (tmp_path / "letter.jpg").write_text("dear")
    with pytest.raises(WorkFailed, match=r"letter\.jpg"):
        vsepp.load(snapshot_folder).embed_images([tmp_path / "letter.jpg"] * 3)


def test_nothing_gives_nothing(snapshot_folder):
    embedder = vsepp.load(snapshot_folder)
    assert embedder.embed_images([]).shape == (0, embedder.dim)
    assert embedder.embed_texts([]).shape == (0, embedder.dim)


def test_a_folder_is_walked_and_its_other_files_left_alone(snapshot_folder, tmp_path):
    photos = tmp_path / "photos" / "été"
    photos.mkdir(parents=True)
    Image.new("RGB", (30, 20), "red").save(photos / "b.JPG")
    Image.new("RGB", (30, 20), "red").save(photos.parent / "a.webp")
    (photos / "notes.txt").write_text("no picture")
    embedder = vsepp.load(snapshot_folder)
    *_, rows = embed_folder(embedder, tmp_path / "photos", tmp_path / "out" / "v.npy")
    assert (rows.names, rows.broken) == (["a.webp", "été/b.JPG"], [])
    assert "été/b.JPG" in (tmp_path / "out" / "v.json").read_text()
    assert np.load(tmp_path / "out" / "v.npy").shape == (2, embedder.dim)


def test_what_cannot_be_embedded_is_said(snapshot_folder, tmp_path):
    embedder = vsepp.load(snapshot_folder)
    (tmp_path / "empty.txt").write_text("\n\n")
    for work, path, message in (
        (embed_folder, tmp_path / "nowhere", "is not a folder"),
        (embed_folder, tmp_path, "no images below"),
        (embed_captions_file, tmp_path / "nowhere.txt", "is not a file"),
        (embed_captions_file, tmp_path / "empty.txt", "is empty"),
    ):
        with pytest.raises(WrongRequest, match=message):
            work(embedder, path, tmp_path / "v.npy")
    assert not (tmp_path / "v.npy").exists()
