"""Shapes as pixels: an anti-aliasing rasteriser in plain Python, and PNG.

A polygon is taken apart into the cells of the pixel grid that its edges cross. Each cell knows how
much of it lies to the right of the edges, so what a pixel shows is exact. Rows are then filled from
left to right; what lies between two edges is one slice.
"""

import math
import struct
import zlib

#: Pixels in both directions. A larger picture would be most of a sandbox's memory.
MAX_SIDE = 8000
MAX_PIXELS = 16_000_000


class Canvas:
    """A picture that can be painted on."""

    def __init__(self, width, height, color):
        self.width, self.height = int(width), int(height)
        if not (0 < self.width <= MAX_SIDE and 0 < self.height <= MAX_SIDE):
            raise ValueError(f"a picture of {self.width} x {self.height} pixels cannot be made")
        if self.width * self.height > MAX_PIXELS:
            raise ValueError(f"a picture may have {MAX_PIXELS} pixels; make it smaller or lower its dpi")
        self.pixels = bytearray(bytes(color) * (self.width * self.height))
        self.clip = (0, 0, self.width, self.height)

    def fill(self, outlines, color, alpha=1.0):
        """Paints what is inside of closed outlines, each a list of points."""
        rows = {}
        left, top, right, bottom = self.clip
        for points in outlines:
            x0, y0 = points[-1]
            for x1, y1 in points:
                if y0 != y1:
                    _edge(rows, x0, y0, x1, y1, left, top, right, bottom)
                x0, y0 = x1, y1
        for y, cells in rows.items():
            self._row(y, cells, left, right, color, alpha)

    def _row(self, y, cells, left, right, color, alpha):
        covered = 0.0
        base = y * self.width
        at = left
        for x in sorted(cells):
            cover, area = cells[x]
            if x > at and abs(covered) > 1e-3:
                self._span(base + at, x - at, color, min(abs(covered), 1.0) * alpha)
            covered += cover
            if left <= x < right:
                self._span(base + x, 1, color, min(abs(covered - area), 1.0) * alpha)
            at = max(x + 1, left)
        if right > at and abs(covered) > 1e-3:
            self._span(base + at, right - at, color, min(abs(covered), 1.0) * alpha)

    def _span(self, start, count, color, opacity):
        if opacity <= 0.002:
            return
        pixels, at = self.pixels, start * 3
        if opacity >= 0.998:
            pixels[at : at + count * 3] = bytes(color) * count
            return
        red, green, blue = color
        weight = int(opacity * 256)
        keep = 256 - weight
        red, green, blue = red * weight, green * weight, blue * weight
        for place in range(at, at + count * 3, 3):
            pixels[place] = (pixels[place] * keep + red) >> 8
            pixels[place + 1] = (pixels[place + 1] * keep + green) >> 8
            pixels[place + 2] = (pixels[place + 2] * keep + blue) >> 8

    def stroke(self, lines, color, width, alpha=1.0, dash=None):
        """Paints lines with round corners and ends."""
        outlines = []
        for points in lines:
            for piece in dashes(points, dash) if dash else [points]:
                outlines += outline(piece, width / 2)
        if outlines:
            self.fill(outlines, color, alpha)

    def stamp(self, places, shape, color, alpha=1.0):
        """Paints the same small shape at many places. Its edges are worked out for quarters of a pixel."""
        forms = {}
        left, top, right, bottom = self.clip
        seen = set()
        for x, y in places:
            key = (math.floor(x * 4), math.floor(y * 4))
            # What is opaque looks the same however often it is painted.
            if alpha >= 1.0 and key in seen:
                continue
            seen.add(key)
            column, row = key[0] >> 2, key[1] >> 2
            form = forms.get((key[0] & 3, key[1] & 3))
            if form is None:
                form = forms[(key[0] & 3, key[1] & 3)] = _form(shape, (key[0] & 3) / 4, (key[1] & 3) / 4)
            for dx, dy, opacity in form:
                px, py = column + dx, row + dy
                if left <= px < right and top <= py < bottom:
                    self._span(py * self.width + px, 1, color, opacity * alpha)

    def png(self, dpi=None):
        """The picture as a PNG file."""
        stride = self.width * 3
        rows = bytearray()
        for y in range(self.height):
            rows.append(0)
            rows += self.pixels[y * stride : (y + 1) * stride]
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        chunks = [(b"IHDR", header)]
        if dpi:
            meter = round(dpi / 0.0254)
            chunks.append((b"pHYs", struct.pack(">IIB", meter, meter, 1)))
        chunks += [(b"IDAT", zlib.compress(bytes(rows), 6)), (b"IEND", b"")]
        return b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
            for kind, body in chunks
        )


