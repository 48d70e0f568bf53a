//! No engine, a strange engine, no image, a strange image.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use belljar::{Backend, DockerSettings, SandboxConfig, SandboxError, create_sandbox};
use support::{Jar, engine, exclusive};

/// The error of a configuration, with its hint.
fn complaint(config: &SandboxConfig) -> String {
    let error = match create_sandbox(config).and_then(|mut sandbox| sandbox.execute("1")) {
        Ok(result) => panic!("it ran: {result:#?}"),
        Err(error) => error,
    };
    assert!(matches!(error, SandboxError::BackendUnavailable { backend: Backend::Docker, .. }));
    format!("{error}\nhint: {}", error.hint().unwrap_or_default())
}

fn complaint_about(jar: &Jar, socket: &Path) -> String {
    let docker = DockerSettings {
        socket: Some(format!("unix://{}", socket.display())),
        ..DockerSettings::default()
    };
    complaint(&SandboxConfig { backend: Backend::Docker, docker, ..jar.config() })
        .replace(&socket.display().to_string(), "SOCKET")
}

#[test]
fn a_socket_that_is_not_there_or_refuses() {
    let (jar, dir) = (Jar::new(), tempfile::tempdir().expect("a directory"));
    let socket = dir.path().join("docker.sock");
    insta::assert_snapshot!(complaint_about(&jar, &socket), @r"
    the docker backend cannot be used: Docker daemon not available: there is no socket at SOCKET; nothing was run
    hint: Set SANDBOX_TYPE=local or start Docker daemon
    ");
    drop(UnixListener::bind(&socket).expect("a socket"));
    insta::assert_snapshot!(complaint_about(&jar, &socket), @r"
    the docker backend cannot be used: Docker daemon not available: nobody listens at SOCKET; nothing was run
    hint: Set SANDBOX_TYPE=local or start Docker daemon
    ");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("a file");
    insta::assert_snapshot!(complaint_about(&jar, &file), @r"
    the docker backend cannot be used: Docker daemon not available: nobody listens at SOCKET; nothing was run
    hint: Set SANDBOX_TYPE=local or start Docker daemon
    ");
}

#[test]
fn a_socket_that_hangs() {
    let (jar, dir) = (Jar::new(), tempfile::tempdir().expect("a directory"));
    let socket = dir.path().join("docker.sock");
    let _listener = UnixListener::bind(&socket).expect("a socket");
    let started = Instant::now();
    insta::assert_snapshot!(complaint_about(&jar, &socket), @r"
    the docker backend cannot be used: Docker daemon not available: SOCKET: it does not answer within 5s; nothing was run
    hint: Set SANDBOX_TYPE=local or start Docker daemon
    ");
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// Whoever connects to a queue that is full waits.
#[test]
fn a_socket_that_takes_no_connections() {
    let (jar, dir) = (Jar::new(), tempfile::tempdir().expect("a directory"));
    let socket = dir.path().join("docker.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    // SAFETY: makes the queue of a socket that `listener` holds shorter.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let _in_the_queue = UnixStream::connect(&socket).expect("the only place");
    insta::assert_snapshot!(complaint_about(&jar, &socket), @r"
    the docker backend cannot be used: Docker daemon not available: whoever listens at SOCKET does not take connections; nothing was run
    hint: Set SANDBOX_TYPE=local or start Docker daemon
    ");
}

#[test]
fn a_socket_that_speaks_something_else() {
    let answers: [&[u8]; 5] = [
        b"220 mail.example.org ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
        b"",
    ];
    for answer in answers {
        let (jar, dir) = (Jar::new(), tempfile::tempdir().expect("a directory"));
        let socket = dir.path().join("docker.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut request = [0; 4096];
                let _ = std::io::Read::read(&mut stream, &mut request);
                let _ = stream.write_all(answer);
            }
        });
        let said = complaint_about(&jar, &socket);
        let shown = String::from_utf8_lossy(answer);
        assert!(said.contains("Docker daemon not available: SOCKET: "), "{shown}: {said}");
        assert!(said.ends_with("hint: Set SANDBOX_TYPE=local or start Docker daemon"), "{said}");
    }
}

#[test]
fn an_image_that_is_not_there() {
    let jar = Jar::new();
    let Some(mut config) = jar.docker("an_image_that_is_not_there") else { return };
    let _alone = exclusive();
    config.docker.image = "belljar-no-such-image:1".to_owned();
    insta::assert_snapshot!(complaint(&config), @r"
    the docker backend cannot be used: there is no image `belljar-no-such-image:1`; nothing was run
    hint: make it with `belljar docker image`, or name another one with DOCKER_IMAGE
    ");
    config.docker.image = "NOT an image name".to_owned();
    assert!(complaint(&config).contains("NOT an image name"), "{}", complaint(&config));
}

#[test]
fn an_image_without_python() {
    let jar = Jar::new();
    let Some(mut config) = jar.docker("an_image_without_python") else { return };
    let _alone = exclusive();
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("empty"), "").expect("a file");
    let tar = dir.path().join("image.tar");
    let made =
        Command::new("tar").arg("-C").arg(dir.path()).arg("-cf").arg(&tar).arg("empty").status();
    assert!(made.expect("tar").success());
    let name = "belljar-test-empty";
    let _ = engine(&["import", &tar.display().to_string(), name]);
    config.docker.image = name.to_owned();
    insta::assert_snapshot!(complaint(&config), @r"
    the docker backend cannot be used: the image `belljar-test-empty` has no python3, or no /bin/sh to start it with; nothing was run
    hint: `belljar docker image` makes an image that works
    ");
    let _ = engine(&["image", "rm", name]);
}

#[test]
fn a_workspace_of_roots() {
    let jar = Jar::new();
    let Some(config) = jar.docker("a_workspace_of_roots") else { return };
    let _alone = exclusive();
    let own = tempfile::tempdir().expect("a directory");
    let config = SandboxConfig { workspace: Some(own.path().to_owned()), ..config };
    let ran = create_sandbox(&config).and_then(|mut sandbox| sandbox.execute("open('f', 'w')"));
    let is_roots =
        std::os::unix::fs::MetadataExt::uid(&own.path().metadata().expect("a directory")) == 0;
    match ran {
        Err(SandboxError::Workspace { problem, .. }) => {
            assert!(is_roots && problem == "it belongs to root, and no container runs as root");
        }
        Ok(result) => assert!(!is_roots && result.success(), "{result:#?}"),
        Err(other) => panic!("{other}"),
    }
}
