//! `belljar doctor`: what works here, and why not.

use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use belljar::wasm::packages_in;
use belljar::{
    Backend, Defaults, DockerSettings, ExecutionPolicy, GuestImage, Home, ImageChoice, PolicyLayer,
    Preset, RuntimeType, SandboxConfig, SandboxError, create_sandbox,
};
use serde::Serialize;

use crate::args::{DoctorArgs, docker_settings};
use crate::{exit, render, settings};

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    works: bool,
    /// Without it, Belljar's default backend does not work.
    essential: bool,
    detail: String,
    hint: Option<String>,
}

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let findings = examine();
    if args.json {
        render::json(&findings)?;
    } else {
        print(&findings)?;
    }
    let healthy = findings.iter().all(|finding| finding.works || !finding.essential);
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::from(exit::NEGATIVE) })
}

fn examine() -> Vec<Finding> {
    let mut findings = vec![home()];
    let backends = Backend::ALL.into_iter().filter(|backend| *backend != Backend::Auto);
    findings.extend(backends.map(backend));
    findings.push(data_image());
    findings.push(jail());
    findings.push(pip());
    findings
}

fn home() -> Finding {
    let located = Home::locate();
    Finding {
        what: "directory".to_owned(),
        works: located.is_ok(),
        essential: true,
        detail: match &located {
            Ok(home) => home.root().display().to_string(),
            Err(error) => error.to_string(),
        },
        hint: located.err().and_then(|error| error.hint()),
    }
}

/// Tries a backend with a real, tiny program.
fn backend(backend: Backend) -> Finding {
    let started = Instant::now();
    let outcome = try_backend(backend, ImageChoice::Plain);
    let finding = |works: bool, detail: String, hint: Option<String>| Finding {
        what: format!("{backend} backend"),
        works,
        essential: backend == Backend::Wasm,
        detail,
        hint,
    };
    match outcome {
        Ok(isolation) => {
            let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
            let detail = format!("first answer in {milliseconds:.1} ms; isolation: {isolation}");
            finding(true, detail, None)
        }
        Err((reason, hint)) => finding(false, reason, hint),
    }
}

/// The image with numpy, pandas and matplotlib, and what else is in it. Trying it compiles it, the first time.
fn data_image() -> Finding {
    let started = Instant::now();
    let outcome = try_backend(Backend::Wasm, ImageChoice::Data);
    let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
    let packages = packages_in(RuntimeType::Python, GuestImage::Data).unwrap_or_default();
    let packages: Vec<String> =
        packages.iter().map(|package| format!("{} {}", package.name, package.version)).collect();
    let (works, detail, hint) = match outcome {
        Ok(_) => {
            let detail = format!("first answer in {milliseconds:.1} ms; {}", packages.join(", "));
            (true, detail, None)
        }
        Err((reason, hint)) => (false, reason, hint),
    };
    Finding { what: "data image".to_owned(), works, essential: false, detail, hint }
}

/// The layers of isolation that held, or why it does not work and what to do.
fn try_backend(backend: Backend, image: ImageChoice) -> Result<String, (String, Option<String>)> {
    let fail = |error: SandboxError| (error.to_string(), error.hint());
    let docker = match backend {
        Backend::Docker => docker_settings(None).map_err(fail)?,
        _ => DockerSettings::default(),
    };
    let workspace = settings::temporary_workspace(backend, &docker).map_err(fail)?;
    let defaults = Home::locate().and_then(|home| Defaults::read(&home)).map_err(fail)?;
    let layer = PolicyLayer::new().image(image);
    let policy =
        ExecutionPolicy::build(Preset::Agent, [layer]).map_err(|error| fail(error.into()))?;
    let config = SandboxConfig {
        backend,
        policy,
        workspace: Some(workspace.path().to_owned()),
        python: defaults.python,
        index_url: index_urls(defaults.index_url.into()),
        docker,
        ..SandboxConfig::default()
    };
    let result = create_sandbox(&config)
        .and_then(|mut sandbox| sandbox.execute("print('hello')"))
        .map_err(|error| match error {
            SandboxError::BackendUnavailable { reason, hint, .. } if backend != Backend::Wasm => {
                // To use wasm is no news in a list that has it.
                (reason, hint.filter(|hint| !hint.starts_with("use the wasm backend")))
            }
            other => fail(other),
        })?;
    if result.success() && result.stdout == "hello\n" {
        Ok(result.meta.isolation.join(", "))
    } else {
        Err((format!("a test program ended with status {}", result.status()), None))
    }
}

/// The variable wins, as it does for the other commands.
fn index_urls(configured: Vec<String>) -> Vec<String> {
    // One that is no text names nothing that could be loaded, and the finding will show it.
    match std::env::var_os("BELLJAR_PYODIDE") {
        Some(place) if !place.is_empty() => vec![place.to_string_lossy().into_owned()],
        Some(_) | None => configured,
    }
}

/// What confines a native process here, and what does not.
fn jail() -> Finding {
    let (works, detail, hint) = belljar::jail_report();
    Finding { what: "jail".to_owned(), works, essential: false, detail, hint }
}

fn pip() -> Finding {
    let works = Command::new("python3")
        .args(["-m", "pip", "--version"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    Finding {
        what: "pip".to_owned(),
        works,
        essential: false,
        detail: if works {
            "`belljar packages add` can fetch packages".to_owned()
        } else {
            "python3 with pip was not found".to_owned()
        },
        hint: (!works).then(|| "install Python 3 with pip to add packages".to_owned()),
    }
}

fn print(findings: &[Finding]) -> anyhow::Result<()> {
    use anstyle::{AnsiColor, Style};
    const GOOD: Style = AnsiColor::Green.on_default().bold();
    const BAD: Style = AnsiColor::Yellow.on_default().bold();
    let mut out = anstream::stdout().lock();
    for finding in findings {
        let (style, mark) = if finding.works { (GOOD, "yes") } else { (BAD, "no ") };
        writeln!(out, "{style}{mark}{style:#}  {:<16} {}", finding.what, finding.detail)?;
        if let Some(hint) = &finding.hint {
            writeln!(out, "{:22}hint: {hint}", "")?;
        }
    }
    Ok(())
}
