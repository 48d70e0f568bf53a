//! The same engine with numpy and pandas in it: more code of C's that hostile input meets.

use std::sync::Once;
use std::time::Duration;

use belljar::{ImageChoice, SandboxResult, Status};
use serde_json::json;
use support::{Cells, Expect, Jar, attack, attacked, exclusive, permitted};

fn jar() -> Jar {
    static LOADED: Once = Once::new();
    let jar = Jar::new().with(|layer| layer.image(ImageChoice::Data));
    // Loaded once and kept: it is not to be taken for something that an attack has left.
    let _alone = exclusive();
    LOADED.call_once(|| drop(jar.run("import numpy, pandas")));
    jar
}

fn small() -> Jar {
    jar().with(|layer| layer.memory_bytes(64_000_000))
}

/// An ordinary exception of Python's ends it, one of these.
#[track_caller]
fn raises(code: &str, names: &[&str]) {
    let result = attack(&jar(), code);
    result.ended(Status::Error, 1);
    assert!(names.contains(&name(&result)), "{}: {}", name(&result), result.stderr);
}

fn name(result: &SandboxResult) -> &str {
    result.error.as_ref().map(|error| error.name.as_str()).unwrap_or_default()
}

#[test]
fn array_larger_than_memory() {
    let jar = small();
    attack(&jar, "import numpy as np\nnp.ones(100_000_000)").ended(Status::OutOfMemory, -1);
    // More than a 32-bit machine can address never gets as far as the limit.
    for code in [
        "import numpy as np\nnp.zeros(2**40)",
        "import numpy as np\nnp.zeros((2**31, 2**31))",
        "import numpy as np\nnp.arange(10**12)",
        "import numpy as np\nnp.zeros(5).repeat(2**40)",
    ] {
        let result = attack(&jar, code);
        let fine = [Status::Error, Status::OutOfMemory];
        assert!(fine.contains(&result.status()), "{code}: {}", result.stderr);
    }
    attacked(&jar, "arrays in a session", || {
        let mut session = jar.session();
        session.run("import numpy as np\nx = np.arange(1000)").kept(Status::Ok);
        session
            .run("y = [np.ones(10_000_000) for _ in range(100)]")
            .rolled_back(Status::OutOfMemory);
        let code = "try: np.ones(100_000_000)\nexcept MemoryError: print('caught')";
        session.run(code).kept(Status::Ok);
        session.run("int(x.sum())").gave(499_500);
    });
    permitted(&jar, "import numpy as np\nprint(int(np.ones(1_000_000).sum()))")
        .printed("1000000\n");
}

#[test]
fn hash_tables_without_memory() {
    let jar = small();
    attacked(&jar, "hash tables in a session", || {
        let mut session = jar.session();
        session.run(include_str!("hash_tables.py")).kept(Status::Ok);
        session.run("repr(odd)").gave("{}");
        session
            .run("{name: n for name, f in ATTEMPTS.items() if (n := f()) != MANY}")
            .gave(json!({}));
    });
    permitted(&jar, "import pandas as pd\nprint(pd.Series([1, 1, 2]).nunique())").printed("2\n");
}

#[test]
fn broadcasting_and_strides_out_of_bounds() {
    let strided = "import numpy as np\nfrom numpy.lib.stride_tricks import as_strided\n";
    // numpy does not check these: what it reads is the guest's own memory, or a trap.
    for code in [
        "as_strided(np.zeros(1), shape=(2**20,), strides=(2**12,)).sum()",
        "as_strided(np.zeros(1), shape=(2**10,), strides=(-2**22,)).sum()",
        "as_strided(np.zeros(1), shape=(2**28,), strides=(8,))[:] = 1",
    ] {
        let result = attack(&jar(), &format!("{strided}{code}"));
        assert_ne!(result.status(), Status::Timeout, "{code}");
    }
    let code = "print(as_strided(np.arange(6), shape=(3, 2), strides=(16, 8)).tolist())";
    permitted(&jar(), &format!("{strided}{code}")).printed("[[0, 1], [2, 3], [4, 5]]\n");
}

