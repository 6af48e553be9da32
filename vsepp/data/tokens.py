"""Captions -> word ids, in any language, saved as tokenizer.json."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel

PAD, START, END, UNKNOWN = SPECIALS = ("<pad>", "<start>", "<end>", "<unk>")  # the release's 0 to 3

# Scripts that are written without spaces: every character, with its marks, is a word of its own.
SPACELESS = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*"


class Vocabulary:
    """The words that a model knows, and how a caption is cut into them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @classmethod
    def learn(cls, captions: Iterable[str], min_count: int = 1) -> "Vocabulary":
        """Every word that occurs at least `min_count` times, the most frequent first."""
        splitter = _tokenizer({special: number for number, special in enumerate(SPECIALS)})
        counts: Counter[str] = Counter()
        for caption in captions:
            text = splitter.normalizer.normalize_str(caption)
            counts.update(word for word, _ in splitter.pre_tokenizer.pre_tokenize_str(text))
        known = [word for word, count in counts.items() if count >= min_count]
        ordered = sorted(known, key=lambda word: (-counts[word], word))
        return cls(_tokenizer({word: number for number, word in enumerate((*SPECIALS, *ordered))}))

    def encode(self, captions: Sequence[str]) -> list[list[int]]:
        """Word ids from <start> to <end>."""
        return [encoding.ids for encoding in self.tokenizer.encode_batch(list(captions))]

    def judged(self, text: str) -> list[tuple[str, bool]]:
        """The words of a text as they were written, each with whether the model knows it."""
        text = unicodedata.normalize("NFC", text)  # or a word could be cut before its last accent
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        cut = zip(encoding.tokens, encoding.offsets, strict=True)
        words = [(text[start:end], token != UNKNOWN) for token, (start, end) in cut]
        # Punctuation is cut off as words of its own; nobody misses it.
        return [(word, known) for word, known in words if not all(map(_is_punctuation, word))]

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that the model has never seen, as they were written, each once."""
        return list(dict.fromkeys(word for word, known in self.judged(text) if not known))

    def words(self) -> list[str]:
        """Every word that the model knows, by its number."""
        numbers: dict[str, int] = self.tokenizer.get_vocab()
        return sorted((word for word in numbers if word not in SPECIALS), key=numbers.__getitem__)

    def __len__(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    def save(self, path: Path) -> None:
        self.tokenizer.save(str(path))

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        return cls(Tokenizer.from_file(str(path)))


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def _tokenizer(ids: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(WordLevel(ids, unk_token=UNKNOWN))
    # NFKC: one spelling for what looks alike (full-width letters, composed and decomposed accents).
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Split(Regex(SPACELESS), "isolated")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}", special_tokens=[(START, ids[START]), (END, ids[END])]
    )
    return tokenizer
