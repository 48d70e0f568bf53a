"""The part of Belljar that runs inside the interpreter.

`boot` prepares an interpreter before it is frozen into an image; `driver` answers
the host's requests. Behind it: `cells` runs a piece of code, `loop` its event loop,
`tools` and `calls` what it asks of the host, `variables` and `completion` look at
what it left, `errors` and `display` say what came of it, `hygiene` mends what it
broke. The rest makes the standard library behave in a sandbox: `importer` serves it
from memory, `unsupported` names what a sandbox does not offer.

Every module begins with `from . import __builtins__`: functions defined after it use
these builtins of ours, so that code which replaces `len` does not replace the driver's.
"""

import builtins

__builtins__ = dict(vars(builtins))
