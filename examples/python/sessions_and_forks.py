"""A session keeps its variables; a fork of it goes on by itself; a snapshot is a file."""

import tempfile
from pathlib import Path

from belljar import Snapshot, create_sandbox

with create_sandbox() as sandbox:
    sandbox.initialize(["ant", "bee", "cat"])
    sandbox.execute("lengths = {word: len(word) for word in context}")
    print(sandbox.get_variable("lengths"))

    fork = sandbox.fork()
    fork.execute("lengths.clear()")
    print(len(fork.get_variable("lengths")), len(sandbox.get_variable("lengths")))
    fork.destroy()

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "session.belljar"
        sandbox.snapshot().save(path)
        with create_sandbox() as elsewhere:
            elsewhere.restore(Snapshot.load(path))
            print(elsewhere.execute("sorted(lengths)").value)
