//! State as a way out: what a fork sees of its sibling, what a cancelled cell still does, what a
//! restored session still holds, what a saved one costs.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use belljar::{
    ExecutionPolicy, Files, PolicyLayer, Preset, PythonSandbox, Sandbox, SandboxConfig, Snapshot,
    Status, Tools,
};
use serde_json::json;
use support::{Cells, Expect, Jar, Lines, Usage, attacked, cancelled, exclusive, home, skipped};

/// A new session that goes on from a snapshot.
fn restored(jar: &Jar, snapshot: &Snapshot) -> PythonSandbox {
    let mut session = jar.sandbox();
    session.restore(snapshot).expect("a session");
    session
}

/// Saved to a file and read again; and how large the file was.
fn through_a_file(session: &mut dyn Sandbox, files: Files) -> (Snapshot, u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s.snapshot");
    session.snapshot(files).expect("a snapshot").write(&path).expect("a file");
    let bytes = fs::metadata(&path).expect("the file").len();
    (Snapshot::read(&path, &home()).expect("a snapshot"), bytes)
}

/// Two secrets that stand in no source code.
const MAKE_SECRET: &str = "secret = ''.join(['SEC', 'RET-', NAME])
kept = [bytearray(secret.encode() * 1000) for _ in range(100)]
words = {secret + str(i): [secret] for i in range(1_000)}
open('secret', 'w').write(secret)";

/// Looks for a needle in everything the interpreter knows of.
const HUNT: &str = "import gc, sys, os
found, needle = 0, ''.join(['SEC', 'RET-', NAME])
for o in gc.get_objects() + list(sys.modules.values()):
    for part in (o, getattr(o, '__dict__', None)):
        try: found += needle in repr(part)[:100_000] if isinstance(part, (str, bytes, list, dict)) and part is not globals() else 0
        except Exception: pass
found += any(needle in open(os.path.join(d, f), errors='replace').read() for d, _, fs in os.walk('/') for f in fs)
found";

#[test]
fn a_fork_looking_for_its_sibling_in_memory_and_files() {
    let jar = Jar::new();
    attacked(&jar, "forks", || {
        let mut parent = jar.session();
        parent.run("shared = 1").kept(Status::Ok);
        let mut victim = parent.fork().expect("a fork");
        let mut spy = parent.fork().expect("a fork");
        victim.run(&MAKE_SECRET.replace("NAME", "'victim'")).kept(Status::Ok);
        let hunt = HUNT.replace("NAME", "'victim'");
        spy.run(&hunt).gave(0);
        parent.run(&hunt).gave(0);
        parent.fork().expect("a fork").run(&hunt).gave(0);
        // Memory that the victim leaves is another's next.
        drop(victim);
        for _ in 0..2 {
            let mut heir = parent.fork().expect("a fork");
            heir.run("filled = [bytes(1_000_000) for _ in range(5)]\nany(map(any, filled))")
                .gave(false);
            heir.run(&hunt).gave(0);
        }
        let mut own = parent.fork().expect("a fork");
        own.run(&MAKE_SECRET.replace("NAME", "'own'")).kept(Status::Ok);
        let found = own.run(&HUNT.replace("NAME", "'own'"));
        let found = found.ended(Status::Ok, 0).result.clone().and_then(|value| value.json);
        assert!(found.and_then(|found| found.as_u64()) > Some(0), "the hunt finds what is there");
    });
}

#[test]
fn secrets_of_a_sibling_in_a_snapshot_file() {
    let _alone = exclusive();
    let jar = Jar::new();
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s.snapshot");
    let mut parent = jar.session();
    parent.run("shared = 1").kept(Status::Ok);
    let contents = |session: &mut dyn Sandbox| {
        session.snapshot(Files::With).expect("a snapshot").write(&path).expect("a file");
        fs::read(&path).expect("the file")
    };
    attacked(&jar, "snapshots", || {
        let mut victim = parent.fork().expect("a fork");
        let mut spy = parent.fork().expect("a fork");
        victim.run(&MAKE_SECRET.replace("NAME", "'victim'")).kept(Status::Ok);
        spy.run("x = bytearray(3_000_000)").kept(Status::Ok);
        let holds = |bytes: &[u8]| bytes.windows(13).any(|window| window == b"SECRET-victim");
        assert!(holds(&contents(&mut *victim)), "its own are there");
        assert!(!holds(&contents(&mut *spy)));
        assert!(!holds(&contents(&mut parent)));
        // A cell that was undone has left nothing either.
        let code = MAKE_SECRET.replace("NAME", "'victim'")
            + "\nimport os; os.remove('secret'); os.abort()";
        spy.run(&code).rolled_back(Status::Crashed);
        assert!(!holds(&contents(&mut *spy)), "what was undone is gone");
    });
}

