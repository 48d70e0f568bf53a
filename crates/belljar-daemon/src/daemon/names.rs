//! In which worker's directory each named session is. A worker's directory is only that worker's
//! word for it: an escaped one could make a directory by the name of somebody else's session. So the
//! supervisor keeps a list that no worker can reach.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use belljar::check_id;
use belljar_core::protocol::RpcError;

use super::errors::claimed_twice;

/// Which directory a session is in, by its number, as the list says.
pub(super) type Listed = HashMap<String, usize>;

/// Reads the list: a line for each session, the number of its directory and its name. Of two lines
/// the later holds; half a line is none.
pub(super) fn read(path: &Path) -> Listed {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines
        .filter_map(|line| {
            let (number, name) = line.split_once(' ')?;
            check_id(name).ok()?;
            Some((name.to_owned(), number.parse().ok()?))
        })
        .collect()
}

pub(super) struct Names {
    known: HashMap<String, Known>,
    list: Option<File>,
}

struct Known {
    place: Place,
    /// Sandboxes of it that are being made.
    making: usize,
    /// Whether it was there at some time.
    made: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Slot(usize),
    /// Two directories have it, and the list knows neither.
    Unclear,
}

impl Names {
    /// What the list says of what was found, and where the list says nothing, what was found.
    pub(super) fn new(path: &Path, listed: &Listed, found: &[(usize, Vec<String>)]) -> Self {
        let mut claims: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, names) in found {
            for name in names {
                claims.entry(name).or_default().push(*number);
            }
        }
        let mut known = HashMap::new();
        for (name, claims) in claims {
            let owner = listed.get(name).filter(|owner| claims.contains(owner));
            let place = match (owner, claims.as_slice()) {
                (Some(owner), _) | (None, [owner]) => Place::Slot(*owner),
                (None, _) => Place::Unclear,
            };
            if claims.len() > 1 {
                tracing::warn!(session = name, ?claims, "a session is in several directories");
            }
            known.insert(name.to_owned(), Known { place, making: 0, made: true });
        }
        let list = write(path, &known)
            .inspect_err(|error| tracing::warn!(%error, "the list of sessions cannot be written"));
        Self { known, list: list.ok() }
    }

    /// Where a session is, if it is anywhere.
    pub(super) fn slot_of(&self, session: &str) -> Result<Option<usize>, RpcError> {
        match self.known.get(session).map(|known| known.place) {
            Some(Place::Slot(number)) => Ok(Some(number)),
            Some(Place::Unclear) => Err(claimed_twice(session)),
            None => Ok(None),
        }
    }

    /// Somebody makes a sandbox of a session, in this slot if it is in none: the answer is in which.
    pub(super) fn begin(&mut self, session: &str, slot: usize) -> Result<usize, RpcError> {
        let place = Place::Slot(slot);
        let new = || Known { place, making: 0, made: false };
        let known = self.known.entry(session.to_owned()).or_insert_with(new);
        match known.place {
            Place::Slot(number) => {
                known.making += 1;
                Ok(number)
            }
            Place::Unclear => Err(claimed_twice(session)),
        }
    }

    /// A session that is no more, unless somebody makes it anew.
    pub(super) fn forget(&mut self, session: &str) {
        if self.known.get(session).is_some_and(|known| known.making == 0) {
            self.known.remove(session);
        }
    }

    /// That is over. A session that nobody has made and nobody makes is not there; `holds` looks
    /// whether it is after all.
    pub(super) fn end(&mut self, session: &str, made: bool, holds: impl FnOnce(usize) -> bool) {
        let Some(known) = self.known.get_mut(session) else { return };
        known.making = known.making.saturating_sub(1);
        let Place::Slot(number) = known.place else { return };
        let over = !made && !known.made && known.making == 0;
        if over && !holds(number) {
            self.known.remove(session);
        } else if (made || over) && !known.made {
            known.made = true;
            let line = format!("{number} {session}\n");
            let written = self.list.as_mut().map(|list| list.write_all(line.as_bytes()));
            if let Some(Err(error)) = written {
                tracing::warn!(%error, session, "a session is not listed");
            }
        }
    }
}

/// The list anew, with what is known.
fn write(path: &Path, known: &HashMap<String, Known>) -> io::Result<File> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let mut text = String::new();
    for (name, known) in known {
        if let Place::Slot(number) = known.place {
            text.push_str(&format!("{number} {name}\n"));
        }
    }
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    File::options().append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(at: &[(usize, &[&str])]) -> Vec<(usize, Vec<String>)> {
        at.iter().map(|(n, names)| (*n, names.iter().map(|&it| it.to_owned()).collect())).collect()
    }

    #[test]
    fn a_session_stays_where_it_was_whoever_else_claims_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sessions");
        let mut names = Names::new(&path, &Listed::new(), &[]);
        assert_eq!(names.slot_of("payroll").unwrap(), None);
        assert_eq!(names.begin("payroll", 0).unwrap(), 0);
        names.end("payroll", true, |_| unreachable!());
        let listed = read(&path);
        assert_eq!(listed, Listed::from([("payroll".to_owned(), 0)]));
        let all = found(&[(0, &["payroll"]), (3, &["payroll", "own"])]);
        let names = Names::new(&path, &listed, &all);
        assert_eq!(names.slot_of("payroll").unwrap(), Some(0));
        assert_eq!(names.slot_of("own").unwrap(), Some(3));
        // Without the list nobody is believed.
        let names = Names::new(&path, &Listed::new(), &all);
        insta::assert_snapshot!(
            names.slot_of("payroll").unwrap_err(),
            @"the session `payroll` is in the directories of several workers, and nobody knows whose it is; nothing was run"
        );
        assert_eq!(names.slot_of("own").unwrap(), Some(3));
    }

    #[test]
    fn a_failure_beside_a_success_does_not_make_a_session_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let mut names = Names::new(&dir.path().join("sessions"), &Listed::new(), &[]);
        assert_eq!(names.begin("s", 1).unwrap(), 1);
        assert_eq!(names.begin("s", 0).unwrap(), 1);
        // The second fails while the first has not got as far as a directory.
        names.end("s", false, |_| false);
        assert_eq!(names.slot_of("s").unwrap(), Some(1));
        names.end("s", true, |_| true);
        assert_eq!(names.slot_of("s").unwrap(), Some(1));
        // The twin: what was never made is forgotten, and what was is not.
        names.begin("t", 0).unwrap();
        names.end("t", false, |_| false);
        assert_eq!(names.slot_of("t").unwrap(), None);
        names.begin("s", 0).unwrap();
        names.end("s", false, |_| false);
        assert_eq!(names.slot_of("s").unwrap(), Some(1));
    }

    #[test]
    fn half_a_line_and_nonsense_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sessions");
        std::fs::write(&path, "0 a\nx b\n1 ../c\n\n2 d\n3 a\n1 hal").unwrap();
        let expected = Listed::from([("a".to_owned(), 3), ("d".to_owned(), 2)]);
        assert_eq!(read(&path), expected);
    }
}
