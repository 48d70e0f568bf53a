"""E2B's own Python packages against a Belljar daemon: python client.py URL KEY OTHER_KEY [PART...]

Prints a line for every part that held, and ends with 1 when one did not.
"""

import asyncio
import os
import sys
import threading
import time
import traceback
import urllib.request

from e2b import (
    AuthenticationException,
    CommandExitException,
    NotFoundException,
    SandboxException,
    SandboxQuery,
    TimeoutException,
)
from e2b.sandbox.filesystem.filesystem import FileType
from e2b.sandbox.filesystem.watch_handle import FilesystemEventType
from e2b_code_interpreter import AsyncSandbox, Sandbox

URL, KEY, OTHER_KEY = sys.argv[1:4]
WANTED = sys.argv[4:]
OPTIONS = {"api_key": KEY, "api_url": URL, "sandbox_url": URL}
OTHER = {**OPTIONS, "api_key": OTHER_KEY}


def raises(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError(f"{call} did not raise {kind}")


def lifecycle():
    sandbox = Sandbox.create(
        metadata={"purpose": "test & more", "řeka": "voda"}, envs={"FOO": "bar"}, timeout=60, **OPTIONS
    )
    try:
        assert sandbox.is_running()
        info = sandbox.get_info()
        assert info.sandbox_id == sandbox.sandbox_id
        assert info.metadata == {"purpose": "test & more", "řeka": "voda"}
        assert 50 < (info.end_at - info.started_at).total_seconds() < 70
        sandbox.set_timeout(600)
        assert (sandbox.get_info().end_at - info.end_at).total_seconds() > 500
        query = SandboxQuery(metadata={"purpose": "test & more"})
        listed = Sandbox.list(query=query, **OPTIONS).next_items()
        assert [it.sandbox_id for it in listed] == [sandbox.sandbox_id]
        query = SandboxQuery(metadata={"purpose": "other"})
        assert Sandbox.list(query=query, **OPTIONS).next_items() == []
        same = Sandbox.connect(sandbox.sandbox_id, **OPTIONS)
        assert same.run_code("import os; os.environ['FOO']").text == "bar"
    finally:
        assert sandbox.kill()
    assert not sandbox.is_running()
    assert not sandbox.kill()
    raises(NotFoundException, Sandbox.connect, sandbox.sandbox_id, **OPTIONS)
    raises((TimeoutException, NotFoundException, SandboxException), sandbox.run_code, "1")


def pages():
    made = [Sandbox.create(metadata={"page": "yes"}, **OPTIONS) for _ in range(5)]
    try:
        pager = Sandbox.list(query=SandboxQuery(metadata={"page": "yes"}), limit=2, **OPTIONS)
        found = []
        while pager.has_next:
            items = pager.next_items()
            assert len(items) <= 2
            found += [it.sandbox_id for it in items]
        assert found == [it.sandbox_id for it in reversed(made)], found
    finally:
        for sandbox in made:
            sandbox.kill()


def expiry():
    with_time = Sandbox.create(timeout=1, **OPTIONS)
    pausing = Sandbox.create(timeout=1, lifecycle={"on_timeout": "pause"}, **OPTIONS)
    pausing.run_code("x = 5")
    time.sleep(2.5)
    assert not with_time.is_running()
    assert not pausing.is_running()
    raises(NotFoundException, Sandbox.connect, with_time.sandbox_id, **OPTIONS)
    again = Sandbox.connect(pausing.sandbox_id, timeout=60, **OPTIONS)
    assert again.run_code("x").text == "5"
    again.kill()


def keys():
    raises(AuthenticationException, Sandbox.create, **{**OPTIONS, "api_key": "e2b_" + "0" * 40})
    sandbox = Sandbox.create(**OPTIONS)
    try:
        # Whoever has another key cannot find it, and does not learn that it is there.
        raises(NotFoundException, Sandbox.connect, sandbox.sandbox_id, **OTHER)
        assert not Sandbox.kill(sandbox.sandbox_id, **OTHER)
        assert Sandbox.list(**OTHER).next_items() == []
        assert sandbox.is_running()
        # Without its token nothing is done in it.
        request = urllib.request.Request(
            URL + "/execute",
            data=b'{"code": "1"}',
            headers={"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49999"},
        )
        assert raises(urllib.error.HTTPError, urllib.request.urlopen, request).code == 401
        request = urllib.request.Request(
            URL + "/files?path=x",
            headers={"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": "ea_wrong"},
        )
        assert raises(urllib.error.HTTPError, urllib.request.urlopen, request).code == 401
    finally:
        sandbox.kill()


def code():
    with Sandbox.create(**OPTIONS) as sandbox:
        ran = sandbox.run_code("x = 41\nprint('hi ř\\u2028')\nx + 1")
        assert ran.text == "42" and ran.logs.stdout == ["hi ř\u2028\n"], ran
        assert ran.execution_count == 1 and ran.results[0].is_main_result
        assert sandbox.run_code("'hello'").text == "hello"
        assert sandbox.run_code("None").results == []
        failed = sandbox.run_code("def f():\n    return 1 / 0\nf()")
        assert failed.error.name == "ZeroDivisionError"
        assert failed.error.value == "division by zero"
        assert "line 2, in f" in failed.error.traceback
        assert sandbox.run_code("x").text == "41"
        seen, results, errors = [], [], []
        sandbox.run_code(
            "import sys, time\nfor i in range(3):\n    print(i)\n    time.sleep(0.3)\nprint('e', file=sys.stderr)\n7",
            on_stdout=lambda it: seen.append((time.monotonic(), it.line)),
            on_stderr=lambda it: errors.append(it.line),
            on_result=results.append,
        )
        assert [line for _, line in seen] == ["0\n", "1\n", "2\n"]
        assert seen[2][0] - seen[0][0] > 0.4, "output comes while the code runs"
        assert errors == ["e\n"] and results[0].text == "7"
        html = sandbox.run_code("class H:\n  def _repr_html_(self): return '<b>ř</b>'\nH()")
        assert html.results[0].html == "<b>ř</b>", html.results
        assert sandbox.run_code("import os; os.environ['ONCE']", envs={"ONCE": "1"}).text == "1"
        assert sandbox.run_code("'ONCE' in os.environ").text == "False"
        assert sandbox.run_code("os.getcwd()").text == "/home/user"
        begun = time.monotonic()
        raises(TimeoutException, sandbox.run_code, "while True: pass", timeout=1)
        assert sandbox.run_code("x").text == "41", "a cancelled execution leaves the state"
        assert time.monotonic() - begun < 20
        js = sandbox.run_code("const y = 6; console.log('js'); y * 7", language="js")
        assert js.text == "42" and js.logs.stdout == ["js\n"]
        js = sandbox.run_code("process.env.ONCE", language="javascript", envs={"ONCE": "2"})
        assert js.text == "2", js
        assert sandbox.run_code("throw new TypeError('no')", language="js").error.name == "TypeError"
        raises(SandboxException, sandbox.run_code, "1", language="cobol")


RICH = """
class Rich:
    def __repr__(self): return "Rich()"
    def _repr_html_(self): return "<b>ř</b>"
    def _repr_markdown_(self): return "**b**"
    def _repr_svg_(self): return "<svg/>"
    def _repr_png_(self): return b"\\x89PNG"
    def _repr_jpeg_(self): return b"\\xff\\xd8"
    def _repr_latex_(self): return "$x$"
    def _repr_json_(self): return {"a": [1]}
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"application/pdf": "JVBERg==", "application/javascript": "1", "text/x-own": "own"}
Rich()
"""


def rich():
    with Sandbox.create(**OPTIONS) as sandbox:
        (shown,) = sandbox.run_code(RICH).results
        assert (shown.text, shown.html, shown.markdown, shown.svg) == ("Rich()", "<b>ř</b>", "**b**", "<svg/>")
        assert (shown.png, shown.jpeg, shown.pdf) == ("iVBORw==", "/9g=", "JVBERg==")
        assert (shown.latex, shown.json, shown.javascript) == ("$x$", {"a": [1]}, "1"), shown.raw
        assert shown.extra == {"text/x-own": "own"}, shown.extra
        failures = []
        failed = sandbox.run_code("raise KeyError('k')", on_error=failures.append)
        assert [(it.name, it.value) for it in failures] == [("KeyError", "'k'")]
        assert failed.error.traceback == failures[0].traceback


def contexts():
    with Sandbox.create(**OPTIONS) as sandbox:
        sandbox.run_code("a = 1")
        one = sandbox.create_code_context()
        two = sandbox.create_code_context(language="javascript")
        sandbox.files.make_dir("sub")
        three = sandbox.create_code_context(cwd="/home/user/sub")
        assert (one.language, two.language, three.cwd) == ("python", "javascript", "/home/user/sub")
        assert sandbox.run_code("a", context=one).error.name == "NameError"
        # JavaScript's are no different.
        sandbox.run_code("let n = 1", context=two)
        assert sandbox.run_code("n + 1", context=two).text == "2"
        assert sandbox.run_code("typeof n", language="js").text == "undefined"
        sandbox.restart_code_context(two)
        assert sandbox.run_code("typeof n", context=two).text == "undefined"
        sandbox.run_code("b = 2\nopen('shared.txt', 'w').write('same files')", context=one)
        assert sandbox.run_code("open('shared.txt').read()").text == "same files"
        assert sandbox.run_code("import os; os.getcwd()", context=three).text == "/home/user/sub"
        assert len(sandbox.list_code_contexts()) == 5
        sandbox.restart_code_context(one)
        assert sandbox.run_code("b", context=one).error.name == "NameError"
        sandbox.remove_code_context(two)
        raises(NotFoundException, sandbox.run_code, "1", context=two)
        assert len(sandbox.list_code_contexts()) == 4
        # They run at the same time.
        begun = time.monotonic()
        runs = [
            threading.Thread(target=sandbox.run_code, args=("import time; time.sleep(1)",), kwargs={"context": it})
            for it in (one, three)
        ]
        [it.start() for it in runs]
        [it.join() for it in runs]
        assert time.monotonic() - begun < 1.9


def files():
    with Sandbox.create(**OPTIONS) as sandbox:
        written = sandbox.files.write("a/b ř.txt", "ahoj")
        assert written.path == "/home/user/a/b ř.txt" and written.name == "b ř.txt"
        assert sandbox.files.read("a/b ř.txt") == "ahoj"
        assert sandbox.run_code("open('/home/user/a/b ř.txt').read()").text == "ahoj"
        sandbox.run_code("open('from_code.txt', 'w').write('code')")
        assert sandbox.files.read("/home/user/from_code.txt") == "code"
        data = bytes(range(256)) * 20_000
        sandbox.files.write("/tmp/blob", data)
        assert bytes(sandbox.files.read("/tmp/blob", format="bytes")) == data
        assert b"".join(sandbox.files.read("/tmp/blob", format="stream")) == data
        sandbox.files.write("empty", "")
        assert sandbox.files.read("empty") == ""
        many = sandbox.files.write_files([{"path": "m/1", "data": "1"}, {"path": "m/2", "data": b"2"}])
        assert [it.path for it in many] == ["/home/user/m/1", "/home/user/m/2"]
        info = sandbox.files.get_info("m/1")
        assert (info.type, info.size, info.permissions, info.owner) == (FileType.FILE, 1, "-rw-r--r--", "user")
        assert sorted(it.name for it in sandbox.files.list("m")) == ["1", "2"]
        assert len(sandbox.files.list("/home/user", depth=2)) > 5
        assert sandbox.files.make_dir("d/e") and not sandbox.files.make_dir("d/e")
        assert sandbox.files.exists("d/e") and not sandbox.files.exists("none")
        assert sandbox.files.rename("m/1", "n/1").path == "/home/user/n/1"
        assert not sandbox.files.exists("m/1")
        sandbox.files.remove("m")
        assert not sandbox.files.exists("m")
        raises(NotFoundException, sandbox.files.read, "none")
        raises(NotFoundException, sandbox.files.list, "none")
        raises(SandboxException, sandbox.files.read, "d")
        raises(SandboxException, sandbox.files.write, "/etc/passwd", "x")
        raises(NotFoundException, sandbox.files.read, "../../etc/passwd")
        zipped = sandbox.files.write("zipped", "z" * 100_000, gzip=True)
        assert zipped.path == "/home/user/zipped" and sandbox.files.read("zipped") == "z" * 100_000
        told = sandbox.files.write("noted", "x", metadata={"author": "me"})
        assert told.metadata == {"author": "me"}
        assert sandbox.files.get_info("noted").metadata == {"author": "me"}
        sandbox.files.write("noted", "x")
        assert not sandbox.files.get_info("noted").metadata


def signed():
    with Sandbox.create(**OPTIONS) as sandbox:
        sandbox.files.write("s.txt", "signed")
        fetch = lambda url: urllib.request.urlopen(url).read()
        assert fetch(sandbox.download_url("s.txt")) == b"signed"
        assert fetch(sandbox.download_url("s.txt", use_signature_expiration=60)) == b"signed"
        old = sandbox.download_url("s.txt", use_signature_expiration=-10)
        assert raises(urllib.error.HTTPError, fetch, old).code == 401
        other = sandbox.download_url("s.txt").replace("s.txt", "t.txt")
        assert raises(urllib.error.HTTPError, fetch, other).code == 401
        form = b'--B\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nup\r\n--B--\r\n'
        kind = {"Content-Type": "multipart/form-data; boundary=B"}
        urllib.request.urlopen(urllib.request.Request(sandbox.upload_url("up.txt"), form, kind)).read()
        assert sandbox.files.read("up.txt") == "up"
        # An address to read is none to write.
        request = urllib.request.Request(sandbox.download_url("s.txt"), form, kind)
        assert raises(urllib.error.HTTPError, urllib.request.urlopen, request).code == 401


def watch():
    with Sandbox.create(**OPTIONS) as sandbox:
        sandbox.files.make_dir("w/deep")
        handle = sandbox.files.watch_dir("w", recursive=True)
        sandbox.files.write("w/one", "1")
        sandbox.run_code("open('w/deep/two', 'w').write('2')")
        sandbox.files.remove("w/one")
        seen, until = [], time.monotonic() + 5
        wanted = {
            ("one", FilesystemEventType.CREATE),
            ("one", FilesystemEventType.REMOVE),
            ("deep/two", FilesystemEventType.WRITE),
        }
        while not wanted <= set(seen) and time.monotonic() < until:
            time.sleep(0.1)
            seen += [(it.name, it.type) for it in handle.get_new_events()]
        assert wanted <= set(seen), seen
        handle.stop()
        raises(NotFoundException, sandbox.files.watch_dir, "none")


def commands():
    with Sandbox.create(envs={"FOO": "bar"}, **OPTIONS) as sandbox:
        ran = sandbox.commands.run("echo out; echo err >&2; echo $FOO $HOME $(whoami); pwd")
        assert ran.stdout == "out\nbar /home/user user\n/home/user\n", ran
        assert ran.stderr == "err\n" and ran.exit_code == 0
        failed = raises(CommandExitException, sandbox.commands.run, "echo before; exit 5")
        assert failed.exit_code == 5 and failed.stdout == "before\n"
        sandbox.files.write("in.txt", "same files")
        assert sandbox.commands.run("cat in.txt").stdout == "same files"
        sandbox.commands.run("echo made > made.txt; echo t > /tmp/t")
        assert sandbox.run_code("open('made.txt').read()").text.strip("'") == "made\\n"
        assert sandbox.files.read("/tmp/t") == "t\n"
        assert sandbox.commands.run("echo $A; pwd", envs={"A": "b"}, cwd="/tmp").stdout == "b\n/tmp\n"
        raises(SandboxException, sandbox.commands.run, "pwd", cwd="/none")
        lines = []
        sandbox.commands.run("for i in 1 2 3; do echo $i; sleep 0.2; done", on_stdout=lines.append)
        assert "".join(lines) == "1\n2\n3\n"
        handle = sandbox.commands.run("read x; echo got $x; sleep 30", background=True, stdin=True)
        assert [it.pid for it in sandbox.commands.list()] == [handle.pid]
        sandbox.commands.send_stdin(handle.pid, "line\n")
        for stdout, _, _ in handle:
            assert stdout == "got line\n"
            break
        assert sandbox.commands.kill(handle.pid)
        assert not sandbox.commands.kill(999_999)
        cat = sandbox.commands.run("cat", background=True, stdin=True)
        sandbox.commands.send_stdin(cat.pid, "to the end")
        sandbox.commands.close_stdin(cat.pid)
        assert cat.wait().stdout == "to the end"
        begun = time.monotonic()
        raises(TimeoutException, sandbox.commands.run, "sleep 30", timeout=1)
        assert time.monotonic() - begun < 10
        until = time.monotonic() + 5
        while sandbox.commands.list() and time.monotonic() < until:
            time.sleep(0.1)
        assert sandbox.commands.list() == [], "its time over, the process ends"
        slow = sandbox.commands.run("sleep 1; echo late", background=True)
        again = sandbox.commands.connect(slow.pid)
        assert again.wait().stdout == "late\n"
        # There is no network, and nothing of the machine.
        raises(CommandExitException, sandbox.commands.run, "cat /etc/shadow")
        raises(CommandExitException, sandbox.commands.run, "echo > /dev/tcp/127.0.0.1/80")
        raises(AuthenticationException, sandbox.commands.run, "whoami", user="root")


def pty():
    with Sandbox.create(**OPTIONS) as sandbox:
        heard, done = [], threading.Event()

        def hear(data):
            heard.append(data)
            if b"120 by 33" in b"".join(heard):
                done.set()

        from e2b.sandbox.commands.command_handle import PtySize

        terminal = sandbox.pty.create(PtySize(rows=24, cols=80), timeout=30)
        waiting = threading.Thread(target=lambda: terminal.wait(on_pty=hear))
        waiting.start()
        sandbox.pty.resize(terminal.pid, PtySize(rows=33, cols=120))
        sandbox.pty.send_stdin(terminal.pid, b"tty; set -- $(stty size); echo $2 by $1\n")
        assert done.wait(10), b"".join(heard)
        assert b"/dev/pts/0" in b"".join(heard)
        sandbox.pty.send_stdin(terminal.pid, b"exit\n")
        waiting.join(10)
        assert not waiting.is_alive()
        another = sandbox.pty.create(PtySize(rows=24, cols=80), timeout=30)
        assert sandbox.pty.kill(another.pid)
        assert not sandbox.pty.kill(another.pid + 1000)


def pause():
    sandbox = Sandbox.create(metadata={"p": "1"}, **OPTIONS)
    sandbox.run_code("state = [1, 2, 3]")
    sandbox.files.write("kept.txt", "kept")
    assert sandbox.pause() is not False
    assert not sandbox.is_running()
    assert sandbox.get_info().state.value == "paused"
    raises((TimeoutException, SandboxException), sandbox.run_code, "1")
    again = Sandbox.connect(sandbox.sandbox_id, **OPTIONS)
    assert again.run_code("state").text == "[1, 2, 3]"
    assert again.files.read("kept.txt") == "kept"
    again.kill()


def copies():
    with Sandbox.create(envs={"FOO": "bar"}, **OPTIONS) as sandbox:
        sandbox.run_code("state = {'n': 1}\nimport random")
        sandbox.run_code("let z = 5", language="js")
        sandbox.files.write("kept/file", "kept")
        sandbox.commands.run("ln -s file kept/link; chmod +x kept/file")
        forks = sandbox.fork(count=2, timeout=60)
        assert len(forks) == 2 and all(isinstance(it, Sandbox) for it in forks), forks
        forks[0].run_code("state['n'] = 2")
        forks[0].files.write("kept/file", "changed")
        assert sandbox.run_code("state").text == "{'n': 1}"
        assert sandbox.files.read("kept/file") == "kept"
        assert forks[0].run_code("state").text == "{'n': 2}"
        assert forks[1].run_code("state").text == "{'n': 1}"
        assert forks[1].run_code("z + 1", language="js").text == "6"
        assert forks[1].commands.run("cat kept/link; echo $FOO; test -x kept/file").stdout == "keptbar\n"
        for fork in forks:
            assert fork.kill()
        snapshot = sandbox.create_snapshot()
        sandbox.run_code("state['n'] = 9")
        old = Sandbox.create(snapshot.snapshot_id, **OPTIONS)
        assert old.run_code("state").text == "{'n': 1}"
        assert old.files.read("kept/file") == "kept"
        old.kill()
        listed = Sandbox.list_snapshots(**OPTIONS).next_items()
        assert [it.snapshot_id for it in listed] == [snapshot.snapshot_id]
        raises(SandboxException, Sandbox.create, snapshot.snapshot_id, **OTHER)
        assert Sandbox.delete_snapshot(snapshot.snapshot_id, **OPTIONS)
        assert not Sandbox.delete_snapshot(snapshot.snapshot_id, **OPTIONS)
        raises(SandboxException, Sandbox.create, snapshot.snapshot_id, **OPTIONS)
        metrics = sandbox.get_metrics()
        assert metrics[0].disk_used > 0 and metrics[0].mem_total > 0


def data():
    """The template that is always there: wasm with numpy, pandas and matplotlib, and forks and pauses as usual."""
    with Sandbox.create("data", **OPTIONS) as sandbox:
        ran = sandbox.run_code("import sys; 'numpy' in sys.modules")
        assert ran.text == "True", ran
        ran = sandbox.run_code("import pandas as pd; frame = pd.DataFrame({'a': [1, 2]}); frame")
        assert "<table" in ran.results[0].html, ran
        sandbox.pause()
        sandbox.connect()
        assert sandbox.run_code("int(frame.a.sum())").text == "3"
        ran = sandbox.run_code("1 + 1", language="javascript")
        assert ran.text == "2", ran
    with Sandbox.create(**OPTIONS) as sandbox:
        assert sandbox.run_code("import numpy as np; int(np.arange(4).sum())").text == "6"


def template():
    with Sandbox.create("data", envs={"FOO": "bar"}, **OPTIONS) as sandbox:
        ran = sandbox.run_code("import numpy as np, os\nx = np.arange(5)\nprint(os.environ['FOO'])\nint(x.sum())")
        assert ran.text == "10" and ran.logs.stdout == ["bar\n"], ran
        plotted = sandbox.run_code(
            "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], label='one')\n"
            "plt.title('Title')\nplt.xlabel('time (s)')\nplt.show()\n'done'"
        )
        assert plotted.error is None and plotted.text == "done", plotted
        figure = next(it for it in plotted.results if it.png)
        import base64

        assert base64.b64decode(figure.png).startswith(b"\x89PNG")
        chart = figure.chart
        assert (chart.type.value, chart.title, chart.x_unit) == ("line", "Title", "s")
        assert chart.elements[0].points == [[1, 3], [2, 4]] or chart.elements[0].points == [(1, 3), (2, 4)]
        bars = sandbox.run_code("plt.bar(['a', 'b'], [1, 2])\nplt.show()").results[0].chart
        assert [(it.label, it.value) for it in bars.elements] == [("a", 1), ("b", 2)]
        pie = sandbox.run_code("plt.pie([1, 3], labels=['a', 'b'])\nplt.show()").results[0].chart
        assert [it.label for it in pie.elements] == ["a", "b"]
        frame = sandbox.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2]})")
        assert "<table" in frame.results[0].html
        sandbox.files.write("in.csv", "a\n5\n")
        assert sandbox.run_code("int(pd.read_csv('in.csv').a[0])").text == "5"
        raises(TimeoutException, sandbox.run_code, "while True: pass", timeout=1)
        assert sandbox.run_code("x.tolist()").text == "[0, 1, 2, 3, 4]"
        assert sandbox.run_code("6 * 7", language="js").text == "42"
        raises(SandboxException, Sandbox.create, "none", **OPTIONS)


