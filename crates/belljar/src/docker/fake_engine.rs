//! An engine for unit tests, which says what it is told to say.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{self, Receiver};

use super::engine::Engine;
use super::plan::ContainerPlan;

/// What it says to one question: a status, and a body.
pub(super) type Answer = (&'static str, &'static str);

/// An engine that answers one question after another in these words, and what it was asked.
pub(super) fn answering(answers: &'static [Answer]) -> (Engine, Receiver<String>) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("docker.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let (tell, asked) = mpsc::channel();
    std::thread::spawn(move || {
        let _kept = dir;
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = vec![0; 64 * 1024];
            let length = stream.read(&mut request).unwrap();
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            tell.send(text.lines().next().unwrap_or_default().to_owned()).unwrap();
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
            let length = body.len();
            let answer = format!("{head}Content-Length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (Engine::unasked(socket), asked)
}

/// A container like any other.
pub(super) fn plan() -> ContainerPlan {
    ContainerPlan {
        image: "image".to_owned(),
        command: vec!["python3".to_owned()],
        user: Some("65534:65534".to_owned()),
        mounts: Vec::new(),
        env: BTreeMap::new(),
        network: false,
        cpus: 0.5,
        memory_bytes: 1 << 28,
        process_memory_bytes: Some(1 << 27),
        max_processes: 64,
        max_open_files: 256,
        max_file_bytes: u64::MAX,
        tmp_bytes: 1 << 26,
        read_only_root: true,
        capabilities: Vec::new(),
        new_privileges: false,
    }
}
