//! Taking times and memory figures.

use std::time::{Duration, Instant};

use belljar::SandboxResult;

use crate::BenchError;

pub fn succeed(result: SandboxResult) -> Result<(), BenchError> {
    if result.success() { Ok(()) } else { Err(BenchError::Program(result.stderr)) }
}

/// Private dirty memory of this process.
pub fn private_bytes() -> Result<f64, BenchError> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map(|kib| kib * 1024.0).ok_or_else(|| BenchError::Program("no memory figures".to_owned()))
}

/// Durations in milliseconds.
#[derive(Default)]
pub struct Times(Vec<f64>);

impl Times {
    pub fn push(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1000.0);
    }

    pub fn p50(&self) -> f64 {
        self.percentile(50)
    }

    pub fn p99(&self) -> f64 {
        self.percentile(99)
    }

    fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() * percent / 100).or(sorted.last()).copied().unwrap_or(f64::NAN)
    }
}

/// Times `rounds` repetitions after a few that do not count.
pub fn sample(
    rounds: usize,
    mut work: impl FnMut() -> Result<(), BenchError>,
) -> Result<Times, BenchError> {
    for _ in 0..rounds / 10 + 1 {
        work()?;
    }
    let mut times = Times::default();
    for _ in 0..rounds {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// Calls of one work before the other has its turn, and those before them that do not count: they
/// find the other's leavings in the processor's caches.
const TURN: usize = 25;
const WARMING: usize = 5;

/// The same of two works that take turns, so that whatever else the machine does hits both.
pub fn sample_both(
    rounds: usize,
    mut one: impl FnMut() -> Result<(), BenchError>,
    mut other: impl FnMut() -> Result<(), BenchError>,
) -> Result<[Times; 2], BenchError> {
    let mut times = [Times::default(), Times::default()];
    let mut works: [&mut dyn FnMut() -> Result<(), BenchError>; 2] = [&mut one, &mut other];
    for _ in 0..rounds.div_ceil(TURN) {
        for (work, times) in works.iter_mut().zip(&mut times) {
            for call in 0..WARMING + TURN {
                let start = Instant::now();
                work()?;
                if call >= WARMING {
                    times.push(start.elapsed());
                }
            }
        }
    }
    Ok(times)
}

/// `rounds` times that the work takes of itself, after one that does not count.
pub fn told(
    rounds: usize,
    mut work: impl FnMut() -> Result<Duration, BenchError>,
) -> Result<Times, BenchError> {
    let mut times = Times::default();
    work()?;
    for _ in 0..rounds {
        times.push(work()?);
    }
    Ok(times)
}
