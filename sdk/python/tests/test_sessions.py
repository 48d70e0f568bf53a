"""State that lives on: variables, files, forks, snapshots, names."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from pathlib import Path

import pytest
from helpers import Make

from belljar import AsyncSandbox, OpaqueValue, SandboxExecutionError, Snapshot, create_sandbox


def test_every_execution_is_fresh_until_a_session_begins(make: Make) -> None:
    sandbox = make()
    sandbox.execute("x = 1")
    assert not sandbox.execute("x").success
    sandbox.initialize({"rows": [1, 2]})
    sandbox.execute("x = sum(context['rows'])")
    assert sandbox.execute("x + 1").value == 4


def test_numpy_is_there_for_code_that_imports_it() -> None:
    with create_sandbox(policy={"timeout_seconds": 60}) as sandbox:
        ran = sandbox.execute("import numpy as np\nint(np.arange(5).sum())")
        assert (ran.value, ran.meta.image) == (10, "data"), ran.stderr
        assert sandbox.execute("1").meta.image is None
    with create_sandbox(policy={"image": "plain"}) as sandbox:
        refused = sandbox.execute("import numpy")
        assert "numpy is in the image data" in refused.stderr


def test_variables(make: Make) -> None:
    sandbox = make()
    sandbox.initialize()
    sandbox.execute("number, nothing, thing, text = 1.5, None, {1, 2}, 'é'")
    assert sandbox.get_variable("number") == 1.5
    assert sandbox.get_variable("text") == "é"
    assert sandbox.get_variable("nothing", "default") is None
    assert sandbox.get_variable("missing") is None
    assert sandbox.get_variable("missing", "default") == "default"
    assert sandbox.get_variable("thing") == OpaqueValue(type_name="set", text="{1, 2}")
    assert "number" in sandbox.complete("num")


def test_huge_numbers_come_back(make: Make) -> None:
    sandbox = make()
    sandbox.initialize()
    sandbox.execute("import sys; sys.set_int_max_str_digits(0)")
    for code in ("10 ** 400", "10 ** 5000", "[10 ** 5000]", "float('inf')"):
        assert sandbox.execute(code).success, code
    assert sandbox.execute("print('alive')").stdout == "alive\n"


def test_a_session_survives_what_goes_wrong_in_it(make: Make) -> None:
    sandbox = make(policy={"fuel_budget": 500_000_000})
    sandbox.initialize()
    sandbox.execute("kept = 1")
    failed = sandbox.execute("kept = 2\n1 / 0")
    assert failed.meta.state == "kept"
    stopped = sandbox.execute("kept = 3\nwhile True: pass")
    assert stopped.meta.state == "rolled_back"
    assert sandbox.get_variable("kept") == 2


def test_files(make: Make) -> None:
    sandbox = make()
    big = os.urandom(9 * 1024 * 1024)
    sandbox.write_file("sub/big.bin", big)
    sandbox.write_file("empty", b"")
    sandbox.write_file(Path("text.txt"), "é")
    assert sandbox.execute("print(open('text.txt').read())").stdout == "é\n"
    assert sandbox.read_file("sub/big.bin") == big
    assert sandbox.read_file("empty") == b""
    entries = {(entry.path, entry.kind, entry.bytes) for entry in sandbox.list_files()}
    assert entries == {
        ("empty", "file", 0),
        ("sub", "directory", 0),
        ("sub/big.bin", "file", len(big)),
        ("text.txt", "file", 2),
    }
    sandbox.remove_file("sub")
    assert [entry.path for entry in sandbox.list_files()] == ["empty", "text.txt"]
    with pytest.raises(SandboxExecutionError):
        sandbox.read_file("sub/big.bin")


def test_a_fork_goes_on_by_itself(make: Make) -> None:
    parent = make(tools={"twice": lambda x: 2 * x})
    parent.initialize()
    parent.execute("x = 1; open('f', 'w').write('parent')")
    child = parent.fork()
    grandchild = child.fork()
    child.execute("x = twice(21); open('f', 'w').write('child')")
    assert (parent.get_variable("x"), child.get_variable("x")) == (1, 42)
    assert grandchild.execute("twice(x)").value == 2
    assert (parent.read_file("f"), child.read_file("f")) == (b"parent", b"child")
    assert child.workspace != parent.workspace
    parent.destroy()
    assert child.execute("x").value == 42
    child.destroy()
    grandchild.destroy()


def test_a_snapshot_is_a_value_and_a_file(make: Make, tmp_path: Path) -> None:
    first = make()
    first.initialize()
    first.execute("x = list(range(1000)); open('f', 'w').write('kept')")
    snapshot = first.snapshot()
    path = tmp_path / "session.belljar"
    snapshot.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    first.execute("x = None")
    for _ in range(2):
        other = make()
        other.restore(Snapshot.load(path))
        assert other.execute("sum(x)").value == sum(range(1000))
        assert other.read_file("f") == b"kept"
    without = make()
    without.restore(first.snapshot(files=False))
    assert without.list_files() == []


def test_a_named_session_is_there_again() -> None:
    name = f"test-{os.getpid()}-{time.monotonic_ns()}"
    with create_sandbox(session_id=name) as sandbox:
        assert sandbox.session_id == name
        result = sandbox.execute("x = 41")
        assert result.meta.session_id == name
    with create_sandbox(session_id=name) as sandbox:
        assert sandbox.execute("x + 1").value == 42


def test_javascript_sessions(make: Make) -> None:
    sandbox = make(runtime="javascript")
    sandbox.initialize([1, 2, 3])
    sandbox.execute("let total = context.reduce((a, b) => a + b)")
    assert sandbox.get_variable("total") == 6
    child = sandbox.fork()
    assert child.execute("total * 2").value == 12
    child.destroy()


def test_the_same_with_asyncio(tmp_path: Path) -> None:
    async def use() -> None:
        async with AsyncSandbox(workspace=tmp_path) as sandbox:
            assert await sandbox.workspace() == tmp_path
            assert await sandbox.validate_code("x = 1")
            assert (await sandbox.check_code("x =")) is not None
            await sandbox.initialize([1])
            await sandbox.execute("context.append(2)")
            assert await sandbox.get_variable("context") == [1, 2]
            assert "context" in await sandbox.complete("cont")
            await sandbox.write_file("f", b"x")
            assert [entry.path for entry in await sandbox.list_files()] == ["f"]
            assert await sandbox.read_file("f") == b"x"
            child = await sandbox.fork()
            await sandbox.remove_file("f")
            assert await child.read_file("f") == b"x"
            snapshot = await child.snapshot()
            await child.destroy()
            await sandbox.restore(snapshot)
            assert await sandbox.read_file("f") == b"x"
            await sandbox.cancel()
            assert await sandbox.pending_calls() == []

    asyncio.run(use())
