//! A model behind a command: the prompt on standard input, the answer on standard output.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use belljar_core::ToolFailure;

use super::{
    Cancelled, DEFAULT_TIMEOUT, LanguageModel, MAX_ANSWER_BYTES, Message, Role, cancelled_failure,
    checked, timeout_failure, too_long_failure,
};

/// How much of standard error is kept: enough for its last line.
const STDERR_TAIL_BYTES: usize = 16 * 1024;

/// The most of standard error's last line that the guest is told.
const MAX_COMPLAINT_BYTES: usize = 500;

/// How often the clock and the caller are looked at while the command is silent.
const TICK: Duration = Duration::from_millis(20);

/// How long what the command left behind may hold its output open once it has ended itself.
const LINGER: Duration = Duration::from_secs(1);

/// A shell command as a model.
///
/// It runs through `sh -c` with this process's environment and working directory, and nothing is
/// added to them. When it is no longer wanted, it and everything it started are killed.
#[derive(Debug, Clone)]
pub struct CommandLlm {
    command: String,
    timeout: Duration,
}

impl CommandLlm {
    /// A model that runs this command once for every prompt.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), timeout: DEFAULT_TIMEOUT }
    }

    /// The same with another time-out.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn run(&self, prompt: String, cancelled: Cancelled<'_>) -> Result<String, ToolFailure> {
        let mut running = Running::start(&self.command, prompt)
            .map_err(|error| ToolFailure::new(format!("the model cannot be started: {error}")))?;
        let output = running.collect(Instant::now() + self.timeout, cancelled);
        match output {
            Ok(output) => output.into_answer(),
            Err(Gave::Up) => Err(cancelled_failure()),
            Err(Gave::Time) => Err(timeout_failure(self.timeout)),
            Err(Gave::TooMuch) => Err(too_long_failure()),
            Err(Gave::Trouble(error)) => {
                Err(ToolFailure::new(format!("the model's command cannot be watched: {error}")))
            }
        }
    }
}

impl LanguageModel for CommandLlm {
    fn answer(
        &self,
        conversation: &[Message],
        cancelled: Cancelled<'_>,
    ) -> Result<String, ToolFailure> {
        self.run(as_text(conversation), cancelled)
    }
}

/// A single prompt as it is; a conversation with a heading for everyone who speaks.
fn as_text(conversation: &[Message]) -> String {
    if let [Message { role: Role::User, content }] = conversation {
        return content.clone();
    }
    let mut text = String::new();
    for Message { role, content } in conversation {
        text.push_str(&format!("### {role}\n{content}\n\n"));
    }
    text
}

/// Why there is no output.
enum Gave {
    Up,
    Time,
    TooMuch,
    Trouble(io::Error),
}

/// What a command wrote and how it ended.
struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    status: ExitStatus,
}

impl Output {
    fn into_answer(self) -> Result<String, ToolFailure> {
        let complaint = self.complaint();
        if !self.status.success() {
            return Err(ToolFailure::new(format!(
                "the model's command failed ({}){complaint}",
                self.status
            )));
        }
        let text = String::from_utf8(self.stdout)
            .map_err(|_| ToolFailure::new("the model's answer is not UTF-8 text"))?;
        checked(&text)
            .map_err(|failure| ToolFailure::new(format!("{}{complaint}", failure.message)))
    }

    /// The last line of standard error that says something.
    fn complaint(&self) -> String {
        let text = String::from_utf8_lossy(&self.stderr);
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.map_or_else(String::new, |line| {
            format!(": {}", &line[..line.floor_char_boundary(MAX_COMPLAINT_BYTES)])
        })
    }
}

/// A command that runs. Dropping it kills it and everything it started.
struct Running {
    child: Child,
    pieces: Receiver<Piece>,
    over: bool,
}

/// What the threads that read the command's output report. The end of a stream is the end of its
/// sender.
enum Piece {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

impl Running {
    fn start(command: &str, prompt: String) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: Ctrl-C is for us to pass on, and killing it reaches its children.
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let mut child = shell.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command need not read its input; then this thread ends with an error or with it.
            thread::spawn(move || stdin.write_all(prompt.as_bytes()));
        }
        let (sender, pieces) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            pass_on(stdout, sender.clone(), Piece::Out);
        }
        if let Some(stderr) = child.stderr.take() {
            pass_on(stderr, sender, Piece::Err);
        }
        Ok(Self { child, pieces, over: false })
    }

    /// Everything it writes until it has ended.
    fn collect(&mut self, deadline: Instant, cancelled: Cancelled<'_>) -> Result<Output, Gave> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut ended: Option<Instant> = None;
        let mut open = true;
        loop {
            if cancelled() {
                return Err(Gave::Up);
            }
            if Instant::now() >= deadline {
                return Err(Gave::Time);
            }
            if open {
                match self.pieces.recv_timeout(TICK) {
                    Ok(Piece::Out(bytes)) => stdout.extend_from_slice(&bytes),
                    Ok(Piece::Err(bytes)) => keep_tail(&mut stderr, &bytes),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => open = false,
                }
                if stdout.len() > MAX_ANSWER_BYTES {
                    return Err(Gave::TooMuch);
                }
            } else {
                thread::sleep(TICK.min(deadline.saturating_duration_since(Instant::now())));
            }
            if ended.is_none() && has_ended(&self.child).map_err(Gave::Trouble)? {
                ended = Some(Instant::now());
            }
            if ended.is_some_and(|since| !open || since.elapsed() > LINGER) {
                let status = self.end().map_err(Gave::Trouble)?;
                return Ok(Output { stdout, stderr, status });
            }
        }
    }

    /// Ends what is left of it. The group is killed before its leader is waited for: until then
    /// its number cannot belong to anybody else.
    fn end(&mut self) -> io::Result<ExitStatus> {
        self.over = true;
        kill_group(&self.child);
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.over {
            // Nobody is left to hear that it cannot be waited for.
            let _ = self.end();
        }
    }
}

