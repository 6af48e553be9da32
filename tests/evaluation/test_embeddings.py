"""Anybody's vectors, in every format that is read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from vsepp.errors import WrongRequest
from vsepp.evaluation.embedding_files import read_embeddings
from vsepp.evaluation.embeddings import from_arrays
from vsepp.evaluation.retrieval import Retrieval

IMAGES, EACH, DIM = 8, 3, 5


def vectors() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Captions in random order."""
    generator = np.random.default_rng(0)
    images = generator.standard_normal((IMAGES, DIM)).astype(np.float32)
    owners = generator.permutation(np.repeat(np.arange(IMAGES), EACH))
    noise = generator.standard_normal((len(owners), DIM)).astype(np.float32)
    return images, images[owners] + noise, owners


def write_ids(file: Path, owners: np.ndarray, mark: str = ",") -> Path:
    lines = [mark.join(("image_id", "caption_id", "caption"))]
    lines += [mark.join((f"photo{o}", f"c{n}", f"text {n}")) for n, o in enumerate(owners)]
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize("form", ["npy", "npz", "safetensors", "parquet"])
def test_every_format_gives_the_same_numbers(tmp_path: Path, form: str) -> None:
    images, captions, owners = vectors()
    files = {}
    for name, array in {"images": images, "captions": captions}.items():
        file = files[name] = tmp_path / f"{name}.{form}"
        match form:
            case "npy":
                np.save(file, array)
            case "npz":
                np.savez(file, vectors=array)
            case "safetensors":
                save_file({"vectors": array}, file)
            case "parquet":
                pyarrow = pytest.importorskip("pyarrow")
                parquet = pytest.importorskip("pyarrow.parquet")
                rows = [{"n": n, "embedding": row.tolist()} for n, row in enumerate(array)]
                parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    names = tmp_path / "names.txt"
    names.write_text("".join(f"photo{n}\n" for n in range(IMAGES)))
    ids = write_ids(tmp_path / "ids.csv", owners)
    found = read_embeddings(files["images"], files["captions"], ids, names)
    assert found.owners.tolist() == owners.tolist()
    assert found.caption_ids[1] == "c1"
    assert found.texts[2] == "text 2"
    expected = Retrieval.from_vectors(images, captions, owners)
    assert Retrieval.from_vectors(found.images, found.captions, found.owners) == expected


def test_ids_may_lie_beside_the_vectors(tmp_path: Path) -> None:
    images, captions, owners = vectors()
    np.savez(tmp_path / "i.npz", vectors=images, ids=np.arange(10, 10 + IMAGES))
    np.savez(tmp_path / "c.npz", vectors=captions, image_id=owners + 10, caption_id=np.arange(24))
    found = read_embeddings(tmp_path / "i.npz", tmp_path / "c.npz")
    assert found.owners.tolist() == owners.tolist()
    assert found.image_ids[0] == "10"


def test_images_in_order_of_appearance(tmp_path: Path) -> None:
    images, captions, _ = vectors()
    np.save(tmp_path / "i.npy", images)
    np.save(tmp_path / "c.npy", captions)
    ids = write_ids(tmp_path / "ids.tsv", np.repeat(np.arange(IMAGES), EACH)[::-1], "\t")
    found = read_embeddings(tmp_path / "i.npy", tmp_path / "c.npy", ids)
    assert found.image_ids[0] == "photo7"
    assert found.owners.tolist() == np.repeat(np.arange(IMAGES), EACH).tolist()


def test_a_matrix_of_scores_gives_the_same_ranks(tmp_path: Path) -> None:
    from vsepp.evaluation.measurement import Extras, measure_embeddings

    images, captions, owners = vectors()
    np.save(tmp_path / "scores.npy", images @ captions.T)
    ids = write_ids(tmp_path / "ids.csv", owners)
    names = tmp_path / "names.txt"
    names.write_text("".join(f"photo{n}\n" for n in range(IMAGES)))
    found = read_embeddings(ids=ids, image_ids=names, scores=tmp_path / "scores.npy")
    result = measure_embeddings(found, extras=Extras(resamples=100))
    assert result.retrieval == Retrieval.from_vectors(images, captions, owners)
    assert "scores" in result.signature


def test_files_and_ids_in_from_vectors(tmp_path: Path) -> None:
    images, captions, owners = vectors()
    expected = Retrieval.from_vectors(images, captions, owners)
    names = [f"photo{n}" for n in range(IMAGES)]
    of_captions = [names[owner] for owner in owners]
    assert Retrieval.from_vectors(images, captions, of_captions, image_ids=names) == expected
    np.savez(tmp_path / "i.npz", vectors=images, ids=np.array(names))
    np.save(tmp_path / "c.npy", captions)
    ids = write_ids(tmp_path / "ids.csv", owners)
    assert Retrieval.from_vectors(tmp_path / "i.npz", str(tmp_path / "c.npy"), ids) == expected


