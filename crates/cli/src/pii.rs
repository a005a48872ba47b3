//! `coracle pii`: finds personal data and secrets in text, and replaces them by tokens (`pii/vault.rs`). `pii/keeping.rs`
//! rotates keys of vaults, and deletes vaults.

mod keeping;
mod vault;

use crate::output::{columns, json_line, plain};
use crate::settings::load;
use crate::status::{Mistake, Status};
use crate::wiring::detector_settings;
use anyhow::Context;
use clap::{Args, Subcommand};
use coracle_privacy::{Detector, DetectorError, Finding, Kind};
use serde::Serialize;
use std::fs::File;
use std::io::{Cursor, Read, Write, stdin, stdout};
use std::path::{Path, PathBuf};

/// How much of a file is read at once.
const PIECE: usize = 256 * 1024;
/// How long a text may be to be searched as a whole, in bytes.
const WHOLE_MOST: u64 = 32 << 20;
/// How many findings a table has at most. JSON has all of them.
const ROWS_MOST: usize = 10_000;
/// Maximum length of a printed value in characters.
const VALUE_MOST: usize = 80;

#[derive(Debug, Args)]
pub(crate) struct PiiArguments {
    #[command(subcommand)]
    command: PiiCommand,
}

#[derive(Debug, Subcommand)]
enum PiiCommand {
    /// List the personal data and secrets in a file, without their values.
    #[command(after_help = AFTER_HELP, disable_version_flag = true)]
    Scan(ScanArguments),
    /// Replace personal data in a text or in JSON by tokens, and print it.
    Sanitize(TextArguments),
    /// Replace tokens by what they stand for, and print the text.
    Restore(TextArguments),
    /// Encrypt the values in a vault with a new key. Tokens stay the same.
    Rotate(keeping::RotateArguments),
    /// Delete a vault. Its tokens can never be restored.
    Forget(keeping::ForgetArguments),
}

/// The text to work on.
#[derive(Debug, Args)]
struct TextArguments {
    /// Text file, or `-` for standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

const AFTER_HELP: &str = "\
Each finding has its type, line and column, its place in bytes, and how likely it is. The exit status is 0 whether or not
something is found, unless --fail-if-found is given.

Examples:
  coracle pii scan notes.txt                  list what is found
  coracle pii scan export.csv --json          one line of JSON for each finding
  coracle pii scan build.log --fail-if-found  exit status 1 if there is something
  coracle pii scan page.html --enable URL     look for all URLs too
  coracle pii scan --types                    list all types";

#[derive(Debug, Args)]
struct ScanArguments {
    /// Text file, or `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "types")]
    file: Option<PathBuf>,

    /// Print a line of JSON for each finding instead of a table.
    #[arg(long)]
    json: bool,

    /// Print the values too.
    #[arg(long)]
    show_values: bool,

    /// Exit with status 1 if something is found.
    #[arg(long)]
    fail_if_found: bool,

    /// Type to look for besides the default ones; can be repeated.
    #[arg(long, value_name = "TYPE", value_parser = kind)]
    enable: Vec<Kind>,

    /// Type not to look for; can be repeated.
    #[arg(long, value_name = "TYPE", value_parser = kind)]
    disable: Vec<Kind>,

    /// Minimum confidence in percent [default: 50].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    min_confidence: Option<u8>,

    /// List all types instead, and whether they are on by default.
    #[arg(long, conflicts_with_all = ["file", "show_values", "fail_if_found"])]
    types: bool,
}

fn kind(label: &str) -> Result<Kind, String> {
    Kind::from_label(label).ok_or_else(|| "unknown type; `coracle pii scan --types` lists all".to_owned())
}

/// A finding as a line of JSON.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the output")]
struct Line<'a> {
    r#type: &'a str,
    /// First byte, and the one after the last.
    start: usize,
    end: usize,
    /// Line, and column in characters, both from 1.
    line: usize,
    column: usize,
    confidence: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
}

