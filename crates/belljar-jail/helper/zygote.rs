//! The part of the jail that a zygote loads: what turns a fresh fork of it into a jail of its own.
//!
//! A zygote is an interpreter that has loaded everything and runs no foreign code. The helper put it
//! into namespaces and a new root and left it the right to mount, in its own user namespace. For
//! each execution it forks:
//!
//! ```text
//! zygote                                 child
//! belljar_open(plan)         once
//! belljar_before_fork()
//! os.fork() ------------------------->   is process 1 of a new process namespace
//! belljar_after_fork()                   belljar_enter(descriptors): forks again;
//!                                          process 1 stays in there and never comes back
//!                                          process 2 comes back with 0, confined
//! ```
//!
//! All functions give 0, or an errno below zero. Load it so that the interpreter's lock is held
//! through the calls (`ctypes.PyDLL`), and call it from the only thread.

mod confine;
mod enter;
mod init;
mod landlock;
mod mounts;
mod namespaces;
mod plan;
mod report;
mod root;
mod signals;
mod socket;
mod sys;
