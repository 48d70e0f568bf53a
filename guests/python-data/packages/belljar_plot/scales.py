"""From values to places: what data can be, and ticks that people like to read."""

import datetime
import math

_UNIX = datetime.datetime(1970, 1, 1)


def values(data):
    """Data of any kind as a list of plain values."""
    if data is None:
        return []
    if isinstance(data, (str, bytes)):
        return [data]
    if str(getattr(data, "dtype", "")).startswith("period"):
        data = getattr(data, "dt", data).to_timestamp()
    if isinstance(data, dict):
        data = data.values()
    kind = getattr(getattr(data, "dtype", None), "kind", None)
    if kind == "M" and hasattr(data, "astype") and getattr(data, "tz", None) is None:
        found = [None if number == _NAT else number / 1e9 for number in _nanoseconds(data)]
        return [math.nan if number is None else Moment(number) for number in found]
    if hasattr(data, "tolist"):
        data = data.tolist()
    try:
        return list(data)
    except TypeError:
        return [data]


_NAT = -(2**63)


def _nanoseconds(data):
    import numpy

    return numpy.asarray(data, dtype="datetime64[ns]").astype("int64").tolist()


class Moment(float):
    """Seconds since 1970."""


def plain(value):
    """A value as a number, a `Moment`, or a text."""
    if isinstance(value, (bool, int, float)):
        return value if isinstance(value, Moment) else _float(value)
    if value is None:
        return math.nan
    if isinstance(value, datetime.datetime):
        if value != value:
            return math.nan
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return Moment((value - _UNIX).total_seconds())
    if isinstance(value, datetime.date):
        return Moment((datetime.datetime(value.year, value.month, value.day) - _UNIX).total_seconds())
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return value
    try:
        return _float(value)
    except (TypeError, ValueError):
        return str(value)


def _float(value):
    try:
        return float(value)
    except OverflowError:
        return math.inf


class Scale:
    """One direction of a plot: the values it shows, and where each stands between 0 and 1."""

    def __init__(self):
        self.kind = "linear"
        self.categories = {}
        self.dates = False
        self.low, self.high = math.inf, -math.inf
        self.limits = (None, None)
        self.ticks = None
        self.labels = None
        self.inverted = False
        self.margin = 0.04
        self.sticky = set()

    def take(self, data):
        """Reads data, and makes room for it. Texts are categories in the order they come in."""
        numbers = [self._number(plain(value)) for value in values(data)]
        self.cover(numbers)
        return numbers

    def cover(self, numbers):
        usable = [n for n in numbers if math.isfinite(n) and (self.kind != "log" or n > 0)]
        if usable:
            self.low, self.high = min(self.low, *usable), max(self.high, *usable)

    def _number(self, value):
        if isinstance(value, str):
            return float(self.categories.setdefault(value, len(self.categories)))
        if isinstance(value, Moment):
            self.dates = True
        return float(value)

    def range(self):
        """The first and the last value that is shown."""
        low, high = self.low, self.high
        if not low <= high:
            low, high = (0.0, 1.0) if self.kind == "linear" else (1.0, 10.0)
        if self.kind == "log":
            low, high = (low, high) if low > 0 else (high / 1000 if high > 0 else 1.0, max(high, 10.0))
            pad = (math.log10(high) - math.log10(low)) * self.margin or 0.5
            low, high = low / 10**pad, high * 10**pad
        else:
            pad = (high - low) * self.margin
            if low == high:
                pad = abs(low) * 0.05 or 0.5
            if not math.isfinite(pad):
                pad = 0.0
            low = low if low in self.sticky else low - pad
            high = high if high in self.sticky else high + pad
        first, last = self.limits
        low, high = low if first is None else first, high if last is None else last
        if self.kind == "log" and low <= 0:
            low = high / 1000 if high > 0 else 0.1
        if not (math.isfinite(low) and math.isfinite(high)) or low == high:
            low, high = low - 0.5, low + 0.5
        return (high, low) if self.inverted else (low, high)

    def placer(self):
        """A function from a value to its place between 0 and 1."""
        low, high = self.range()
        if self.kind == "log":
            a, b = math.log10(low), math.log10(high)
            return lambda value: (math.log10(value) - a) / (b - a) if value > 0 else math.nan
        if not math.isfinite(high - low):
            return lambda value: value / 2 / (high / 2 - low / 2) - low / 2 / (high / 2 - low / 2)
        return lambda value: (value - low) / (high - low)

    def marks(self, room):
        """Ticks and their labels; `room` is how many there is place for."""
        low, high = sorted(self.range())
        if self.ticks is not None:
            labels = self.labels
            if labels is None:
                labels = [self.categories_at(tick) or text for tick, text in zip(self.ticks, _labels(self.ticks))]
            pairs = zip(self.ticks, labels)
            return [(tick, str(label)) for tick, label in pairs if low <= tick <= high]
        if self.categories:
            step = max(1, math.ceil(len(self.categories) / max(room, 1)))
            return [
                (float(place), name)
                for name, place in self.categories.items()
                if low <= place <= high and place % step == 0
            ]
        if self.dates:
            return _date_ticks(low, high, room)
        if self.kind == "log":
            return _log_ticks(low, high)
        ticks = _nice_ticks(low, high, room)
        return list(zip(ticks, _labels(ticks)))

    def categories_at(self, tick):
        return next((name for name, place in self.categories.items() if place == tick), None)