#[test]
fn object_arrays_of_hostile_objects() {
    let hostile = "import numpy as np, pandas as pd
class Hostile:
    def __add__(self, other): raise SystemExit(7)
    __radd__ = __add__
    def __eq__(self, other): raise ValueError('no')
    def __hash__(self): raise ValueError('no hash')
    def __lt__(self, other): return other < self
    def __len__(self): return -1
    def __repr__(self): raise ValueError('no repr')
class Liar:
    def __array__(self, *a, **k): return self
a = np.empty(51, dtype=object)
for place in range(50): a[place] = Hostile()
";
    for (code, names) in [
        ("a.sort()", ["RecursionError", "TypeError", "ValueError"]),
        ("pd.Series(a).value_counts()", ["ValueError", "TypeError", "RecursionError"]),
        (
            "pd.DataFrame({'k': a}).groupby('k').sum()",
            ["ValueError", "TypeError", "RecursionError"],
        ),
        ("np.array(Liar(), dtype=float)", ["ValueError", "TypeError", "RecursionError"]),
        ("a == a[::-1]; assert (a == a).all()", ["ValueError", "TypeError", "AssertionError"]),
    ] {
        raises(&format!("{hostile}{code}"), &names);
    }
    attack(&jar(), &format!("{hostile}a.sum()")).ended(Status::Error, 7);
    let code = "import numpy as np\nprint(np.array([1, 'a', None], dtype=object).tolist())";
    permitted(&jar(), code).printed("[1, 'a', None]\n");
}

#[test]
fn objects_that_change_an_array_while_it_is_used() {
    let code = "import numpy as np
class Resizer:
    def __float__(self): a.resize(0, refcheck=False); return 1.0
    def __lt__(self, other): b.resize(0, refcheck=False); return True
a = np.zeros(1000)
try: a[:] = [Resizer()] * 1000
except Exception as error: print(type(error).__name__)
b = np.array([Resizer() for _ in range(100)], dtype=object)
try: b.sort()
except Exception as error: print(type(error).__name__)";
    let result = attack(&jar(), code);
    let fine = [Status::Ok, Status::Error, Status::Crashed, Status::OutOfMemory];
    assert!(fine.contains(&result.status()), "{}", result.stderr);
    permitted(
        &jar(),
        "import numpy as np\na = np.zeros(4); a.resize(2, refcheck=False); print(a.size)",
    )
    .printed("2\n");
}

#[test]
fn pickles_in_array_files() {
    let jar = jar();
    let make = "import numpy as np
class Bomb:
    def __reduce__(self): return (print, ('run by a pickle',))
np.save('bomb.npy', np.array([Bomb()], dtype=object), allow_pickle=True)
";
    let result = attack(&jar, &format!("{make}np.load('bomb.npy')"));
    result.raised("ValueError", "Object arrays cannot be loaded when allow_pickle=False");
    assert_eq!(result.stdout, "");
    let code = "import numpy as np\nnp.save('good.npy', np.arange(3)); print(np.load('good.npy').tolist())";
    permitted(&jar, code).printed("[0, 1, 2]\n");
}

#[test]
fn array_files_that_lie_about_their_size() {
    let lie = |shape: &str| {
        format!(
            "import numpy as np, struct
head = \"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\".encode().ljust(117) + b'\\n'
open('lie.npy', 'wb').write(b'\\x93NUMPY\\x01\\x00' + struct.pack('<H', len(head)) + head + bytes(16))
np.load('lie.npy')"
        )
    };
    for shape in ["(1000,)", "(2**40,)", "(-1,)", "(10**30,)", "(1, [])", "__import__('os')"] {
        let result = attack(&jar(), &lie(shape));
        let fine = [Status::Error, Status::OutOfMemory];
        assert!(fine.contains(&result.status()), "{shape}: {}", result.stderr);
    }
    permitted(&jar(), &lie("(2,)")).ended(Status::Ok, 0);
}

#[test]
fn malformed_tables() {
    let names = ["ParserError", "EmptyDataError", "UnicodeDecodeError", "ValueError", "Error"];
    for text in [
        r"b''",
        r#"b'a,b\n1,"2\n'"#,
        r"b'a,b\n1,2\n1,2,3,4,5\n'",
        r"b'a,b\n' + b'\xff\xfe\x00'",
        r"b'\x00' * 1000 + b'\n1,2,3\n'",
    ] {
        let code = format!(
            "import io, pandas as pd\nframe = pd.read_csv(io.BytesIO({text}))\n\
             frame.to_csv('out.csv'); raise ValueError('read')"
        );
        raises(&code, &names);
    }
    let wide = "import io, pandas as pd
text = ','.join(f'c{n}' for n in range(100_000)) + '\\n' + ','.join('1' * 100_000)
print(pd.read_csv(io.StringIO(text)).shape)";
    let result = attack(&jar().timeout(Duration::from_secs(20)), wide);
    let fine = [Status::Ok, Status::Error, Status::OutOfMemory, Status::Timeout];
    assert!(fine.contains(&result.status()), "{}", result.stderr);
    let code = "import io, pandas as pd\nprint(pd.read_csv(io.StringIO('a,b\\n1,2\\n')).b.sum())";
    permitted(&jar(), code).printed("2\n");
}