/// Whether the command is over, without collecting it.
fn has_ended(child: &Child) -> io::Result<bool> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let Some(pid) = group_of(child) else { return Ok(false) };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

/// Kills the command and what it started; both may be gone already.
fn kill_group(child: &Child) {
    if let Some(group) = group_of(child) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

fn group_of(child: &Child) -> Option<rustix::process::Pid> {
    i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw)
}

fn pass_on(mut stream: impl Read + Send + 'static, to: Sender<Piece>, wrap: fn(Vec<u8>) -> Piece) {
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    if to.send(wrap(buffer[..count].to_vec())).is_err() {
                        return;
                    }
                }
            }
        }
    });
}

fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(bytes);
    let surplus = tail.len().saturating_sub(STDERR_TAIL_BYTES);
    tail.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(command: &str, prompt: &str) -> Result<String, String> {
        CommandLlm::new(command).ask(prompt, &|| false).map_err(|failure| failure.message)
    }

    #[test]
    fn the_prompt_goes_in_and_the_answer_comes_out() {
        assert_eq!(ask("tr a-z A-Z", "hello\nyou"), Ok("HELLO\nYOU".to_owned()));
    }

    #[test]
    fn a_command_need_not_read_its_input() {
        let long = "x".repeat(1 << 20);
        assert_eq!(ask("echo short", &long), Ok("short".to_owned()));
    }

    #[test]
    fn failures_say_the_last_line_of_standard_error() {
        insta::assert_snapshot!(
            ask("echo first >&2; echo no credit >&2; exit 3", "p").unwrap_err(),
            @"the model's command failed (exit status: 3): no credit"
        );
        insta::assert_snapshot!(
            ask("kill -9 $$", "p").unwrap_err(),
            @"the model's command failed (signal: 9 (SIGKILL))"
        );
        insta::assert_snapshot!(ask("true", "p").unwrap_err(), @"the model gave no answer");
        insta::assert_snapshot!(
            ask("echo '  '; echo why >&2", "p").unwrap_err(),
            @"the model gave no answer: why"
        );
        insta::assert_snapshot!(
            ask(r"printf '\377'", "p").unwrap_err(),
            @"the model's answer is not UTF-8 text"
        );
        insta::assert_snapshot!(
            ask("no-such-command-anywhere", "p").unwrap_err().split(':').next().unwrap(),
            @"the model's command failed (exit status"
        );
    }

    #[test]
    fn an_endless_answer_is_cut_off() {
        insta::assert_snapshot!(
            ask("yes", "p").unwrap_err(),
            @"the model's answer is longer than 4 MiB"
        );
    }

    #[test]
    fn a_slow_command_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let alive = dir.path().join("alive");
        let command = format!("(sleep 1; touch {}) & sleep 100", alive.display());
        let started = Instant::now();
        let failure = CommandLlm::new(command)
            .timeout(Duration::from_millis(100))
            .ask("p", &|| false)
            .unwrap_err();
        assert_eq!(failure.message, "the model gave no answer within 0.1 s");
        assert!(started.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(1300));
        assert!(!alive.exists(), "a child of the command lived on");
    }

    #[test]
    fn a_cancelled_question_ends_the_command() {
        let started = Instant::now();
        let cancelled = move || started.elapsed() > Duration::from_millis(50);
        let failure = CommandLlm::new("sleep 100").ask("p", &cancelled).unwrap_err();
        assert_eq!(failure.message, "the question was cancelled");
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn what_a_command_leaves_behind_does_not_hold_the_answer() {
        let started = Instant::now();
        assert_eq!(ask("sleep 100 & echo done", "p"), Ok("done".to_owned()));
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_conversation_has_headings() {
        let conversation =
            [Message::system("be brief"), Message::user("hi"), Message::assistant("yes?")];
        assert_eq!(
            as_text(&conversation),
            "### system\nbe brief\n\n### user\nhi\n\n### assistant\nyes?\n\n"
        );
    }
}
