//! Building the guests: what a shell recipe leaves becomes `guests/dist/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use belljar_wasm::{ABI_VERSION, Manifest, Part, bake};
use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;

use crate::{root, wasm};

/// Slow to make, fast to read; made rarely, read on every first start.
const COMPRESSION_LEVEL: i32 = 19;

#[derive(Subcommand)]
pub enum Chore {
    /// Run the recipe and bake its output into guests/dist.
    Build(Which),
    /// Bake what the recipe has left in guests/build/out into guests/dist.
    Bake(Which),
    /// Check that guests/dist was built from the recipe as it is now. Fast.
    Check(Which),
    /// Build again from nothing in a scratch folder and compare with guests/dist. Slow.
    Verify(Which),
}

#[derive(Args)]
pub struct Which {
    /// Only this one; both if none is named.
    guest: Option<Guest>,
}

impl Which {
    fn guests(&self) -> Vec<Guest> {
        self.guest.map_or_else(|| Guest::value_variants().to_vec(), |guest| vec![guest])
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Guest {
    Python,
    Javascript,
}

pub fn run(chore: &Chore) -> anyhow::Result<()> {
    let build = root().join("guests/build");
    match chore {
        Chore::Build(which) => each(which, |guest| {
            guest.run_recipe(&build)?;
            guest.write_dist(&guest.bake(&build)?)
        }),
        Chore::Bake(which) => each(which, |guest| guest.write_dist(&guest.bake(&build)?)),
        Chore::Check(which) => each(which, Guest::check),
        Chore::Verify(which) => each(which, |guest| guest.verify(&build.join("verify"))),
    }
}

fn each(which: &Which, chore: impl Fn(Guest) -> anyhow::Result<()>) -> anyhow::Result<()> {
    which.guests().into_iter().try_for_each(chore)
}

/// Fails when a recipe has changed since its guest was built.
pub fn check_all() -> anyhow::Result<()> {
    each(&Which { guest: None }, Guest::check)
}

/// The output of the shell recipe, next to the wasm.
#[derive(Deserialize)]
struct BuildInfo {
    #[serde(alias = "cpython")]
    version: String,
    toolchain: BTreeMap<String, String>,
    #[serde(default)]
    libraries: BTreeMap<String, String>,
    inputs: BTreeMap<String, String>,
}

struct Built {
    manifest: Manifest,
    module: Vec<u8>,
    image: Vec<u8>,
}

impl Guest {
    fn language(self) -> &'static str {
        match self {
            Guest::Python => "python",
            Guest::Javascript => "javascript",
        }
    }

    /// The interpreter, as a component.
    fn interpreter(self) -> &'static str {
        match self {
            Guest::Python => "cpython",
            Guest::Javascript => "quickjs-ng",
        }
    }

    fn folder(self) -> PathBuf {
        root().join("guests").join(self.language())
    }

    fn dist(self, extension: &str) -> PathBuf {
        root().join("guests/dist").join(format!("{}.{extension}", self.language()))
    }

    /// Where the recipe leaves what it made.
    fn out(self, build: &Path) -> PathBuf {
        match self {
            Guest::Python => build.join("out"),
            Guest::Javascript => build.join("out/javascript"),
        }
    }

    fn run_recipe(self, build: &Path) -> anyhow::Result<()> {
        let recipe = self.folder().join("build.sh");
        let status = Command::new(&recipe)
            .env("BUILD_DIR", build)
            .status()
            .context("cannot run the recipe")?;
        ensure!(status.success(), "{} failed", recipe.display());
        Ok(())
    }

    fn bake(self, build: &Path) -> anyhow::Result<Built> {
        let out = self.out(build);
        let read = |name: &str| {
            let path = out.join(name);
            let language = self.language();
            fs::read(&path).with_context(|| {
                format!("{}: run guests/{language}/build.sh first", path.display())
            })
        };
        let wasm = read(&format!("{}.wasm", self.language()))?;
        let info: BuildInfo = serde_json::from_slice(&read("build-info.json")?)?;
        let baked = bake::bake(&wasm, &self.boot_directory(build)?)?;
        let module = wasm::without_data(&wasm, baked.image.len())?;
        let manifest = Manifest {
            abi_version: ABI_VERSION,
            language: self.language().to_owned(),
            language_version: info.version.clone(),
            layout: baked.layout,
            module: Part::of(&module),
            image: Part::of(&baked.image),
            recipe_inputs: self.recipe_inputs()?,
            components: [(self.interpreter().to_owned(), info.version)]
                .into_iter()
                .chain(info.libraries)
                .chain(info.toolchain)
                .collect(),
            downloads: info.inputs,
        };
        Ok(Built { manifest, module, image: baked.image })
    }

