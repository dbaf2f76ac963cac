"""The colours of anomaly masks, as the capture world has them.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

RGB = tuple[int, int, int]

# Class index -> colour; index 0, white, is the background.
_HEX = """
    FFFFFF 23A436 14A3B3 F76902 9380FF BD10E0 467CE6 A09308 0094BD CC7700 5856D6 D61CB0 007AFF
    8A6E00 2CA02C 3182BD E6550D 8269FF FF2EDC 2532EA 7C9F1E 54A611 18A599 F6673C A358FF FF4367
    6D80FC 98981B 417505 0098C2 AD494A 6C73FF FC3BDC 433BF7 9F961E 2CAA2C 18A0AF E67300 8474D4
    DE737A 9467BD 637939 959509 2C93A5 843C39 3230C5 DE5EB8 5254A3 758844 31A354 1495F3 E76F71
    262494 EA629D 6B6ECF 7B9631 3E9C2B 479CCD BE4E16 5D5BD7 7B4173 888BD7 7A8D34 46A448 409AC4
    AC764F 7E40CB A55194 3396FF 8C6D31 3F9537 1F77B4 D62728 FB46CE CE6DBD 756BB1 AD9134 4CA63A
    00A0CC EB6D00 CF6390 CF72C1 847FB8 B48518 859B3B 00708F B8847F FF4F4D 393B79 B68A2B 7C7E02
    0090B8 A65708 5A8ED6 D6616B 8E2C9D 787826 548D16 006D8B EB7005 3096D1 8C564B 721877 858802
"""

PALETTE: tuple[RGB, ...] = tuple((int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16)) for code in _HEX.split())
BACKGROUND: RGB = PALETTE[0]


def colour_of(class_index: int) -> RGB:
    """Return the colour (red, green, blue) of a class index >= 0.

    Past the end of the palette its colours repeat, the background's left out: no class looks like background.
    """
    if class_index < len(PALETTE):
        return PALETTE[class_index]
    return PALETTE[1 + (class_index - 1) % (len(PALETTE) - 1)]


def hex_of(class_index: int) -> str:
    """Return the colour of a class index >= 0 as `#RRGGBB`, upper case."""
    return "#{:02X}{:02X}{:02X}".format(*colour_of(class_index))


_TABLE = np.array([[colour_of(index)] for index in range(256)], np.uint8)


def colour_mask(class_mask: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the RGB picture, uint8 [H, W, 3], of a class index mask, uint8 [H, W]."""
    # applyColorMap is a plain look-up with no swap of channels: 1 ms for 1080p, numpy takes 7 to 24.
    return np.asarray(cv2.applyColorMap(np.ascontiguousarray(class_mask, np.uint8), _TABLE), np.uint8)
