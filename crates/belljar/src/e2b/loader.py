# Makes the package from what was sent with it, once in each interpreter. Names beginning with `_`
# are not needed: this runs in a namespace of its own.
import sys
from types import ModuleType

if PACKAGE not in sys.modules:
    for name, source in SOURCES.items():
        module = ModuleType(f"{PACKAGE}.{name}" if name else PACKAGE)
        module.__package__ = PACKAGE
        module.__file__ = f"/{PACKAGE}/{name or '__init__'}.py"
        sys.modules[module.__name__] = module
        if name:
            setattr(sys.modules[PACKAGE], name, module)
        else:
            module.__path__ = []
        exec(compile(source, module.__file__, "exec"), module.__dict__)
