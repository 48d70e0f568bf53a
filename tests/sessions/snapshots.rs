//! A session as a value: kept, put back, written to a file, brought to life elsewhere.

use std::fs;

use belljar::{
    Files, PythonSandbox, RuntimeType, Sandbox, SandboxConfig, SandboxError, Snapshot, Status,
};
use serde_json::json;
use support::{Cells, Expect, Jar, given, home, in_new_processes};

/// State of many kinds.
const STATE: &str = "import collections, dataclasses, datetime, decimal, functools, re, sqlite3, weakref
def counter(start):
  n = start
  while True:
    n += 1
    yield n
numbers = counter(10); next(numbers)
def make():
  hidden = []
  def add(item): hidden.append(item); return list(hidden)
  return add
add = make(); add('first')
class Base:
  shared = {'k': 1}
  def who(self): return type(self).__name__
@dataclasses.dataclass
class Point(Base):
  x: int
  y: list
point = Point(1, [2]); same = point.y; weak = weakref.ref(point)
table = {i: str(i) * 3 for i in range(50_000)}
big = bytearray(range(256)) * 40_000
database = sqlite3.connect(':memory:')
database.execute('create table t (n)'); database.executemany('insert into t values (?)', [(1,), (2,)])
pattern, price = re.compile(r'(\\d+)-(?P<b>\\w+)'), decimal.Decimal('1.10')
@functools.cache
def cached(n): return object()
first = cached(1)
cycle = []; cycle.append(cycle)
ordered = collections.OrderedDict(b=1, a=2); ordered.move_to_end('b')
today = datetime.date(2026, 2, 3)
import asyncio
async def wait_a_moment(): await asyncio.sleep(0.001); return 'waited'";

/// Looks at all of it, and changes some.
const CHECK: &str =
    "[next(numbers), add('second'), point.who(), Base.shared['k'], len(table), table[49_999],
 len(big), big[1000], database.execute('select sum(n) from t').fetchone()[0],
 pattern.match('12-ab')['b'], str(price + 1), cached(1) is first, cycle[0] is cycle,
 list(ordered), str(today), same is point.y, weak() is point, await wait_a_moment()]";

fn expected() -> serde_json::Value {
    json!([
        12,
        ["first", "second"],
        "Point",
        1,
        50_000,
        "499994999949999",
        10_240_000,
        232,
        3,
        "ab",
        "2.10",
        true,
        true,
        ["a", "b"],
        "2026-02-03",
        true,
        true,
        "waited"
    ])
}

#[test]
fn everything_survives_in_memory() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(STATE).kept(Status::Ok);
    let snapshot = session.snapshot(Files::Without).expect("a snapshot");
    for _ in 0..3 {
        session.run(CHECK).gave(expected());
        session.run("del numbers, point, table; Base.shared.clear()").kept(Status::Ok);
        session.restore(&snapshot).expect("it is put back");
    }
    drop(session);
    let elsewhere = Jar::new();
    let mut other = elsewhere.sandbox();
    other.restore(&snapshot).expect("a new sandbox becomes the session");
    other.run(CHECK).gave(expected());
}

#[test]
fn everything_survives_in_a_file() {
    let (jar, elsewhere) = (Jar::new(), Jar::new());
    let path = jar.workspace().join("s.snapshot");
    let mut session = jar.session();
    session.run(STATE).kept(Status::Ok);
    session.snapshot(Files::Without).expect("a snapshot").write(&path).expect("a file");
    session.run("lost = 1").kept(Status::Ok);
    drop(session);
    let snapshot = Snapshot::read(&path, &home()).expect("a snapshot");
    let mut other = elsewhere.sandbox();
    other.restore(&snapshot).expect("a session");
    other.run(CHECK).gave(expected()).kept(Status::Ok);
    other.run("'lost' in globals()").gave(false);
}

