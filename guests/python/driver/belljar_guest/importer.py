"""The standard library, imported from memory: a sandbox has no file system of its own."""

import sys
from _frozen_importlib import ModuleSpec
from marshal import loads as unmarshal

LIBRARY = "/lib/python3.13"
_PYC_HEADER = 16

# Path inside the archive -> contents, as a view of it, for every file of the standard library.
_files = {}
# Module name -> function called with the module right after its first import.
_hooks = {}


def load_archive(data):
    """Takes a zip archive whose entries are stored, not compressed."""
    view = memoryview(data)

    def number(offset, size):
        return int.from_bytes(view[offset : offset + size], "little")

    end = data.rindex(b"PK\x05\x06")
    entry = number(end + 16, 4)
    for _ in range(number(end + 10, 2)):
        size, name_len = number(entry + 24, 4), number(entry + 28, 2)
        local = number(entry + 42, 4)
        name = bytes(view[entry + 46 : entry + 46 + name_len]).decode()
        start = local + 30 + number(local + 26, 2) + number(local + 28, 2)
        _files[name] = view[start : start + size]
        entry += 46 + name_len + number(entry + 30, 2) + number(entry + 32, 2)


def preloaded():
    """Modules that this image wants imported before it is frozen, besides the common ones."""
    return bytes(_files.get("preload.txt", b"")).decode().split()


def after_import(name, hook):
    """Calls `hook(module)` when `name` is first imported, or now if it already is."""
    if name in sys.modules:
        hook(sys.modules[name])
    else:
        _hooks[name] = hook


class LibraryImporter:
    """Finder and loader of everything in the archive."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        base = name.replace(".", "/")
        for file, is_package in ((base + "/__init__.pyc", True), (base + ".pyc", False)):
            if file in _files:
                spec = ModuleSpec(name, cls, origin=f"{LIBRARY}/{file[:-1]}", is_package=is_package)
                spec.loader_state = file
                spec.has_location = True
                if is_package:
                    spec.submodule_search_locations = [f"{LIBRARY}/{base}"]
                return spec
        return None

    @staticmethod
    def create_module(spec):
        return None

    @classmethod
    def exec_module(cls, module):
        exec(cls._code(module.__spec__.loader_state), module.__dict__)
        hook = _hooks.pop(module.__name__, None)
        if hook is not None:
            hook(module)

    @staticmethod
    def _code(file):
        return unmarshal(_files[file][_PYC_HEADER:])

    @classmethod
    def get_code(cls, name):
        spec = cls.find_spec(name)
        if spec is None:
            raise ImportError(f"not in the standard library: {name}", name=name)
        return cls._code(spec.loader_state)

    @classmethod
    def get_source(cls, name):
        return None

    @classmethod
    def is_package(cls, name):
        spec = cls.find_spec(name)
        return spec is not None and spec.submodule_search_locations is not None

    @staticmethod
    def get_data(path):
        try:
            return bytes(_files[path.removeprefix(LIBRARY + "/")])
        except KeyError:
            raise FileNotFoundError(2, "No such file or directory", path) from None

    @classmethod
    def get_resource_reader(cls, name):
        from importlib.resources.abc import TraversableResources

        class Reader(TraversableResources):
            def files(self):
                return _Resource(name.replace(".", "/"))

        return Reader()


    @staticmethod
    def find_distributions(context):
        """What importlib.metadata asks for: the packages in the archive, or the one that the context names."""
        from importlib.metadata import Distribution, Prepared

        class Archived(Distribution):
            def __init__(self, folder):
                self.folder = folder

            def read_text(self, filename):
                data = _files.get(f"{self.folder}/{filename}")
                return None if data is None else bytes(data).decode()

            def locate_file(self, path):
                return f"{LIBRARY}/{path}"

        wanted = context.name and Prepared.normalize(context.name)
        for file in _files:
            folder, ending, _ = file.partition(".dist-info/METADATA")
            if ending and wanted in (None, Prepared.normalize(folder.rpartition("-")[0])):
                yield Archived(f"{folder}.dist-info")


class _Resource:
    """A path in the archive, as importlib.resources wants to see it."""

    def __init__(self, path):
        self._path = path

    @property
    def name(self):
        return self._path.rpartition("/")[2]

    def is_file(self):
        return self._path in _files

    def is_dir(self):
        prefix = self._path + "/"
        return any(file.startswith(prefix) for file in _files)

    def iterdir(self):
        prefix = self._path + "/"
        names = {file[len(prefix) :].partition("/")[0] for file in _files if file.startswith(prefix)}
        return (_Resource(prefix + name) for name in sorted(names))

    def joinpath(self, *parts):
        return _Resource("/".join((self._path, *map(str, parts))))

    __truediv__ = joinpath

    def read_bytes(self):
        if self._path not in _files:
            raise FileNotFoundError(2, "No such file or directory", self._path)
        return bytes(_files[self._path])

    def read_text(self, encoding="utf-8", errors="strict"):
        return self.read_bytes().decode(encoding, errors)

    def open(self, mode="r", *, encoding="utf-8", errors="strict"):
        import io

        return io.BytesIO(self.read_bytes()) if "b" in mode else io.StringIO(self.read_text(encoding, errors))


def adopt(module):
    """Makes a module that was loaded during boot look as if this importer had loaded it."""
    spec = LibraryImporter.find_spec(module.__name__)
    if spec is None:
        return
    module.__spec__, module.__loader__, module.__file__ = spec, LibraryImporter, spec.origin
    module.__dict__.pop("__cached__", None)
    if spec.submodule_search_locations is not None:
        module.__path__ = spec.submodule_search_locations
