"""The colours of all figures: a model keeps its own, and no two look alike to the colour-blind."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ink:
    """What a figure is drawn with, on light or on dark paper."""

    paper: str
    text: str
    quiet: str  # axes, labels of axes, remarks
    faint: str  # grids and frames
    models: tuple[str, ...]
    right: str

    def of_model(self, number: int) -> str:
        return self.models[number % len(self.models)]


# Okabe and Ito's palette; on dark paper its lighter sisters.
LIGHT = Ink(
    paper="#ffffff",
    text="#1a1a1a",
    quiet="#5a5a5a",
    faint="#dddddd",
    models=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9"),
    right="#1a7f4b",
)
DARK = Ink(
    paper="#15181c",
    text="#e8e8e8",
    quiet="#a9b0b8",
    faint="#3a4047",
    models=("#56b4e9", "#f5925a", "#3ecfa0", "#e7a3ca", "#f0c95a", "#a6c8ff"),
    right="#5fd08f",
)