#[test]
fn files_of_a_sibling_by_path() {
    let jar = Jar::new();
    attacked(&jar, "paths", || {
        let mut parent = jar.session();
        let mut victim = parent.fork().expect("a fork");
        let mut spy = parent.fork().expect("a fork");
        victim.run("open('secret', 'w').write('x'); import os; os.mkdir('d')").kept(Status::Ok);
        let outside = victim.workspace().join("secret").display().to_string();
        let name = victim.workspace().file_name().expect("a name").to_string_lossy().into_owned();
        for path in [
            outside,
            format!("../{name}/secret"),
            format!("/app/../{name}/secret"),
            format!("d/../../{name}/secret"),
        ] {
            let result = spy.run(&format!("open({path:?})"));
            result.ended(Status::Error, 1);
            let result = spy.run(&format!("import os\nos.symlink({path:?}, 'l')\nopen('l')"));
            result.ended(Status::Error, 1);
            let _ = fs::remove_file(spy.workspace().join("l"));
        }
        spy.run("open('secret', 'w').write('mine'); open('secret').read()").gave("mine");
        victim.run("open('secret').read()").gave("x");
    });
}

/// A session whose lines are heard, so that it can be cancelled when it runs.
fn heard(jar: &Jar) -> (PythonSandbox, Arc<Lines>) {
    let (lines, on_stdout) = Lines::listen();
    let config = SandboxConfig { on_stdout: Some(on_stdout), ..jar.config() };
    let mut session = PythonSandbox::from_config(&config).expect("a sandbox");
    session.initialize(json!(null)).expect("a session");
    (session, lines)
}

/// Everything that could go on after its cell: each would write a file.
const GO_ON: &str = "import asyncio, atexit, signal, sys, weakref, gc
def mark(how): open('went on ' + how, 'a').close()
atexit.register(mark, 'atexit')
class D:
  def __del__(self): mark('del')
d, cycle = D(), D(); cycle.me = cycle
async def work():
  while True: mark('task'); await asyncio.sleep(0)
finalizer = weakref.finalize(d, mark, 'finalize')
sys.excepthook = sys.unraisablehook = lambda *a: mark('hook')
gc.callbacks.append(lambda *a: mark('gc'))
task = asyncio.get_event_loop().create_task(work())
print('running')
";

fn marks(workspace: &Path) -> Vec<String> {
    let names = fs::read_dir(workspace).expect("the workspace").flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_cancelled_cell_that_keeps_running() {
    let jar = Jar::new();
    for end in [
        "while True: pass",
        "await asyncio.sleep(60)",
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
        "signal.signal(signal.SIGINT, lambda *a: None)\nsum(range(10**12))",
    ] {
        attacked(&jar, end, || {
            let (mut session, lines) = heard(&jar);
            let code = format!("{GO_ON}import os\nfor f in os.listdir('.'): os.remove(f)\n{end}");
            cancelled(&mut session, &lines, &code).ended(Status::Cancelled, -1);
            for name in marks(jar.workspace()) {
                fs::remove_file(jar.workspace().join(name)).expect("a file");
            }
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(marks(jar.workspace()), Vec::<String>::new(), "between cells nothing runs");
            drop(session.snapshot(Files::Without).expect("a snapshot"));
            session.destroy().expect("nothing is in the way");
            drop(session);
            assert_eq!(marks(jar.workspace()), Vec::<String>::new(), "nor when it is gone: {end}");
        });
    }
}

#[test]
fn a_cell_that_was_undone_goes_on_in_later_ones() {
    let jar = Jar::new();
    attacked(&jar, "undone", || {
        let (mut session, lines) = heard(&jar);
        let code = format!(
            "{GO_ON}signal.signal(signal.SIGINT, lambda *a: mark('signal'))\nsum(range(10**12))"
        );
        cancelled(&mut session, &lines, &code).rolled_back(Status::Cancelled);
        for name in marks(jar.workspace()) {
            fs::remove_file(jar.workspace().join(name)).expect("a file");
        }
        let code = "import asyncio, gc\nawait asyncio.sleep(0.01)\ngc.collect()\nprint(len(asyncio.all_tasks()))";
        session.run(code).printed("1\n");
        cancelled(&mut session, &lines, "print('x')\nwhile True: pass").kept(Status::Cancelled);
        assert_eq!(marks(jar.workspace()), Vec::<String>::new());
    });
    // What a cell leaves on purpose goes on when later cells wait.
    let mut session = jar.session();
    session.run("import asyncio\nasync def work(): open('wanted', 'w').close()\nt = asyncio.create_task(work())");
    session.run("await asyncio.sleep(0)").changed(&["wanted"], &[], &[]);
}

#[test]
fn a_tool_called_after_a_cancel() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let tools = Tools::new().with("note", move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(json!(null))
    });
    let jar = Jar::new().with_tools(tools.expect("a good name"));
    attacked(&jar, "calls", || {
        let (mut session, lines) = heard(&jar);
        let code = "print('running')\nwhile True:\n  try: note()\n  except BaseException: pass";
        cancelled(&mut session, &lines, code).rolled_back(Status::Cancelled);
        let after = calls.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(50));
        // One may have been on its way.
        assert!(calls.load(Ordering::SeqCst) <= after + 1);
        let before = calls.load(Ordering::SeqCst);
        session.run("note()").ended(Status::Ok, 0);
        assert_eq!(calls.load(Ordering::SeqCst), before + 1);
    });
}

