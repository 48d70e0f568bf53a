//! Filling the disk.

use std::fs;
use std::path::Path;
use std::time::Duration;

use belljar::Status;
use support::{Expect, Jar, attack, permitted};

const BYTES: u64 = 1_000_000;
const FILES: u64 = 100;

fn jar() -> Jar {
    Jar::new().with(|layer| layer.workspace_max_bytes(BYTES).workspace_max_files(FILES))
}

/// Bytes and entries below a directory.
fn usage(dir: &Path) -> (u64, u64) {
    let mut total = (0, 0);
    for entry in fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let metadata = entry.metadata().expect("metadata");
        total.1 += 1;
        if metadata.is_dir() {
            let below = usage(&entry.path());
            total = (total.0 + below.0, total.1 + below.1);
        } else if metadata.is_file() {
            total.0 += metadata.len();
        }
    }
    total
}

#[track_caller]
fn meets_the_quota(code: &str) {
    let jar = jar();
    let result = attack(&jar, code);
    result.ended(Status::Quota, -1);
    let error = result.error.as_ref().expect("an error");
    assert_eq!(error.name, "OSError");
    assert!(error.message.starts_with("[Errno 51] No space left on device"), "{error:?}");
    let notice = "Quota: the workspace may grow by 1000000 bytes and 100 files; \
                  raise workspace_max_bytes or workspace_max_files to allow more\n";
    assert!(result.stderr.ends_with(notice), "{}", result.stderr);
    let (bytes, files) = usage(jar.workspace());
    assert!(bytes <= BYTES && files <= FILES, "{bytes} bytes, {files} files");
    // Removing something makes room again.
    let code = "import os, shutil\nfor name in os.listdir('.'):\n  \
                shutil.rmtree(name) if os.path.isdir(name) and not os.path.islink(name) else os.remove(name)\n\
                print(open('f', 'wb').write(bytes(900_000)))";
    permitted(&jar, code).printed("900000\n");
}

#[test]
fn one_big_write() {
    meets_the_quota("open('f', 'wb').write(bytes(10**7))");
}

#[test]
fn many_writes() {
    meets_the_quota("f = open('f', 'wb')\nwhile True: f.write(bytes(10**5))");
    meets_the_quota("for i in range(99):\n  with open(f'f{i}', 'wb') as f: f.write(bytes(10**5))");
}

#[test]
fn sparse_files() {
    meets_the_quota("f = open('f', 'wb'); f.truncate(10**12)");
    meets_the_quota("f = open('f', 'wb'); f.seek(10**12); f.write(b'x'); f.flush()");
    meets_the_quota(
        "import os; fd = os.open('f', os.O_CREAT | os.O_RDWR); os.pwrite(fd, b'x', 10**12)",
    );
}

#[test]
fn allocation_without_writing() {
    // Python for WASI has no posix_fallocate; truncating is how a file is made long.
    let code = "import os\nprint(hasattr(os, 'posix_fallocate'))";
    permitted(&jar(), code).printed("False\n");
    meets_the_quota("import os\nopen('f', 'w').close()\nos.truncate('f', 10**9)");
}

#[test]
fn files_without_a_name() {
    meets_the_quota(
        "import os\nkept = []\nfor i in range(90):\n  f = open('f', 'wb'); os.unlink('f')\n  \
         f.write(bytes(10**5)); f.flush(); kept.append(f)",
    );
    let code = "import os\nfor i in range(50):\n  with open('f', 'wb') as f:\n    os.unlink('f'); f.write(bytes(9 * 10**5))\n\
                print('fine')";
    permitted(&jar(), code).printed("fine\n");
}

#[test]
fn two_descriptors_of_one_file() {
    meets_the_quota(
        "import os\na = os.open('f', os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n\
         b = os.open('f', os.O_WRONLY | os.O_APPEND)\n\
         while True: os.write(a, bytes(10**5)); os.write(b, bytes(10**5))",
    );
}

#[test]
fn a_million_small_files() {
    meets_the_quota("for i in range(10**6): open(f'f{i}', 'w').close()");
    meets_the_quota("import os\nfor i in range(10**6): os.mkdir(f'd{i}')");
    meets_the_quota("import os\nfor i in range(10**6): os.symlink('x', f'l{i}')");
    meets_the_quota(
        "import os\nopen('f', 'w').close()\nfor i in range(10**6): os.link('f', f'h{i}')",
    );
    meets_the_quota("import os\nfor i in range(10**6): os.mkdir('d'); os.chdir('d')");
    let code = "for i in range(1000):\n  open('same', 'w').close()\nprint('fine')";
    permitted(&jar(), code).printed("fine\n");
}

#[test]
fn a_caught_refusal_is_no_end() {
    let code =
        "try: open('f', 'wb').write(bytes(10**7))\nexcept OSError as e: print(e.errno, e.strerror)";
    attack(&jar(), code).printed("51 No space left on device\n");
}

