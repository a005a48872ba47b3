//! The log: written to standard error first, and as configured once the settings are loaded.

use crate::output::plain;
use crate::status::Mistake;
use crate::variables;
use coracle_config::{Loaded, Origin};
use coracle_types::is_hidden;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

/// Maximum length of a message in characters.
const MAX_MESSAGE: usize = 1_000;

/// Changes the filter and the destination of the log.
type Switch = Box<dyn Fn(Option<EnvFilter>, Option<File>) -> Result<(), reload::Error> + Send + Sync>;

static SWITCH: OnceLock<Switch> = OnceLock::new();

/// Starts the log with the filter from the environment, or else with `default`.
pub(crate) fn start(default: &str) {
    let filter = EnvFilter::try_from_env(variables::LOG).unwrap_or_else(|_| EnvFilter::new(default));
    let (filter, filtered) = reload::Layer::new(filter);
    // Internal errors would be printed with a macro that panics if it cannot print.
    let lines = tracing_subscriber::fmt::layer().with_ansi(io::stderr().is_terminal()).log_internal_errors(false);
    let (lines, written) = reload::Layer::new(lines.with_writer(BoxMakeWriter::new(|| OneLine(io::stderr()))));
    tracing_subscriber::registry().with(filter).with(lines).init();
    let switch: Switch = Box::new(move |filter, file| {
        if let Some(filter) = filter {
            filtered.reload(filter)?;
        }
        if let Some(file) = file {
            written.modify(|lines| {
                lines.set_ansi(false);
                *lines.writer_mut() = {
                    let file = LogFile::new(file);
                    BoxMakeWriter::new(move || OneLine(file.clone()))
                };
            })?;
        }
        Ok(())
    });
    // The log is started only once.
    let _ = SWITCH.set(switch);
}

/// Applies `log.level` and `log.file`. The default filter of a command stays unless `log.level` is set.
pub(crate) fn follow(loaded: &Loaded) -> anyhow::Result<()> {
    let Some(switch) = SWITCH.get() else { return Ok(()) };
    let log = &loaded.settings.log;
    let filter = match loaded.origins.get("log.level") {
        Some(origin) => usable(origin, filter(&log.level).map_err(|reason| format!("`log.level` {reason}")))?,
        None => None,
    };
    let file = match (&log.file, loaded.origins.get("log.file")) {
        (Some(path), Some(origin)) => usable(
            origin,
            open(path).map_err(|error| format!("cannot write to `log.file` {}: {error}", path.display())),
        )?,
        _ => None,
    };
    Ok(switch(filter, file)?)
}

/// Writes each event as one line without hidden characters, because an event may quote a server or code and could
/// otherwise pose as another event. The formatter escapes control sequences in such texts; those that remain are
/// colours.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    /// Writes one event, which ends with a line break.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(render(event).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn render(event: &[u8]) -> String {
    let text = String::from_utf8_lossy(event);
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.trim_end_matches('\n').chars() {
        match c {
            '\u{1b}' => line.push(c),
            '\n' | '\r' | '\t' => line.extend(c.escape_default()),
            c if is_hidden(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line.push('\n');
    line
}

/// Log file. Lines that cannot be written, for example on a full disk, go to standard error instead.
#[derive(Clone, Debug)]
struct LogFile {
    file: Arc<File>,
    /// Whether the last line was cut off, so that the next one must start on a new line.
    torn: Arc<AtomicBool>,
}

impl LogFile {
    fn new(file: File) -> Self {
        Self { file: Arc::new(file), torn: Arc::default() }
    }

    fn append(&self, line: &[u8]) -> io::Result<()> {
        let mut file = &*self.file;
        if self.torn.load(Ordering::Relaxed) {
            file.write_all(b"\n")?;
            self.torn.store(false, Ordering::Relaxed);
        }
        let mut left = line;
        while !left.is_empty() {
            match file.write(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => left = left.get(length..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.torn.store(left.len() < line.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.append(line) {
            let _ = write!(io::stderr(), "(cannot write to log.file: {error}) ");
            let _ = io::stderr().write_all(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn filter(level: &str) -> Result<EnvFilter, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    const EXPECTED: &str =
        "one of off, error, warn, info, debug and trace, or a filter such as `warn,coracle_upstream=debug`";
    // A single word that is not a level would be taken for the name of a crate, and nothing would be logged.
    let is_word = !level.contains(['=', ',', ':', '[']);
    if is_word && !LEVELS.contains(&level) {
        return Err(format!("is {level:?}: it must be {EXPECTED}"));
    }
    EnvFilter::try_new(level).map_err(|error| format!("is {level:?}: {error}; it must be {EXPECTED}"))
}

/// Opens the log for its owner only, because it may reveal what users do.
fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Rejects an invalid value, unless it is from a variable that may be meant for another program.
fn usable<T>(origin: &Origin, found: Result<T, String>) -> Result<Option<T>, Mistake> {
    match (found, origin) {
        (Ok(found), _) => Ok(Some(found)),
        (Err(reason), Origin::Env { name }) if !name.starts_with("CORACLE_") => {
            eprintln!("warning: {}", plain(&format!("{origin}: {reason}; ignored"), MAX_MESSAGE));
            Ok(None)
        }
        (Err(reason), _) => Err(Mistake::new(plain(&format!("{origin}: {reason}"), MAX_MESSAGE), None::<&str>)),
    }
}

#[cfg(test)]
mod tests {
    use super::{LogFile, filter, render};
    use std::io::Write;
    use std::sync::atomic::Ordering;

    /// Lines that do not fit go to standard error, and no line is merged with another.
    #[test]
    fn a_full_disk_does_not_merge_lines() {
        let full = LogFile::new(std::fs::OpenOptions::new().append(true).open("/dev/full").unwrap());
        assert_eq!(full.append(b"lost\n").unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        assert!(full.clone().write_all(b"said elsewhere\n").is_ok());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let torn = LogFile::new(super::open(&path).unwrap());
        torn.append(b"half of").unwrap();
        torn.torn.store(true, Ordering::Relaxed);
        torn.append(b"whole\n").unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "half of\nwhole\n");
    }

    #[test]
    fn an_event_is_one_line_without_hidden_characters() {
        let event = "WARN said: \"ok\"\nINFO all is well\u{202e}\r\u{200b}, \u{1b}[2mcolour\u{1b}[0m\n";
        let line = render(event.as_bytes());
        assert_eq!(line, "WARN said: \"ok\"\\nINFO all is well\\u{202e}\\r\\u{200b}, \u{1b}[2mcolour\u{1b}[0m\n");
        assert_eq!(render("WARN plain, with ümlauts\n".as_bytes()), "WARN plain, with ümlauts\n");
    }

    #[test]
    fn words_that_are_not_levels_are_rejected() {
        for level in ["off", "warn", "trace", "warn,coracle_upstream=debug", "coracle_engine=info"] {
            assert!(filter(level).is_ok(), "{level}");
        }
        for level in ["verbose", "20", "", "warn,coracle_upstream=loud"] {
            assert!(filter(level).is_err(), "{level}");
        }
    }
}
