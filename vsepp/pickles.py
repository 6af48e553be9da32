"""Reads pickles and files of torch.save, old and new, as plain data: nothing in them is imported or run.

Every pickle that this package reads goes through here: released models, backbone weights, and states of runs,
whose folder may come from somebody else. torch.load(weights_only=True) still calls a good deal of torch on behalf
of the file, and ran code in versions before 2.6 (CVE-2025-32434). Here a tensor is first a description of where
its numbers are; they are read at the end.
"""

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


def _refuse_bytearray(_: pickle.Unpickler) -> None:
    """Its memory is allocated before it is read: ten bytes of a file could ask for all of it."""
    raise pickle.UnpicklingError("it contains a bytearray, which such files never do")


# The unpickler written in Python is fast enough; the one in C can be made to allocate 60 GB by a file of
# twenty bytes.
class PlainUnpickler(pickle._Unpickler):
    """Replaces every class and function that a pickle names by a harmless stand-in.

    A pickle can only call what it names, so it can only call the stand-ins. They are made anew for
    each file: a hostile file may modify them.
    """

    dispatch = pickle._Unpickler.dispatch | {pickle.BYTEARRAY8[0]: _refuse_bytearray}

    def __init__(
        self,
        file: BinaryIO,
        stand_in: Callable[[str, str], Any],  # module, name -> stand-in, or None to refuse
        storage: Callable[[Any], Any] | None = None,  # resolves references to data outside
        encoding: str = "utf-8",  # of what Python 2 called a string
    ) -> None:
        super().__init__(_ExactReader(file), encoding=encoding)
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
class _ExactReader:
    """A file that raises when it ends early."""

    file: BinaryIO

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        if len(data) < size:
            raise EOFError("it is truncated")
        return data

    def readline(self) -> bytes:
        line = self.file.readline()
        if not line.endswith(b"\n"):
            raise EOFError("it is truncated inside a name")
        return line


@contextmanager
def reading(file: Path, expected: str) -> Iterator[BinaryIO]:
    """The open file; errors in its content name it."""
    if not file.is_file():
        raise WrongRequest(f"{file} does not exist. Expected {expected}.")
    with file.open("rb") as stream:
        try:
            yield stream
        except Refused as error:
            raise Refused(
                f"{file} is refused: it names {error}, which is not plain data. Nothing in the file was "
                "run. Get it from a source that you trust."
            ) from error
        except (OSError, WrongRequest):
            raise
        except Exception as error:  # whatever a damaged or foreign stream may lead to
            raise WrongRequest(
                f"{file} cannot be read; it is truncated, damaged or of another kind "
                f"({type(error).__name__}: {error}). Expected {expected}."
            ) from error


MAGIC = 0x1950A86A20F9469CFC6C  # first bytes of a file of torch 0.1.10 to 1.5
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
    """A flat array, of which a tensor may use a part."""

    key: str
    dtype: torch.dtype
    length: int
    start: int = 0


@dataclass(frozen=True)
class LazyTensor:
    """A tensor whose numbers have not been read yet."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def tensor(self, storages: Storages) -> Tensor:
        if 0 in self.shape:
            return torch.empty(self.shape, dtype=self.storage.dtype)
        numbers = torch.frombuffer(storages[self.storage.key], dtype=self.storage.dtype)
        if math.prod(self.shape) > len(
            numbers
        ):  # strides of 0 would make a large tensor of nothing
            raise ValueError(f"a tensor {self.shape} has only {len(numbers)} numbers")
        return numbers.as_strided(self.shape, self.strides, self.storage.start + self.offset)


def read_torch_file(stream: BinaryIO) -> Any:
    """The content of the file: dicts, lists, tensors, numbers, text."""
    try:
        content, storages = (_read_zip if zipfile.is_zipfile(stream) else _read_stream)(stream)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise ValueError("an offset lies before the beginning of the file") from error
    return _with_tensors(content, storages, {})


def _with_tensors(content: Any, storages: Storages, made: dict[int, Any]) -> Any:
    """What occurs twice is converted once: nested lists could grow exponentially otherwise."""
    if id(content) in made:
        return made[id(content)]
    result = content
    if isinstance(content, LazyTensor):
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
            raise ValueError("it is compressed, which torch's files are not")  # and may be a bomb
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
        raise ValueError("it does not start like a file of torch")
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
    """`found` collects the storages that the pickle refers to."""

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
    """Stand-ins for the few names that a checkpoint needs."""
    namespace = type("Namespace", (), {})

    class Dtype:
        def __init__(self, code: str, *_: Any) -> None:
            self.code = code

        def __setstate__(self, state: Any) -> None:
            pass  # byte order: training machines are little-endian

    def scalar(dtype: Any, data: Any) -> Any:
        raw = data if isinstance(data, bytes) else data.encode("latin-1")
        return struct.unpack(NUMPY_SCALARS[dtype.code], raw)[0]

    def place(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> LazyTensor:
        return LazyTensor(storage, offset, tuple(shape), tuple(strides))

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