pub(crate) fn run(arguments: &PiiArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let arguments = match &arguments.command {
        PiiCommand::Scan(arguments) => arguments,
        PiiCommand::Sanitize(arguments) => return vault::sanitize(&arguments.file, config),
        PiiCommand::Restore(arguments) => return vault::restore(&arguments.file, config),
        PiiCommand::Rotate(arguments) => return keeping::rotate(arguments, config),
        PiiCommand::Forget(arguments) => return keeping::forget(arguments, config),
    };
    match &arguments.file {
        Some(file) if !arguments.types => scan(arguments, file, config),
        _ => types(arguments.json),
    }
}

fn types(as_json: bool) -> anyhow::Result<Status> {
    let mut out = stdout().lock();
    if as_json {
        for row in Kind::table() {
            let line = serde_json::json!({
                "type": row.label, "default": row.is_default, "description": row.description,
            });
            write!(out, "{}", json_line(&line)?)?;
        }
        return Ok(Status::Success);
    }
    let rows = Kind::table().iter().map(|row| {
        let default = if row.is_default { "on" } else { "off" };
        [row.label, default, row.description].map(str::to_owned)
    });
    write!(out, "{}", columns(rows))?;
    Ok(Status::Success)
}

fn scan(arguments: &ScanArguments, file: &Path, config: Option<&Path>) -> anyhow::Result<Status> {
    let mut settings = detector_settings(&load(config, Vec::new())?.settings)?;
    // What the command says counts more than what the settings say.
    settings.disable.retain(|kind| !arguments.enable.contains(kind));
    settings.enable.extend(arguments.enable.iter().cloned());
    settings.disable.extend(arguments.disable.iter().cloned());
    settings.min_confidence = arguments.min_confidence.unwrap_or(settings.min_confidence);
    let detector = Detector::new(settings).map_err(|error: DetectorError| Mistake::new(error, None::<&str>))?;
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(stdin().lock())
    } else {
        let opened = File::open(file).and_then(|opened| {
            if opened.metadata()?.is_dir() { Err(std::io::ErrorKind::IsADirectory.into()) } else { Ok(opened) }
        });
        let hint = Some("name a file, or `-` for standard input");
        Box::new(opened.map_err(|error| Mistake::new(format!("cannot open {}: {error}", file.display()), hint))?)
    };
    let mut printer = Printer { arguments, rows: Vec::new(), count: 0 };
    search(&detector, source, &mut printer).with_context(|| format!("cannot search {}", file.display()))?;
    printer.finish()?;
    Ok(if arguments.fail_if_found && printer.count > 0 { Status::Failed } else { Status::Success })
}

/// Searches a text: as a whole, so that keys of JSON and heads of tables are evidence, or in pieces if it is too long for that.
fn search(detector: &Detector, mut source: Box<dyn Read>, printer: &mut Printer<'_>) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    source.by_ref().take(WHOLE_MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > WHOLE_MOST {
        eprintln!(
            "note: the text is longer than {} MiB, so keys of JSON and heads of tables are no evidence",
            WHOLE_MOST >> 20
        );
        return read(detector, Box::new(Cursor::new(bytes).chain(source)), printer);
    }
    let text = text_of(&bytes);
    let found = detector.find_in_document(&text);
    let mut place = Place { text, ..Place::default() };
    found.iter().try_for_each(|finding| printer.print(finding, &mut place))
}

/// Reads a text in pieces, and prints what is found as soon as it is certain.
fn read(detector: &Detector, mut source: Box<dyn Read>, printer: &mut Printer<'_>) -> anyhow::Result<()> {
    let mut scanner = detector.scanner();
    let mut place = Place::default();
    let (mut bytes, mut filled) = (vec![0; PIECE], 0);
    loop {
        let free = bytes.get_mut(filled..).unwrap_or_default();
        let count = match source.read(free) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        filled += count;
        // The last bytes may be the beginning of a character. What is no UTF-8 at all is replaced, byte by byte, by
        // something as long, so that places are those in the file.
        let ready = if count == 0 { filled } else { complete(bytes.get(..filled).unwrap_or_default()) };
        let piece = text_of(bytes.get(..ready).unwrap_or_default());
        place.text.push_str(&piece);
        for finding in scanner.push(&piece) {
            printer.print(&finding, &mut place)?;
        }
        place.forget(scanner.settled());
        bytes.copy_within(ready..filled, 0);
        filled -= ready;
        if count == 0 {
            break;
        }
    }
    for finding in scanner.finish() {
        printer.print(&finding, &mut place)?;
    }
    Ok(())
}