def test_images_that_are_repeated_for_each_caption_are_taken_once() -> None:
    generator = torch.Generator().manual_seed(0)
    images, captions = (
        torch.randn(4, DIM, generator=generator),
        torch.randn(20, DIM, generator=generator),
    )
    found = from_arrays(images.repeat_interleave(5, 0), captions)
    assert found.num_images == 4
    assert found.owners.tolist() == np.repeat(np.arange(4), 5).tolist()
    assert len(found.remarks) == 2


@pytest.mark.parametrize("beside", ["table", "table and ids", "five times", "nothing"])
def test_repeated_images_are_taken_once_whatever_names_them(tmp_path: Path, beside: str) -> None:
    images = np.random.default_rng(0).standard_normal((4, DIM)).astype(np.float32)
    captions = images.repeat(5, axis=0) + 1
    ids = [f"photo{n}" for n in range(4)]
    kept = {"ids": np.array(ids).repeat(5)} if beside == "five times" else {}
    np.savez(tmp_path / "i.npz", vectors=images.repeat(5, axis=0), **kept)
    np.save(tmp_path / "c.npy", captions)
    table = write_ids(tmp_path / "ids.csv", np.repeat(np.arange(4), 5))
    names = tmp_path / "names.txt"
    names.write_text("\n".join(ids))
    found = read_embeddings(
        tmp_path / "i.npz",
        tmp_path / "c.npy",
        None if beside == "nothing" else table,
        names if beside == "table and ids" else None,
    )
    assert found.images is not None
    assert np.array_equal(found.images.numpy(), images)
    assert found.owners.tolist() == np.repeat(np.arange(4), 5).tolist()
    assert found.image_ids == (ids if beside != "nothing" else list("0123"))
    assert found.remarks[0] == "Every image vector was there 5 times in a row: taken once."


def test_equal_images_with_ids_of_their_own_stay() -> None:
    images, captions = torch.ones(10, 2), torch.ones(10, 2)
    found = from_arrays(images, captions, image_ids=[f"photo{n}" for n in range(10)])
    assert found.num_images == 10


def test_captions_without_ids_are_counted_by_image() -> None:
    found = from_arrays(np.eye(2), np.ones((3, 2)), np.array([1, 0, 1]), ["a", "b"])
    assert found.caption_ids == ["b#0", "a#0", "b#1"]


def test_ids_that_are_not_unique_are_remarked() -> None:
    found = from_arrays(np.eye(3), np.eye(3), [0, 1, 2], caption_ids=["7", "8", 7])
    assert found.remarks == [
        "2 of 3 caption ids are not unique: annotations that ask for them find none."
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_of_caption": None}, "nothing says which"),
        ({"image_of_caption": np.zeros(25, int)}, "Every image needs a caption"),
        ({"image_of_caption": np.zeros(3, int)}, "3 rows"),
        ({"image_ids": ["a"]}, "image ids for"),
        ({"image_ids": list("aacdefgh"), "image_of_caption": 25 * ["a"]}, "there twice"),
        ({"image_ids": list("abcdefgh"), "image_of_caption": 25 * ["z"]}, "'z' is none"),
    ],
)
def test_what_does_not_fit_is_named(change: dict, message: str) -> None:
    given = {"image_of_caption": np.arange(25) % 8, **change}
    with pytest.raises(WrongRequest, match=message):
        from_arrays(np.zeros((8, 2)), np.zeros((25, 2)), **given)


