"""Pickles read as plain data: what they name is never imported, and nothing of theirs is run.

Files of torch.save, old and new, read as plain data.

Every pickle that this package reads goes through here: released models, weights of nets, and the state of
a run, whose folder may come from somebody else. torch.load(weights_only=True) still calls a good deal of
torch on a stranger's behalf, and ran code in versions before 2.6 (CVE-2025-32434). Here a tensor is at first
a note of where its numbers lie; they are fetched when all has been read."""

import errno
import math
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from vsepp.errors import WrongRequest


class Refused(WrongRequest):
    """A file names something that is not plain data."""


def _refuse_a_bytearray(_: pickle.Unpickler) -> None:
    """Its room is made before it is read: ten bytes of a file could ask for all memory."""
    raise pickle.UnpicklingError("it holds a bytearray, which nobody wrote into such files")


# The reader written in Python, which is fast enough: of the one in C, a file of twenty bytes can
# ask for a table of 60 GB.
class PlainUnpickler(pickle._Unpickler):
    """Puts a harmless stand-in of ours wherever a pickle names a class or a function.

    A pickle can call only what it has named, so it can call only the stand-ins. They should be
    made afresh for each file: a hostile one may change those that it was given.
    """

    dispatch = pickle._Unpickler.dispatch | {pickle.BYTEARRAY8[0]: _refuse_a_bytearray}

    def __init__(
        self,
        file: BinaryIO,
        stand_in: Callable[[str, str], Any],  # module, name -> stand-in, or None to refuse
        storage: Callable[[Any], Any] | None = None,  # what a reference to data outside stands for
        encoding: str = "utf-8",  # of what Python 2 called a string
    ) -> None:
        super().__init__(_NothingCutOff(file), encoding=encoding)
        self._stand_in = stand_in
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        found = self._stand_in(module, name)
        if found is None:
            raise Refused(f"{module}.{name}")
        return found

    def persistent_load(self, saved_id: Any) -> Any:
        if self._storage is None:
            raise pickle.UnpicklingError("it refers to data outside of itself")
        return self._storage(saved_id)


@dataclass(frozen=True)
class _NothingCutOff:
    """A file in which less than was asked for is an error: half a name is no name."""

    file: BinaryIO

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        if len(data) < size:
            raise EOFError("it ends in the middle of something")
        return data

    def readline(self) -> bytes:
        line = self.file.readline()
        if not line.endswith(b"\n"):
            raise EOFError("it ends in the middle of a name")
        return line


@contextmanager
def reading(file: Path, expected: str) -> Iterator[BinaryIO]:
    """The open file; whatever is wrong with its content is said of it by name."""
    if not file.is_file():
        raise WrongRequest(f"There is no file {file}. Expected {expected}.")
    with file.open("rb") as stream:
        try:
            yield stream
        except Refused as error:
            raise Refused(
                f"{file} is refused: it names {error}, which is not plain data. Nothing of the file "
                "has been run. Take it from a place that you trust, and look at what is in it."
            ) from error
        except (OSError, WrongRequest):
            raise
        except Exception as error:  # whatever a damaged or foreign stream may lead to
            raise WrongRequest(
                f"{file} cannot be read; it is cut off, damaged or something else "
                f"({type(error).__name__}: {error}). Expected {expected}."
            ) from error


MAGIC = 0x1950A86A20F9469CFC6C  # what a file of torch 0.1.10 to 1.5 begins with
DTYPES = {
    "Float": torch.float32,
    "Double": torch.float64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Byte": torch.uint8,
    "Bool": torch.bool,
}
NUMPY_SCALARS = {"f8": "<d", "f4": "<f", "i8": "<q", "i4": "<i"}
Storages = dict[str, bytearray]


@dataclass(frozen=True)
class Storage:
    """Numbers in a row, of which a tensor may take a part."""

    key: str
    dtype: torch.dtype
    length: int
    start: int = 0