def template_state():
    """What a machine's own Python holds is refused where it would get lost."""
    with Sandbox.create("data", **OPTIONS) as sandbox:
        (early,) = sandbox.fork()
        assert early.run_code("6 * 7").text == "42"
        early.kill()
        sandbox.run_code("x = 1")
        for call in (sandbox.pause, sandbox.create_snapshot):
            error = raises(SandboxException, call)
            assert "cannot be kept" in str(error), error
        (fork,) = sandbox.fork()
        assert isinstance(fork, Exception) and "cannot be kept" in str(fork), fork
        assert sandbox.run_code("x").text == "1"
        # Once there is none, all of it works again.
        for context in sandbox.list_code_contexts():
            sandbox.restart_code_context(context)
        sandbox.pause()
        again = Sandbox.connect(sandbox.sandbox_id, **OPTIONS)
        assert again.run_code("'x' in globals()").text == "False"
    pausing = {"lifecycle": {"on_timeout": "pause"}, **OPTIONS}
    raises(SandboxException, Sandbox.create, "data", **pausing)


def a_key():
    """With a key of the file, as its owner has it."""
    with Sandbox.create(**OPTIONS) as sandbox:
        assert sandbox.run_code("1").text == "1"
        assert len(Sandbox.list(**OPTIONS).next_items()) == 1


