"""JSON as it goes to the host and comes from it, by way of nothing that user code could replace."""

from . import __builtins__

from json.decoder import JSONDecoder
from json.encoder import c_encode_basestring as quote
from json.encoder import c_make_encoder

_type_name = type.__dict__["__name__"].__get__
_scan = JSONDecoder().scan_once


def type_name(value):
    """The name of its class, whatever its metaclass says."""
    return _type_name(type(value))


def decode(data):
    return _scan(str(data, "utf-8"), 0)[0]


def _refuse(value):
    raise TypeError(f"{type_name(value)} is no JSON type")


def encode(value):
    """Any value, checked. TypeError, ValueError or RecursionError when JSON cannot carry it."""
    return "".join(c_make_encoder({}, _refuse, quote, None, ":", ",", False, False, False)(value, 0))


_encode_own = c_make_encoder(None, _refuse, quote, None, ":", ",", False, False, False)


def encode_own(value):
    """What the driver itself has made: faster."""
    return "".join(_encode_own(value, 0))
