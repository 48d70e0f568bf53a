//! Images: interpreters of the same language that were frozen with different modules imported.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a guest's interpreter has in it when a sandbox begins.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum GuestImage {
    /// The language and its own library.
    #[default]
    Plain,
    /// Python with numpy, pandas and what goes with them, imported already.
    Data,
}

impl GuestImage {
    /// Every image, in the order they are listed to people.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Data];

    /// The name in JSON, on the command line and in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Data => "data",
        }
    }

    /// Whether it is the one that is not worth mentioning.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }
}

impl fmt::Display for GuestImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The image a policy asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageChoice {
    /// The one that has what the code imports.
    #[default]
    Auto,
    /// Always the one with the language and its own library.
    Plain,
    /// Always the one with numpy, pandas and matplotlib.
    Data,
}

impl ImageChoice {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Plain, Self::Data];

    /// The name in policy files, in JSON and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Plain => "plain",
            Self::Data => "data",
        }
    }

    /// The image, where the code has no say in it.
    #[must_use]
    pub const fn fixed(self) -> Option<GuestImage> {
        match self {
            Self::Auto => None,
            Self::Plain => Some(GuestImage::Plain),
            Self::Data => Some(GuestImage::Data),
        }
    }

    /// Whether that image will do.
    #[must_use]
    pub fn allows(self, image: GuestImage) -> bool {
        self.fixed().is_none_or(|fixed| fixed == image)
    }
}

impl fmt::Display for ImageChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An image nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown image `{0}`; the images are auto, plain and data")]
pub struct UnknownImage(String);

impl FromStr for ImageChoice {
    type Err = UnknownImage;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|choice| choice.as_str() == name)
            .ok_or_else(|| UnknownImage(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for choice in ImageChoice::ALL {
            assert_eq!(choice.as_str().parse(), Ok(choice));
            assert_eq!(serde_json::to_string(&choice).unwrap(), format!("\"{choice}\""));
        }
        for image in GuestImage::ALL {
            assert_eq!(serde_json::to_string(&image).unwrap(), format!("\"{image}\""));
            let named: ImageChoice = image.as_str().parse().unwrap();
            assert_eq!(named.fixed(), Some(image));
        }
        assert_eq!(
            "science".parse::<ImageChoice>().unwrap_err().to_string(),
            "unknown image `science`; the images are auto, plain and data"
        );
    }

    #[test]
    fn auto_allows_every_image_and_the_others_one() {
        let allowed = |choice: ImageChoice| GuestImage::ALL.map(|image| choice.allows(image));
        assert_eq!(allowed(ImageChoice::Auto), [true, true]);
        assert_eq!(allowed(ImageChoice::Plain), [true, false]);
        assert_eq!(allowed(ImageChoice::Data), [false, true]);
    }
}