def a_revoked_key():
    raises(AuthenticationException, Sandbox.create, **OPTIONS)


def leave_one_behind():
    sandbox = Sandbox.create(metadata={"left": "behind"}, timeout=600, **OPTIONS)
    sandbox.run_code("left = 'behind'")
    sandbox.files.write("left.txt", "behind")


def find_it_again():
    query = SandboxQuery(metadata={"left": "behind"})
    (info,) = Sandbox.list(query=query, **OPTIONS).next_items()
    sandbox = Sandbox.connect(info.sandbox_id, **OPTIONS)
    assert sandbox.run_code("left").text == "behind"
    assert sandbox.files.read("left.txt") == "behind"
    assert sandbox.commands.run("cat left.txt").stdout == "behind"
    sandbox.kill()


def parallel():
    async def one(number):
        sandbox = await AsyncSandbox.create(**OPTIONS)
        try:
            ran = await sandbox.run_code(f"{number} * 2")
            assert ran.text == str(number * 2)
            told = await sandbox.commands.run(f"echo {number}")
            assert told.stdout == f"{number}\n"
        finally:
            await sandbox.kill()

    async def all_of_them():
        await asyncio.gather(*(one(number) for number in range(8)))

    asyncio.run(all_of_them())


PARTS = [lifecycle, pages, expiry, keys, code, rich, data, contexts, files, signed, watch, commands, pty, pause, copies, parallel]
BY_NAME = [template, template_state, a_key, a_revoked_key, leave_one_behind, find_it_again]


def main():
    failures = 0
    for part in [it for it in PARTS + BY_NAME if it.__name__ in WANTED] if WANTED else PARTS:
        begun = time.monotonic()
        try:
            part()
            print(f"{part.__name__} holds ({time.monotonic() - begun:.1f} s)", flush=True)
        except Exception:
            failures += 1
            print(f"{part.__name__} FAILS", flush=True)
            traceback.print_exc()
    # Not sys.exit: twice, after every part had held, the interpreter ended with a failure and without
    # a word. Why is not known; what is tested here is over by now.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if failures else 0)


main()
