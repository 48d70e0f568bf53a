//! The guests: whether what is shipped fits its recipe, and building it again.
//!
//! Building needs the engine and a compressor. They are a feature of this crate, so that everything
//! else here is built at once and shares what it is built of with the tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;

use crate::root;

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
    /// Only this one; all if none is named.
    guest: Option<Guest>,
}

impl Which {
    fn guests(&self) -> Vec<Guest> {
        self.guest.map_or_else(|| Guest::value_variants().to_vec(), |guest| vec![guest])
    }
}

/// What is looked at in the manifest of a shipped guest.
#[derive(Deserialize)]
struct Shipped {
    recipe_inputs: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Guest {
    Python,
    /// CPython with numpy, pandas and matplotlib.
    PythonData,
    Javascript,
}

pub fn run(chore: &Chore) -> anyhow::Result<()> {
    match chore {
        Chore::Check(which) => each(which, Guest::check),
        Chore::Build(_) | Chore::Bake(_) | Chore::Verify(_) => build(chore),
    }
}

#[cfg(feature = "bake")]
use crate::bake::run as build;

/// The same once more, with all that it needs.
#[cfg(not(feature = "bake"))]
fn build(_chore: &Chore) -> anyhow::Result<()> {
    let chore: Vec<String> = std::env::args().skip(1).collect();
    let mut arguments = vec!["run", "--package", "xtask", "--features", "bake", "--"];
    arguments.extend(chore.iter().map(String::as_str));
    crate::test::cargo(&arguments)
}

pub fn each(which: &Which, chore: impl Fn(Guest) -> anyhow::Result<()>) -> anyhow::Result<()> {
    which.guests().into_iter().try_for_each(chore)
}

/// Fails when a recipe has changed since its guest was built.
pub fn check_all() -> anyhow::Result<()> {
    each(&Which { guest: None }, Guest::check)
}

impl Guest {
    /// What its folder and its files are called.
    pub fn name(self) -> &'static str {
        match self {
            Guest::Python => "python",
            Guest::PythonData => "python-data",
            Guest::Javascript => "javascript",
        }
    }

    pub fn folder(self) -> PathBuf {
        root().join("guests").join(self.name())
    }

    pub fn dist(self, extension: &str) -> PathBuf {
        root().join("guests/dist").join(format!("{}.{extension}", self.name()))
    }

    fn check(self) -> anyhow::Result<()> {
        let name = self.name();
        let path = self.dist("json");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let Shipped { recipe_inputs: shipped } = serde_json::from_str(&text)?;
        let now = self.recipe_inputs()?;
        if shipped != now {
            bail!(
                "the {name} guest was built from another recipe (manifest {shipped}, recipe {now}).\n\
                 hint: run `cargo xtask guest build {name}` and commit guests/dist"
            );
        }
        println!("the {name} guest matches its recipe");
        Ok(())
    }

    /// One hash over everything the guest is made from.
    pub fn recipe_inputs(self) -> anyhow::Result<String> {
        let guest = self.folder();
        let mut hasher = blake3::Hasher::new();
        let mut files = vec![guest.join("build.sh"), guest.join("../abi.h")];
        let folders: &[&str] = match self {
            Guest::Python => &["driver", "modules", "recipe", "shim"],
            Guest::PythonData => {
                &["blas", "include", "kernels", "packages", "patches", "recipe", "shim"]
            }
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
        match self {
            Guest::Python => {}
            // It is that guest, with more linked in.
            Guest::PythonData => {
                hash_file(&mut hasher, "python", Guest::Python.recipe_inputs()?.as_bytes());
            }
            Guest::Javascript => {
                hash_file(&mut hasher, "toolchain", locked_toolchain()?.as_bytes());
            }
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
pub fn files_below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
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
