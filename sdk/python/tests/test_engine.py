"""The child process: what happens when it, or this program, does not behave."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from belljar import (
    AsyncSandbox,
    ConnectionLostError,
    Engine,
    PythonSandbox,
    create_sandbox,
)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def eventually_dead(pid: int) -> bool:
    deadline = time.monotonic() + 15
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(pid)


def kill(engine: Engine) -> None:
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)


def test_sandboxes_share_one_process(engine: Engine) -> None:
    with create_sandbox(engine=engine) as one:
        pid = engine.pid
        with create_sandbox(engine=engine) as other:
            assert engine.pid == pid
            assert one.execute("print(1)").stdout + other.execute("print(2)").stdout == "1\n2\n"


def test_a_crash_in_the_middle_of_a_call_is_told_and_another_process_started(
    engine: Engine,
) -> None:
    sandbox = create_sandbox(engine=engine)
    pid = engine.pid
    threading.Timer(0.3, kill, [engine]).start()
    with pytest.raises(ConnectionLostError) as lost:
        sandbox.execute("import time; time.sleep(20)")
    assert f"the belljar process {pid} was lost: it ended, killed by signal 9" in str(lost.value)
    assert "its sandboxes are gone with their variables" in str(lost.value)
    # It held nothing that could be missed, so it begins anew.
    assert sandbox.execute("print('again')").stdout == "again\n"
    assert engine.pid not in (None, pid)
    sandbox.destroy()


def test_a_session_that_was_lost_stays_lost(engine: Engine) -> None:
    sandbox = create_sandbox(engine=engine)
    sandbox.initialize("precious")
    kill(engine)
    for _ in range(2):
        with pytest.raises(ConnectionLostError):
            sandbox.get_variable("context")
    sandbox.cancel()
    sandbox.destroy()
    with create_sandbox(engine=engine) as other:
        assert other.execute("print('others go on')").stdout == "others go on\n"


def test_a_named_session_is_there_again_after_a_crash(engine: Engine) -> None:
    name = f"test-{os.getpid()}-{time.monotonic_ns()}"
    sandbox = create_sandbox(engine=engine, session_id=name)
    sandbox.execute("x = 41")
    kill(engine)
    with pytest.raises(ConnectionLostError):
        sandbox.execute("x += 1")
    assert sandbox.execute("x").value == 41
    sandbox.destroy()


def test_everybody_who_waits_is_told_of_a_crash(engine: Engine) -> None:
    async def crash() -> list[object]:
        sandboxes = [AsyncSandbox(engine=engine) for _ in range(5)]
        waiting = [
            asyncio.ensure_future(sandbox.execute("import time; time.sleep(20)"))
            for sandbox in sandboxes
        ]
        await asyncio.sleep(1)
        kill(engine)
        return list(await asyncio.gather(*waiting, return_exceptions=True))

    outcomes = asyncio.run(asyncio.wait_for(crash(), 20))
    assert [type(outcome) for outcome in outcomes] == [ConnectionLostError] * 5


def test_a_process_that_stops_making_sense_is_ended(engine: Engine) -> None:
    sandbox = create_sandbox(engine=engine)
    pid = engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(0.2, os.kill, [pid, signal.SIGKILL]).start()
    with pytest.raises(ConnectionLostError):
        sandbox.execute("1")


def test_sandboxes_that_are_forgotten_end(engine: Engine) -> None:
    kept = create_sandbox(engine=engine)
    workspaces = []
    for _ in range(3):
        sandbox = PythonSandbox(engine=engine)
        workspaces.append(sandbox.workspace)
        assert workspaces[-1].is_dir()
        del sandbox
    gc.collect()
    kept.execute("1")
    deadline = time.monotonic() + 10
    while any(path.exists() for path in workspaces) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(path.exists() for path in workspaces)
    assert kept.workspace.exists()


def test_an_engine_that_is_forgotten_ends_its_process() -> None:
    engine = Engine()
    create_sandbox(engine=engine).execute("1")
    pid = engine.pid
    assert pid is not None
    del engine
    gc.collect()
    assert eventually_dead(pid)


def test_closing_an_engine_ends_its_process_and_what_runs() -> None:
    engine = Engine()
    sandbox = create_sandbox(engine=engine)
    pid, workspace = engine.pid, sandbox.workspace
    assert pid is not None
    outcome: list[BaseException] = []

    def run() -> None:
        try:
            sandbox.execute("while True: pass")
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.3)
    engine.close()
    thread.join(10)
    assert not thread.is_alive() and not is_alive(pid) and not workspace.exists()
    assert [type(error).__name__ for error in outcome] in (["ClosedError"], [])


PRELUDE = """
import os, sys, threading, time
from belljar import *
from belljar import default_engine
"""


def script(body: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        start_new_session=True,
    )


def test_a_program_that_ends_with_live_sandboxes_leaves_nothing() -> None:
    done = script(
        """
        sandbox = create_sandbox()
        session = create_sandbox(); session.initialize()
        threading.Thread(target=lambda: sandbox.execute("while True: pass"), daemon=True).start()
        time.sleep(0.3)
        print(default_engine().pid, sandbox.workspace, flush=True)
        """
    )
    assert done.returncode == 0, done.stderr
    pid, workspace = done.stdout.split()
    assert eventually_dead(int(pid)) and not Path(workspace).exists()
    assert "Traceback" not in done.stderr


def test_a_program_that_ends_during_a_tool_leaves_nothing() -> None:
    done = script(
        """
        def forever(): time.sleep(1000)
        sandbox = create_sandbox(tools=[forever])
        threading.Thread(target=lambda: sandbox.execute("forever()"), daemon=True).start()
        time.sleep(0.3)
        print(default_engine().pid)
        """
    )
    assert done.returncode == 0, done.stderr
    assert eventually_dead(int(done.stdout))


def test_a_program_that_is_killed_leaves_no_process() -> None:
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            PRELUDE
            + "sandbox = create_sandbox(); print(default_engine().pid, flush=True)\n"
            + "sandbox.execute('while True: pass')",
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        program.kill()
    assert eventually_dead(pid)


def test_a_forked_process_has_an_engine_of_its_own() -> None:
    done = script(
        """
        import warnings; warnings.simplefilter("ignore")
        sandbox = create_sandbox(); sandbox.initialize("of the parent")
        before = default_engine().pid
        child = os.fork()
        if child == 0:
            try:
                sandbox.get_variable("context")
            except ClosedError as error:
                print("child:", error.message.partition(";")[0], flush=True)
            with create_sandbox() as own:
                value, pid = own.execute("6 * 7").value, default_engine().pid
                print("child:", value, pid != before, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print("parent:", sandbox.get_variable("context"), default_engine().pid == before)
        """
    )
    assert done.stdout.splitlines() == [
        "child: this sandbox belongs to the process that this one was forked from",
        "child: 42 True",
        "parent: of the parent True",
    ], done.stderr


def test_a_forked_process_does_not_keep_the_parents_process_alive() -> None:
    done = script(
        """
        import warnings; warnings.simplefilter("ignore")
        sandbox = create_sandbox()
        print(default_engine().pid, flush=True)
        if os.fork() == 0:
            os.close(1); os.close(2)
            time.sleep(8)
            os._exit(0)
        os.kill(os.getpid(), 9)
        """
    )
    assert eventually_dead(int(done.stdout))


def test_ctrl_c_cancels_the_code_and_the_session_lives_on() -> None:
    done = script(
        """
        import signal
        sandbox = create_sandbox(policy=ExecutionPolicy.agent()); sandbox.initialize()
        # As a terminal does it: everybody in the group hears of it.
        threading.Timer(0.5, os.killpg, [os.getpgrp(), signal.SIGINT]).start()
        started = time.monotonic()
        try:
            sandbox.execute("while True: pass")
        except KeyboardInterrupt:
            print("interrupted", sandbox.execute("1 + 1").value, time.monotonic() - started < 15)
        """
    )
    assert done.stdout == "interrupted 2 True\n", done.stderr
