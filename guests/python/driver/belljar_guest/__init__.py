"""The part of Belljar that runs inside the interpreter.

`boot` prepares an interpreter before it is frozen into an image; `driver` answers
the host's requests; `cells` runs a piece of code and says what came of it. The
rest makes the standard library behave in a sandbox: `importer` serves it from
memory, `loop` is an event loop without sockets, `unsupported` names what a
sandbox does not offer.
"""