#[test]
fn an_old_environment_variable() {
    let rich = Jar::new().with(|layer| layer.env("TOKEN", "old").env("SHARED", "old"));
    let poor = Jar::new().with(|layer| layer.env("SHARED", "new"));
    let mut session = rich.session();
    session.run("import os\nos.environ['MINE'] = 'mine'\nos.environ['TOKEN']").gave("old");
    let (snapshot, _) = through_a_file(&mut session, Files::Without);
    let mut other = restored(&poor, &snapshot);
    let code = "[os.environ.get(n) for n in ('TOKEN', 'SHARED', 'MINE')] + [os.getenv('TOKEN')]";
    other.run(code).gave(json!([null, "new", "mine", null]));
    session.run("os.environ['TOKEN']").gave("old");
}

#[test]
fn an_old_data_directory() {
    let rich = Jar::new().with_data(&[("d", "0123456789")]);
    let poor = Jar::new();
    let mut session = rich.session();
    session
        .run("import os\nf = open('/data/d'); f.read(3); fd = os.open('/data', os.O_RDONLY)")
        .kept(Status::Ok);
    let (snapshot, _) = through_a_file(&mut session, Files::With);
    let mut other = restored(&poor, &snapshot);
    other.run("f.seek(0)").raised("OSError", "[Errno 72] Stale file handle");
    other.run("open('/data/d')").ended(Status::Error, 1);
    other.run("os.listdir('/data')").ended(Status::Error, 1);
    other.run("os.open('d', os.O_RDONLY, dir_fd=fd)").ended(Status::Error, 1);
    other.run("sorted(os.listdir('/'))").gave(json!(["app"]));
    let mut again = restored(&rich, &snapshot);
    again.run("f.read()").gave("3456789");
    // Another directory in its place is what the session has now.
    let changed = Jar::new().with_data(&[("d", "abcdefghij")]);
    restored(&changed, &snapshot).run("f.seek(0); f.read()").gave("abcdefghij");
}

#[test]
fn a_write_handle_where_only_reading_is_allowed() {
    let writer = Jar::new().with(|layer| layer.guest_mount_path("/place"));
    let shared = tempfile::tempdir().expect("a directory");
    fs::write(shared.path().join("f"), "precious").expect("a file");
    let reader =
        Jar::new().with(|layer| layer.mount_data_dir(shared.path()).guest_data_path("/place"));
    let mut session = writer.session();
    let code = "import os\nw = open('/place/f', 'w'); a = open('/place/f', 'a'); u = open('/place/f', 'r+'); r = open('/place/f')
raw = os.open('/place/f', os.O_RDWR)";
    session.run(code).kept(Status::Ok);
    let (snapshot, _) = through_a_file(&mut session, Files::Without);
    let mut other = restored(&reader, &snapshot);
    for handle in ["w", "a", "u"] {
        let code = format!("{handle}.write('overwritten'); {handle}.flush()");
        other.run(&code).raised("OSError", "[Errno 72] Stale file handle");
        other.run(&format!("{handle}.truncate(0)")).ended(Status::Error, 1);
    }
    other.run("os.write(raw, b'overwritten')").raised("OSError", "[Errno 72] Stale file handle");
    other.run("os.ftruncate(raw, 0)").ended(Status::Error, 1);
    other.run("open('/place/f', 'w')").ended(Status::Error, 1);
    other.run("r.read()").gave("precious");
    drop(other);
    assert_eq!(fs::read_to_string(shared.path().join("f")).expect("the file"), "precious");
}