#[test]
fn everything_survives_in_a_new_process() {
    if let Some(path) = given() {
        let snapshot = Snapshot::read(&path, &home()).expect("a snapshot");
        let jar = Jar::new();
        let mut session = jar.sandbox();
        session.restore(&snapshot).expect("a session");
        session.run(CHECK).gave(expected());
        session.run("open('left behind').read()").gave("a file");
        session.run("f()").raised("ZeroDivisionError", "division by zero");
        assert!(session.run("f()").stderr.contains("in f\n    1 / 0"), "its source is there");
        return;
    }
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(STATE).kept(Status::Ok);
    session.run("def f():\n    1 / 0\nopen('left behind', 'w').write('a file')").kept(Status::Ok);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s.snapshot");
    session.snapshot(Files::With).expect("a snapshot").write(&path).expect("a file");
    in_new_processes("snapshots::everything_survives_in_a_new_process", 1, &path);
}

#[test]
fn a_snapshot_leaves_the_session_alone() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run("n = 0\nf = open('f', 'w+'); f.write('abc'); f.seek(1)").kept(Status::Ok);
    let mut snapshots = Vec::new();
    for round in 1..=10 {
        session.run("n += 1\nn").gave(round);
        snapshots.push(session.snapshot(Files::Without).expect("a snapshot"));
    }
    session.run("[n, f.read()]").gave(json!([10, "bc"]));
    for (index, snapshot) in snapshots.iter().enumerate().rev() {
        session.restore(snapshot).expect("it is put back");
        session.run("n").gave(index + 1);
    }
}

#[test]
fn what_a_snapshot_says_of_itself() {
    let jar = Jar::new();
    let config = SandboxConfig { session_id: Some("s-7".to_owned()), ..jar.config() };
    let mut session = PythonSandbox::from_config(&config).expect("a sandbox");
    session.initialize(json!(null)).expect("a session");
    let small = session.snapshot(Files::Without).expect("a snapshot").info();
    session.run("x = bytearray(b'x') * 8_000_000").kept(Status::Ok);
    session.run("1").kept(Status::Ok);
    let snapshot = session.snapshot(Files::With).expect("a snapshot");
    let info = snapshot.info();
    assert_eq!(info.language, RuntimeType::Python);
    assert!(info.language_version.starts_with("3.13."), "{info:?}");
    assert_eq!((info.session_id.as_deref(), info.cells), (Some("s-7"), 2));
    assert_eq!((small.has_files, info.has_files), (false, true));
    assert!(small.changed_bytes < 2_500_000, "{small:?}");
    let grown = info.changed_bytes - small.changed_bytes;
    assert!(
        (8_000_000..10_000_000).contains(&grown),
        "what was changed, and little more: {info:?}"
    );
    assert!(info.memory_bytes > info.changed_bytes);
    assert_eq!(info.pending_calls, []);
    let path = jar.workspace().join("s.snapshot");
    snapshot.write(&path).expect("a file");
    let read = Snapshot::read(&path, &home()).expect("a snapshot").info();
    assert_eq!((read.created_unix, read.cells), (info.created_unix, info.cells));
    assert_eq!((read.session_id, read.memory_bytes), (info.session_id, info.memory_bytes));
    let bytes = fs::metadata(&path).expect("the file").len();
    assert!(bytes < read.changed_bytes + 100_000, "{bytes} bytes for {}", read.changed_bytes);
}

#[test]
fn a_file_is_replaced_whole() {
    let jar = Jar::new();
    let path = jar.workspace().join("s.snapshot");
    let mut session = jar.session();
    for n in 0..3 {
        session.run(&format!("n = {n}")).kept(Status::Ok);
        session.snapshot(Files::Without).expect("a snapshot").write(&path).expect("a file");
        let names: Vec<_> = fs::read_dir(jar.workspace()).expect("a directory").collect();
        assert_eq!(names.len(), 1, "nothing else is left: {names:?}");
    }
    session.restore(&Snapshot::read(&path, &home()).expect("a snapshot")).expect("a session");
    session.run("n").gave(2);
    let snapshot = session.snapshot(Files::Without).expect("a snapshot");
    let error = snapshot.write(&jar.workspace().join("no/such/folder")).expect_err("no folder");
    let text = error.to_string();
    assert!(text.contains("it cannot be written: No such file or directory"), "{text}");
    let error = snapshot.write(jar.workspace()).expect_err("a directory is in the way");
    assert!(matches!(error, SandboxError::Snapshot { .. }), "{error}");
    assert!(path.exists(), "what was there is there");
}