/// The length of the text without a last character that is not complete.
fn complete(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3);
    let tail = bytes.get(last..).unwrap_or_default();
    let start = tail.iter().rposition(|byte| byte & 0xc0 != 0x80).map_or(bytes.len(), |start| last + start);
    match std::str::from_utf8(bytes.get(start..).unwrap_or_default()) {
        Err(error) if error.error_len().is_none() => start,
        _ => bytes.len(),
    }
}

fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|_| text.push('\u{1a}'));
    }
    text
}

/// Where the reader is: lines, columns, and the text that may still be needed.
#[derive(Default)]
struct Place {
    text: String,
    /// How many bytes there were before `text`.
    forgotten: usize,
    /// The number of line breaks and the characters of the last line, up to `counted`.
    lines: usize,
    characters: usize,
    counted: usize,
}

impl Place {
    /// The line and the column of a byte, which must not be before that of an earlier call.
    fn of(&mut self, byte: usize) -> (usize, usize) {
        let passed = self.text.get(self.counted - self.forgotten..byte - self.forgotten).unwrap_or_default();
        for c in passed.chars() {
            if c == '\n' {
                self.lines += 1;
                self.characters = 0;
            } else {
                self.characters += 1;
            }
        }
        self.counted = byte;
        (self.lines + 1, self.characters + 1)
    }

    fn value(&self, finding: &Finding) -> &str {
        self.text.get(finding.span.start - self.forgotten..finding.span.end - self.forgotten).unwrap_or_default()
    }

    fn forget(&mut self, settled: usize) {
        if settled - self.forgotten > PIECE {
            self.of(settled);
            self.text.drain(..settled - self.forgotten);
            self.forgotten = settled;
        }
    }
}

struct Printer<'a> {
    arguments: &'a ScanArguments,
    rows: Vec<[String; 5]>,
    count: usize,
}

impl Printer<'_> {
    fn print(&mut self, finding: &Finding, place: &mut Place) -> anyhow::Result<()> {
        let (line, column) = place.of(finding.span.start);
        let value = self.arguments.show_values.then(|| place.value(finding));
        self.count += 1;
        let (start, end, confidence) = (finding.span.start, finding.span.end, finding.confidence.0);
        if self.arguments.json {
            let line = Line { r#type: finding.kind.label(), start, end, line, column, confidence, value };
            write!(stdout().lock(), "{}", json_line(&line)?)?;
        } else if self.rows.len() < ROWS_MOST {
            let value = value.map(|value| plain(value, VALUE_MOST)).unwrap_or_default();
            let label = finding.kind.label().to_owned();
            let (line, bytes) = (format!("line {line}:{column}"), format!("bytes {start}..{end}"));
            self.rows.push([label, line, bytes, format!("{confidence} %"), value]);
        }
        Ok(())
    }

    fn finish(&self) -> anyhow::Result<()> {
        if self.arguments.json {
            return Ok(());
        }
        if self.count == 0 {
            eprintln!("Nothing was found.");
            return Ok(());
        }
        let mut out = stdout().lock();
        if self.arguments.show_values {
            write!(out, "{}", columns(self.rows.iter().cloned()))?;
        } else {
            let rows = self.rows.iter().map(|[kind, line, bytes, confidence, _]| [kind, line, bytes, confidence]);
            write!(out, "{}", columns(rows.map(|row| row.map(Clone::clone))))?;
        }
        if self.count > self.rows.len() {
            eprintln!("note: {} more are not listed; --json lists all", self.count - self.rows.len());
        }
        Ok(())
    }
}
