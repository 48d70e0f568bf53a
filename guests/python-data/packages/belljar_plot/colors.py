"""Colours: what people call them, as three numbers and how opaque they are."""

#: What series are drawn in, by turns: told apart also by people who see fewer colours.
CYCLE = (
    (43, 108, 176),
    (221, 107, 32),
    (47, 133, 90),
    (197, 48, 48),
    (107, 70, 193),
    (151, 101, 64),
    (213, 63, 140),
    (90, 99, 112),
    (183, 159, 26),
    (0, 151, 167),
)

TEXT = (38, 38, 38)
FRAME = (74, 74, 74)
GRID = (222, 222, 222)
PAPER = (255, 255, 255)

_NAMES = {
    "black": "000000", "k": "000000", "white": "ffffff", "w": "ffffff", "red": "e02424", "r": "e02424",
    "green": "1a7f37", "g": "1a7f37", "blue": "1f4fd8", "b": "1f4fd8", "cyan": "00a5b5", "c": "00a5b5",
    "magenta": "c026b8", "m": "c026b8", "yellow": "d9b800", "y": "d9b800", "orange": "f28c1b",
    "purple": "7b3fb5", "brown": "8a5a3b", "pink": "ec6fae", "gray": "808080", "grey": "808080",
    "olive": "8a8a1f", "navy": "14276b", "teal": "0f7f7f", "gold": "e0b000", "silver": "bdbdbd",
    "lightgray": "d3d3d3", "lightgrey": "d3d3d3", "darkgray": "5f5f5f", "darkgrey": "5f5f5f",
    "lightblue": "a8cdf0", "darkblue": "12307f", "lightgreen": "a6dba6", "darkgreen": "0f5c26",
    "darkred": "8f1414", "skyblue": "82c4ee", "steelblue": "4682b4", "tomato": "f0583c",
    "salmon": "f4867a", "coral": "f67d52", "crimson": "cf1b43", "indigo": "4b1e86", "violet": "d77fe0",
    "turquoise": "35c8bd", "maroon": "7a1020", "lime": "3fd03f",
}  # fmt: skip


def color(name, otherwise=None):
    """Red, green and blue from 0 to 255, and how opaque it is."""
    if name is None:
        return (*otherwise, 1.0) if len(otherwise) == 3 else otherwise
    if isinstance(name, str):
        return _named(name)
    parts = [float(part) for part in name]
    if len(parts) not in (3, 4) or not all(0 <= part <= 1 for part in parts):
        raise ValueError(f"a colour has three or four numbers from 0 to 1, not {name!r}")
    red, green, blue = (round(part * 255) for part in parts[:3])
    return red, green, blue, parts[3] if len(parts) == 4 else 1.0


def _named(name):
    text = name.strip().lower()
    if text in ("none", "transparent"):
        return 255, 255, 255, 0.0
    if len(text) > 1 and text[0] == "c" and text[1:].isdigit():
        return (*CYCLE[int(text[1:]) % len(CYCLE)], 1.0)
    if text.startswith("tab:"):
        text = text[4:]
    digits = text[1:] if text.startswith("#") else _NAMES.get(text)
    if digits is None:
        try:
            level = round(float(text) * 255)
        except ValueError:
            level = -1
        if 0 <= level <= 255:
            return level, level, level, 1.0
        raise ValueError(f"there is no colour {name!r}; use a name such as 'red', '#1f77b4', 'C0' or (r, g, b)")
    if len(digits) in (3, 4):
        digits = "".join(digit * 2 for digit in digits)
    try:
        numbers = bytes.fromhex(digits)
    except ValueError:
        numbers = b""
    if len(numbers) not in (3, 4):
        raise ValueError(f"{name!r} is not a colour; write '#rrggbb'")
    red, green, blue = numbers[:3]
    return red, green, blue, numbers[3] / 255 if len(numbers) == 4 else 1.0
