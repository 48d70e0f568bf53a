//! Something between a client and the daemon that notes each request, and may answer or break off in
//! the daemon's place.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What becomes of a request.
pub(crate) enum Fate {
    Passed,
    /// Answered with this status and nothing else.
    Answered(&'static str),
    /// The connection is closed before anything was passed on.
    Dropped,
    /// Passed on, and broken off after so many bytes of the answer.
    CutAfter(usize),
}

pub(crate) struct Proxy {
    address: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// `fate` is asked with the first line of each request, and how many of that line came before.
    pub(crate) fn new(
        daemon: &str,
        fate: impl Fn(&str, usize) -> Fate + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (daemon, noted, fate) = (daemon.to_owned(), Arc::clone(&seen), Arc::new(fate));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (daemon, noted, fate) = (daemon.clone(), Arc::clone(&noted), Arc::clone(&fate));
                std::thread::spawn(move || pass(client, &daemon, &noted, &*fate));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests had such a first line.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|it| it.contains(line)).count()
    }
}

/// One request; then the connection is closed, as the daemon was asked to say.
fn pass(
    client: TcpStream,
    daemon: &str,
    seen: &Mutex<Vec<String>>,
    fate: &(dyn Fn(&str, usize) -> Fate + Send + Sync),
) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let (mut head, mut length, mut line) = (String::new(), 0, String::new());
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if !lower.starts_with("connection:") {
            head.push_str(&line);
        }
        line.clear();
    }
    let Some(first) = head.lines().next().map(str::to_owned) else { return };
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let before = {
        let mut seen = seen.lock().unwrap();
        let before = seen.iter().filter(|it| **it == first).count();
        seen.push(first.clone());
        before
    };
    let mut client = client;
    let limit = match fate(&first, before) {
        Fate::Dropped => return,
        Fate::Answered(status) => {
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            client.write_all(answer.as_bytes()).unwrap();
            return;
        }
        Fate::Passed => u64::MAX,
        Fate::CutAfter(bytes) => bytes as u64,
    };
    let mut server = TcpStream::connect(daemon).unwrap();
    server.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
    server.write_all(&body).unwrap();
    // Whoever has gone is not told the rest.
    let mut bytes = server.take(limit);
    let mut part = [0; 4096];
    while let Ok(read @ 1..) = bytes.read(&mut part) {
        if client.write_all(&part[..read]).is_err() {
            return;
        }
    }
}
