//! The log: to standard error from the first moment, and as the settings say once these are known.

use crate::environment;
use crate::plain::plain;
use crate::status::Mistake;
use coracle_config::{Loaded, Origin};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
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
    let filter = EnvFilter::try_from_env(environment::LOG).unwrap_or_else(|_| EnvFilter::new(default));
    let (filter, filtered) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer().with_ansi(io::stderr().is_terminal());
    let (lines, written) = reload::Layer::new(lines.with_writer(BoxMakeWriter::new(io::stderr)));
    tracing_subscriber::registry().with(filter).with(lines).init();
    let switch: Switch = Box::new(move |filter, file| {
        if let Some(filter) = filter {
            filtered.reload(filter)?;
        }
        if let Some(file) = file {
            written.modify(|lines| {
                lines.set_ansi(false);
                *lines.writer_mut() = BoxMakeWriter::new(Arc::new(file));
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
    use super::filter;

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
