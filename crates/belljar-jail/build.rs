//! Compiles the helper twice, as a program and as a library that Python can load. Both are embedded
//! in this crate, so that any program that uses it needs no file beside itself.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=helper");
    let (system, processor) =
        (variable("CARGO_CFG_TARGET_OS")?, variable("CARGO_CFG_TARGET_ARCH")?);
    if system != "linux" || !["x86_64", "aarch64"].contains(&&*processor) {
        // The crate is empty there.
        return Ok(());
    }
    let target = variable("TARGET")?;
    let linker = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace(['-', '.'], "_"));
    println!("cargo::rerun-if-env-changed={linker}");

    let out = variable("OUT_DIR")?;
    let out = Path::new(&out);
    let options = Options { target: &target, linker: env::var(&linker).ok() };
    compile("helper/main.rs", "bin", &out.join("helper"), &options)?;
    compile("helper/zygote.rs", "cdylib", &out.join("zygote.so"), &options)
}

struct Options<'a> {
    target: &'a str,
    linker: Option<String>,
}

fn compile(source: &str, kind: &str, output: &Path, options: &Options<'_>) -> Result<(), String> {
    let mut command = Command::new(variable("RUSTC")?);
    command
        .args(["--edition", "2024", "--crate-type", kind, "--target", options.target])
        .args(["-C", "opt-level=s", "-C", "panic=abort", "-C", "strip=symbols"])
        .args(["-C", "codegen-units=1", "--cap-lints", "allow"])
        .arg("-o")
        .arg(output)
        .arg(source);
    if let Some(linker) = &options.linker {
        command.arg("-C").arg(format!("linker={linker}"));
    }
    if kind == "cdylib" && options.target.contains("musl") {
        command.args(["-C", "target-feature=-crt-static"]);
    }
    let status = command.status().map_err(|e| format!("cannot run {command:?}: {e}"))?;
    if !status.success() {
        return Err(format!("compiling {source} failed: {command:?}"));
    }
    fs::metadata(output).map(drop).map_err(|e| format!("{}: {e}", output.display()))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|e| format!("{name}: {e}"))
}
