//! The data image: numpy, pandas and matplotlib in a fresh sandbox, against the native wheels on one
//! thread.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use belljar::{
    ExecutionPolicy, ImageChoice, PolicyLayer, Preset, PythonSandbox, Sandbox, SandboxConfig,
};

use crate::compare::time_process;
use crate::timing::{Times, sample, succeed};
use crate::{BenchError, Report, Row, Settings};

/// Names a Python that has the native wheels, where `python3` has none.
const PYTHON: &str = "BELLJAR_BENCH_PYTHON";

/// What a fresh sandbox does, from its start to its end; and the package that the native one needs.
const FRESH: [(&str, &str, &str); 2] = [
    (
        "data: fresh, import numpy and pandas, sum",
        "import numpy as np, pandas as pd
print(pd.DataFrame({\"a\": np.arange(10)}).a.sum())",
        "pandas",
    ),
    (
        "data: fresh, import matplotlib, a figure as PNG",
        "import io, matplotlib
matplotlib.use('agg')
import matplotlib.pyplot as plt
plt.plot([1, 4, 9], label='squares')
plt.title('Squares')
plt.legend()
plt.savefig(io.BytesIO(), format='png')
plt.close()",
        "matplotlib",
    ),
];
const OPERATIONS: &str = include_str!("data.py");

/// Room for the arrays and their copies.
const MEMORY_BYTES: u64 = 1_000_000_000;

/// Adds its rows; says so where there is nothing to compare with.
pub fn measure(settings: &Settings, report: &mut Report) -> Result<(), BenchError> {
    let wheels = Wheels::find();
    if let Err(why) = &wheels {
        report.skip("data: against the native wheels", why);
    }
    let wheels = wheels.ok();
    let workspace = tempfile::tempdir()?;
    let mut sandbox = sandbox(settings, workspace.path().to_owned())?;
    let rounds = if settings.quick { 30 } else { 500 };
    for (what, code, package) in FRESH {
        let times = sample(rounds, || succeed(sandbox.execute(code)?))?;
        let row = Row::new(what, times.p50(), "ms").p99(times.p99());
        report.push(match &wheels {
            Some(wheels) if wheels.have(package) => {
                row.against("python3 -c", wheels.start(code, rounds / 30 + 3)?)
            }
            Some(_) | None => row,
        });
    }
    let result = sandbox.execute(OPERATIONS)?;
    let ours = parse(&result.stdout, &result.stderr)?;
    let theirs = wheels.map(|wheels| wheels.operations()).transpose()?.unwrap_or_default();
    report.extend(compared(&ours, &theirs));
    Ok(())
}

fn sandbox(settings: &Settings, workspace: PathBuf) -> Result<PythonSandbox, BenchError> {
    let layer = PolicyLayer::new()
        .image(ImageChoice::Auto)
        .memory_bytes(MEMORY_BYTES)
        .fuel_budget(1 << 50)
        .timeout_seconds(600.0);
    let policy =
        ExecutionPolicy::build(Preset::Agent, [layer]).map_err(belljar::SandboxError::from)?;
    Ok(PythonSandbox::from_config(&SandboxConfig {
        policy,
        workspace: Some(workspace),
        home: Some(settings.home.clone()),
        ..SandboxConfig::default()
    })?)
}

/// A row for each operation; the last one is the geometric mean.
fn compared(ours: &BTreeMap<String, f64>, theirs: &BTreeMap<String, f64>) -> Vec<Row> {
    let mut rows = Vec::new();
    let (mut logarithms, mut count) = (0.0, 0.0);
    for (name, seconds) in ours {
        let mut row = Row::new(format!("data: {name}"), seconds * 1000.0, "ms");
        if let Some(native) = theirs.get(name) {
            row = row.against("native wheels", native * 1000.0);
            logarithms += (seconds / native).ln();
            count += 1.0;
        }
        rows.push(row);
    }
    if count > 0.0 {
        let mean = f64::exp(logarithms / count);
        rows.push(Row::new("data, geometric mean", mean, "x").against("native wheels", 1.0));
    }
    rows
}

fn parse(stdout: &str, stderr: &str) -> Result<BTreeMap<String, f64>, BenchError> {
    serde_json::from_str(stdout.trim())
        .map_err(|error| BenchError::Program(format!("{error}: {stderr}")))
}

/// A Python of this machine with numpy and pandas.
struct Wheels {
    python: PathBuf,
}

impl Wheels {
    fn find() -> Result<Self, String> {
        let python = std::env::var_os(PYTHON).map_or_else(|| "python3".into(), PathBuf::from);
        let wheels = Self { python };
        if wheels.have("numpy, pandas") {
            return Ok(wheels);
        }
        let name = wheels.python.display();
        Err(format!("{name} has no numpy and pandas; name one that has with {PYTHON}"))
    }

    fn have(&self, packages: &str) -> bool {
        let tried = self.command(&format!("import {packages}")).output();
        tried.is_ok_and(|output| output.status.success())
    }

    /// On one thread, as a sandbox is.
    fn command(&self, code: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.args(["-c", code]);
        for library in ["OMP", "OPENBLAS", "MKL"] {
            command.env(format!("{library}_NUM_THREADS"), "1");
        }
        command
    }

    fn start(&self, code: &str, rounds: usize) -> Result<f64, BenchError> {
        let mut times = Times::default();
        for _ in 0..rounds {
            times.push(time_process(&mut self.command(code))?);
        }
        Ok(times.p50())
    }

    fn operations(&self) -> Result<BTreeMap<String, f64>, BenchError> {
        let output = self.command(OPERATIONS).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        parse(&text(&output.stdout), &text(&output.stderr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_compared_by_name_and_averaged() {
        let of = |pairs: &[(&str, f64)]| {
            pairs.iter().map(|(name, seconds)| ((*name).to_owned(), *seconds)).collect()
        };
        let rows = compared(
            &of(&[("add", 0.004), ("new", 1.0), ("sum", 0.001)]),
            &of(&[("add", 0.001), ("sum", 0.001)]),
        );
        let ratios: Vec<Option<f64>> = rows.iter().map(|row| row.ratio).collect();
        assert_eq!(ratios[..3], [Some(4.0), None, Some(1.0)]);
        assert!((ratios[3].unwrap_or_default() - 2.0).abs() < 1e-9);
        assert!(compared(&of(&[("add", 1.0)]), &BTreeMap::new()).len() == 1);
    }

    #[test]
    fn there_are_twenty_operations() {
        assert_eq!(OPERATIONS.matches("\": lambda: ").count(), 20);
    }
}
