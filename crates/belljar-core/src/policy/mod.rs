//! The policy: what a caller allows.
//!
//! A policy is built from a [`Preset`] and any number of [`PolicyLayer`]s (a file, the environment,
//! arguments), later layers winning. An [`ExecutionPolicy`] exists only in valid form; everything
//! wrong with its layers is reported at once in a [`PolicyValidationError`].

mod check;
mod fields;
mod issue;
mod layer;
mod raw;
mod sources;

use std::collections::BTreeMap;
use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use fields::{DANGEROUS_IMPORTS, Field, Network, PolicyValues, Preset};
pub use issue::{FieldIssue, Origin, PolicyValidationError};
pub use layer::PolicyLayer;

/// What the caller allows. Reads like a struct of its fields (`policy.fuel_budget`), cannot be
/// changed, and is always valid.
///
/// [`ExecutionPolicy::default`] is the preset [`Preset::Strict`].
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionPolicy {
    preset: Preset,
    values: PolicyValues,
    origins: BTreeMap<Field, Origin>,
}

impl ExecutionPolicy {
    /// A preset with layers on top, the last one winning field by field. Environments are merged
    /// variable by variable.
    ///
    /// # Errors
    /// Every field that is not valid, all at once.
    pub fn build(
        preset: Preset,
        layers: impl IntoIterator<Item = PolicyLayer>,
    ) -> Result<Self, PolicyValidationError> {
        Self::build_with_defaults(preset, PolicyLayer::default(), layers)
    }

    /// The same where some of the preset's values are replaced by other defaults: nobody has asked
    /// for those either.
    ///
    /// # Errors
    /// Every field that is not valid, all at once.
    pub fn build_with_defaults(
        preset: Preset,
        defaults: PolicyLayer,
        layers: impl IntoIterator<Item = PolicyLayer>,
    ) -> Result<Self, PolicyValidationError> {
        let mut merged = PolicyLayer::default();
        let mut issues = check::layer(&defaults);
        for layer in layers {
            issues.extend(check::layer(&layer));
            merged = merged.merge(layer);
        }
        let (base, _) = defaults.over(preset.values());
        let (values, origins) = merged.over(base);
        issues.extend(check::whole(&values, &origins));
        PolicyValidationError::unless_empty(issues)?;
        Ok(Self { preset, values, origins })
    }

    /// A preset as it is.
    #[must_use]
    pub fn preset(preset: Preset) -> Self {
        Self { preset, values: preset.values(), origins: BTreeMap::new() }
    }

    /// This policy with another layer on top.
    ///
    /// # Errors
    /// Every field that is not valid, all at once.
    pub fn with(&self, layer: PolicyLayer) -> Result<Self, PolicyValidationError> {
        let mut issues = check::layer(&layer);
        let (values, new_origins) = layer.over(self.values.clone());
        let mut origins = self.origins.clone();
        origins.extend(new_origins);
        issues.extend(check::whole(&values, &origins));
        PolicyValidationError::unless_empty(issues)?;
        Ok(Self { preset: self.preset, values, origins })
    }

    /// The preset this policy started from.
    #[must_use]
    pub const fn base(&self) -> Preset {
        self.preset
    }

    /// Where a field was set, or `None` when it is the preset's value.
    #[must_use]
    pub fn origin(&self, field: Field) -> Option<&Origin> {
        self.origins.get(&field)
    }

    /// Whether somebody asked for this value, as opposed to getting it from the preset.
    #[must_use]
    pub fn is_explicit(&self, field: Field) -> bool {
        self.origins.contains_key(&field)
    }

    /// What was asked for, and defaults that are not the preset's, as JSON: read over the same
    /// preset it gives the same policy. Paths that are no text lose what is not.
    #[must_use]
    pub fn explicit(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(&self.values) else {
            return Map::new();
        };
        let usual = serde_json::to_value(self.preset.values()).unwrap_or_default();
        let asked =
            |name: &str| Field::from_name(name).is_some_and(|field| self.is_explicit(field));
        fields.retain(|name, value| asked(name) || usual.get(name) != Some(value));
        fields
    }

    /// The bare values.
    #[must_use]
    pub const fn values(&self) -> &PolicyValues {
        &self.values
    }
}

impl Default for ExecutionPolicy {
    fn default() -> Self {
        Self::preset(Preset::Strict)
    }
}

impl Deref for ExecutionPolicy {
    type Target = PolicyValues;

    fn deref(&self) -> &PolicyValues {
        &self.values
    }
}

impl Serialize for ExecutionPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
    }
}

/// Reads the same fields a policy file has, over the preset `strict`.
impl<'de> Deserialize<'de> for ExecutionPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        PolicyLayer::from_json(&value)
            .and_then(|layer| Self::build(Preset::Strict, [layer]))
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for ExecutionPolicy {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ExecutionPolicy".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        PolicyValues::json_schema(generator)
    }
}

#[cfg(test)]
mod tests;
