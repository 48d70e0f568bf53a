//! What every HTTP server here has in common: connections that are bounded, and a token.

pub(crate) mod connections;
mod heads;
mod leftover;
pub(crate) mod stalled;
pub(crate) mod token;
