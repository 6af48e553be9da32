"""Checkpoints and vocabularies as the authors' release wrote them, made by hand."""

import pickle
import struct

import numpy as np

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
SPECIALS = ("<pad>", "<start>", "<end>", "<unk>")
WORDS = ("a", "dog", "runs", ".", "n't", "is", "``", "café")
NUM_WORDS = len(SPECIALS) + len(WORDS)
DIM, WORD_DIM, FEATURES = 16, 6, 10


class Options:
    """Stands for argparse.Namespace."""

    def __init__(self, **options):
        self.options = options


class Opcodes:
    """Put into a stream as they are, where a value would be."""

    def __init__(self, opcodes):
        self.opcodes = opcodes


def content(image=None, text=None, make_options=Options, **options):
    """What the release kept of a model."""
    defaults = {"measure": "cosine", "use_abs": False, "no_imgnorm": False, "num_layers": 1}
    defaults |= {"data_name": "f8k_precomp", "cnn_type": "vgg19", "finetune": False}
    return {
        "epoch": 14,
        "model": [image or linear_weights(), text or text_weights()],
        "best_rsum": 291.5,
        "opt": make_options(**defaults | options),
        "Eiters": 5000,
    }


def linear_weights(num_features=FEATURES):
    return _random({"fc.weight": (DIM, num_features), "fc.bias": (DIM,)})


def text_weights(num_words=NUM_WORDS):
    return _random(
        {
            "embed.weight": (num_words, WORD_DIM),
            "rnn.weight_ih_l0": (3 * DIM, WORD_DIM),
            "rnn.weight_hh_l0": (3 * DIM, DIM),
            "rnn.bias_ih_l0": (3 * DIM,),
            "rnn.bias_hh_l0": (3 * DIM,),
        }
    )


def _random(shapes):
    generator = np.random.default_rng(0)
    return {name: generator.normal(0, 0.3, shape).astype("f") for name, shape in shapes.items()}


def python2_checkpoint(content):
    """torch.save of torch 0.2 under Python 2: pickles, one behind the other, then the storages."""
    storages = {}
    system = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {"int": 4}}
    parts = [pickle.dumps(part, 2) for part in (MAGIC, PROTOCOL, system)]
    parts.append(b"\x80\x02" + _pickled(content, storages) + b".")
    parts.append(b"\x80\x02" + _pickled(list(storages), {}) + b".")
    parts += [struct.pack("<q", numbers.size) + numbers.tobytes() for numbers in storages.values()]
    return b"".join(parts)


def python2_vocabulary(words=WORDS, module="__main__", **state):
    """The release's *_vocab.pkl: the specials were of type str, all other words unicode."""
    ids = {word: number for number, word in enumerate([*SPECIALS, *words])}
    spelled = {word: _string(word) if word in SPECIALS else _unicode(word) for word in ids}
    forth = b"".join(spelled[word] + _integer(number) for word, number in ids.items())
    back = b"".join(_integer(number) + spelled[word] for word, number in ids.items())
    state = {
        "word2idx": Opcodes(b"}(" + forth + b"u"),
        "idx2word": Opcodes(b"}(" + back + b"u"),
        "idx": len(ids),
    } | state
    made = b"c" + module.encode() + b"\nVocabulary\n)\x81"
    return b"\x80\x02" + made + _pickled(state, {}) + b"b."


def _pickled(value, storages):
    """Protocol 2 as Python 2 wrote it; arrays become tensors on a GPU."""
    if isinstance(value, Opcodes):
        return value.opcodes
    if isinstance(value, Options):
        return b"cargparse\nNamespace\n)\x81" + _pickled(value.options, storages) + b"b"
    if isinstance(value, dict) and any(isinstance(item, np.ndarray) for item in value.values()):
        pairs = [[key, item] for key, item in value.items()]
        return b"ccollections\nOrderedDict\n" + _pickled(pairs, storages) + b"\x85R"
    if isinstance(value, dict):
        items = [_pickled(part, storages) for pair in value.items() for part in pair]
        return b"}(" + b"".join(items) + b"u"
    if isinstance(value, (list, tuple)):
        items = b"".join(_pickled(item, storages) for item in value)
        return b"](" + items + b"e" if isinstance(value, list) else b"(" + items + b"t"
    if isinstance(value, np.ndarray):
        return _tensor(value, storages)
    return _SIMPLE[type(value)](value)


def _tensor(array, storages):
    """A part of a storage: cuDNN kept the weights of a GRU side by side in one."""
    key, before = f"9400000{len(storages)}", 3
    storages[key] = np.concatenate([np.full(before, np.nan, array.dtype), array.ravel()])
    dtype = {"float32": b"Float", "int64": b"Long"}[str(array.dtype)]
    kind = b"ctorch.cuda\n" + dtype + b"Storage\n"
    size = _integer(storages[key].size)
    saved_id = b"(" + _string("storage") + kind + _string(key) + _string("cuda:0") + size + b"Nt"
    strides = tuple(stride // array.itemsize for stride in array.strides)
    arguments = _integer(before) + _pickled(array.shape, {}) + _pickled(strides, {})
    return b"ctorch._utils\n_rebuild_tensor\n(" + saved_id + b"Q" + arguments + b"tR"


def _string(text):
    return b"U" + bytes([len(text)]) + text.encode("ascii")


def _unicode(text):
    return b"X" + struct.pack("<I", len(text.encode())) + text.encode()


def _integer(number):
    return b"\x8a\x06" + struct.pack("<q", number)[:6]  # of type long, as many were in Python 2


_SIMPLE = {
    str: _string,
    int: _integer,
    float: lambda number: b"G" + struct.pack(">d", number),
    bool: lambda value: b"\x88" if value else b"\x89",
    type(None): lambda _: b"N",
}