#[test]
fn an_old_workspace() {
    let (first, second) = (Jar::new(), Jar::new());
    first.write("secret", "of the first");
    let mut session = first.session();
    session
        .run("f = open('secret'); w = open('log', 'w'); w.write('a'); w.flush()")
        .kept(Status::Ok);
    let (snapshot, _) = through_a_file(&mut session, Files::Without);
    let mut other = restored(&second, &snapshot);
    other.run("f.read()").raised("OSError", "[Errno 72] Stale file handle");
    other.run("open('secret')").ended(Status::Error, 1);
    other.run("w.write('b'); w.flush()").raised("OSError", "[Errno 72] Stale file handle");
    assert_eq!(first.read("log"), "a");
    drop(session);
    restored(&first, &snapshot).run("f.read()").gave("of the first");
}

#[test]
fn an_old_tool() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let tools = Tools::new()
        .with("pay", move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(json!("paid"))
        })
        .expect("a good name")
        .llm(|prompt| Ok(prompt.to_owned()));
    let (rich, poor) = (Jar::new().with_tools(tools), Jar::new());
    let other_tools = Tools::new().with("other", |_| Ok(json!("other"))).expect("a good name");
    let other = Jar::new().with_tools(other_tools);
    let mut session = rich.session();
    session
        .run("import belljar\nheld, batched, aio = pay, llm_query_batched, pay.aio\npay()")
        .gave("paid");
    let (snapshot, _) = through_a_file(&mut session, Files::Without);
    for jar in [&poor, &other] {
        let mut session = restored(jar, &snapshot);
        session.run("pay").raised("NameError", "name 'pay' is not defined");
        session.run("belljar.tools.pay").ended(Status::Error, 1);
        for call in ["held()", "await held()", "await aio()", "batched(['x'])"] {
            session.run(call).ended(Status::Error, 1);
        }
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1, "only the first");
    restored(&other, &snapshot).run("other()").gave("other");
    restored(&rich, &snapshot)
        .run("[held(), pay(), await aio()]")
        .gave(json!(["paid", "paid", "paid"]));
}

#[test]
fn old_limits() {
    let generous =
        Jar::new().with(|layer| layer.max_tool_calls(1_000_000).stdout_max_bytes(1_000_000));
    let strict = Jar::new()
        .with(|layer| layer.fuel_budget(50_000_000).stdout_max_bytes(100).workspace_max_bytes(1000))
        .timeout(Duration::from_millis(500));
    let mut session = generous.session();
    session.run("x = 1").kept(Status::Ok);
    let (snapshot, _) = through_a_file(&mut session, Files::Without);
    let mut other = restored(&strict, &snapshot);
    other.run("while True: pass").rolled_back(Status::OutOfFuel);
    other.run("import time; time.sleep(60)").ended(Status::Timeout, -1);
    assert!(other.run("print('x' * 1000)").meta.truncated);
    other.run("with open('f', 'w') as f: f.write('x' * 2000)").ended(Status::Quota, -1);
    other.run("x").gave(1);
}

#[test]
fn a_full_memory_saved() {
    let jar = Jar::new().with(|layer| layer.memory_bytes(96_000_000));
    let fill = "import random\nblocks = []\ntry:\n  while True: blocks.append(random.randbytes(1_000_000))\nexcept MemoryError: pass\nblocks.pop(); len(blocks)";
    attacked(&jar, "a full memory", || {
        let mut session = jar.session();
        let charged = session.run("1").memory_used_bytes.expect("a number");
        let uncharged =
            through_a_file(&mut session, Files::Without).0.info().memory_bytes - charged;
        session.run(fill).kept(Status::Ok);
        let (snapshot, bytes) = through_a_file(&mut session, Files::Without);
        assert!(bytes < 96_000_000 + (5 << 20), "{bytes} bytes");
        assert!(snapshot.info().memory_bytes - uncharged <= 96_000_000 + (4 << 20));
        let mut other = restored(&jar, &snapshot);
        other.run("blocks = None\n'works'").gave("works");
    });
    let mut session = jar.session();
    session.run("x = 1").kept(Status::Ok);
    let (_, bytes) = through_a_file(&mut session, Files::Without);
    assert!(bytes < 3_000_000, "{bytes} bytes for next to nothing");
}

