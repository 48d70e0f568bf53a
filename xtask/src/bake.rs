//! Building the guests: what a shell recipe leaves becomes `guests/dist/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use belljar_wasm::{ABI_VERSION, Manifest, Package, Part, bake};
use serde::Deserialize;

use crate::guest::{Chore, Guest, each, files_below};
use crate::{root, wasm};

/// Slow to make, fast to read; made rarely, read on every first start.
const COMPRESSION_LEVEL: i32 = 19;

pub fn run(chore: &Chore) -> anyhow::Result<()> {
    let build = root().join("guests/build");
    match chore {
        Chore::Build(which) => each(which, |guest| {
            guest.run_recipe(&build)?;
            guest.write_dist(&guest.bake(&build)?)
        }),
        Chore::Bake(which) => each(which, |guest| guest.write_dist(&guest.bake(&build)?)),
        Chore::Verify(which) => each(which, |guest| guest.verify(&build.join("verify"))),
        Chore::Check(_) => crate::guest::run(chore),
    }
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
    #[serde(default)]
    packages: Vec<Package>,
}

struct Built {
    manifest: Manifest,
    module: Vec<u8>,
    image: Vec<u8>,
}

impl Guest {
    fn language(self) -> &'static str {
        match self {
            Guest::Python | Guest::PythonData => "python",
            Guest::Javascript => "javascript",
        }
    }

    /// The interpreter, as a component.
    fn interpreter(self) -> &'static str {
        match self {
            Guest::Python | Guest::PythonData => "cpython",
            Guest::Javascript => "quickjs-ng",
        }
    }

    /// Where the recipe leaves what it made.
    fn out(self, build: &Path) -> PathBuf {
        match self {
            Guest::Python => build.join("out"),
            Guest::PythonData | Guest::Javascript => build.join("out").join(self.name()),
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
            let name = self.name();
            fs::read(&path)
                .with_context(|| format!("{}: run guests/{name}/build.sh first", path.display()))
        };
        let wasm = read(&format!("{}.wasm", self.name()))?;
        let info: BuildInfo = serde_json::from_slice(&read("build-info.json")?)?;
        let baked = bake::bake(&wasm, &self.boot_directory(build)?, &build.join("compiled"))?;
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
            packages: info.packages,
        };
        Ok(Built { manifest, module, image: baked.image })
    }

    /// What the guest sees at `/boot`: its driver, and Python's library; no compiled leftovers.
    fn boot_directory(self, build: &Path) -> anyhow::Result<PathBuf> {
        let boot = build.join("boot").join(self.name());
        if boot.exists() {
            fs::remove_dir_all(&boot)?;
        }
        // An image with more packages has the same driver.
        let driver = root().join("guests").join(self.language()).join("driver");
        for file in files_below(&driver)? {
            let copy = boot.join("driver").join(file.strip_prefix(&driver)?);
            fs::create_dir_all(copy.parent().context("a file without a folder")?)?;
            fs::copy(&file, copy)?;
        }
        if self.language() == "python" {
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
        println!("{}: module {module} bytes, image {image} bytes", self.name());
        Ok(())
    }

    fn shipped_manifest(self) -> anyhow::Result<Manifest> {
        let path = self.dist("json");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(Manifest::parse(&text)?)
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
        println!("a build from nothing gives the same {} module and image", self.name());
        Ok(())
    }
}
