//! Asking a program of this machine what it is. It may be anything, so it gets little time and is
//! believed little.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long a program may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// More than any has to say.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// Answers by program and question.
type Answers = BTreeMap<(PathBuf, Vec<String>), Vec<u8>>;

/// What it prints when it is asked. An answer is remembered: getting one takes as long as a start.
pub(crate) fn ask(program: &Path, args: &[&str]) -> Result<Vec<u8>, String> {
    static KNOWN: Mutex<Answers> = Mutex::new(BTreeMap::new());
    // Nothing panics while holding the lock; if it did, the map would still be whole.
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let question = (program.to_owned(), args.iter().map(|&text| text.to_owned()).collect());
    let there = program.is_relative() || program.exists();
    if let Some(answer) = known().get(&question).filter(|_| there) {
        return Ok(answer.clone());
    }
    let answer = ask_now(program, args)?;
    known().insert(question, answer.clone());
    Ok(answer)
}

/// What it prints, if it does so in time. Whatever it starts ends with it.
fn ask_now(program: &Path, args: &[&str]) -> Result<Vec<u8>, String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdout = child.stdout.take().ok_or("it has no output")?.take(MAX_ANSWER_BYTES);
    let (tell, told) = mpsc::channel();
    // Left to itself when something that has hidden elsewhere still holds the pipe.
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.read_to_end(&mut text).map(|_| text);
        let _ = tell.send(read);
    });
    let until = Instant::now() + PATIENCE;
    let ended = end_of(&mut child, until);
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // Fails when nobody is left.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    let _ = child.wait();
    let late = || format!("it does not answer within {PATIENCE:?}");
    match ended {
        Err(error) => return Err(error.to_string()),
        Ok(None) => return Err(late()),
        Ok(Some(ended)) if !ended.success() => return Err(format!("it fails: {ended}")),
        Ok(Some(_)) => {}
    }
    let read = told.recv_timeout(until.saturating_duration_since(Instant::now()));
    read.map_err(|_| late())?.map_err(|_| "its answer cannot be read".to_owned())
}

/// How it ended, if it did so in time.
fn end_of(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        match child.try_wait()? {
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            ended => return Ok(ended),
        }
    }
}
