"""Tests of belljar_plot: `python3 -m unittest discover guests/python-data/tests`.

They need nothing but Python; what concerns numpy and pandas runs where those are installed.
"""

import datetime
import io
import math
import struct
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

if __file__ and (packages := Path(__file__).parent.parent / "packages").is_dir():
    sys.path.insert(0, str(packages))

import belljar_plot as plt  # noqa: E402
from belljar_plot import colors, font, raster, scales  # noqa: E402

try:
    import numpy
    import pandas
except ImportError:
    numpy = pandas = None

WITH_PANDAS = unittest.skipUnless(pandas, "needs numpy and pandas")


def pixels(png):
    """Width, height, and rows of colours of a PNG file. Written without the code that is tested."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, found = 8, {}
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        found[kind] = found.get(kind, b"") + body
        at += 12 + length
    width, height, depth, color, *_ = struct.unpack(">IIBBBBB", found[b"IHDR"])
    assert (depth, color) == (8, 2) and b"IEND" in found
    data, rows = zlib.decompress(found[b"IDAT"]), []
    for y in range(height):
        row = data[y * (width * 3 + 1) :][: width * 3 + 1]
        assert row[0] == 0
        rows.append([tuple(row[1 + x * 3 : 4 + x * 3]) for x in range(width)])
    return width, height, rows


def texts(figure):
    root = ElementTree.fromstring(figure.to_svg())
    return [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]


class Rasteriser(unittest.TestCase):
    def paint(self, shape, size=10):
        canvas = raster.Canvas(size, size, (0, 0, 0))
        canvas.fill(shape, (255, 255, 255))
        return canvas

    def coverage(self, canvas):
        return sum(canvas.pixels[::3]) / 255

    def test_what_is_covered_is_exact(self):
        for shape, area in [
            ([(1, 1), (9, 1), (9, 9), (1, 9)], 64),
            ([(1.5, 2.25), (6.5, 2.25), (6.5, 7.75), (1.5, 7.75)], 27.5),
            ([(0, 0), (10, 0), (0, 10)], 50),
            ([(5, 0.5), (9.5, 5), (5, 9.5), (0.5, 5)], 40.5),
        ]:
            self.assertAlmostEqual(self.coverage(self.paint([shape])), area, delta=0.4)
            self.assertAlmostEqual(self.coverage(self.paint([shape[::-1]])), area, delta=0.4)

    def test_what_lies_outside_is_cut_off(self):
        whole = self.coverage(self.paint([[(-1e5, -1e5), (1e5, -1e5), (1e5, 1e5), (-1e5, 1e5)]]))
        self.assertAlmostEqual(whole, 100, delta=0.1)
        left_half = self.coverage(self.paint([[(-50, -3), (5, -3), (5, 30), (-50, 30)]]))
        self.assertAlmostEqual(left_half, 50, delta=0.1)
        slanted = self.coverage(self.paint([[(-10, 0), (10, 0), (10, 10), (-10, 10), (-30, 5)]]))
        self.assertAlmostEqual(slanted, 100, delta=0.1)
        self.assertEqual(self.coverage(self.paint([[(20, 0), (30, 0), (30, 9), (20, 9)]])), 0)

    def test_a_line_has_its_width_and_corners_are_not_painted_twice(self):
        canvas = raster.Canvas(40, 40, (0, 0, 0))
        canvas.stroke([[(5, 5), (35, 5), (35, 35)]], (255, 255, 255), 4)
        self.assertAlmostEqual(self.coverage(canvas), 60 * 4 + math.pi * 4, delta=6)
        self.assertEqual(max(canvas.pixels), 255)

    def test_dashes_leave_gaps(self):
        self.assertEqual(
            raster.dashes([(0, 0), (10, 0)], (3, 2)), [[(0, 0), (3, 0)], [(5, 0), (8, 0)]]
        )

    def test_pictures_are_bounded(self):
        for width, height in [(0, 5), (5, -1), (9000, 5), (8000, 8000)]:
            with self.assertRaises(ValueError):
                raster.Canvas(width, height, (0, 0, 0))


class Font(unittest.TestCase):
    def test_every_printable_character_has_a_glyph_of_its_own(self):
        missing = font._glyph("\ue000")
        for code in range(33, 127):
            self.assertNotEqual(font._glyph(chr(code)), missing, chr(code))
            self.assertTrue(font._glyph(chr(code))[1], chr(code))

    def test_accents_are_left_out_and_the_unknown_is_a_box(self):
        self.assertEqual(font.width("é", 10), font.width("e", 10))
        self.assertEqual(font.glyphs("\u4e2d"), font.glyphs("\ue000"))


class Ticks(unittest.TestCase):
    def labels(self, low, high, room=6, **settings):
        scale = scales.Scale()
        for name, value in settings.items():
            setattr(scale, name, value)
        scale.margin = 0
        scale.take([low, high])
        return [text for _, text in scale.marks(room)]

    def test_numbers_are_round(self):
        self.assertEqual(self.labels(0, 10), ["0", "2", "4", "6", "8", "10"])
        self.assertEqual(self.labels(-1, 1, 4), ["−1.0", "−0.5", "0.0", "0.5", "1.0"])
        self.assertEqual(self.labels(0, 3e9, 3), ["0", "1e9", "2e9", "3e9"])
        self.assertEqual(self.labels(1, 1000, kind="log"), ["1", "10", "100", "1000"])

    def test_dates_are_days_months_and_years(self):
        day = datetime.date
        self.assertEqual(self.labels(day(2024, 1, 1), day(2024, 1, 3), 3), ["01 Jan 2024", "02 Jan 2024", "03 Jan 2024"])
        self.assertEqual(self.labels(day(2024, 1, 1), day(2024, 4, 1), 4)[:2], ["Jan 2024", "Feb 2024"])
        self.assertEqual(self.labels(day(2000, 1, 1), day(2010, 1, 1), 6), ["2000", "2002", "2004", "2006", "2008", "2010"])
        moment = datetime.datetime
        self.assertEqual(self.labels(moment(2024, 1, 1, 9), moment(2024, 1, 1, 9, 10), 2), ["09:00", "09:05", "09:10"])

    def test_nothing_that_is_no_number_breaks_them(self):
        for low, high in [(math.nan, math.inf), (0, 0), (-1e308, 1e308), (5e-324, 1e-323), (10**400, 0)]:
            scale = scales.Scale()
            scale.take([low, high])
            place = scale.placer()
            self.assertIsInstance(scale.marks(5), list)
            place(1.0)


class Figures(unittest.TestCase):
    def setUp(self):
        plt.close()

    def test_a_cell_shows_png_and_svg(self):
        plt.plot([1, 4, 9], label="squares")
        plt.title("T & <b>")
        plt.legend()
        figure = plt.show()
        bundle = figure._repr_mimebundle_()
        self.assertEqual(sorted(bundle), ["image/png", "image/svg+xml"])
        width, height, rows = pixels(bundle["image/png"])
        self.assertEqual((width, height), (768, 576))
        self.assertEqual(rows[0][0], (255, 255, 255))
        blue = sum(pixel == colors.CYCLE[0] for row in rows for pixel in row)
        self.assertGreater(blue, 500)
        self.assertIn("T & <b>", texts(figure))
        self.assertIn("squares", texts(figure))
        self.assertEqual(figure.gca()._repr_mimebundle_(), bundle)

    def test_show_ends_a_figure(self):
        plt.plot([1])
        first = plt.show()
        plt.plot([2])
        self.assertIsNot(plt.gcf(), first)

    def test_every_kind_is_drawn(self):
        sheet, axes = plt.subplots(3, 4, figsize=(12, 9), squeeze=False)
        spots = [spot for row in axes for spot in row]
        spots[0].plot([1, None, 3], "r--o", [3, 2, 1], "C1:")
        spots[1].scatter([1, 2, 3], [3, 1, 2], s=[10, 50, 200], c=[1, 2, 3], marker="^")
        spots[2].bar(["a", "b"], [1, -2], color=["red", "#00ff00"], yerr=[0.1, 0.2])
        spots[3].barh(["a", "b"], [1, 2], label="x")
        spots[4].hist([1, 2, 2, 3, 3, 3], bins=3)
        spots[5].boxplot([[1, 2, 3, 4, 50], [2, 3]], labels=["p", "q"])
        spots[6].fill_between([1, 2, 3], [1, 2, 3], [0, 1, 1])
        spots[7].stackplot([1, 2], [1, 2], [3, 4], labels=["m", "n"])
        spots[8].errorbar([1, 2], [3, 4], yerr=0.5)
        spots[9].pie([1, 2], labels=["u", "v"], autopct="%d%%")
        spots[10].step([1, 2, 3], [1, 3, 2])
        spots[11].plot([1, 10], [1, 1000])
        spots[11].set_yscale("log")
        for spot in spots:
            spot.set_title("t")
            spot.legend()
            spot.grid(True)
        width, height, rows = pixels(sheet.to_png(dpi=60))
        self.assertEqual((width, height), (720, 540))
        self.assertGreater(len({pixel for row in rows for pixel in row}), 200)
        self.assertGreaterEqual(texts(sheet).count("t"), 12)

    def test_a_histogram_counts(self):
        counts, edges, _ = plt.hist([0, 1, 1, 2, 10, math.nan, None], bins=[0, 1, 2, 10])
        self.assertEqual((counts, edges), ([1, 2, 2], [0.0, 1.0, 2.0, 10.0]))

    def test_files_are_png_or_svg(self):
        plt.plot([1, 2])
        with tempfile.TemporaryDirectory() as folder:
            for name, start in [("a.png", b"\x89PNG"), ("b.svg", b"<svg"), ("c", b"\x89PNG")]:
                plt.savefig(Path(folder) / name)
                written = Path(folder) / (name if "." in name else "c.png")
                self.assertTrue(written.read_bytes().startswith(start))
        buffer = io.BytesIO()
        plt.savefig(buffer, format="png", dpi=50)
        self.assertEqual(pixels(buffer.getvalue())[:2], (320, 240))
        with self.assertRaisesRegex(ValueError, "png or svg, not as 'pdf'"):
            plt.savefig("x.pdf")

    def test_mistakes_are_explained(self):
        cases = [
            (lambda: plt.plot([1, 2], [1]), "x has 2 values and y has 1"),
            (lambda: plt.plot([1], "q"), "'q' is not a format"),
            (lambda: plt.plot([1], color="reddish"), "there is no colour 'reddish'"),
            (lambda: plt.plot([1], marker="Q"), "there is no marker 'Q'"),
            (lambda: plt.xscale("symlog"), "there is no scale 'symlog'"),
            (lambda: plt.figure(figsize=(1e9, 1)), "cannot be drawn"),
            (lambda: plt.hist([1], bins=10**9), "bins cannot be drawn"),
            (lambda: plt.subplot(2, 2, 7), "there is no place 7"),
        ]
        for attempt, message in cases:
            with self.assertRaisesRegex(ValueError, message):
                attempt()
        with self.assertRaisesRegex(AttributeError, "belljar_plot has no 'contour'; it has .*scatter"):
            plt.contour([[1]])
        with self.assertRaisesRegex(AttributeError, "axes have no 'imshow'"):
            plt.gca().imshow([[1]])
        with self.assertRaisesRegex(TypeError, "does not know 'sparkle'"):
            plt.plot([1], sparkle=True)

    def test_hostile_texts_stay_texts(self):
        plt.title("</text><script>alert(1)</script>\x00\ud800")
        plt.plot([1, 2], label='"><img src=x>')
        plt.legend()
        figure = plt.show()
        self.assertEqual(
            {node.tag.split("}")[1] for node in ElementTree.fromstring(figure.to_svg()).iter()},
            {"svg", "defs", "clipPath", "rect", "path", "text"},
        )
        figure.to_png()

    def test_long_lines_are_thinned_without_losing_peaks(self):
        ys = [0.0] * 100_000
        ys[51_234] = 1.0
        plt.plot(ys)
        scene = plt.show().scene()
        line = max((item for item in scene.items if item[0] == "line"), key=lambda item: len(item[1]))
        self.assertLess(len(line[1]), 10_000)
        self.assertLess(min(y for _, y in line[1]), 60)


@WITH_PANDAS
class Frames(unittest.TestCase):
    def setUp(self):
        pandas.set_option("plotting.backend", "belljar_plot")
        self.frame = pandas.DataFrame(
            {"city": ["Oslo", "Rome", "Lima"], "cold": [-4, 8, 15.5], "warm": [17, 26, numpy.nan]}
        )

    def test_every_kind_that_pandas_knows_of_it(self):
        indexed = self.frame.set_index("city")
        for kind in ("line", "bar", "barh", "hist", "box", "area"):
            axes = indexed.plot(kind=kind, title="Weather")
            self.assertIsInstance(axes, plt.Axes)
            self.assertIn("Weather", texts(axes.figure), kind)
            self.assertTrue({"cold", "warm"} <= set(texts(axes.figure)), kind)
            axes.figure.to_png(dpi=40)
        axes = self.frame.plot.scatter(x="cold", y="warm")
        self.assertTrue({"cold", "warm"} <= set(texts(axes.figure)))
        axes = indexed["cold"].abs().plot.pie()
        self.assertTrue({"Oslo", "Rome", "Lima"} <= set(texts(axes.figure)))
        with self.assertRaisesRegex(ValueError, "cannot draw 'kde'"):
            indexed.plot.kde()

    def test_what_was_drawn_by_pandas_can_be_finished(self):
        self.frame.plot(x="city", y="cold", kind="bar", legend=False)
        plt.ylabel("degrees")
        figure = plt.show()
        self.assertIn("degrees", texts(figure))
        self.assertTrue({"Oslo", "Rome", "Lima", "city"} <= set(texts(figure)))

    def test_dates_of_pandas_are_dates(self):
        index = pandas.date_range("2024-01-01", periods=90)
        axes = pandas.Series(range(90), index=index, name="n").plot()
        self.assertIn("Jan 2024", " ".join(texts(axes.figure)))
        zoned = pandas.Series(range(3), index=index[:3].tz_localize("Europe/Paris")).plot()
        zoned.figure.to_svg()

    def test_histograms_and_boxes_of_frames(self):
        axes = self.frame.hist()
        self.assertEqual(len(axes), 2)
        boxes = self.frame.boxplot(column=["cold", "warm"])
        self.assertTrue({"cold", "warm"} <= set(texts(boxes.figure)))

    def test_subplots_and_stacks(self):
        axes = self.frame.plot(subplots=True)
        self.assertEqual(len(axes), 2)
        stacked = self.frame.plot.bar(x="city", stacked=True)
        self.assertGreater(stacked.get_ylim()[1], 34)
        stacked.figure.to_png(dpi=40)

    def test_a_frame_without_numbers_says_so(self):
        with self.assertRaisesRegex(TypeError, "no numeric data to plot"):
            self.frame[["city"]].plot()


if __name__ == "__main__":
    unittest.main()
