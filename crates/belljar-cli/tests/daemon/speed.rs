//! What the way through the daemon costs. Run with `--ignored --nocapture`.

use std::time::{Duration, Instant};

use belljar::{Home, Sandbox, SandboxConfig, create_sandbox};
use serde_json::json;

use crate::harness::{Client, Daemon, cache};

const TIMES: usize = 2000;

fn median(mut one: impl FnMut()) -> Duration {
    for _ in 0..TIMES / 10 {
        one();
    }
    let mut times: Vec<Duration> = (0..TIMES)
        .map(|_| {
            let begun = Instant::now();
            one();
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[TIMES / 2]
}

fn in_process(home: &Home, place: &std::path::Path) -> Box<dyn Sandbox> {
    let config = SandboxConfig {
        workspace: Some(place.to_owned()),
        home: Some(home.clone()),
        ..SandboxConfig::default()
    };
    create_sandbox(&config).unwrap()
}

#[test]
#[ignore = "measures, and wants the machine for itself"]
fn the_way_through_the_daemon_costs_little() {
    let place = tempfile::tempdir().unwrap();
    let home = Home::at(place.path()).with_cache(cache());
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let hello = median(|| drop(client.ask("hello", json!(null))));
    eprintln!("hello: {hello:?}");

    let mut own = in_process(&home, place.path());
    let sandbox = client.create(json!({}));
    let compare = |what: &str, own: &mut dyn Sandbox, client: &mut Client, sandbox: u64| {
        let inside = median(|| drop(own.execute("pass").unwrap()));
        let through = median(|| drop(client.execute(sandbox, "pass")));
        let extra = through.saturating_sub(inside);
        eprintln!("{what}: in process {inside:?}, through the daemon {through:?}, {extra:?} more");
        extra
    };
    compare("fresh", &mut *own, &mut client, sandbox);
    own.initialize(json!(null)).unwrap();
    client.ask("initialize", json!({"sandbox": sandbox}));
    compare("session", &mut *own, &mut client, sandbox);
    let named = client.session("named");
    let saved = median(|| drop(client.execute(named, "pass")));
    eprintln!("named session, saved after each: {saved:?}");
}