#[test]
fn files_of_the_workspace_go_with_it() {
    let (jar, elsewhere) = (Jar::new(), Jar::new());
    elsewhere.write("own.txt", "was here");
    elsewhere.write("shared.txt", "older");
    let mut session = jar.session();
    let code = "import os\nos.makedirs('a/b/empty')\nopen('a/b/f.txt', 'w').write('deep')
open('shared.txt', 'w').write('newer'); open('ünï.bin', 'wb').write(bytes(range(256)))
os.symlink('b/f.txt', 'a/link'); os.symlink('missing', 'dangling')";
    session.run(code).kept(Status::Ok);
    let snapshot = session.snapshot(Files::With).expect("a snapshot");
    session.run("open('a/b/f.txt', 'w').write('changed later')").kept(Status::Ok);
    let path = jar.workspace().join("s.snapshot");
    snapshot.write(&path).expect("a file");
    let snapshot = Snapshot::read(&path, &home()).expect("a snapshot");
    let mut other = elsewhere.sandbox();
    other.restore(&snapshot).expect("a session");
    let code = "[open('a/b/f.txt').read(), open('a/link').read(), os.readlink('dangling'), \
                os.listdir('a/b/empty'), list(open('ünï.bin', 'rb').read()) == list(range(256)), \
                open('own.txt').read(), open('shared.txt').read(), sorted(os.listdir('.'))]";
    other.run(code).gave(json!([
        "deep",
        "deep",
        "missing",
        [],
        true,
        "was here",
        "newer",
        ["a", "dangling", "own.txt", "shared.txt", "ünï.bin"]
    ]));
}

#[test]
fn without_files_they_stay_where_they_are() {
    let (jar, elsewhere) = (Jar::new(), Jar::new());
    let mut session = jar.session();
    session.run("open('f', 'w').write('x')").kept(Status::Ok);
    let snapshot = session.snapshot(Files::Without).expect("a snapshot");
    let mut other = elsewhere.sandbox();
    other.restore(&snapshot).expect("a session");
    other.run("import os; os.listdir('.')").gave(json!([]));
    session.run("import os; os.listdir('.')").gave(json!(["f"]));
}

#[test]
fn what_needs_a_session_is_refused_without_one() {
    let jar = Jar::new();
    let mut sandbox = jar.sandbox();
    let snapshot = jar.session().snapshot(Files::Without).expect("a snapshot");
    let text = "a snapshot needs a session, and this sandbox keeps no state; nothing was run";
    let refused = sandbox.snapshot(Files::With).map(drop).expect_err("no session");
    assert_eq!(refused.to_string(), text);
    assert!(sandbox.fork().is_err());
    assert!(sandbox.resume(Vec::new()).is_err());
    assert!(sandbox.get_variable("x").is_err() && sandbox.complete("x", 1).is_err());
    assert_eq!((sandbox.pending_calls(), sandbox.session_id()), (Vec::new(), None));
    sandbox.restore(&snapshot).expect("a session");
    assert!(sandbox.fork().is_ok());
}

#[test]
fn a_session_larger_than_the_policy_allows_is_refused() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run("x = bytearray(b'x') * 60_000_000").kept(Status::Ok);
    let snapshot = session.snapshot(Files::Without).expect("a snapshot");
    let small = Jar::new().with(|layer| layer.memory_bytes(64_000_000));
    let mut other = small.session();
    other.run("mine = 1").kept(Status::Ok);
    let error = other.restore(&snapshot).expect_err("too large");
    assert!(error.to_string().contains("memory"), "{error}");
    other.run("mine").gave(1);
}

#[test]
fn a_session_that_failed_halfway_can_be_saved() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run("x = 1\nraise ValueError").raised("ValueError", "");
    session.run("import os; os.abort()").rolled_back(Status::Crashed);
    let snapshot = session.snapshot(Files::Without).expect("a snapshot");
    let mut other = jar.sandbox();
    other.restore(&snapshot).expect("a session");
    other.run("x").gave(1);
}
