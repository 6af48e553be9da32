import numpy as np
import pytest
from PIL import Image

import vsepp
from vsepp.errors import WrongRequest
from vsepp.search.embedder import BATCH, embed_captions_file, embed_folder

pytestmark = pytest.mark.slow


def test_many_texts_come_back_in_their_order(snapshot_folder):
    embedder = vsepp.load(snapshot_folder)
    texts = ["a red circle", "a small dotted blue star left of a ring", ""] * BATCH
    together = embedder.embed_texts(texts)
    one_by_one = np.concatenate([embedder.embed_texts([text]) for text in texts[:3]])
    np.testing.assert_allclose(together, np.tile(one_by_one, (BATCH, 1)), atol=1e-6)
    assert together.dtype == np.float32


def test_files_scenes_and_open_pictures_are_the_same(snapshot_folder, world, tmp_path):
    embedder = vsepp.load(snapshot_folder)
    scene = world.items[0].path
    scene.open(64).save(tmp_path / "scene.png")
    forms = [scene, scene.open(64), tmp_path / "scene.png", str(tmp_path / "scene.png")]
    vectors = embedder.embed_images(forms * BATCH)
    assert vectors.shape == (4 * BATCH, embedder.dim)
    np.testing.assert_allclose(vectors, np.tile(vectors[0], (4 * BATCH, 1)), atol=1e-6)


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
    assert embed_folder(embedder, tmp_path / "photos", tmp_path / "out" / "v.npy") == 2
    assert "été/b.JPG" in (tmp_path / "out" / "v.json").read_text()
    assert np.load(tmp_path / "out" / "v.npy").shape == (2, embedder.dim)


def test_what_cannot_be_embedded_is_said(snapshot_folder, tmp_path):
    embedder = vsepp.load(snapshot_folder)
    (tmp_path / "empty.txt").write_text("\n\n")
    for work, path, message in (
        (embed_folder, tmp_path / "nowhere", "is not a folder"),
        (embed_folder, tmp_path, "no pictures below"),
        (embed_captions_file, tmp_path / "nowhere.txt", "is not a file"),
        (embed_captions_file, tmp_path / "empty.txt", "is empty"),
    ):
        with pytest.raises(WrongRequest, match=message):
            work(embedder, path, tmp_path / "v.npy")
    assert not (tmp_path / "v.npy").exists()