#[test]
fn zip_bomb_as_a_workbook() {
    // 200 MB of rows in some hundred kilobytes.
    let bomb = "import io, zipfile, pandas as pd
pd.DataFrame({'a': [1]}).to_excel('good.xlsx')
good = zipfile.ZipFile('good.xlsx')
with zipfile.ZipFile('bomb.xlsx', 'w', zipfile.ZIP_DEFLATED) as out:
    for name in good.namelist():
        if name != 'xl/worksheets/sheet1.xml':
            out.writestr(name, good.read(name)); continue
        with out.open(name, 'w') as sheet:
            sheet.write(b'<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><sheetData>')
            row = b'<row><c t=\"inlineStr\"><is><t>x</t></is></c></row>' * 1000
            for _ in range(4000): sheet.write(row)
            sheet.write(b'</sheetData></worksheet>')
pd.read_excel('bomb.xlsx')";
    let result = attack(&small().timeout(Duration::from_secs(15)), bomb);
    let fine = [Status::OutOfMemory, Status::Timeout, Status::Error];
    assert!(fine.contains(&result.status()), "{}", result.stderr);
    raises(
        "import pandas as pd\nopen('x.xlsx', 'wb').write(b'PK\\x03\\x04' + bytes(100))\npd.read_excel('x.xlsx')",
        &["BadZipFile", "ValueError", "InvalidFileException"],
    );
    let code = "import pandas as pd\npd.DataFrame({'a': [5]}).to_excel('t.xlsx')\n\
                print(pd.read_excel('t.xlsx').a.sum())";
    permitted(&jar(), code).printed("5\n");
}

#[test]
fn libraries_memory_maps_and_threads_of_the_host() {
    let names = [
        "ImportError",
        "ModuleNotFoundError",
        "OSError",
        "URLError",
        "RuntimeError",
        "NotImplementedError",
        "AttributeError",
        "TypeError",
        "ValueError",
    ];
    for code in [
        "import numpy as np, numpy.ctypeslib\nnp.ctypeslib.load_library('libc.so.6', '/lib')",
        "import numpy as np\nnp.ctypeslib.as_array(0xdeadbeef, shape=(10,))",
        "import numpy as np\nnp.memmap('f.bin', dtype='u1', mode='w+', shape=(10,))[0]",
        "import numpy as np\nnp.save('a.npy', np.arange(4)); np.load('a.npy', mmap_mode='r')[0]",
        "import threading\nthreading.Thread(target=print).start()",
        "import multiprocessing\nmultiprocessing.Pool(2)",
        "import pandas as pd\npd.read_csv('http://127.0.0.1:1/x.csv')",
    ] {
        raises(code, &names);
    }
    let code = "import numpy as np\na = np.frombuffer(b'abc', 'u1'); print(a.tolist())";
    permitted(&jar(), code).printed("[97, 98, 99]\n");
}

#[test]
fn endless_work_in_one_call_of_c() {
    let jar = jar().timeout(Duration::from_millis(700));
    for code in [
        "import numpy as np\na = np.ones((900, 900))\nwhile True: a = (a @ a) * 1e-3",
        "import numpy as np\nnp.linalg.svd(np.random.rand(900, 900))\nwhile True: pass",
        "import pandas as pd\nwhile True: pd.DataFrame({'a': range(1000)}).describe()",
    ] {
        attack(&jar, code).ended(Status::Timeout, -1);
    }
    attacked(&jar, "endless work in a session", || {
        let mut session = jar.session();
        session.run("import numpy as np\nx = np.eye(3)").kept(Status::Ok);
        let result = session.run("while True: x = x @ x");
        assert_eq!(result.status(), Status::Timeout, "{}", result.stderr);
        session.run("float(np.eye(3).sum())").gave(3.0);
    });
    permitted(&jar, "import numpy as np\nprint(float((np.eye(50) @ np.eye(50)).sum()))")
        .printed("50.0\n");
}
