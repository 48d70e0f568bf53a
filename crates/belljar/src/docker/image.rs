//! Runner images: whether one will do, and making one.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

use belljar_core::{Backend, SandboxError};
use bollard::Docker;
use bollard::models::ErrorDetail;
use bollard::query_parameters::{BuildImageOptionsBuilder, CreateImageOptionsBuilder};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use super::container::no_image;
use super::engine::{Engine, PATIENCE, Refused};
use super::plan::NOBODY;
use crate::docker_settings::DockerSettings;

/// How long making an image may take: a base image may have to come from far away.
const MAKING: Duration = Duration::from_secs(30 * 60);

/// Sent at once of a root file system.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Tries, in a container without network, whether the base image has everything.
const CHECK: &str = "RUN command -v python3";

/// Gets Python by whatever the base image has for that.
const INSTALL: &str = "RUN command -v python3 || { command -v apt-get && apt-get update && \
     apt-get install -y --no-install-recommends python3 && rm -rf /var/lib/apt/lists/*; } || \
     { command -v apk && apk add --no-cache python3; } || \
     { command -v dnf && dnf install -y python3 && dnf clean all; }";

/// What a runner image is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource {
    /// Another image that has Python, or a package manager to get it with.
    Base(String),
    /// A root file system as a tar file, compressed or not.
    RootFs(PathBuf),
}

/// Makes the image that the settings name. `progress` is told what the engine says meanwhile.
///
/// # Errors
/// When there is no engine, or the image cannot be made.
pub fn make_image(
    settings: &DockerSettings,
    source: &ImageSource,
    progress: &mut dyn FnMut(&str),
) -> Result<(), SandboxError> {
    let engine = Engine::connect(settings)?;
    let name = &settings.image;
    let made = match source {
        ImageSource::Base(base) => build(&engine, name, base, progress),
        ImageSource::RootFs(tar) => import(&engine, name, tar, progress)?,
    };
    made.map_err(|refused| SandboxError::BackendUnavailable {
        backend: Backend::Docker,
        reason: format!("the image `{name}` cannot be made: {refused}"),
        hint: Some(
            "a base image with python3 needs no network, as in `--base python:3-slim`".to_owned(),
        ),
    })
}

/// Whether an image is there and can be held.
pub(super) fn check(engine: &Engine, image: &str) -> Result<(), SandboxError> {
    let wanted = image.to_owned();
    let found = engine.ask(PATIENCE, |docker| async move { docker.inspect_image(&wanted).await });
    let unusable = |reason: String| SandboxError::BackendUnavailable {
        backend: Backend::Docker,
        reason,
        hint: Some("`belljar docker image` makes an image that works".to_owned()),
    };
    let found = match found {
        Ok(found) => found,
        Err(Refused { status: Some(404), .. }) => return Err(no_image(image)),
        Err(refused) => return Err(unusable(format!("the image `{image}`: {refused}"))),
    };
    // Each would be a directory of the host's disk that nobody counts.
    let volumes = found.config.and_then(|config| config.volumes).unwrap_or_default();
    if !volumes.is_empty() {
        let places = volumes.join(", ");
        return Err(unusable(format!(
            "the image `{image}` has volumes ({places}), which code could fill without limit"
        )));
    }
    Ok(())
}

fn build(
    engine: &Engine,
    name: &str,
    base: &str,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Refused> {
    let user = format!("USER {NOBODY}:{NOBODY}");
    let mut attempt = |step: &str, network: &'static str| {
        let file = format!("FROM {base}\nUSER 0\n{step}\n{user}\n");
        let options = BuildImageOptionsBuilder::default()
            .t(name)
            .rm(true)
            .forcerm(true)
            .networkmode(network)
            .build();
        let tar = bollard::body_full(Bytes::from(tar_of("Dockerfile", file.as_bytes())));
        engine.follow(
            MAKING,
            |docker, said| async move {
                let told = docker
                    .build_image(options, None, Some(tar))
                    .map(|step| step.map(|step| (step.stream.or(step.status), step.error_detail)));
                relay(told, &said).await
            },
            progress,
        )
    };
    match attempt(CHECK, "none") {
        Err(refused) if refused.to_string().contains("returned a non-zero code") => {
            attempt(INSTALL, "default")
        }
        done => done,
    }
}

