"""Colours of all figures; models can be told apart by the colour-blind."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """Colours on a light or a dark background."""

    paper: str
    text: str
    quiet: str  # axes, labels of axes, remarks
    faint: str  # grids and frames
    models: tuple[str, ...]

    def of_model(self, number: int) -> str:
        return self.models[number % len(self.models)]


# Okabe and Ito's palette; lighter variants on a dark background.
LIGHT = Palette(
    paper="#ffffff",
    text="#1a1a1a",
    quiet="#5a5a5a",
    faint="#dddddd",
    models=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9"),
)
DARK = Palette(
    paper="#15181c",
    text="#e8e8e8",
    quiet="#a9b0b8",
    faint="#3a4047",
    models=("#56b4e9", "#f5925a", "#3ecfa0", "#e7a3ca", "#f0c95a", "#a6c8ff"),
)
