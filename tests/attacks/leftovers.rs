//! What one sandbox leaves for the next.

use std::collections::HashSet;

use belljar::Status;
use support::{Expect, Jar, attack, permitted};

#[test]
fn globals_and_modules() {
    let jar = Jar::new();
    let mut sandbox = jar.sandbox();
    let code = "secret = 'left behind'
import sys, builtins, types
sys.modules['planted'] = types.ModuleType('planted')
builtins.planted = secret
sys.path.insert(0, '/planted')
sys.argv.append('planted')
import os; os.environ['PLANTED'] = '1'; os.chdir('/')";
    belljar::Sandbox::execute(&mut sandbox, code).expect("a result").ended(Status::Ok, 0);
    let code = "import sys, builtins, os
print('secret' in globals(), 'planted' in sys.modules, hasattr(builtins, 'planted'))
print('planted' in str(sys.path + sys.argv), 'PLANTED' in os.environ, os.getcwd())";
    belljar::Sandbox::execute(&mut sandbox, code)
        .expect("a result")
        .printed("False False False\nFalse False /app\n");
}

#[test]
fn monkey_patched_modules() {
    let jar = Jar::new();
    let code = "import json, builtins, traceback, asyncio, linecache, sys, io
json.dumps = json.loads = lambda *a, **k: 'patched'
builtins.print = builtins.len = builtins.open = None
traceback.format_exception = None
asyncio.run = None
linecache.cache.clear()
sys.stdout = sys.stderr = io.StringIO()
int.__doc__";
    attack(&jar, code).ended(Status::Ok, 0);
    let code = "import json, asyncio\nprint(json.dumps([1]), len('ab'), open)\n\
                async def f(): return 5\nprint(asyncio.run(f()))";
    permitted(&jar, code).printed("[1] 2 <built-in function open>\n5\n");
    permitted(&jar, "def f():\n  1/0\nf()").raised("ZeroDivisionError", "division by zero");
}

#[test]
fn files_of_another_workspace() {
    let first = Jar::new();
    let code = "import tempfile, os\nopen('secret', 'w').write('x')\nopen('/app/.hidden', 'w')\n\
                fd, name = tempfile.mkstemp()\nprint(len(os.listdir('/app')))";
    attack(&first, code).printed("3\n");
    let second = Jar::new();
    let code = "import os, tempfile\nprint(os.listdir('/app'), os.listdir('/'), os.listdir(tempfile.gettempdir()))";
    permitted(&second, code).printed("[] ['app'] []\n");
}

#[test]
fn descriptors_of_another_sandbox() {
    let jar = Jar::new();
    let code = "import os\nopen('f', 'w').write('secret')\nfds = [os.open('f', os.O_RDONLY) for _ in range(50)]";
    attack(&jar, code).ended(Status::Ok, 0);
    let code = "import os\nfound = []\nfor fd in range(5, 100):\n  try: found.append(os.read(fd, 10))\n  \
                except OSError: pass\nprint(found)";
    permitted(&jar, code).printed("[]\n");
}

#[test]
fn random_state_is_never_the_same_twice() {
    let code = "import random, uuid, secrets, tempfile, os
for value in (random.random(), random.getrandbits(64), random.Random().random(), uuid.uuid4(), uuid.uuid1(),
              uuid.getnode(), secrets.token_hex(8), os.urandom(8).hex(), tempfile.mktemp(),
              random.SystemRandom().random()):
    print(value)";
    let jar = Jar::new();
    let mut seen = HashSet::new();
    for _ in 0..50 {
        let result = permitted(&jar, code);
        for line in result.ended(Status::Ok, 0).stdout.lines() {
            assert!(seen.insert(line.to_owned()), "{line} came twice");
        }
    }
    assert_eq!(seen.len(), 500);
    // Asked for, the same numbers come again.
    let seeded = "import random; random.seed(1); print(random.random())";
    assert_eq!(permitted(&jar, seeded).stdout, permitted(&jar, seeded).stdout);
}

/// Many sandboxes at once, each with a secret of its own in many places of its memory, each looking
/// for those of others.
#[test]
fn secrets_in_memory() {
    let hunt = |secret: usize| {
        format!(
            "import gc, sys
found, needle = 0, ''.join(['SEC', 'RET-'])
for o in gc.get_objects() + list(sys.modules.values()):
    for part in (o, getattr(o, '__dict__', None)):
        try: found += needle in repr(part)[:100_000] if isinstance(part, (str, bytes, list, dict)) and part is not globals() else 0
        except Exception: pass
print(found)
secret = needle + '{secret}'
kept = [bytearray(secret.encode() * 1000) for _ in range(500)]
words = {{secret + str(i): [secret] for i in range(10_000)}}
def deep(n): return deep(n - 1) if n else secret
deep(500)"
        )
    };
    let _guard = support::exclusive();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let jar = Jar::new();
                for round in 0..15 {
                    jar.run(&hunt(thread * 100 + round)).printed("0\n");
                }
            });
        }
    });
}

#[test]
fn clocks_and_process_numbers_say_nothing_about_others() {
    let code = "import time, os, threading\nprint(os.getpid(), threading.get_ident() != 0)";
    let jar = Jar::new();
    let (one, two) = (attack(&jar, code), permitted(&jar, code));
    assert_eq!(one.stdout, two.stdout);
    let code = "import time\nprint(time.process_time() < 5, time.perf_counter() < 5)";
    permitted(&jar, code).printed("True True\n");
}
