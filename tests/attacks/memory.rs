//! Taking all memory.

use std::time::Duration;

use belljar::Status;
use support::{Expect, Jar, attack, permitted};

const LIMIT: u64 = 64_000_000;

fn jar() -> Jar {
    Jar::new().with(|layer| layer.memory_bytes(LIMIT))
}

#[track_caller]
fn runs_out_of_memory(code: &str) {
    let result = attack(&jar(), code);
    result.ended(Status::OutOfMemory, -1);
    let notice = "OutOfMemory: more than 64000000 bytes of memory were wanted; \
                  raise memory_bytes to allow more\n";
    assert!(result.stderr.ends_with(notice), "{}", result.stderr);
}

#[test]
fn one_big_allocation() {
    runs_out_of_memory("x = 'a' * 100_000_000");
    runs_out_of_memory("x = bytearray(10**9)");
    // More than a 32-bit machine can address never gets as far as the limit.
    attack(&jar(), "x = bytearray(2**31 - 1)").raised("MemoryError", "");
    permitted(&jar(), "print(len('a' * 10_000_000))").printed("10000000\n");
}

#[test]
fn many_small_allocations() {
    runs_out_of_memory("x = []\nwhile True: x.append(bytes(100))");
    permitted(&jar(), "x = [bytes(100) for _ in range(50_000)]\nprint(len(x))").printed("50000\n");
}

#[test]
fn growing_list_string_and_dict() {
    runs_out_of_memory("x = [0]\nwhile True: x += x");
    runs_out_of_memory("s = 'x'\nwhile True: s += s");
    runs_out_of_memory("d = {}\nwhile True: d[len(d)] = None");
    permitted(&jar(), "x = [0]\nfor _ in range(20): x += x\nprint(len(x))").printed("1048576\n");
}

#[test]
fn memory_error_swallowed_again_and_again() {
    let jar = jar().timeout(Duration::from_millis(500));
    let code = "x = []\nwhile True:\n  try: x.append(bytes(100))\n  except MemoryError: pass";
    attack(&jar, code).ended(Status::Timeout, -1);
    let code = "try: x = 'a' * 100_000_000\nexcept MemoryError: print('caught')";
    permitted(&jar, code).printed("caught\n");
}

#[test]
fn compressed_bomb() {
    // 300 MB in 300 kB.
    let code = "import zlib\nc = zlib.compressobj()\nchunk = bytes(10**6)\n\
                bomb = b''.join([c.compress(chunk) for _ in range(300)] + [c.flush()])\n\
                zlib.decompress(bomb)";
    runs_out_of_memory(code);
    let code = "import zlib\nprint(len(zlib.decompress(zlib.compress(bytes(10**6)))))";
    permitted(&jar(), code).printed("1000000\n");
}

#[test]
fn entity_bomb() {
    let code = "import xml.etree.ElementTree as E\n\
                names = 'abcdefghij'\n\
                dtd = '<!ENTITY a \"' + 'x' * 100 + '\">' + ''.join(f'<!ENTITY {n} \"{(\"&\" + p + \";\") * 10}\">' for p, n in zip(names, names[1:]))\n\
                E.fromstring(f'<!DOCTYPE r [{dtd}]><r>&j;</r>')";
    let result = attack(&jar(), code);
    result.ended(Status::Error, 1);
    let error = result.error.as_ref().expect("an error");
    assert!(error.message.contains("amplification"), "{error:?}");
    let code = "import xml.etree.ElementTree as E\n\
                print(E.fromstring('<!DOCTYPE r [<!ENTITY a \"x\">]><r>&a;</r>').text)";
    permitted(&jar(), code).printed("x\n");
}

#[test]
fn memory_held_while_the_next_sandbox_runs() {
    // A second sandbox of the same host is not short of what the first one took.
    runs_out_of_memory("x = []\nwhile True: x.append(bytearray(100_000))");
    permitted(&jar(), "x = bytearray(25_000_000)\nprint(len(x))").printed("25000000\n");
}