fn import(
    engine: &Engine,
    name: &str,
    tar: &PathBuf,
    progress: &mut dyn FnMut(&str),
) -> Result<Result<(), Refused>, SandboxError> {
    let unreadable = |problem: String| SandboxError::Input {
        what: "the root file system".to_owned(),
        path: tar.clone(),
        problem,
        hint: Some("give a tar file, as `debootstrap` and `docker export` make them".to_owned()),
    };
    let file = File::open(tar).map_err(|error| unreadable(error.to_string()))?;
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err(unreadable("it is no file".to_owned()));
    }
    let (repository, tag) = split_name(name);
    let options = CreateImageOptionsBuilder::default()
        .from_src("-")
        .repo(repository)
        .tag(tag)
        .changes(vec![format!("USER {NOBODY}:{NOBODY}")])
        .build();
    let body = bollard::body_try_stream(chunks(file));
    Ok(engine.follow(
        MAKING,
        |docker: Docker, said| async move {
            let told = docker
                .create_image(Some(options), Some(body), None)
                .map(|step| step.map(|step| (step.status, step.error_detail)));
            relay(told, &said).await
        },
        progress,
    ))
}

/// Passes on what an engine says until it says no more.
async fn relay(
    told: impl Stream<Item = Result<(Option<String>, Option<ErrorDetail>), bollard::errors::Error>>,
    said: &Sender<String>,
) -> Result<(), bollard::errors::Error> {
    let mut told = std::pin::pin!(told);
    while let Some(step) = told.next().await {
        let (text, failure) = step?;
        if let Some(failure) = failure {
            let error = failure.message.unwrap_or_else(|| "no reason was given".to_owned());
            return Err(bollard::errors::Error::DockerStreamError { error });
        }
        for line in text.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty())
        {
            // Nobody listens any more when it took too long.
            let _ = said.send(line.to_owned());
        }
    }
    Ok(())
}

fn chunks(file: File) -> impl Stream<Item = std::io::Result<Bytes>> {
    futures_util::stream::unfold(file, |mut file| async {
        let mut chunk = vec![0; CHUNK_BYTES];
        match file.read(&mut chunk) {
            Ok(0) => None,
            Ok(len) => {
                chunk.truncate(len);
                Some((Ok(Bytes::from(chunk)), file))
            }
            Err(error) => Some((Err(error), file)),
        }
    })
}

/// Repository and tag; a colon before a slash belongs to a port.
fn split_name(name: &str) -> (&str, &str) {
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (name, "latest"),
    }
}

/// A tar file with one small file in it, which is all that a build needs.
fn tar_of(name: &str, contents: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 512;
    let mut header = vec![0; BLOCK];
    let mut put = |at: usize, text: &[u8]| {
        for (place, byte) in header.iter_mut().skip(at).zip(text) {
            *place = *byte;
        }
    };
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(124, format!("{:011o}\0", contents.len()).as_bytes());
    put(136, b"00000000000\0");
    put(156, b"0");
    put(257, b"ustar\x0000");
    // The sum is taken with spaces in its own place.
    put(148, b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    let sum = format!("{sum:06o}\0 ");
    for (place, byte) in header.iter_mut().skip(148).zip(sum.bytes()) {
        *place = byte;
    }
    let mut tar = header;
    tar.extend_from_slice(contents);
    tar.resize(tar.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    tar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_repository_and_tag() {
        assert_eq!(split_name("runner"), ("runner", "latest"));
        assert_eq!(split_name("runner:2"), ("runner", "2"));
        assert_eq!(split_name("host:5000/runner"), ("host:5000/runner", "latest"));
        assert_eq!(split_name("host:5000/runner:2"), ("host:5000/runner", "2"));
    }

    #[test]
    fn a_tar_file_is_one_that_tar_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.tar");
        std::fs::write(&path, tar_of("Dockerfile", b"FROM x\n")).unwrap();
        let read = std::process::Command::new("tar").arg("-xOf").arg(&path).output().unwrap();
        assert_eq!(String::from_utf8(read.stdout).unwrap(), "FROM x\n");
    }
}
