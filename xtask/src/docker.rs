//! A Docker engine for the tests: a private one, with its own socket and data, and an image of this
//! system's own packages. An engine that runs here already is not spoken to, and its containers,
//! images and network stay as they are. Where there is none, its package is installed, and some
//! systems start at once what they install.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::root;

/// Where tests find the address of the engine.
pub const VARIABLE: &str = "BELLJAR_TEST_DOCKER";

/// What tests call the image.
const IMAGE: &str = "belljar-test:latest";

/// What it takes, as Debian's packages and the programs in them.
const PACKAGES: [(&str, &str); 3] =
    [("docker.io", "dockerd"), ("debootstrap", "debootstrap"), ("util-linux", "setpriv")];

/// How long an engine may take to start, and to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// Parts of a system that no test looks at.
const USELESS: [&str; 4] = ["var/cache/apt", "usr/share/doc", "usr/share/locale", "usr/share/man"];

/// Runs a command that finds the engine.
pub fn run_with(command: &[String]) -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let (program, arguments) = command.split_first().context("no command was given")?;
    let mut command = Command::new(program);
    command.args(arguments).env(VARIABLE, engine.address());
    crate::test::forget_this_package(&mut command);
    let status = command.status().with_context(|| format!("{program} cannot be started"))?;
    ensure!(status.success(), "{program} failed: {status}");
    Ok(())
}

/// A running engine. Dropping it stops it.
pub struct Engine {
    process: Child,
    /// Short: an address of a socket has 108 bytes.
    run: PathBuf,
}

impl Engine {
    /// Starts one with the image in it. Fetches what is missing; the second time nothing is.
    pub fn start() -> anyhow::Result<Self> {
        let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        ensure!(is_root, "only root can start an engine");
        install()?;
        let home = root().join("target/test-docker");
        fs::create_dir_all(&home)?;
        let (tar, is_new) = root_file_system(&home)?;
        let engine = Self::spawn(&home)?;
        engine.wait()?;
        if is_new || !engine.client(&["image", "inspect", IMAGE])? {
            println!("importing the image {IMAGE}");
            let tar = tar.to_string_lossy();
            ensure!(engine.client(&["import", &tar, IMAGE])?, "the image cannot be imported");
        }
        Ok(engine)
    }

    pub fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.run.join("docker.sock")
    }

    fn spawn(home: &Path) -> anyhow::Result<Self> {
        let run = std::env::temp_dir().join(format!("belljar-docker-{}", std::process::id()));
        fs::create_dir_all(&run)?;
        let log = File::create(home.join("dockerd.log"))?;
        // However this program ends, the engine ends with it, and its helpers with the engine.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "dockerd"])
            .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
            .args(["--storage-driver", "overlay2", "--host"])
            .arg(format!("unix://{}", run.join("docker.sock").display()))
            .arg("--data-root")
            .arg(home.join("data"))
            .arg("--exec-root")
            .arg(run.join("exec"))
            // Two engines must not share their data: the second finds the first one's number.
            .arg("--pidfile")
            .arg(home.join("dockerd.pid"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("dockerd cannot be started")?;
        Ok(Self { process, run })
    }

    fn wait(&self) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let there = self.socket().exists();
            if there && self.client(&["version"])? {
                return Ok(());
            }
            let gone = fs::read_to_string(format!("/proc/{}/stat", self.process.id()));
            ensure!(
                gone.is_ok_and(|stat| !stat.contains(") Z ")),
                "the engine has ended; target/test-docker/dockerd.log says why"
            );
            thread::sleep(Duration::from_millis(100));
        }
        bail!("the engine does not answer within {PATIENCE:?}")
    }

    fn client(&self, arguments: &[&str]) -> anyhow::Result<bool> {
        let status = Command::new("docker")
            .args(["--host", &self.address()])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("docker cannot be started")?;
        Ok(status.success())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Asked, so that it ends its own helpers; made to where it does not listen.
        let asked = Command::new("kill").arg(self.process.id().to_string()).status();
        let until = Instant::now() + PATIENCE;
        while asked.is_ok() && Instant::now() < until {
            if matches!(self.process.try_wait(), Ok(Some(_)) | Err(_)) {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.run);
    }
}

/// Installs what is missing.
fn install() -> anyhow::Result<()> {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|(_, program)| find(program).is_none())
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    ensure!(find("apt-get").is_some(), "{} missing, and there is no apt-get", missing.join(", "));
    println!("installing {}", missing.join(", "));
    // A new machine may not know yet what there is.
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    run(install.args(["install", "--yes", "--quiet"]).args(&missing))
}

/// A small system with Python as a tar file, and whether it was made just now.
fn root_file_system(home: &Path) -> anyhow::Result<(PathBuf, bool)> {
    let tar = home.join("rootfs.tar");
    if tar.is_file() {
        return Ok((tar, false));
    }
    let release = fs::read_to_string("/etc/os-release")?;
    let suite = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("this system's release has no name")?;
    println!("fetching a small {suite} for containers");
    let folder = home.join("rootfs");
    let _ = fs::remove_dir_all(&folder);
    run(Command::new("debootstrap")
        .args(["--variant=minbase", "--include=python3,libstdc++6", suite])
        .arg(&folder))?;
    for useless in USELESS {
        let _ = fs::remove_dir_all(folder.join(useless));
    }
    if let Some(node) = find("node") {
        add_node(&node, &folder)?;
    }
    let unfinished = home.join("rootfs.tar.part");
    run(Command::new("tar").arg("-C").arg(&folder).arg("-cf").arg(&unfinished).arg("."))?;
    fs::rename(&unfinished, &tar)?;
    fs::remove_dir_all(&folder)?;
    Ok((tar, true))
}

/// The release's own Node may be too old for the driver; this machine's is what tests run on, if it
/// runs in there: it may want libraries that only this machine has.
fn add_node(node: &Path, folder: &Path) -> anyhow::Result<()> {
    const PLACE: &str = "usr/local/bin/node";
    fs::copy(fs::canonicalize(node)?, folder.join(PLACE))?;
    let asked = run(Command::new("chroot").arg(folder).arg(format!("/{PLACE}")).arg("--version"));
    if let Err(why) = asked {
        println!("containers have no Node, since this machine's does not run there: {why}");
        fs::remove_file(folder.join(PLACE))?;
    }
    Ok(())
}

/// A program on the search path.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{name} cannot be started"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    ensure!(output.status.success(), "{name} failed: {last}");
    Ok(())
}
