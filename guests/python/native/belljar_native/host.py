"""Stands where the guest has its C module `_belljar_host`."""

from belljar_guest import __builtins__

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from types import ModuleType

from .compiling import compile_cell

DRIVER, USER = 0, 1

# Kept free while the user's code runs, so that the driver can still speak when that has
# used up all the memory there may be. Never touched: it costs address space only.
RESERVE_BYTES = 8 * 1024 * 1024
_reserve = None


def phase(whose):
    """Whose code comes next."""
    global _reserve
    if _reserve is not None:
        _reserve.close()
        _reserve = None
    if whose == USER:
        try:
            # Where there is no more than this left, the user needs it to clean up.
            _map(2 * RESERVE_BYTES).close()
            _reserve = _map(RESERVE_BYTES)
        except (OSError, MemoryError):
            pass


def _map(size):
    return mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS)


def module():
    host = ModuleType("_belljar_host", "The driver's view of its host.")
    host.DRIVER, host.USER = DRIVER, USER
    host.phase = phase
    host.compile_cell = compile_cell
    # Nothing goes by way of bytes here: `asking` replaces what would use it.
    host.call = None
    return host
