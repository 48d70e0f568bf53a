//! The guest's standard library: what works, and what says clearly that it cannot.

mod absent;
mod present;