    /// What the guest sees at `/boot`: its driver, and Python's library; no compiled leftovers.
    fn boot_directory(self, build: &Path) -> anyhow::Result<PathBuf> {
        let boot = build.join("boot").join(self.language());
        if boot.exists() {
            fs::remove_dir_all(&boot)?;
        }
        let driver = self.folder().join("driver");
        for file in files_below(&driver)? {
            let copy = boot.join("driver").join(file.strip_prefix(&driver)?);
            fs::create_dir_all(copy.parent().context("a file without a folder")?)?;
            fs::copy(&file, copy)?;
        }
        if self == Guest::Python {
            fs::copy(self.out(build).join("stdlib.zip"), boot.join("stdlib.zip"))?;
        }
        Ok(boot)
    }

    fn write_dist(self, built: &Built) -> anyhow::Result<()> {
        let compressed = |contents: &[u8]| zstd::encode_all(contents, COMPRESSION_LEVEL);
        fs::create_dir_all(root().join("guests/dist"))?;
        fs::write(self.dist("wasm.zst"), compressed(&built.module)?)?;
        fs::write(self.dist("img.zst"), compressed(&built.image)?)?;
        fs::write(self.dist("json"), serde_json::to_string_pretty(&built.manifest)? + "\n")?;
        let (module, image) = (built.module.len(), built.image.len());
        println!("{}: module {module} bytes, image {image} bytes", self.language());
        Ok(())
    }

    fn shipped_manifest(self) -> anyhow::Result<Manifest> {
        let path = self.dist("json");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(Manifest::parse(&text)?)
    }

    fn check(self) -> anyhow::Result<()> {
        let language = self.language();
        let (shipped, now) = (self.shipped_manifest()?.recipe_inputs, self.recipe_inputs()?);
        if shipped != now {
            bail!(
                "the {language} guest was built from another recipe (manifest {shipped}, recipe {now}).\n\
                 hint: run `cargo xtask guest build {language}` and commit guests/dist"
            );
        }
        println!("the {language} guest matches its recipe");
        Ok(())
    }

    fn verify(self, scratch: &Path) -> anyhow::Result<()> {
        if scratch.exists() {
            fs::remove_dir_all(scratch)?;
        }
        fs::create_dir_all(scratch)?;
        self.run_recipe(scratch)?;
        let (built, shipped) = (self.bake(scratch)?.manifest, self.shipped_manifest()?);
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
        println!("a build from nothing gives the same {} module and image", self.language());
        Ok(())
    }

    /// One hash over everything the guest is made from.
    fn recipe_inputs(self) -> anyhow::Result<String> {
        let guest = self.folder();
        let mut hasher = blake3::Hasher::new();
        let mut files = vec![guest.join("build.sh"), guest.join("../abi.h")];
        let folders: &[&str] = match self {
            Guest::Python => &["driver", "modules", "recipe", "shim"],
            Guest::Javascript => &["driver", "recipe", "shim"],
        };
        for folder in folders {
            files.extend(files_below(&guest.join(folder))?);
        }
        if self == Guest::Javascript {
            files.push(guest.join("../python/recipe/toolchain.sh"));
        }
        for file in files {
            let name = file.strip_prefix(&guest)?.to_string_lossy().into_owned();
            hash_file(&mut hasher, &name, &fs::read(&file)?);
        }
        if self == Guest::Javascript {
            hash_file(&mut hasher, "toolchain", locked_toolchain()?.as_bytes());
        }
        Ok(hasher.finalize().to_hex().to_string())
    }
}

fn hash_file(hasher: &mut blake3::Hasher, name: &str, contents: &[u8]) {
    hasher.update(name.as_bytes()).update(&[0]);
    hasher.update(&(contents.len() as u64).to_le_bytes()).update(contents);
}

/// The lines of CPython's lock file that pin the toolchain, which both guests are built with.
fn locked_toolchain() -> anyhow::Result<String> {
    let lock = fs::read_to_string(root().join("guests/python/recipe/inputs.lock"))?;
    Ok(lock.lines().filter(|line| line.ends_with(".deb")).collect::<Vec<_>>().join("\n"))
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
