//! The functions that a zygote calls.

