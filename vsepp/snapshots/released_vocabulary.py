"""The authors' vocabularies (*_vocab.pkl) and their followers' (JSON), with the ids that they give."""

import json
from pathlib import Path
from typing import Any, BinaryIO

from vsepp.data.tokens import SPECIALS, Vocabulary
from vsepp.data.treebank import cutter_of
from vsepp.encoders.plain_pickle import PlainUnpickler, reading
from vsepp.errors import WrongRequest

EXPECTED = "a vocabulary of the release, such as coco_vocab.pkl or coco_precomp_vocab.json"


def read_vocabulary(file: Path) -> Vocabulary:
    """The words of a vocabulary file, cut from captions by the rules that it was made with."""
    with reading(file, EXPECTED) as stream:
        is_json = stream.peek(1).lstrip().startswith(b"{")  # type: ignore[attr-defined]
        ids = json.load(stream)["word2idx"] if is_json else _pickled_ids(stream)
        _check(ids, file)
        return Vocabulary.of_ids(ids, cutter_of(word for word in ids if word not in SPECIALS))


def _pickled_ids(stream: BinaryIO) -> Any:
    holder = type("Vocabulary", (), {})  # its module was __main__ or vocab, or some follower's
    unpickler = PlainUnpickler(stream, lambda _, name: holder if name == "Vocabulary" else None)
    return unpickler.load().word2idx


def _check(ids: Any, file: Path) -> None:
    if not isinstance(ids, dict) or not all(isinstance(word, str) for word in ids):
        raise WrongRequest(f"{file} has no table of words and ids. Expected {EXPECTED}.")
    if sorted(ids.values()) != list(range(len(ids))):
        raise WrongRequest(
            f"{file}: the ids of its {len(ids):,} words are not 0 to {len(ids) - 1:,}."
        )
    missing = [special for special in SPECIALS if special not in ids]
    if missing:
        raise WrongRequest(f"{file} lacks {', '.join(missing)}. Expected {EXPECTED}.")
