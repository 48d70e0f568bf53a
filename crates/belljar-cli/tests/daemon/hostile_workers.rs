//! What an escaped worker could leave in its directory, and what the next start makes of it.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Daemon, Place, signal, wait_for};

fn worker(place: &Place, number: usize) -> PathBuf {
    place.home().join(format!("daemon/workers/{number}"))
}

/// The number of the worker that holds a session.
fn holder(place: &Place, session: &str) -> usize {
    (0..2).find(|number| worker(place, *number).join("sessions").join(session).is_dir()).unwrap()
}

fn fifo(path: PathBuf) {
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::RWXU, 0).unwrap();
}

#[test]
fn a_session_stays_where_it_was_when_another_worker_claims_its_name() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let sandbox = client.session("payroll");
    client.execute(sandbox, "x = 'true'");
    let own = holder(&daemon.place, "payroll");
    let place = daemon.kill();
    let planted = worker(&place, 1 - own).join("sessions");
    std::fs::create_dir(planted.join("payroll")).unwrap();
    std::fs::create_dir(planted.join("pipe")).unwrap();
    fifo(planted.join("pipe/session.json"));
    symlink("/nowhere/at/all", planted.join("pipe/lock")).unwrap();
    let daemon = Daemon::at(place, &[]);
    let created = daemon.client().ask("create", json!({"session": "payroll"}));
    assert_eq!(created["cells"], 1);
    // The next start has fewer workers, and the planted one does not come into their directories.
    let daemon = Daemon::at(daemon.kill(), &["--workers", "1"]);
    let mut client = daemon.client();
    if own == 0 {
        let sandbox = client.session("payroll");
        assert_eq!(client.prints(sandbox, "print(x)"), "true\n");
    } else {
        // Both directories have one, and the true one's worker is no more.
        assert!(client.refused("create", json!({"session": "payroll"})).1.contains("worker"));
    }
}

#[test]
fn sessions_that_are_a_link_are_not_followed() {
    let place = Daemon::new(&[]).kill();
    let private = place.path().join("private");
    std::fs::create_dir_all(private.join("key")).unwrap();
    for number in 0..2 {
        let sessions = worker(&place, number).join("sessions");
        std::fs::remove_dir_all(&sessions).unwrap();
        symlink(&private, sessions).unwrap();
    }
    let daemon = Daemon::at(place, &["--workers", "1"]);
    let mut client = daemon.client();
    let sandbox = client.session("key");
    assert_eq!(client.prints(sandbox, "print('x' in globals())"), "False\n");
    assert_eq!(std::fs::read_dir(private.join("key")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(&private).unwrap().count(), 1);
}

#[test]
fn a_worker_that_spoils_its_directory_is_replaced_all_the_same() {
    let daemon = Daemon::new(&["--workers", "1"]);
    let directory = worker(&daemon.place, 0);
    let spoil: [&dyn Fn(); 2] =
        [&|| std::fs::write(directory.join("tmp"), "a file").unwrap(), &|| {
            symlink("/etc", directory.join("tmp")).unwrap();
            std::fs::write(directory.join("packages"), "").unwrap();
        }];
    for (before, spoil) in spoil.into_iter().enumerate() {
        std::fs::remove_dir_all(directory.join("tmp")).unwrap();
        spoil();
        signal(daemon.workers()[0], Signal::KILL);
        wait_for("another worker", || {
            daemon.status()["counters"]["restarts"] == before + 1 && daemon.workers().len() == 1
        });
        let mut client = daemon.client();
        let sandbox = client.create(json!({}));
        assert_eq!(client.prints(sandbox, "print(1)"), "1\n");
    }
    wait_for("what was left to be removed", || {
        let gone = daemon.place.home().join("daemon/gone");
        std::fs::read_dir(gone).is_ok_and(|left| left.count() == 0)
    });
}
