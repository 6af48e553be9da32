"""Captions -> word ids in any language, saved as tokenizer.json; and files of word vectors.

Word vectors are text files as GloVe and fastText write them, a word and its numbers per line. Such files have
gigabytes, and a vocabulary thousands of words: lines of other words are never parsed.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel

from vsepp.data.treebank import CUTTERS
from vsepp.errors import WrongRequest

PAD, START, END, UNKNOWN = SPECIALS = ("<pad>", "<start>", "<end>", "<unk>")  # the release's 0 to 3

# Scripts written without spaces: every character, with its marks, is a word.
SPACELESS = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*"

CUTTER = "cutter"  # our key in tokenizer.json


class Vocabulary:
    """The words that a model knows, and how captions are split into them."""

    def __init__(self, tokenizer: Tokenizer, cutter: str | None = None) -> None:
        self.tokenizer = tokenizer
        self.cutter = cutter  # a name in CUTTERS; None: the tokenizer splits captions itself

    @classmethod
    def learn(
        cls, captions: Iterable[str], min_count: int = 1, cutter: str | None = None
    ) -> "Vocabulary":
        """Every word that occurs at least `min_count` times, the most frequent first."""
        split = _any_language if cutter is None else CUTTERS[cutter]
        counts = Counter(word for caption in captions for word in split(caption))
        known = [word for word, count in counts.items() if count >= min_count]
        ordered = sorted(known, key=lambda word: (-counts[word], word))
        return cls.of_ids({w: n for n, w in enumerate((*SPECIALS, *ordered))}, cutter)

    def extended(self, captions: Iterable[str], min_count: int = 1) -> "Vocabulary":
        """The same words with the same ids, followed by those of captions."""
        return self._with(Vocabulary.learn(captions, min_count, self.cutter).words())

    def with_words(self, words: Iterable[str]) -> "Vocabulary":
        """The same words with the same ids, followed by these, unless they are split in two."""
        return self._with(filter(self._is_one_word, words))

    def _with(self, words: Iterable[str]) -> "Vocabulary":
        ids: dict[str, int] = self.tokenizer.get_vocab()
        new = [word for word in dict.fromkeys(words) if word not in ids]
        if not new:
            return self
        return self.of_ids(ids | {w: len(ids) + n for n, w in enumerate(new)}, self.cutter)

    def _is_one_word(self, word: str) -> bool:
        if self.cutter is not None:
            return CUTTERS[self.cutter](word) == [word]
        text = self.tokenizer.normalizer.normalize_str(word)
        return [cut for cut, _ in self.tokenizer.pre_tokenizer.pre_tokenize_str(text)] == [word]

    @classmethod
    def of_ids(cls, ids: dict[str, int], cutter: str | None) -> "Vocabulary":
        """Words with these ids, split from captions by the rules of `cutter`."""
        tokenizer = Tokenizer(WordLevel(ids, unk_token=UNKNOWN))
        if cutter is None:
            # NFKC: one spelling for what looks alike (full-width letters, composed and decomposed accents).
            steps = [normalizers.NFKC(), normalizers.Lowercase()]
            tokenizer.normalizer = normalizers.Sequence(steps)
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Whitespace(), pre_tokenizers.Split(Regex(SPACELESS), "isolated")]
            )
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{START} $A {END}", special_tokens=[(START, ids[START]), (END, ids[END])]
        )
        return cls(tokenizer, cutter)

    def encode(self, captions: Sequence[str]) -> list[list[int]]:
        """Word ids from <start> to <end>."""
        if self.cutter is None:
            encodings = self.tokenizer.encode_batch(list(captions))
        else:
            words = [CUTTERS[self.cutter](caption) for caption in captions]
            encodings = self.tokenizer.encode_batch(words, is_pretokenized=True)
        return [encoding.ids for encoding in encodings]

    def words_with_known(self, text: str) -> list[tuple[str, bool]]:
        """The words of a text as written, each with whether the model knows it."""
        text = unicodedata.normalize("NFC", text)  # or a word could be split before its last accent
        if self.cutter is None:
            encoding = self.tokenizer.encode(text, add_special_tokens=False)
            cut = zip(encoding.tokens, encoding.offsets, strict=True)
            words = [(text[start:end], token != UNKNOWN) for token, (start, end) in cut]
        else:
            cut_by_rules = CUTTERS[self.cutter](text)
            words = [(word, self.tokenizer.token_to_id(word) is not None) for word in cut_by_rules]
        # Punctuation is split off as words; it is not reported.
        return [(word, known) for word, known in words if not all(map(_is_punctuation, word))]

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that the model does not know, as written, each once."""
        return list(dict.fromkeys(word for word, known in self.words_with_known(text) if not known))

    def words(self) -> list[str]:
        """Every known word, by id."""
        numbers: dict[str, int] = self.tokenizer.get_vocab()
        return sorted((word for word in numbers if word not in SPECIALS), key=numbers.__getitem__)

    @property
    def unknown(self) -> int:
        """The id of unknown words."""
        number = self.tokenizer.token_to_id(UNKNOWN)
        assert number is not None  # every vocabulary has it
        return int(number)

    def __len__(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    def save(self, path: Path) -> None:
        text = self.tokenizer.to_str(pretty=True)
        if self.cutter is not None:
            # Other readers stop at an unknown key; they would split captions wrongly.
            content = {CUTTER: self.cutter} | json.loads(text)
            text = json.dumps(content, ensure_ascii=False, indent=2)
        path.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        text = path.read_bytes()
        try:
            content = dict(json.loads(text))
            cutter = content.pop(CUTTER, None)
            if cutter is not None and cutter not in CUTTERS:
                known = ", ".join(CUTTERS)
                raise WrongRequest(f"{path}: unknown tokenizer {cutter!r}. Known: {known}.")
            tokenizer = Tokenizer.from_str(json.dumps(content))
        except WrongRequest:
            raise
        except Exception as error:  # tokenizers has no exception of its own
            raise WrongRequest(f"{path} is not the tokenizer of a snapshot ({error}).") from error
        if missing := [word for word in SPECIALS if tokenizer.token_to_id(word) is None]:
            raise WrongRequest(f"{path} is not the tokenizer of a snapshot: it lacks {missing[0]}.")
        vocabulary = cls(tokenizer, cutter)
        try:
            vocabulary.encode([f"a {UNKNOWN} b"])  # some errors only appear here
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic in Rust is no Exception
            raise WrongRequest(f"{path} is not the tokenizer of a snapshot ({error}).") from error
        return vocabulary


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def _any_language(caption: str) -> list[str]:
    # differs from the release: it split words by nltk's rules, as the paper's rows do here
    text = _SPLITTER.normalizer.normalize_str(caption)
    return [word for word, _ in _SPLITTER.pre_tokenizer.pre_tokenize_str(text)]


_SPLITTER = Vocabulary.of_ids({word: n for n, word in enumerate(SPECIALS)}, None).tokenizer


Vector = NDArray[np.float32]
EXPECTED = (
    "Expected lines such as `dog 0.12 -0.03 ...`, as GloVe and fastText write them (unpacked)."
)


def read_word_vectors(file: Path, words: Iterable[str], dim: int) -> dict[str, Vector]:
    """The vectors (dim,) of those words that the file has.

    A word that is there only with capitals gets the vector of its first such spelling.
    """
    wanted = {word.encode(): word for word in words}
    exact: dict[str, Vector] = {}
    capital: dict[str, Vector] = {}
    for number, line in _lines(file):
        spelling = line.partition(b" ")[0]
        if word := wanted.get(spelling):
            found = exact
        elif word := wanted.get(spelling.lower()):
            found = capital
        else:
            continue
        if word not in found:
            vector = _vector(line, spelling, dim, file, number)
            if vector is not None:
                found[word] = vector
    return capital | exact


def dimension_of(file: Path) -> int:
    """The dimension of a file's vectors, by its first word."""
    for _, line in _lines(file):
        return len(line.split()) - 1
    raise WrongRequest(f"{file} is empty. {EXPECTED}")


def first_words(file: Path, number: int) -> list[str]:
    """The first words of a file in lower case; such files are sorted by frequency."""
    words: dict[str, None] = {}
    for _, line in _lines(file):
        word = line.partition(b" ")[0].decode(errors="replace").lower()
        if word.isalpha():
            words[word] = None
        if len(words) == number:
            break
    return list(words)


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines, without fastText's header."""
    if not file.is_file():
        raise WrongRequest(f"{file} does not exist. {EXPECTED}")
    with file.open("rb", buffering=1 << 20) as stream:
        for number, line in enumerate(stream, 1):
            if number == 1 and len(line.split()) == 2:
                continue  # number of words and of dimensions
            yield number, line


def _vector(line: bytes, spelling: bytes, dim: int, file: Path, number: int) -> Vector | None:
    fields = line.split()[1:]
    try:
        vector = np.array(fields[-dim:], dtype=np.float32)
        extra = [float(field) for field in fields[:-dim]]
    except ValueError:
        if len(fields) > dim:
            return None  # an entry of several words: `. . .` is in GloVe's largest file
        raise WrongRequest(f"{file}, line {number}: not all are numbers. {EXPECTED}") from None
    if extra or len(vector) < dim:
        raise WrongRequest(
            f"{file}, line {number}: {spelling.decode(errors='replace')!r} has {len(fields)} numbers, "
            f"the model's words have {dim}. Set model.word_dim={len(fields)}, or use another file."
        )
    if not np.isfinite(vector).all():
        raise WrongRequest(f"{file}, line {number}: a number is not finite. {EXPECTED}")
    return vector
