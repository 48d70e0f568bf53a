//! Readers of what strangers send, fed with a corpus and what becomes of it when bytes are changed.
//!
//! A short run is part of every test run; `BELLJAR_FUZZ_SECONDS=300` makes it long. What once broke
//! a reader is kept in the corpus.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops where it fails"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use belljar_core::limits::MAX_ERROR_MESSAGE_BYTES;
use belljar_core::protocol::{self, Message, methods};
use belljar_core::{Abilities, Backend, ExecutionPolicy, PolicyLayer, Preset, resolve};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// How long each reader is tried unless somebody wants more.
const SECONDS: u64 = 2;

/// Cases between two looks at the clock.
const CASES: u32 = 512;

/// Bytes a mutation likes to put in.
const TOKENS: [&[u8]; 20] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b",",
    b":",
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\n",
    b"=",
    b"\"\"\"",
    b"[[",
    b"\0",
];

#[derive(Debug, Clone)]
enum Mutation {
    Flip { at: prop::sample::Index, bit: u8 },
    Insert { at: prop::sample::Index, token: prop::sample::Index },
    Remove { at: prop::sample::Index, bytes: usize },
    Repeat { at: prop::sample::Index, bytes: usize, times: usize },
    Splice { at: prop::sample::Index, other: prop::sample::Index },
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), 0..8u8).prop_map(|(at, bit)| Mutation::Flip { at, bit }),
        (at(), at()).prop_map(|(at, token)| Mutation::Insert { at, token }),
        (at(), 1..16usize).prop_map(|(at, bytes)| Mutation::Remove { at, bytes }),
        (at(), 1..8usize, 2..64usize).prop_map(|(at, bytes, times)| Mutation::Repeat {
            at,
            bytes,
            times
        }),
        (at(), at()).prop_map(|(at, other)| Mutation::Splice { at, other }),
    ]
}

impl Mutation {
    fn apply(&self, text: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let place = |at: &prop::sample::Index, text: &[u8]| at.index(text.len() + 1);
        match self {
            Self::Flip { at, bit } => {
                let at = place(at, text);
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            Self::Insert { at, token } => {
                let at = place(at, text);
                text.splice(at..at, token.get(&TOKENS).iter().copied());
            }
            Self::Remove { at, bytes } => {
                let at = place(at, text);
                text.drain(at..text.len().min(at + bytes));
            }
            Self::Repeat { at, bytes, times } => {
                let at = place(at, text);
                let part = text[at..text.len().min(at + bytes)].repeat(*times);
                text.splice(at..at, part);
            }
            Self::Splice { at, other } => {
                let at = place(at, text);
                let other = other.get(corpus);
                text.truncate(at);
                text.extend_from_slice(&other[other.len().min(at)..]);
            }
        }
    }
}

/// Everything in a folder of the corpus, in order of the names.
fn corpus(of: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(of);
    let entries = std::fs::read_dir(&folder).expect("the corpus is there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() > 5, "a corpus of {} files", paths.len());
    paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

/// Tries a reader with the corpus itself and then, until the time is over, with changed pieces.
fn fuzz(of: &str, reader: fn(&[u8]) -> Result<(), TestCaseError>) {
    let corpus = corpus(of);
    for text in &corpus {
        reader(text).expect("the corpus as it is");
    }
    let seconds = std::env::var("BELLJAR_FUZZ_SECONDS").ok();
    let seconds = seconds.map_or(SECONDS, |text| text.parse().expect("a number of seconds"));
    let until = Instant::now() + Duration::from_secs(seconds);
    let cases = (any::<prop::sample::Index>(), prop::collection::vec(mutation(), 1..8));
    let mut tried = 0u64;
    while Instant::now() < until {
        let mut runner = TestRunner::new(Config {
            cases: CASES,
            failure_persistence: None,
            ..Config::default()
        });
        let outcome = runner.run(&cases, |(seed, mutations)| {
            let mut text = seed.get(&corpus).clone();
            mutations.iter().for_each(|mutation| mutation.apply(&mut text, &corpus));
            reader(&text)
                .map_err(|error| TestCaseError::fail(format!("{error}: {}", text.escape_ascii())))
        });
        if let Err(error) = outcome {
            panic!("{error}");
        }
        tried += u64::from(CASES);
    }
    println!("{tried} variants of {} texts", corpus.len());
}

fn params<T: serde::de::DeserializeOwned>(text: &str) {
    drop(serde_json::from_str::<T>(text));
}

#[test]
fn lines_of_the_protocol() {
    fuzz("protocol", |line| {
        let message = match Message::parse(line) {
            Ok(message) => message,
            Err(error) => {
                prop_assert!(error.message.len() <= MAX_ERROR_MESSAGE_BYTES, "{error}");
                return Ok(());
            }
        };
        let again = match &message {
            Message::Request { id, method, params: text } => {
                params::<methods::CreateParams>(text.get());
                params::<methods::CodeParams>(text.get());
                params::<methods::ResumeParams>(text.get());
                params::<methods::FileWriteParams>(text.get());
                params::<methods::SnapshotWriteParams>(text.get());
                params::<methods::ToolParams>(text.get());
                protocol::request(id, method, text)
            }
            Message::Notification { method, params: text } => {
                params::<methods::Line>(text.get());
                params::<methods::DropParams>(text.get());
                protocol::notification(method, text)
            }
            Message::Response { id, outcome } => protocol::response(id, outcome.as_ref()),
            Message::Complaint(error) => protocol::complaint(error),
        };
        // Whatever is understood can be passed on, and means the same there.
        let again = again.expect("what was JSON is JSON");
        let read = Message::parse(again.trim_ascii_end());
        prop_assert_eq!(format!("{read:?}"), format!("{:?}", Ok::<_, ()>(message)));
        Ok(())
    });
}

#[test]
fn policies() {
    fuzz("policy", |text| {
        let text = String::from_utf8_lossy(text);
        let built = PolicyLayer::from_toml(&text, "policy.toml")
            .and_then(|layer| ExecutionPolicy::build(Preset::Strict, [layer]));
        match built {
            Ok(policy) => {
                for backend in Backend::ALL {
                    let abilities = backend.abilities().unwrap_or(Abilities::all());
                    drop(resolve(&policy, backend, abilities));
                }
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        Ok(())
    });
}
