"""Hostile, damaged and foreign files: refused by name, and nothing of them has run."""

import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory import peak_extra_megabytes
from tests.snapshots.release import (
    Opcodes,
    content,
    linear_weights,
    python2_checkpoint,
    python2_vocabulary,
    text_weights,
)
from vsepp.errors import WrongRequest
from vsepp.pickles import Refused
from vsepp.snapshots.released import read_checkpoint, read_vocabulary


def call(module, name, *texts):
    """The opcodes of module.name(*texts)."""
    arguments = b"".join(b"V" + text.encode() + b"\n" for text in texts)
    return b"c" + f"{module}\n{name}\n".encode() + b"(" + arguments + b"tR"


def from_the_stack(module, name, *texts):
    """The same in protocol 4, where a name may have dots and reach into what it names."""
    arguments = b"".join(b"V" + text.encode() + b"\n" for text in texts)
    return f"V{module}\nV{name}\n".encode() + b"\x93(" + arguments + b"tR"


def payloads(trace):
    """What each names, and opcodes that would leave a file behind, if they could."""
    touch, python = f"touch {trace}", f"open({str(trace)!r}, 'w').close()"
    return {
        "os.system": call("os", "system", touch),
        "posix.system": call("posix", "system", touch),
        "nt.system": call("nt", "system", touch),
        "subprocess.getoutput": call("subprocess", "getoutput", touch),
        "builtins.eval": call("builtins", "eval", python),
        "__builtin__.eval": call("__builtin__", "eval", python),
        "builtins.exec": call("builtins", "exec", python),
        "builtins.open": call("builtins", "open", str(trace), "w"),
        "builtins.getattr": call("builtins", "getattr", "", "join"),
        "builtins.__import__": call("builtins", "__import__", "antigravity"),
        "importlib.import_module": call("importlib", "import_module", "antigravity"),
        "torch.load": call("torch", "load", str(trace)),
        "torch.hub.load": call("torch.hub", "load", "someone/something", "model"),
        "torch.jit.load": call("torch.jit", "load", str(trace)),
        "torch.storage._load_from_bytes": call("torch.storage", "_load_from_bytes", "x"),
        "torch.utils.cpp_extension.load": call("torch.utils.cpp_extension", "load", "x", "x.cc"),
        "numpy.load": call("numpy", "load", str(trace)),
        "argparse.Namespace.__init__": from_the_stack("argparse", "Namespace.__init__", touch),
        "os.Vocabulary.system": from_the_stack("os", "Vocabulary.system", touch),
        "vsepp.pickles.PlainUnpickler": call("vsepp.pickles", "PlainUnpickler", touch),
    }


NAMES = list(payloads("x"))


def test_the_payloads_would_run_elsewhere(tmp_path):
    """Or it would prove nothing that they don't run here."""
    for name in ("os.system", "subprocess.getoutput", "builtins.eval", "__builtin__.eval"):
        trace = tmp_path / name
        pickle.loads(payloads(trace)[name] + b".")
        assert trace.exists()


def hostile_files(folder, payload):
    """The payload in every place where a reader might look."""
    inside = Opcodes(payload)
    image, text = linear_weights(), text_weights()
    plain = python2_checkpoint(content())
    streams = {
        "as an option": python2_checkpoint(content(margin=inside)),
        "deep inside": python2_checkpoint(content(lists=[{"a": (1, [inside])}])),
        "as a tensor": python2_checkpoint({"model": [image, text | {"rnn": inside}], "opt": {}}),
        "as all": python2_checkpoint(inside),
        "as the magic number": payload + b".",
        "behind the content": plain[: plain.rindex(b"\x80\x02")] + payload + b".",
    }
    for where, stream in streams.items():
        (folder / f"{where}.pth.tar").write_bytes(stream)
        yield read_checkpoint, folder / f"{where}.pth.tar"
    yield read_checkpoint, _zipped(folder / "zip.pth.tar", payload)
    vocabularies = {
        "as the ids": python2_vocabulary(word2idx=inside),
        "beside the ids": python2_vocabulary(extra=[inside]),
        "as the vocabulary": payload + b".",
        "behind the specials": python2_vocabulary().replace(b"b.", payload + b"0b."),
    }
    for where, stream in vocabularies.items():
        (folder / f"{where}.pkl").write_bytes(stream)
        yield read_vocabulary, folder / f"{where}.pkl"


