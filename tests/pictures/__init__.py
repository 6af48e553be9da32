"""Pictures that cannot be made here: pi-heif does not encode.

turned.heic: 96 x 64, red on the left and blue on the right, to be turned by 90 degrees (both by its own box
and by EXIF), taken on 14 July 2023. Written with pillow-heif.
"""

from pathlib import Path

HEIC = Path(__file__).parent / "turned.heic"
