//! Where the service is, and who asks. The variables are those of E2B's own packages.

use std::fmt;

use belljar_core::{Backend, SandboxError};

const KEY: &str = "E2B_API_KEY";
const DOMAIN: &str = "E2B_DOMAIN";
const API_URL: &str = "E2B_API_URL";
const SANDBOX_URL: &str = "E2B_SANDBOX_URL";
const TEMPLATE: &str = "E2B_TEMPLATE";

/// Where E2B's own service is.
const OWN_DOMAIN: &str = "e2b.app";
/// What its code interpreter is made from.
const CODE_INTERPRETER: &str = "code-interpreter-v1";

/// How a service of E2B's kind is reached.
#[derive(Clone, PartialEq, Eq)]
pub struct E2bSettings {
    /// Who asks.
    pub api_key: String,
    /// Where sandboxes are made; derived from the domain when absent.
    pub api_url: Option<String>,
    /// Where all sandboxes are reached; each has an address of its own when absent.
    pub sandbox_url: Option<String>,
    /// The domain of addresses that are not given.
    pub domain: String,
    /// What sandboxes are made from.
    pub template: String,
}

/// Without the key.
impl fmt::Debug for E2bSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("E2bSettings")
            .field("api_url", &self.api_url())
            .field("sandbox_url", &self.sandbox_url)
            .field("domain", &self.domain)
            .field("template", &self.template)
            .finish_non_exhaustive()
    }
}

impl E2bSettings {
    /// As the environment has it.
    ///
    /// # Errors
    /// Without a key.
    pub fn from_env() -> Result<Self, SandboxError> {
        Self::from_values(|name| std::env::var(name).ok())
    }

    fn from_values(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SandboxError> {
        let given = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let refused = |reason: String, hint: &str| SandboxError::BackendUnavailable {
            backend: Backend::E2b,
            reason,
            hint: Some(hint.to_owned()),
        };
        let api_key = given(KEY).ok_or_else(|| {
            let hint = "set it to a key of E2B's, or to one of `belljar daemon key new`";
            refused(format!("{KEY} is not set"), hint)
        })?;
        if !api_key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(refused(format!("{KEY} is no key"), "a key is one word"));
        }
        let address = |name: &str| match given(name) {
            Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
                Ok(Some(url.trim_end_matches('/').to_owned()))
            }
            Some(url) => {
                Err(refused(format!("{name} is no address: {url}"), "begin with https://"))
            }
            None => Ok(None),
        };
        Ok(Self {
            api_url: address(API_URL)?,
            sandbox_url: address(SANDBOX_URL)?,
            domain: given(DOMAIN).unwrap_or_else(|| OWN_DOMAIN.to_owned()),
            template: given(TEMPLATE).unwrap_or_else(|| CODE_INTERPRETER.to_owned()),
            api_key,
        })
    }

    pub(crate) fn api_url(&self) -> String {
        self.api_url.clone().unwrap_or_else(|| format!("https://api.{}", self.domain))
    }

    /// Where a port of a sandbox is reached.
    #[cfg(any(test, feature = "e2b"))]
    pub(crate) fn sandbox_url(&self, id: &str, domain: Option<&str>, port: u16) -> String {
        match (&self.sandbox_url, domain.unwrap_or(&self.domain)) {
            (Some(url), _) => url.clone(),
            (None, OWN_DOMAIN) => format!("https://sandbox.{OWN_DOMAIN}"),
            (None, domain) => format!("https://{port}-{id}.{domain}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, &str)]) -> Result<E2bSettings, SandboxError> {
        E2bSettings::from_values(|name| {
            values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn addresses_are_given_or_derived() {
        let cloud = settings(&[(KEY, "e2b_1")]).unwrap();
        assert_eq!(cloud.api_url(), "https://api.e2b.app");
        assert_eq!(cloud.sandbox_url("x", None, 49999), "https://sandbox.e2b.app");
        let own = settings(&[(KEY, "e2b_1"), (DOMAIN, "jar.example")]).unwrap();
        assert_eq!(own.sandbox_url("x", None, 49999), "https://49999-x.jar.example");
        assert_eq!(own.sandbox_url("x", Some("d"), 1), "https://1-x.d");
        let one = "http://127.0.0.1:1/";
        let one = settings(&[(KEY, "k"), (API_URL, one), (SANDBOX_URL, one)]).unwrap();
        assert_eq!(one.sandbox_url("x", Some("d"), 1), "http://127.0.0.1:1");
    }

    #[test]
    fn a_missing_key_is_told_and_a_key_is_never_shown() {
        insta::assert_snapshot!(settings(&[]).unwrap_err(), @"the e2b backend cannot be used: E2B_API_KEY is not set; nothing was run");
        assert!(settings(&[(KEY, "two words")]).is_err());
        assert!(settings(&[(KEY, "k"), (API_URL, "ftp://x")]).is_err());
        assert!(!format!("{:?}", settings(&[(KEY, "e2b_secret")]).unwrap()).contains("secret"));
    }
}
