//! What a client has to know before it is listened to.

use std::fmt;

/// A token of the owner's that is shorter could be guessed.
const MIN_TOKEN_BYTES: usize = 16;

/// The secret in `Authorization: Bearer …`.
#[derive(Clone)]
pub struct Token(String);

/// Why a text is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It could be guessed.
    #[error("the token is shorter than {MIN_TOKEN_BYTES} characters and could be guessed")]
    Short,
    /// It could not be sent.
    #[error("the token holds something that cannot be sent in a header")]
    Unsendable,
    /// There is no randomness.
    #[error("no random token can be made: {0}")]
    NoRandomness(String),
}

impl Token {
    /// The owner's choice.
    ///
    /// # Errors
    /// When it is short, or no header could hold it.
    pub fn chosen(text: &str) -> Result<Self, TokenError> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Unsendable);
        }
        if text.len() < MIN_TOKEN_BYTES {
            return Err(TokenError::Short);
        }
        Ok(Self(text.to_owned()))
    }

    /// One that nobody can guess.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> Result<Self, TokenError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| TokenError::NoRandomness(error.to_string()))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// As it is written, for whoever may know it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether a header holds it. How long this takes says nothing about where they differ.
    pub(crate) fn admits(&self, header: Option<&[u8]>) -> bool {
        let Some((scheme, given)) = header.and_then(|header| header.split_at_checked(7)) else {
            return false;
        };
        let same = given.len() == self.0.len()
            && given.iter().zip(self.0.bytes()).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0;
        scheme.eq_ignore_ascii_case(b"bearer ") && same
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_admits() {
        let token = Token::chosen("0123456789abcdef").unwrap();
        let admits = |header: &str| token.admits(Some(header.as_bytes()));
        assert!(admits("Bearer 0123456789abcdef") && admits("bearer 0123456789abcdef"));
        for wrong in ["", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdeF", "Basic x"]
        {
            assert!(!admits(wrong), "{wrong}");
        }
        assert!(!admits("Bearer 0123456789abcdef ") && !token.admits(None));
    }

    #[test]
    fn tokens_are_hard_to_guess_and_never_shown() {
        assert_eq!(Token::chosen("short").unwrap_err(), TokenError::Short);
        assert_eq!(Token::chosen("0123456789 abcdef").unwrap_err(), TokenError::Unsendable);
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.reveal().len(), 64);
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(format!("{one:?}"), "Token(…)");
    }
}
