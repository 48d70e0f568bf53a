//! `belljar repl` on a terminal: what a person types and sees.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops where it fails")]

mod support;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// How long an answer may take; the first one waits for the interpreter to be compiled.
const PATIENCE: Duration = Duration::from_secs(120);

/// A shell on a terminal of its own.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    /// Everything that was shown.
    all: String,
}

impl Terminal {
    fn open(args: &[&str], variables: &[(&str, &str)]) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let path = std::ffi::OsStr::from_bytes(name.as_bytes());
        let side = || OpenOptions::new().read(true).write(true).open(path).unwrap();
        let belljar = support::command(args);
        // Makes the terminal the one that Ctrl-C is pressed on.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(belljar.get_program()).args(belljar.get_args());
        for (name, value) in belljar.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let keyboard = File::from(controller);
        let mut output = keyboard.try_clone().unwrap();
        let (sender, screen) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, screen, seen: String::new(), all: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this is shown, after everything that was waited for before.
    fn wait_for(&mut self, text: &str) {
        let started = Instant::now();
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            match self.screen.recv_timeout(PATIENCE.saturating_sub(started.elapsed())) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes);
                    self.seen.push_str(&text);
                    self.all.push_str(&text);
                }
                Err(_) => panic!("{text:?} was never shown, but {:?}", self.seen),
            }
        }
    }

    /// Presses Ctrl-D at the prompt. Earlier it would be lost with the line that was being read.
    fn leave(&mut self) {
        self.wait_for("> ");
        self.wait_for("\x1b[?2026l");
        self.press("\x04");
        let started = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return assert!(status.success(), "{status}"),
                None if started.elapsed() > PATIENCE => panic!("the shell does not end"),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Types a cell at the prompt.
    fn enter(&mut self, cell: &str) {
        self.press(&format!("{cell}\r"));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_person_works_in_the_shell() {
    let mut terminal = Terminal::open(&["repl"], &[]);
    terminal.wait_for("Python in a sandbox");
    terminal.wait_for(">>> ");
    terminal.enter("value = 41");
    terminal.wait_for("\x1b[36m41\x1b[0m");
    terminal.wait_for("\x1b[?2004h");
    // Names of the live session are completed.
    terminal.press("val\t + 1\r");
    terminal.wait_for("\r\n42\r\n");
    // A block ends with an empty line.
    terminal.enter("def double(x):");
    terminal.enter("    return 2 * x");
    terminal.enter("");
    terminal.enter("double(value)");
    terminal.wait_for("\r\n82\r\n");
    // Output without an end of line is not overwritten.
    terminal.enter("print('no end', end='')");
    terminal.wait_for("\r\nno end\r\n");
    // Ctrl-C ends the cell, not the shell.
    terminal.enter("while True: pass");
    terminal.wait_for("\x1b[?2004l");
    std::thread::sleep(Duration::from_millis(300));
    terminal.press("\x03");
    terminal.wait_for("KeyboardInterrupt");
    // input() asks.
    terminal.enter("name = input('who? ')");
    terminal.wait_for("\r\nwho? ");
    terminal.enter("Ann");
    terminal.enter("name * 2");
    terminal.wait_for("\r\n'AnnAnn'\r\n");
    // An interrupted input() takes nothing of what is typed next.
    terminal.enter("input('again? ')");
    terminal.wait_for("\r\nagain? ");
    terminal.press("\x03");
    terminal.wait_for("KeyboardInterrupt");
    terminal.wait_for(">>> ");
    std::thread::sleep(Duration::from_millis(200));
    terminal.enter("'still ' + 'here'");
    terminal.wait_for("\r\n'still here'\r\n");
    terminal.wait_for(">>> ");
    // A line that was begun is dropped by Ctrl-C, a command completed by Tab.
    terminal.press("garbage(\x03");
    terminal.wait_for("\x1b[?2004h");
    terminal.wait_for(">>> ");
    terminal.press("%sess\t\r");
    terminal.wait_for("* \x1b[1mmain\x1b[0m");
    // What a guest prints cannot play with the terminal.
    terminal.enter(r"print('\x1b[2J')");
    terminal.wait_for("\r\n␛[2J\r\n");
    terminal.leave();
    let history = std::fs::read_to_string(support::home().join("history-python")).unwrap();
    assert!(history.contains("double(value)"), "{history}");
}

#[test]
fn no_color_means_no_colour() {
    let mut terminal = Terminal::open(&["repl", "--lang", "js"], &[("NO_COLOR", "1")]);
    terminal.wait_for("JavaScript in a sandbox");
    terminal.wait_for("> ");
    terminal.enter("let n = 1; n + 1");
    terminal.wait_for("\r\n2\r\n");
    assert!(
        !terminal.all.contains("\x1b[3") && !terminal.all.contains("\x1b[2m"),
        "{:?}",
        terminal.all
    );
    terminal.leave();
}
