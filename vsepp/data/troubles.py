"""What cannot be used of a collection: the first one stops, or all are left out and told."""

from typing import Literal

from vsepp.errors import WrongRequest

OnError = Literal["stop", "skip"]
LONGEST = 120  # characters of somebody's text inside a message of ours


class Troubles:
    """Collects what readers cannot use; told to stop, it raises at the first."""

    def __init__(self, on_error: OnError = "stop") -> None:
        self.on_error = on_error
        self.left_out: list[str] = []

    @property
    def are_skipped(self) -> bool:
        return self.on_error == "skip"

    def report(self, where: object, what: str) -> None:
        """`where` names file and row, `what` says what was found and what was expected."""
        sentence = f"{where}: {what}"
        if not self.are_skipped:
            raise WrongRequest(
                f"{sentence}\nMend it, or leave out all that cannot be used: --set data.on_error=skip"
            )
        self.left_out.append(sentence)


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8; what was read from other encodings cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
