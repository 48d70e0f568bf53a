//! Which image code runs in, and what is said where it lacks a module.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use belljar_core::{GuestError, GuestImage, RuntimeType};
use belljar_guard::{How, find_imports};
use belljar_wasm::manifest_of;

use crate::plan::{Guest, LaunchPlan, SITE_PACKAGES_DIR};

/// The error of an import that found nothing.
const NOT_FOUND: &str = "ModuleNotFoundError";

/// What the data image has beyond Python's own library: modules without what is below them.
static DATA_MODULES: LazyLock<Vec<String>> = LazyLock::new(|| {
    // A guest whose manifest makes no sense cannot be loaded, and says so when somebody asks for it.
    let manifest = manifest_of(RuntimeType::Python, GuestImage::Data);
    let packages = manifest.map(|manifest| manifest.packages).unwrap_or_default();
    packages.into_iter().flat_map(|package| package.modules).collect()
});

/// Where `import` looks besides the image.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// In the workspace and in the added packages.
    Everywhere,
    /// Nowhere.
    ImageOnly,
}

/// The image for a piece of code: the one its policy names; else the data image if the code imports
/// something that only that has.
pub(super) fn for_code(plan: &LaunchPlan, code: &str, search: Search) -> GuestImage {
    if let Some(image) = fixed(plan) {
        return image;
    }
    let mentioned = mentioned(code);
    if mentioned.is_empty() {
        return GuestImage::Plain;
    }
    // Code that cannot be examined to its end runs where most code does, and is told what it lacks.
    let found = find_imports(code, &mentioned).imports.into_iter();
    let mut wanted = found.filter(|finding| match finding.how {
        How::Statement | How::Call | How::Text => true,
        // Those find only what something else has imported.
        How::Loaded | How::Attribute => false,
    });
    let is_missing = |module: &str| search == Search::ImageOnly || !is_provided(plan, module);
    if wanted.any(|finding| is_missing(&finding.rule)) {
        GuestImage::Data
    } else {
        GuestImage::Plain
    }
}

/// The same where the question makes sense: for our own Python.
pub(crate) fn of_code(plan: &LaunchPlan, code: &str) -> Option<GuestImage> {
    let several = plan.guest == Guest::Embedded && plan.language == RuntimeType::Python;
    several.then(|| for_code(plan, code, Search::Everywhere))
}

/// The image, where the code has no say in it.
pub(super) fn fixed(plan: &LaunchPlan) -> Option<GuestImage> {
    match (&plan.guest, plan.language) {
        (Guest::Embedded, RuntimeType::Python) => plan.policy.image().fixed(),
        (_, RuntimeType::Python | RuntimeType::Javascript) => Some(GuestImage::Plain),
    }
}

/// Modules of the data image whose names are somewhere in the code. Most code has none, and is not
/// parsed.
fn mentioned(code: &str) -> Vec<String> {
    if !code.contains("import") {
        return Vec::new();
    }
    DATA_MODULES.iter().filter(|module| code.contains(module.as_str())).cloned().collect()
}

/// Whether the workspace or an added package has a module of that name. Then it is that one which
/// the code means, and in the data image it would find the other.
fn is_provided(plan: &LaunchPlan, module: &str) -> bool {
    let root = plan.policy.guest_mount_path();
    let packages = format!("{root}/{SITE_PACKAGES_DIR}");
    let searched = |guest: &str| guest == root || guest == packages;
    plan.mounts
        .iter()
        .filter(|mount| searched(&mount.guest))
        .any(|mount| has_module(&mount.host, module))
}

/// A link is not followed: where it leads is nothing that code should learn.
fn has_module(directory: &Path, module: &str) -> bool {
    let is = |path: &Path, kind: fn(&fs::Metadata) -> bool| {
        path.symlink_metadata().is_ok_and(|metadata| kind(&metadata))
    };
    let package = directory.join(module);
    is(&directory.join(format!("{module}.py")), fs::Metadata::is_file)
        || (is(&package, fs::Metadata::is_dir)
            && is(&package.join("__init__.py"), fs::Metadata::is_file))
}

/// What to say about an import that the data image would not have refused.
pub(super) fn hint(error: &GuestError, in_session: bool) -> Option<String> {
    if error.name != NOT_FOUND {
        return None;
    }
    // The guest's words: only a name of our own list is repeated.
    let named = error.message.split('\'').nth(1)?;
    let root = named.split('.').next()?;
    let module = DATA_MODULES.iter().find(|module| *module == root)?;
    let way = if in_session {
        "a session keeps the image it has begun with: begin another with image = \"data\" in its \
         policy, or --image data"
    } else {
        "have it with image = \"data\" in the policy, or --image data"
    };
    Some(format!("MissingModule: {module} is in the image data; {way}"))
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
