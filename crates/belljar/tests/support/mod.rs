//! Where tests find compiled guests.

use belljar::Home;

/// Belljar's directory below the build directory, so that guests are compiled once.
pub(crate) fn home() -> Home {
    let program = std::env::current_exe().expect("the test's own path");
    Home::at(program.ancestors().nth(3).expect("a build directory").join("test-home"))
}