def _nice_ticks(low, high, room):
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    rough = span / max(room, 2)
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 1e-300 else 1e-300
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if last - first > 100:
        return [low, high]
    return [index * step for index in range(first, last + 1)]


def _labels(ticks):
    """Texts of the same number of digits, in powers of ten where they would be long."""
    if not ticks:
        return []
    largest = max(abs(tick) for tick in ticks)
    steps = [abs(b - a) for a, b in zip(ticks, ticks[1:]) if b != a]
    step = min(steps) if steps else largest or 1.0
    if largest >= 1e7 or (0 < largest < 1e-4):
        digits = max(0, math.floor(math.log10(largest)) - math.floor(math.log10(step) + 1e-9))
        return [_signed(f"{tick:.{min(digits, 6)}e}") if tick else "0" for tick in ticks]
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    if any(abs(round(tick, digits) - tick) > step * 1e-6 for tick in ticks):
        digits += 1
    return [_signed(f"{tick + 0.0:.{min(digits, 10)}f}") for tick in ticks]


def _signed(text):
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa}e{int(exponent)}"
    return text.replace("-", "\u2212") if float(text) else text.replace("-", "")


def _log_ticks(low, high):
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first >= 1:
        step = max(1, (last - first) // 7 + (1 if (last - first) % 7 and last - first > 7 else 0))
        return [(10.0**power, _power(power)) for power in range(first, last + 1, step)]
    base = 10.0 ** (first - 1)
    ticks = [base * factor for factor in (1, 2, 5, 10, 20, 50, 100) if low <= base * factor <= high]
    return [(tick, f"{tick:g}") for tick in ticks]


def _power(power):
    if -4 <= power <= 5:
        return f"{10.0**power:.{max(0, -power)}f}"
    return _signed(f"1e{power}")


_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3600, 86400
_STEPS = [
    *((n * _SECOND, "%H:%M:%S") for n in (1, 5, 15, 30)),
    *((n * _MINUTE, "%H:%M") for n in (1, 5, 15, 30)),
    *((n * _HOUR, "%d %b %H:%M") for n in (1, 3, 6, 12)),
    *((n * _DAY, "%d %b %Y") for n in (1, 2, 7, 14)),
]


def _date_ticks(low, high, room):
    room = max(2, room)
    for step, form in _STEPS:
        if (high - low) / step <= room:
            # Weeks begin with a Monday; 1970 began with a Thursday.
            shift = 4 * _DAY if step % (7 * _DAY) == 0 else 0
            first = math.ceil((low - shift) / step) * step + shift
            count = int((high - first) // step) + 1 if high >= first else 0
            return [_dated(first + index * step, form) for index in range(min(count, 100))]
    start, end = _date(low), _date(high)
    months = (end.year - start.year) * 12 + end.month - start.month
    step = next((n for n in (1, 2, 3, 6) if months / n <= room), None)
    if step is None:
        years = max(1, end.year - start.year)
        unit = next(n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000) if years / n <= room)
        first = -(-start.year // unit) * unit
        found = [_month(year, 1) for year in range(max(first, 1), end.year + 1, unit)]
        return [(when, text) for when, text in ((w, _date(w).strftime("%Y")) for w in found) if low <= when <= high]
    found, number = [], start.year * 12 + start.month - 1
    while number <= end.year * 12 + end.month - 1:
        if number % step == 0:
            when = _month(number // 12, number % 12 + 1)
            if low <= when <= high:
                found.append(_dated(when, "%b %Y"))
        number += 1
    return found


def _date(seconds):
    try:
        return _UNIX + datetime.timedelta(seconds=seconds)
    except OverflowError:
        return datetime.datetime.max if seconds > 0 else datetime.datetime.min


def _month(year, month):
    return (datetime.datetime(year, month, 1) - _UNIX).total_seconds()


def _dated(when, form):
    return float(when), _date(when).strftime(form)