def _edge(rows, x0, y0, x1, y1, left, top, right, bottom):
    """Notes what one edge does to the cells it crosses. Outside to the left counts, to the right not."""
    if max(y0, y1) <= top or min(y0, y1) >= bottom or min(x0, x1) >= right:
        return
    slope = (x1 - x0) / (y1 - y0)
    if y0 < top:
        x0, y0 = x0 + (top - y0) * slope, float(top)
    elif y0 > bottom:
        x0, y0 = x0 + (bottom - y0) * slope, float(bottom)
    if y1 < top:
        x1, y1 = x1 + (top - y1) * slope, float(top)
    elif y1 > bottom:
        x1, y1 = x1 + (bottom - y1) * slope, float(bottom)
    if y0 == y1:
        return
    sign = 1.0
    if y0 > y1:
        x0, y0, x1, y1, sign = x1, y1, x0, y0, -1.0
    row, last = math.floor(y0), math.ceil(y1) - 1
    while row <= last:
        upper, lower = max(y0, row), min(y1, row + 1)
        xa = x0 + (upper - y0) * slope
        xb = x0 + (lower - y0) * slope
        _piece(rows.setdefault(row, {}), xa, xb, (lower - upper) * sign, left, right)
        row += 1


def _piece(cells, xa, xb, cover, left, right):
    """Part of an edge within one row, from `xa` to `xb`, that covers so much of its height."""
    if xa > xb:
        xa, xb = xb, xa
    if xb <= left:
        xa = xb = float(left)
    first, last = math.floor(xa), math.floor(xb)
    if first == last or xa == xb:
        _cell(cells, first, cover, (xa + xb) / 2 - first)
        return
    whole = xb - xa
    for x in range(max(first, left - 1), min(last, right) + 1):
        start, end = max(xa, x), min(xb, x + 1)
        if end > start:
            _cell(cells, x, cover * (end - start) / whole, (start + end) / 2 - x)
    if first < left - 1:
        _cell(cells, left - 1, cover * (left - 1 - xa) / whole, 0.0)


def _cell(cells, x, cover, at):
    old = cells.get(x)
    if old is None:
        cells[x] = [cover, cover * at]
    else:
        old[0] += cover
        old[1] += cover * at


def _form(shape, x, y):
    """The pixels of a shape at a place inside of a pixel, with how much of each it covers."""
    reach = math.ceil(max(max(abs(px), abs(py)) for points in shape for px, py in points)) + 2
    small = Canvas(2 * reach, 2 * reach, (0, 0, 0))
    small.fill([[(px + x + reach, py + y + reach) for px, py in points] for points in shape], (255,) * 3)
    found = []
    for row in range(2 * reach):
        for column in range(2 * reach):
            value = small.pixels[(row * 2 * reach + column) * 3]
            if value > 1:
                found.append((column - reach, row - reach, value / 255))
    return found


def outline(points, radius):
    """Polygons, all turning the same way, that together are a line of twice this radius."""
    shapes = []
    previous, before = points[0], None
    for point in points[1:]:
        dx, dy = point[0] - previous[0], point[1] - previous[1]
        length = math.hypot(dx, dy)
        if length <= 1e-9:
            continue
        dx, dy = dx / length, dy / length
        nx, ny = -dy * radius, dx * radius
        shapes.append(
            [
                (previous[0] + nx, previous[1] + ny),
                (previous[0] - nx, previous[1] - ny),
                (point[0] - nx, point[1] - ny),
                (point[0] + nx, point[1] + ny),
            ]
        )
        # Where a line hardly bends, or is thin, nobody sees a corner.
        if radius > 0.8 and before is not None and dx * before[0] + dy * before[1] < 0.97:
            shapes.append(circle(previous[0], previous[1], radius))
        previous, before = point, (dx, dy)
    if not shapes:
        return [circle(points[0][0], points[0][1], radius)]
    if radius > 0.8:
        shapes += [circle(points[0][0], points[0][1], radius), circle(previous[0], previous[1], radius)]
    return shapes


def circle(x, y, radius):
    """A circle as a polygon, turning as the sides of lines do."""
    count = max(8, min(48, int(6 * math.sqrt(radius) + 6)))
    step = 2 * math.pi / count
    return [
        (x + radius * math.cos(step * index), y + radius * math.sin(step * index))
        for index in range(count)
    ]


def dashes(points, pattern):
    """A line cut into pieces: on and off by turns, as long as the pattern says."""
    pieces, index, left = [], 0, pattern[0]
    piece = [points[0]]
    for start, end in zip(points, points[1:]):
        length = math.hypot(end[0] - start[0], end[1] - start[1])
        done = 0.0
        while length - done > left:
            done += left
            part = done / length
            cut = (start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part)
            if index % 2 == 0:
                pieces.append([*piece, cut])
            index += 1
            left = pattern[index % len(pattern)]
            piece = [cut]
        left -= length - done
        piece.append(end)
    if index % 2 == 0 and len(piece) > 1:
        pieces.append(piece)
    return pieces