def _zipped(file, payload):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}(X\x05\x00\x00\x00model" + payload + b"u.")
        archive.writestr("archive/version", "3\n")
    return file


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_file_is_refused_by_name_and_has_not_run(name, tmp_path):
    trace = tmp_path / "it_ran"
    before = set(sys.modules)
    tried = 0
    for read, file in hostile_files(tmp_path, payloads(trace)[name]):
        with pytest.raises(Refused, match=rf"{file.name} is refused: it names {name}, which"):
            read(file)
        tried += 1
    assert tried == 11
    assert not trace.exists()
    assert "antigravity" not in set(sys.modules) - before


def test_the_stand_ins_cannot_be_turned_against_the_reader(tmp_path):
    """A pickle may change what it was given; the next file gets new ones."""
    spoil = b"cargparse\nNamespace\n(N}(V__init__\nctorch._utils\n_rebuild_tensor\nutb."
    (tmp_path / "spoil").write_bytes(spoil)
    with pytest.raises(WrongRequest):
        read_checkpoint(tmp_path / "spoil")
    (tmp_path / "spoil").write_bytes(b"c__main__\nVocabulary\n(N}(Vword2idx\n}utb.")
    with pytest.raises(WrongRequest):
        read_vocabulary(tmp_path / "spoil")
    (tmp_path / "good").write_bytes(b"c__main__\nVocabulary\n)\x81.")
    with pytest.raises(WrongRequest, match="word2idx"):
        read_vocabulary(tmp_path / "good")


class Doubled(torch.nn.Module):
    def forward(self, x):
        return 2 * x


LENGTH = struct.pack("<Q", 2**30)
BOMBS = {
    # the 4,000,000,000th entry of the memo, of which C's reader would make a table
    "memo": b"\x80\x02}r\x00\x28\x6b\xee.",
    "bytearray": b"\x80\x05\x96" + LENGTH + b"abc.",
    "bytes": b"\x80\x04\x8e" + LENGTH + b"abc.",
    "text": b"\x80\x04\x8d" + LENGTH + b"abc.",
    "frame": b"\x80\x04\x95" + LENGTH + b"N.",
}


def zipped(pickled, how=zipfile.ZIP_STORED):
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", how) as archive:
            archive.writestr("archive/data.pkl", pickled)
            archive.writestr("archive/data/0", bytes(2**27 if how else 1))
        return file.getvalue()


def lists_of_lists(depth=40):
    """Each has the one before twice: 2 ** 40 places, and 40 lists."""
    content = []
    for _ in range(depth):
        content = [content, content]
    return pickle.dumps({"model": content, "opt": {}}, 2)


@pytest.mark.slow
def test_small_files_cannot_fill_the_memory(tmp_path):
    bombs = BOMBS | {
        "zipped bytearray": zipped(BOMBS["bytearray"]),
        "compressed": zipped(b"\x80\x02}.", zipfile.ZIP_DEFLATED),
        "lists of lists": zipped(lists_of_lists()),
    }
    for name, bomb in bombs.items():
        (tmp_path / name).write_bytes(bomb)
    prepare = """
        from pathlib import Path
        from vsepp.snapshots.released import read_checkpoint
        from vsepp.snapshots.released import read_vocabulary
        from vsepp.errors import WrongRequest
    """
    measure = f"""
        for file in Path({str(tmp_path)!r}).iterdir():
            for read in (read_checkpoint, read_vocabulary):
                try:
                    read(file)
                    raise SystemExit(f"{{file}} was read")
                except WrongRequest as reason:
                    assert file.name in str(reason), reason
    """
    assert peak_extra_megabytes(prepare, measure) < 60


def test_a_small_tensor_cannot_pose_as_a_large_one(tmp_path):
    large = torch.zeros(1).as_strided((100_000, 100_000), (0, 0))
    torch.save({"model": [{"fc.weight": large}, {}], "opt": {}}, tmp_path / "large.pth.tar")
    with pytest.raises(WrongRequest, match="has only 1 numbers"):
        read_checkpoint(tmp_path / "large.pth.tar")


@pytest.mark.slow
def test_a_program_of_torch_is_refused(tmp_path):
    traced = torch.export.export(Doubled(), (torch.ones(1),))
    torch.export.save(traced, tmp_path / "program.pt2")
    with pytest.raises(WrongRequest, match="Expected a checkpoint of the release"):
        read_checkpoint(tmp_path / "program.pt2")
    torch.save(Doubled(), tmp_path / "module.pth")
    with pytest.raises(Refused, match=r"it names tests\.test_pickles\.Doubled"):
        read_checkpoint(tmp_path / "module.pth")


def saved_by_torch(**how):
    stream = io.BytesIO()
    torch.save({"model": [{}, {}], "opt": {}, "numbers": torch.arange(1000.0)}, stream, **how)
    return stream.getvalue()


CHECKPOINTS = [
    python2_checkpoint(content()),
    saved_by_torch(),
    saved_by_torch(_use_new_zipfile_serialization=False),
]


@pytest.mark.parametrize("whole", CHECKPOINTS, ids=["Python 2", "zip", "before zip"])
def test_a_checkpoint_that_is_cut_off_is_said(whole, tmp_path):
    file = tmp_path / "cut.pth.tar"
    for length in range(0, len(whole) - 1, max(1, len(whole) // 60)):
        file.write_bytes(whole[:length])
        with pytest.raises(WrongRequest, match=r"cut\.pth\.tar cannot be read.*Expected a checkp"):
            read_checkpoint(file)


def test_a_vocabulary_that_is_cut_off_is_said(tmp_path):
    for whole in (python2_vocabulary(), b'{"word2idx": {"<pad>": 0}}'):
        for length in range(len(whole)):
            (tmp_path / "cut.pkl").write_bytes(whole[:length])
            with pytest.raises(WrongRequest, match=r"cut\.pkl cannot be read"):
                read_vocabulary(tmp_path / "cut.pkl")


@pytest.mark.parametrize("read", [read_checkpoint, read_vocabulary])
def test_foreign_files_are_said(read, tmp_path):
    (tmp_path / "text.txt").write_text("nothing of the kind\n")
    (tmp_path / "empty").touch()
    (tmp_path / "number.pkl").write_bytes(pickle.dumps(3))
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "object.json").write_text('{"words": []}')
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    files = sorted(tmp_path.iterdir())
    assert len(files) == 7
    for file in files:
        with pytest.raises(WrongRequest, match=rf"{file.name}.*Expected a "):
            read(file)
    with pytest.raises(WrongRequest, match="does not exist"):
        read(tmp_path / "nowhere")
    with pytest.raises(WrongRequest, match="does not exist"):
        read(tmp_path)


@settings(max_examples=300)
@given(st.data())
def test_whatever_is_changed_in_a_file_gives_an_answer_or_a_reason(tmp_path_factory, data):
    whole = data.draw(st.sampled_from([*CHECKPOINTS, python2_vocabulary()]))
    broken = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    file = tmp_path_factory.getbasetemp() / "broken"
    file.write_bytes(broken)
    for read in (read_checkpoint, read_vocabulary):
        try:
            read(file)
        except WrongRequest as reason:
            assert "broken" in str(reason)


@pytest.mark.slow
def test_the_command_line_says_it_without_a_traceback(tmp_path):
    trace = tmp_path / "it_ran"
    (tmp_path / "m.pth").write_bytes(python2_checkpoint(content()))
    (tmp_path / "v.pkl").write_bytes(payloads(trace)["os.system"] + b".")
    words = ["import", tmp_path / "m.pth", "--vocabulary", tmp_path / "v.pkl", "--into", "out"]
    command = [sys.executable, "-m", "vsepp", *map(str, words)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 2
    assert "v.pkl is refused: it names os.system" in done.stderr
    assert "Traceback" not in done.stderr
    assert not trace.exists()
    assert not (tmp_path / "out").exists()
