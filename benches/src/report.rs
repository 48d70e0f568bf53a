//! Measurements as rows of a table.

use std::fmt;

use serde::Serialize;

/// One measured thing.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The measured value, with `unit`.
    pub value: f64,
    /// The 99th percentile, where there is one.
    pub p99: Option<f64>,
    /// Of `value` and `p99`.
    pub unit: &'static str,
    /// What it is compared with, and that one's value in the same unit.
    pub against: Option<(String, f64)>,
    /// `value` divided by the other's.
    pub ratio: Option<f64>,
}

impl Row {
    /// A value on its own.
    #[must_use]
    pub fn new(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { what: what.into(), value, p99: None, unit, against: None, ratio: None }
    }

    /// With its 99th percentile.
    #[must_use]
    pub fn p99(self, p99: f64) -> Self {
        Self { p99: Some(p99), ..self }
    }

    /// Compared with another value of the same run.
    #[must_use]
    pub fn against(self, name: impl Into<String>, value: f64) -> Self {
        Self { ratio: Some(self.value / value), against: Some((name.into(), value)), ..self }
    }
}

/// All measurements of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The native interpreter compared with, if there is one.
    pub native_python: Option<String>,
    /// Processors used.
    pub cores: usize,
    /// The rows.
    pub rows: Vec<Row>,
    /// What could not be measured here, and why.
    pub skipped: Vec<String>,
}

impl Report {
    pub(crate) fn new(native_python: Option<String>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { native_python, cores, rows: Vec::new(), skipped: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn skip(&mut self, what: &str, why: impl fmt::Display) {
        self.skipped.push(format!("{what}: {why}"));
    }

    pub(crate) fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows.extend(rows);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let python = self.native_python.as_deref().unwrap_or("none");
        writeln!(f, "{} cores, native python3: {python}\n", self.cores)?;
        writeln!(f, "| | measured | p99 | compared with | ratio |")?;
        writeln!(f, "|---|---:|---:|---:|---:|")?;
        for row in &self.rows {
            let amount = |value: f64| format!("{} {}", significant(value), row.unit);
            let p99 = row.p99.map_or_else(String::new, amount);
            let against = row
                .against
                .as_ref()
                .map_or_else(String::new, |(name, value)| format!("{name}: {}", amount(*value)));
            let ratio = row.ratio.map_or_else(String::new, show_ratio);
            writeln!(f, "| {} | {} | {p99} | {against} | {ratio} |", row.what, amount(row.value))?;
        }
        for skipped in &self.skipped {
            writeln!(f, "\nskipped: {skipped}")?;
        }
        Ok(())
    }
}

/// Three digits are more than these measurements are good for.
fn significant(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn show_ratio(ratio: f64) -> String {
    if ratio < 0.2 { format!("1/{:.0}", 1.0 / ratio) } else { format!("{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_as_a_table() {
        let mut report = Report::new(Some("3.11".to_owned()));
        report.cores = 2;
        report.push(Row::new("fresh", 0.1234, "ms").p99(0.5).against("python3 -c", 12.0));
        report.push(Row::new("kernel", 20.0, "ms").against("python3", 10.0));
        report.skip("jail", "not here");
        assert_eq!(
            report.to_string(),
            "2 cores, native python3: 3.11\n\n\
             | | measured | p99 | compared with | ratio |\n\
             |---|---:|---:|---:|---:|\n\
             | fresh | 0.123 ms | 0.500 ms | python3 -c: 12.0 ms | 1/97 |\n\
             | kernel | 20.0 ms |  | python3: 10.0 ms | 2.00 |\n\n\
             skipped: jail: not here\n"
        );
    }
}
