//! The log: to standard error from the first moment, and as the settings say once these are known.

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

/// A message is no longer than this.
const MAX_MESSAGE: usize = 1_000;

/// Another filter, another place.
type Switch = Box<dyn Fn(Option<EnvFilter>, Option<File>) -> Result<(), reload::Error> + Send + Sync>;

static SWITCH: OnceLock<Switch> = OnceLock::new();

/// Starts it; without a word from the environment, with what `default` lets through.
pub(crate) fn start(default: &str) {
    let filter = EnvFilter::try_from_env(variables::LOG).unwrap_or_else(|_| EnvFilter::new(default));
    let (filter, filtered) = reload::Layer::new(filter);
    // What goes wrong in writing a line would be printed by a macro that panics when it cannot.
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
    // The log is started once.
    let _ = SWITCH.set(switch);
}

/// Goes on as `log.level` and `log.file` say. What a command lets through by itself stays unless somebody says otherwise.
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
            open(path).map_err(|error| format!("`log.file` cannot be written: {}: {error}", path.display())),
        )?,
        _ => None,
    };
    Ok(switch(filter, file)?)
}

/// Writes each event as one line in which nothing is hidden: an event may quote what a server or code has said, and that
/// could pose as another event. Escape sequences in such texts are made harmless where lines are formatted; those that are
/// left are colours.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    /// Gets an event at a time, with the end of its line.
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

/// The file of the log. A line that it does not take, as on a full disk, goes to standard error instead.
#[derive(Clone, Debug)]
struct LogFile {
    file: Arc<File>,
    /// The last line was cut off: the next one begins on its own.
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
            let _ = write!(io::stderr(), "(log.file cannot be written: {error}) ");
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
    // A single word that is no level would be the name of a crate: then nothing would be logged.
    let is_word = !level.contains(['=', ',', ':', '[']);
    if is_word && !LEVELS.contains(&level) {
        return Err(format!("is {level:?}: it must be {EXPECTED}"));
    }
    EnvFilter::try_new(level).map_err(|error| format!("is {level:?}: {error}; it must be {EXPECTED}"))
}

/// What is logged may tell what people do: nobody else reads it.
fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// A mistake is refused, unless it is in a variable that is perhaps meant for another program.
fn usable<T>(origin: &Origin, found: Result<T, String>) -> Result<Option<T>, Mistake> {
    match (found, origin) {
        (Ok(found), _) => Ok(Some(found)),
        (Err(reason), Origin::Env { name }) if !name.starts_with("CORACLE_") => {
            eprintln!("warning: {}", plain(&format!("{origin}: {reason}; it is passed over"), MAX_MESSAGE));
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

    /// A file that nothing fits into loses its lines to standard error, and no line is half of another.
    #[test]
    fn a_full_disk_tears_no_line() {
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
    fn an_event_is_one_line_with_nothing_hidden() {
        let event = "WARN said: \"ok\"\nINFO all is well\u{202e}\r\u{200b}, \u{1b}[2mcolour\u{1b}[0m\n";
        let line = render(event.as_bytes());
        assert_eq!(line, "WARN said: \"ok\"\\nINFO all is well\\u{202e}\\r\\u{200b}, \u{1b}[2mcolour\u{1b}[0m\n");
        assert_eq!(render("WARN plain, with ümlauts\n".as_bytes()), "WARN plain, with ümlauts\n");
    }

    #[test]
    fn levels_and_filters_are_told_from_words() {
        for level in ["off", "warn", "trace", "warn,coracle_upstream=debug", "coracle_engine=info"] {
            assert!(filter(level).is_ok(), "{level}");
        }
        for level in ["verbose", "20", "", "warn,coracle_upstream=loud"] {
            assert!(filter(level).is_err(), "{level}");
        }
    }
}
