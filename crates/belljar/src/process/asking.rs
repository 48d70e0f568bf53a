//! Asking a program of this machine what it is. It may be anything, so it gets little time and is
//! believed little.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// More than any has to say.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// What it prints when it is asked, if it does so in time.
pub(crate) fn ask(program: &Path, args: &[&str]) -> Result<Vec<u8>, String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdout = child.stdout.take().ok_or("it has no output")?.take(MAX_ANSWER_BYTES);
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        stdout.read_to_end(&mut text).map(|_| text)
    });
    let asked = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(None) if asked.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(2)),
            Ok(None) => {
                // What it has started may still hold the pipe; the reader is left to itself.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it does not answer within {PATIENCE:?}"));
            }
            Ok(Some(ended)) => break ended,
            Err(error) => return Err(error.to_string()),
        }
    };
    if !ended.success() {
        return Err(format!("it fails: {ended}"));
    }
    match reader.join() {
        Ok(Ok(text)) => Ok(text),
        _ => Err("its answer cannot be read".to_owned()),
    }
}