@dataclass(frozen=True)
class Place:
    """A tensor whose numbers have not been fetched yet."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def tensor(self, storages: Storages) -> Tensor:
        if 0 in self.shape:
            return torch.empty(self.shape, dtype=self.storage.dtype)
        numbers = torch.frombuffer(storages[self.storage.key], dtype=self.storage.dtype)
        if math.prod(self.shape) > len(numbers):  # steps of 0 would make much out of nothing
            raise ValueError(f"a tensor {self.shape} has only {len(numbers)} numbers")
        return numbers.as_strided(self.shape, self.strides, self.storage.start + self.offset)


def read_torch_file(stream: BinaryIO) -> Any:
    """The content of the file: dicts, lists, tensors, numbers, text."""
    try:
        content, storages = (_read_zip if zipfile.is_zipfile(stream) else _read_stream)(stream)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise ValueError("a part is said to lie before its beginning") from error
    return _with_tensors(content, storages, {})


def _with_tensors(content: Any, storages: Storages, made: dict[int, Any]) -> Any:
    """What occurs twice in the content is made once: lists of lists could be without end otherwise."""
    if id(content) in made:
        return made[id(content)]
    result = content
    if isinstance(content, Place):
        result = content.tensor(storages)
    elif isinstance(content, dict):
        result = {key: _with_tensors(value, storages, made) for key, value in content.items()}
    elif isinstance(content, (list, tuple)):
        result = [_with_tensors(value, storages, made) for value in content]
    made[id(content)] = result
    return result


def _read_zip(stream: BinaryIO) -> tuple[Any, Storages]:
    """torch 1.6 and later: an archive of a pickle and a file for each storage."""
    with zipfile.ZipFile(stream) as archive:
        if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
            raise ValueError("it is compressed, as torch's files are not")  # and may be a bomb
        names = archive.namelist()
        (pickled,) = (name for name in names if name.endswith("/data.pkl"))
        folder = pickled.removesuffix(".pkl") + "/"
        with archive.open(pickled) as part:
            content = _unpickler(part, {}).load()
        storages = {
            name.removeprefix(folder): bytearray(archive.read(name))
            for name in names
            if name.startswith(folder)
        }
    return content, storages


def _read_stream(stream: BinaryIO) -> tuple[Any, Storages]:
    """torch 0.1.10 to 1.5: pickles one after the other, then the storages."""
    stream.seek(0)
    magic, _, _ = (_unpickler(stream, {}).load() for _ in range(3))  # version, kind of machine
    if magic != MAGIC:
        raise ValueError("it does not begin as a file of torch does")
    found: dict[str, Storage] = {}
    content = _unpickler(stream, found).load()
    storages = {}
    for key in _unpickler(stream, {}).load():
        (length,) = struct.unpack("<q", stream.read(8))
        if length != found[key].length:
            raise ValueError(f"storage {key} has {length} numbers, not {found[key].length}")
        storages[key] = bytearray(stream.read(length * found[key].dtype.itemsize))
    return content, storages


def _unpickler(stream: Any, found: dict[str, Storage]) -> PlainUnpickler:
    """`found` collects the storages that the pickle speaks of."""

    def storage(saved_id: Any) -> Storage:
        _, dtype, key, _, length, *part = saved_id
        found[key] = Storage(key, dtype, length)
        if part and part[0] is not None:
            _, start, length = part[0]
            return Storage(key, dtype, length, start)
        return found[key]

    stand_ins = _stand_ins()
    # latin-1 keeps the bytes that Python 2 had in its strings, such as those of NumPy's numbers
    return PlainUnpickler(
        stream, lambda module, name: stand_ins.get(f"{module}.{name}"), storage, "latin-1"
    )


def _stand_ins() -> dict[str, Any]:
    """What stands for the few names that a checkpoint needs."""
    namespace = type("Namespace", (), {})

    class Dtype:
        def __init__(self, code: str, *_: Any) -> None:
            self.code = code

        def __setstate__(self, state: Any) -> None:
            pass  # the byte order; every machine that learns is little-endian

    def scalar(dtype: Any, data: Any) -> Any:
        raw = data if isinstance(data, bytes) else data.encode("latin-1")
        return struct.unpack(NUMPY_SCALARS[dtype.code], raw)[0]

    def place(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Place:
        return Place(storage, offset, tuple(shape), tuple(strides))

    storages = {
        f"torch.{where}{name}Storage": dtype
        for name, dtype in DTYPES.items()
        for where in ("", "cuda.")
    }
    return storages | {
        "argparse.Namespace": namespace,
        "collections.OrderedDict": OrderedDict,
        "torch._utils._rebuild_tensor": place,
        "torch._utils._rebuild_tensor_v2": place,
        "torch._utils._rebuild_parameter": lambda data, *_: data,
        "numpy.dtype": Dtype,
        "numpy.core.multiarray.scalar": scalar,
        "numpy._core.multiarray.scalar": scalar,
        "_codecs.encode": lambda text, encoding: text.encode("latin-1"),
    }
