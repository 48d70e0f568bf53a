"""Runs the guest as a command on PyPI's wasmtime, unmetered.

    run.py COMMAND.wasm [--dir HOST::GUEST]… [--] ARGUMENT…
"""

import ctypes
import hashlib
import sys
from pathlib import Path

from wasmtime import Config, Engine, ExitTrap, Linker, Module, Store, WasiConfig
from wasmtime._bindings import dll


def main(wasm, *rest):
    config = Config()
    config.wasm_simd = True
    # As much as Belljar gives. The binding has no name for the second limit, which bounds the first.
    dll.wasmtime_config_async_stack_size_set(config.ptr(), ctypes.c_uint64(5 << 20))
    config.max_wasm_stack = 4 << 20
    engine = Engine(config)
    wasi = WasiConfig()
    rest = list(rest)
    while rest and rest[0] == "--dir":
        host, guest = rest[1].split("::")
        wasi.preopen_dir(host, guest)
        del rest[:2]
    if rest and rest[0] == "--":
        del rest[0]
    wasi.argv = ["python", *rest]
    wasi.env = [("PYTHONHOME", "/usr"), ("PYTHONPATH", "/lib/stdlib.zip"), ("PYTHONHASHSEED", "0"), ("PYTHONDONTWRITEBYTECODE", "1")]
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    wasi.inherit_stderr()

    store = Store(engine)
    store.set_wasi(wasi)
    linker = Linker(engine)
    linker.define_wasi()
    instance = linker.instantiate(store, compiled(engine, Path(wasm)))
    try:
        instance.exports(store)["_start"](store)
    except ExitTrap as trap:
        sys.exit(trap.code)


def compiled(engine, wasm):
    """Machine code is kept beside the module: compiling takes longer than most runs."""
    data = wasm.read_bytes()
    cache = wasm.with_suffix(f".{hashlib.sha256(data).hexdigest()[:16]}.cwasm")
    if cache.exists():
        return Module.deserialize_file(engine, str(cache))
    module = Module(engine, data)
    cache.write_bytes(module.serialize())
    return module


if __name__ == "__main__":
    main(*sys.argv[1:])
