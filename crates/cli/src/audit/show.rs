//! `coracle audit show`: the last records, one per line.

use super::{MAX_TEXT, told};
use crate::output::plain;
use crate::status::Status;
use anyhow::Context;
use clap::Args;
use coracle_audit::{AuditError, FileLog, Filter, Record};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::SystemTime;

/// Maximum number of records that are shown.
const MAX_SHOWN: u64 = 100_000;

#[derive(Debug, Args)]
pub(super) struct ShowArguments {
    /// User who caused the records, or whose account they are about.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Kind of the records, such as `call.decided`, or all kinds that begin with a word, such as `call`.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// Earliest time: an RFC 3339 time, or a duration before now, such as 2h or 7days.
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<SystemTime>,

    /// ID of the execution.
    #[arg(long, value_name = "ID")]
    execution: Option<String>,

    /// Maximum number of records.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=MAX_SHOWN))]
    limit: u64,

    /// Print the records as JSON lines.
    #[arg(long)]
    json: bool,
}

fn since(text: &str) -> Result<SystemTime, String> {
    if let Ok(time) = humantime::parse_rfc3339_weak(text) {
        return Ok(time);
    }
    let before = humantime::parse_duration(text).ok().and_then(|before| SystemTime::now().checked_sub(before));
    before.ok_or_else(|| format!("{text:?} is neither a time such as 2027-01-31T08:00:00Z nor a duration such as 2h"))
}

pub(super) async fn run(arguments: &ShowArguments, log: &FileLog) -> anyhow::Result<Status> {
    let filter = Filter {
        user: arguments.user.clone(),
        kind: arguments.kind.clone(),
        since: arguments.since,
        execution: arguments.execution.clone(),
    };
    let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX);
    let records = match log.last_records(filter, limit).await {
        Err(AuditError::NotCreated { .. }) => Vec::new(),
        records => records.map_err(told)?,
    };
    if records.is_empty() {
        eprintln!("there are no such records");
    }
    let mut out = std::io::stdout().lock();
    for record in records {
        let line = if arguments.json { serde_json::to_string(&record).unwrap_or_default() } else { line(&record) };
        writeln!(out, "{line}").context("cannot write the records")?;
    }
    Ok(Status::Success)
}

/// A record for people.
fn line(record: &Record) -> String {
    let user = record.user.as_deref().unwrap_or("-");
    let mut line = format!("{:>6}  {}  {:<18}  {user}", record.seq, record.time, record.kind);
    for (name, value) in &record.fields {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Null => continue,
            other => other.to_string(),
        };
        // Writing to a string cannot fail.
        let _ = write!(line, "  {name}={value}");
    }
    plain(&line, MAX_TEXT)
}
