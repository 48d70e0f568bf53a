//! Belljar's jail helper: applies a plan to itself and becomes the jailed program.
//!
//! It is started by the library from memory, with a socket to the host as its only descriptor of
//! interest. It has no dependencies, so that it can be read in one sitting.

mod confine;
mod init;
mod landlock;
mod monitor;
mod mounts;
mod namespaces;
mod outer;
mod plan;
mod report;
mod root;
mod signals;
mod socket;
mod sys;

fn main() {
    if let Err(failure) = outer::run() {
        report::failed(outer::CONTROL, &failure);
        sys::leave(1);
    }
}