#[test]
fn many_snapshots_of_much_memory() {
    let jar = Jar::new();
    let _alone = exclusive();
    let mut session = jar.session();
    session.run("x = bytearray(b'x') * 40_000_000").kept(Status::Ok);
    let mut many = || -> Vec<Snapshot> {
        (0..50).map(|_| session.snapshot(Files::Without).expect("a snapshot")).collect()
    };
    drop(many());
    let before = Usage::now();
    let snapshots = many();
    // Fifty times forty megabytes would be two gigabytes.
    before.assert_no_growth(100 * 1024 * 1024, "snapshots that share what they hold");
    drop(snapshots);
    before.assert_no_growth(8 * 1024 * 1024, "snapshots that are gone");
    session.run("len(x)").gave(40_000_000);
}

#[test]
fn sparse_and_many_files_saved() {
    let jar =
        Jar::new().with(|layer| layer.workspace_max_bytes(5_000_000).workspace_max_files(500));
    attacked(&jar, "sparse files", || {
        let mut session = jar.session();
        session.run("f = open('sparse', 'w'); f.truncate(10**12)").ended(Status::Quota, -1);
        session
            .run("f = open('sparse', 'wb', buffering=0); f.seek(10**10); f.write(b'x')")
            .ended(Status::Quota, -1);
        session.run("open('sparse', 'wb').truncate(4_000_000)").gave(4_000_000);
        let many = "import os\nn = 0\ntry:\n  while True: open(f'{n:0200}', 'w').close(); n += 1\nexcept OSError: pass\nn <= 500";
        session.run(many).gave(true);
        let (snapshot, bytes) = through_a_file(&mut session, Files::With);
        assert!(bytes < 5_000_000 + 3_000_000, "{bytes} bytes");
        let elsewhere = Jar::new();
        restored(&elsewhere, &snapshot).run("import os; len(os.listdir('.')) > 300").gave(true);
        let mut fork = session.fork().expect("a fork");
        fork.run("import os; os.path.getsize('sparse')").gave(4_000_000);
    });
}

#[test]
fn a_workspace_nobody_could_copy() {
    let jar = Jar::new();
    attacked(&jar, "odd files", || {
        let mut session = jar.session();
        let code = "import os\nos.makedirs('/'.join(['d'] * 500))\nos.symlink('loop', 'loop'); os.symlink('.', 'here')
os.link('x', 'y') if os.path.exists('x') else None\nfor n in range(50): os.symlink('here/' * n + 'x', f'l{n}')";
        session.run(code).kept(Status::Ok);
        let (snapshot, bytes) = through_a_file(&mut session, Files::With);
        assert!(bytes < 3_000_000, "links are not followed: {bytes}");
        let elsewhere = Jar::new();
        restored(&elsewhere, &snapshot).run("import os; os.readlink('loop')").gave("loop");
        let started = Instant::now();
        let mut fork = session.fork().expect("a fork");
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        fork.run("len(os.listdir('.'))").gave(53);
    });
    if make_pipe(&jar.workspace().join("pipe")) {
        let mut session = jar.session();
        let mut fork = session.fork().expect("pipes are left out");
        fork.run("import os; 'pipe' in os.listdir('.')").gave(false);
    } else {
        skipped("attacks::sessions::a_workspace_nobody_could_copy", "no pipe can be made here");
    }
}

/// Makes a named pipe, which only a host can put into a workspace.
fn make_pipe(path: &Path) -> bool {
    std::process::Command::new("mkfifo").arg(path).status().is_ok_and(|status| status.success())
}

#[test]
fn a_policy_that_is_the_same_gives_the_same_again() {
    // The twin of all old capabilities: what is still allowed is still there.
    let layer = PolicyLayer::new().env("TOKEN", "still").timeout_seconds(20.0);
    let policy = ExecutionPolicy::build(Preset::Agent, [layer]).expect("a valid policy");
    let jar = Jar::new().with_data(&[("d", "data")]);
    let config = SandboxConfig {
        policy: policy.with(PolicyLayer::new().mount_data_dir(jar.data())).expect("a valid policy"),
        ..jar.config()
    };
    let mut session = PythonSandbox::from_config(&config).expect("a sandbox");
    session.initialize(json!(null)).expect("a session");
    session.run("import os\nd = open('/data/d'); w = open('f', 'w')").kept(Status::Ok);
    let (snapshot, _) = through_a_file(&mut session, Files::With);
    let mut other = PythonSandbox::from_config(&config).expect("a sandbox");
    other.restore(&snapshot).expect("a session");
    other
        .run("w.write('x'); w.close(); [os.environ['TOKEN'], d.read(), open('f').read()]")
        .gave(json!(["still", "data", "x"]));
}