@pytest.mark.parametrize(
    "name",
    [
        "missing.npy",
        "cut.npy",
        "cut.npz",
        "cut.safetensors",
        "cut.parquet",
        "vectors.pt",
        "none.npy",
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "none.npy", np.zeros((0, 2)))
    if name.startswith(("cut", "vectors")):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(WrongRequest, match=name if name != "none.npy" else "nothing to rank"):
        read_embeddings(tmp_path / name, tmp_path / name)


@pytest.mark.parametrize("form", ["npz", "safetensors"])
def test_one_file_may_hold_both_towers(tmp_path: Path, form: str) -> None:
    images, captions, owners = vectors()
    file = tmp_path / f"both.{form}"
    arrays = {"images": images, "captions": captions}
    if form == "npz":
        np.savez(file, image_id=owners + 10, image_ids=np.arange(10, 10 + IMAGES), **arrays)
    else:
        save_file(arrays, file)
    table = None if form == "npz" else write_ids(tmp_path / "ids.csv", owners)
    names = tmp_path / "names.txt"
    names.write_text("\n".join(f"photo{n}" for n in range(IMAGES)))
    found = read_embeddings(file, file, table, names if table else None)
    assert found.images is not None and found.captions is not None
    assert np.array_equal(found.images.numpy(), images)
    assert np.array_equal(found.captions.numpy(), captions)
    assert found.owners.tolist() == owners.tolist()


def test_a_parquet_file_may_have_any_columns_beside_its_vectors(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    images, captions, owners = vectors()
    columns = {
        "tags": pyarrow.array([["a"] * (n % 3) for n in range(len(captions))]),
        "boxes": pyarrow.array([[1.0] * (n % 3) for n in range(len(captions))]),
        "picture": pyarrow.array([{"bytes": b"x"}] * len(captions)),
        "raw": pyarrow.array([b"x"] * len(captions)),
        "image_id": pyarrow.array([f"photo{o}" for o in owners]).dictionary_encode(),
        "embedding": pyarrow.chunked_array(
            [
                pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(part.ravel()), DIM)
                for part in (captions[:10], captions[10:])
            ]
        ),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "c.parquet")
    np.savez(tmp_path / "i.npz", vectors=images, ids=[f"photo{n}" for n in range(IMAGES)])
    found = read_embeddings(tmp_path / "i.npz", tmp_path / "c.parquet")
    assert found.captions is not None
    assert np.array_equal(found.captions.numpy(), captions)
    assert found.owners.tolist() == owners.tolist()
    again = read_embeddings(tmp_path / "i.npz", tmp_path / "c.parquet", tmp_path / "c.parquet")
    assert again.owners.tolist() == owners.tolist()


@pytest.mark.parametrize("rows", [3, 25])
def test_a_table_of_another_length_is_named(tmp_path: Path, rows: int) -> None:
    images, captions, _ = vectors()
    np.save(tmp_path / "i.npy", images)
    np.save(tmp_path / "c.npy", captions)
    ids = write_ids(tmp_path / "ids.csv", np.arange(rows) % IMAGES)
    with pytest.raises(WrongRequest, match=rf"ids\.csv has {rows} rows of ids, .* 24 captions"):
        read_embeddings(tmp_path / "i.npy", tmp_path / "c.npy", ids)


def test_a_file_of_ids_of_another_length_is_named(tmp_path: Path) -> None:
    images, captions, owners = vectors()
    np.save(tmp_path / "i.npy", images)
    np.save(tmp_path / "c.npy", captions)
    names = tmp_path / "names.txt"
    names.write_text("photo0\nphoto1\n")
    ids = write_ids(tmp_path / "ids.csv", owners)
    with pytest.raises(WrongRequest, match=r"names\.txt has 2 ids, and there are 8 image vectors"):
        read_embeddings(tmp_path / "i.npy", tmp_path / "c.npy", ids, names)


def test_an_image_without_a_caption_is_named() -> None:
    with pytest.raises(WrongRequest, match="1 of 3 have none, such as c"):
        from_arrays(np.eye(3), np.eye(3)[:2], ["a", "b"], ["a", "b", "c"])


@pytest.mark.parametrize("name", ["ids.csv", "ids.jsonl", "ids.parquet", "names.txt"])
def test_a_missing_table_is_said_to_be_missing(tmp_path: Path, name: str) -> None:
    ids, names = (None, tmp_path / name) if name == "names.txt" else (tmp_path / name, None)
    with pytest.raises(WrongRequest, match=rf"^There is no .*{name}\.$"):
        read_embeddings(ids=ids, image_ids=names, scores=tmp_path / "s.npy")


@pytest.mark.parametrize(
    ("name", "content"), [("ids.csv", b"image_id\ncaf\xe9\n"), ("ids.jsonl", b'{"image_id": 1\n')]
)
def test_tables_that_cannot_be_read_are_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(WrongRequest, match=f"{name} cannot be read as a table"):
        read_embeddings(ids=tmp_path / name, scores=tmp_path / "s.npy")


def test_vectors_that_are_not_finite_are_remarked() -> None:
    images, captions, owners = vectors()
    images[3, 2] = np.nan
    assert from_arrays(images, captions, owners).remarks == ["1 of 8 image vectors are not finite."]


def test_a_table_without_image_ids_names_its_columns(tmp_path: Path) -> None:
    np.save(tmp_path / "i.npy", np.zeros((2, 2)))
    (tmp_path / "ids.csv").write_text("a,b\n1,2\n")
    with pytest.raises(WrongRequest, match="columns a, b"):
        read_embeddings(tmp_path / "i.npy", tmp_path / "i.npy", tmp_path / "ids.csv")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_columns_by_semicolons_tabs_and_a_mark_of_byte_order(tmp_path: Path, mark: str) -> None:
    images, captions, owners = vectors()
    np.save(tmp_path / "i.npy", images)
    np.save(tmp_path / "c.npy", captions)
    ids = write_ids(tmp_path / "ids.csv", owners, mark)
    ids.write_text(ids.read_text(), encoding="utf-8-sig")
    (tmp_path / "names.txt").write_text("\n".join(f"photo{n}" for n in range(IMAGES)))
    found = read_embeddings(tmp_path / "i.npy", tmp_path / "c.npy", ids, tmp_path / "names.txt")
    assert found.owners.tolist() == owners.tolist()
    assert found.texts[2] == "text 2"


@pytest.mark.parametrize("kind", ["<f2", ">f4", ">f8", "i1"])
def test_numbers_of_every_kind_and_order(tmp_path: Path, kind: str) -> None:
    images, captions, _ = vectors()
    stored = np.asfortranarray((10 * images).round().astype(kind))
    np.save(tmp_path / "i.npy", stored)
    np.save(tmp_path / "c.npy", captions)
    found = read_embeddings(tmp_path / "i.npy", tmp_path / "c.npy").images
    assert found is not None and found.is_floating_point()
    assert np.array_equal(found.numpy(), stored)
