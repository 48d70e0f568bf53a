//! Building the guests: what the shell recipe leaves becomes `guests/dist/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use belljar_wasm::{ABI_VERSION, Manifest, Part, bake};
use clap::Subcommand;
use serde::Deserialize;

use crate::{root, wasm};

/// Slow to make, fast to read; made rarely, read on every first start.
const COMPRESSION_LEVEL: i32 = 19;

#[derive(Subcommand)]
pub enum Chore {
    /// Run the recipe and bake its output into guests/dist.
    Build,
    /// Bake what the recipe has left in guests/build/out into guests/dist.
    Bake,
    /// Check that guests/dist was built from the recipe as it is now. Fast.
    Check,
    /// Build again from nothing in a scratch folder and compare with guests/dist. Slow.
    Verify,
}

pub fn run(chore: &Chore) -> anyhow::Result<()> {
    let build = root().join("guests/build");
    match chore {
        Chore::Build => {
            run_recipe(&build)?;
            write_dist(&bake_guest(&build)?)
        }
        Chore::Bake => write_dist(&bake_guest(&build)?),
        Chore::Check => check(),
        Chore::Verify => verify(&build.join("verify")),
    }
}

/// The output of the shell recipe, next to the wasm and the library.
#[derive(Deserialize)]
struct BuildInfo {
    cpython: String,
    toolchain: BTreeMap<String, String>,
    libraries: BTreeMap<String, String>,
    inputs: BTreeMap<String, String>,
}

struct Built {
    manifest: Manifest,
    module: Vec<u8>,
    image: Vec<u8>,
}

fn run_recipe(build: &Path) -> anyhow::Result<()> {
    let recipe = root().join("guests/python/build.sh");
    let status =
        Command::new(&recipe).env("BUILD_DIR", build).status().context("cannot run the recipe")?;
    ensure!(status.success(), "{} failed", recipe.display());
    Ok(())
}

fn bake_guest(build: &Path) -> anyhow::Result<Built> {
    let out = build.join("out");
    let read = |name: &str| {
        let path = out.join(name);
        fs::read(&path)
            .with_context(|| format!("{}: run guests/python/build.sh first", path.display()))
    };
    let wasm = read("python.wasm")?;
    let info: BuildInfo = serde_json::from_slice(&read("build-info.json")?)?;
    let boot = boot_directory(build, &out.join("stdlib.zip"))?;
    let baked = bake::bake(&wasm, &boot)?;
    let module = wasm::without_data(&wasm, baked.image.len())?;
    let manifest = Manifest {
        abi_version: ABI_VERSION,
        language: "python".to_owned(),
        language_version: info.cpython.clone(),
        layout: baked.layout,
        module: Part::of(&module),
        image: Part::of(&baked.image),
        recipe_inputs: recipe_inputs()?,
        components: [("cpython".to_owned(), info.cpython)]
            .into_iter()
            .chain(info.libraries)
            .chain(info.toolchain)
            .collect(),
        downloads: info.inputs,
    };
    Ok(Built { manifest, module, image: baked.image })
}

/// What the guest sees at `/boot`: the library and the driver, no compiled leftovers.
fn boot_directory(build: &Path, library: &Path) -> anyhow::Result<PathBuf> {
    let boot = build.join("boot");
    if boot.exists() {
        fs::remove_dir_all(&boot)?;
    }
    let package = boot.join("driver/belljar_guest");
    fs::create_dir_all(&package)?;
    fs::copy(library, boot.join("stdlib.zip"))?;
    for file in files_below(&root().join("guests/python/driver/belljar_guest"))? {
        fs::copy(&file, package.join(file.file_name().context("a file without a name")?))?;
    }
    Ok(boot)
}

fn write_dist(built: &Built) -> anyhow::Result<()> {
    let dist = root().join("guests/dist");
    fs::create_dir_all(&dist)?;
    fs::write(
        dist.join("python.wasm.zst"),
        zstd::encode_all(&built.module[..], COMPRESSION_LEVEL)?,
    )?;
    fs::write(dist.join("python.img.zst"), zstd::encode_all(&built.image[..], COMPRESSION_LEVEL)?)?;
    fs::write(dist.join("python.json"), serde_json::to_string_pretty(&built.manifest)? + "\n")?;
    println!("guests/dist: module {} bytes, image {} bytes", built.module.len(), built.image.len());
    Ok(())
}

fn shipped_manifest() -> anyhow::Result<Manifest> {
    let path = root().join("guests/dist/python.json");
    Ok(Manifest::parse(&fs::read_to_string(&path).with_context(|| path.display().to_string())?)?)
}

/// Fails when the recipe has changed since the guest was built.
pub fn check() -> anyhow::Result<()> {
    let (shipped, now) = (shipped_manifest()?.recipe_inputs, recipe_inputs()?);
    if shipped != now {
        bail!(
            "guests/dist was built from another recipe (manifest {shipped}, recipe {now}).\n\
             hint: run `cargo xtask guest build` and commit guests/dist"
        );
    }
    println!("guests/dist matches its recipe");
    Ok(())
}

fn verify(scratch: &Path) -> anyhow::Result<()> {
    if scratch.exists() {
        fs::remove_dir_all(scratch)?;
    }
    fs::create_dir_all(scratch)?;
    run_recipe(scratch)?;
    let (built, shipped) = (bake_guest(scratch)?.manifest, shipped_manifest()?);
    ensure!(
        built.module == shipped.module,
        "the module differs: {:?} {:?}",
        built.module,
        shipped.module
    );
    ensure!(
        built.image == shipped.image,
        "the image differs: {:?} {:?}",
        built.image,
        shipped.image
    );
    println!("a build from nothing gives the same module and image");
    Ok(())
}

/// One hash over everything the guest is made from.
fn recipe_inputs() -> anyhow::Result<String> {
    let guests = root().join("guests/python");
    let mut hasher = blake3::Hasher::new();
    let mut files = vec![guests.join("build.sh"), guests.join("../abi.h")];
    for folder in ["driver", "modules", "recipe", "shim"] {
        files.extend(files_below(&guests.join(folder))?);
    }
    for file in files {
        let name = file.strip_prefix(&guests)?.to_string_lossy().into_owned();
        let contents = fs::read(&file)?;
        hasher.update(name.as_bytes()).update(&[0]);
        hasher.update(&(contents.len() as u64).to_le_bytes()).update(&contents);
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// Every file below a folder, sorted, without what interpreters leave behind.
fn files_below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("__pycache__") {
            files.extend(files_below(&path)?);
        } else if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
