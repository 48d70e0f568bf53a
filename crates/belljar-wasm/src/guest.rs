//! The guests as they are shipped: a manifest, a compressed module, a compressed image.

use std::collections::BTreeMap;
use std::io::Read;

use serde::{Deserialize, Serialize};

use crate::abi::{ABI_VERSION, Layout};
use crate::error::EngineError;

/// What is known about a built guest. Written by the recipe, checked when a guest is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The contract it was built for.
    pub abi_version: i32,
    /// `python` or `javascript`.
    pub language: String,
    /// The interpreter's version.
    pub language_version: String,
    /// Addresses in the image.
    pub layout: Layout,
    /// The module, uncompressed.
    pub module: Part,
    /// The image, uncompressed.
    pub image: Part,
    /// BLAKE3 over everything the recipe is made of; the check in CI compares it.
    pub recipe_inputs: String,
    /// What went in from outside: name of the component, version.
    pub components: BTreeMap<String, String>,
    /// SHA-256 of every downloaded file.
    pub downloads: BTreeMap<String, String>,
    /// What can be imported beyond the language's own library.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
}

/// A package that is in a guest's image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// As it is called where it is published.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The modules it is imported by, without what is below them.
    pub modules: Vec<String>,
}

/// One part of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its size in bytes.
    pub bytes: u64,
    /// BLAKE3 of its contents, in hexadecimal.
    pub blake3: String,
}

impl Part {
    /// Describes some contents.
    #[must_use]
    pub fn of(contents: &[u8]) -> Part {
        Part { bytes: contents.len() as u64, blake3: blake3::hash(contents).to_hex().to_string() }
    }
}

impl Manifest {
    /// Reads the manifest of a shipped guest and checks that it is for this version of the crate.
    pub fn parse(text: &str) -> Result<Manifest, EngineError> {
        let manifest: Manifest = serde_json::from_str(text)
            .map_err(|error| EngineError::Abi(format!("its manifest: {error}")))?;
        if manifest.abi_version != ABI_VERSION {
            let theirs = manifest.abi_version;
            return Err(EngineError::Abi(format!(
                "it has version {theirs}, this is version {ABI_VERSION}"
            )));
        }
        let image_bytes = usize::try_from(manifest.image.bytes).unwrap_or(0);
        if !manifest.layout.fits(image_bytes) {
            return Err(EngineError::abi("its layout lies outside its image"));
        }
        if !manifest.packages.iter().all(Package::is_sound)
            || manifest.packages.len() > MAX_PACKAGES
        {
            return Err(EngineError::abi("its packages make no sense"));
        }
        Ok(manifest)
    }
}

/// Packages of one image, modules of one package, and bytes of a name: code is searched for them.
const MAX_PACKAGES: usize = 64;
const MAX_MODULES: usize = 16;
const MAX_NAME_BYTES: usize = 64;

impl Package {
    fn is_sound(&self) -> bool {
        let short = |name: &String| !name.is_empty() && name.len() <= MAX_NAME_BYTES;
        let identifier = |name: &String| {
            short(name) && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        };
        short(&self.name)
            && short(&self.version)
            && (1..=MAX_MODULES).contains(&self.modules.len())
            && self.modules.iter().all(identifier)
    }
}

/// Unpacks one part and checks that it is what the manifest says.
pub fn unpack(compressed: &[u8], part: &Part) -> Result<Vec<u8>, EngineError> {
    let damaged = |what: &str| EngineError::Abi(format!("the shipped guest is damaged: {what}"));
    let size = usize::try_from(part.bytes).map_err(|_| damaged("absurd size"))?;
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(compressed)
        .map_err(|error| damaged(&error.to_string()))?;
    let mut contents = Vec::with_capacity(size);
    decoder.by_ref().take(part.bytes + 1).read_to_end(&mut contents)?;
    if Part::of(&contents) != *part {
        return Err(damaged("its contents do not match its manifest"));
    }
    Ok(contents)
}