/// Whatever the order of operations, no more than the quota is ever on the disk.
#[test]
fn accounting_confused_by_links_renames_and_truncation() {
    let code = "import os, random
random.seed(SEED)
names = [f'{d}{n}' for d in ('', 'd/', 'e/') for n in 'abcdefgh']
os.mkdir('d'); os.mkdir('e')
held = []
def step():
    a, b = random.choice(names), random.choice(names)
    match random.randrange(11):
        case 0 | 1: open(a, 'wb').write(bytes(random.randrange(200_000)))
        case 2: open(a, 'ab').write(bytes(random.randrange(100_000)))
        case 3: os.link(a, b)
        case 4: os.rename(a, b)
        case 5: os.remove(a)
        case 6: os.truncate(a, random.randrange(300_000))
        case 7: held.append(open(a, 'r+b')); held[:-20] = []
        case 8: f = random.choice(held); f.seek(random.randrange(400_000)); f.write(bytes(50_000)); f.flush()
        case 9: random.choice(held).truncate(random.randrange(100_000))
        case 10: os.symlink(os.path.basename(a), b)
for _ in range(3000):
    try: step()
    except (OSError, IndexError): pass
print('end')";
    for seed in 0..4 {
        let jar = jar();
        let result = attack(&jar, &code.replace("SEED", &seed.to_string()));
        assert_eq!(result.ended(Status::Ok, 0).stdout, "end\n");
        let (bytes, files) = unique_usage(jar.workspace());
        assert!(bytes <= BYTES && files <= FILES, "seed {seed}: {bytes} bytes, {files} files");
    }
}

/// Like `usage`, but a file with two names is counted once.
fn unique_usage(dir: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    fn walk(dir: &Path, seen: &mut std::collections::HashMap<u64, u64>) -> u64 {
        let mut entries = 0;
        for entry in fs::read_dir(dir).expect("a directory") {
            let entry = entry.expect("an entry");
            let metadata = entry.metadata().expect("metadata");
            entries += 1;
            if metadata.is_dir() {
                entries += walk(&entry.path(), seen);
            } else if metadata.is_file() {
                seen.insert(metadata.ino(), metadata.len());
            }
        }
        entries
    }
    let mut seen = std::collections::HashMap::new();
    let entries = walk(dir, &mut seen);
    (seen.values().sum(), entries)
}

#[test]
fn descriptors_exhausted() {
    let jar = Jar::new();
    let result = attack(&jar, "kept = []\nwhile True: kept.append(open('f', 'w'))");
    result.raised("OSError", "[Errno 33] No file descriptors available: 'f'");
    let code = "kept = [open('f', 'w') for _ in range(200)]\nprint(len(kept))";
    permitted(&jar, code).printed("200\n");
    let code = "for _ in range(5000): open('f', 'w').close()\nprint('fine')";
    permitted(&jar, code).printed("fine\n");
}

#[test]
fn deep_directories_moved() {
    let jar = Jar::new();
    // The host walks a moved directory; its own stack and descriptors must not depend on the depth.
    let code = "import os
os.mkdir('a'); os.chdir('a')
for _ in range(1800): os.mkdir('d'); os.chdir('d')
open('leaf', 'w').close()
os.chdir('/app')
os.rename('a', 'b')
print(os.listdir('/app'))";
    let result = attack(&jar, code);
    result.printed("['b']\n");
    assert_eq!(result.files_created.len(), 1);
    permitted(&jar, "import shutil, os; os.rename('b', 'c'); print(os.listdir('.'))")
        .printed("['c']\n");
}

#[test]
fn directories_nested_beyond_any_path() {
    let jar = Jar::new().timeout(Duration::from_secs(10));
    // Through descriptors no single path is long, but what the host notes about them would be.
    let code = "import os
fd, name, depth = os.open('.', os.O_RDONLY | os.O_DIRECTORY), 'n' * 250, 0
try:
    while True:
        os.mkdir(name, dir_fd=fd)
        fd, depth = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd), depth + 1
except OSError as error:
    print(error.strerror, depth)
os.rename('n' * 250, 'moved'); print(os.listdir('.'))";
    attack(&jar, code).printed("Filename too long 16\n['moved']\n");
    permitted(&jar, "import os; os.makedirs('a/b/c'); print(os.listdir('a/b'))").printed("['c']\n");
}

#[test]
fn listings_begun_and_never_finished() {
    let jar = Jar::new();
    let code = "import os
for i in range(4000): open(f'{i:0250}', 'w').close()
kept = []
try:
    for _ in range(200):
        kept.append(os.scandir('.')); next(kept[-1])
except OSError as error:
    print(error.strerror)";
    attack(&jar, code).printed("Out of memory\n");
    permitted(&jar, "import os; print([len(os.listdir('.')) for _ in range(3)])")
        .printed("[4000, 4000, 4000]\n");
}
