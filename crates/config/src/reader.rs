//! Reads untrusted files: with a size limit, and without blocking.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The maximum size of a file with settings or variables.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads the text of a file. `None` if there is no such file.
pub(crate) fn read_text(path: &Path, most: u64) -> Result<Option<String>, String> {
    let missing = |error: &std::io::Error| {
        matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
    };
    match path.metadata() {
        Err(error) if missing(&error) => return Ok(None),
        Err(error) => return Err(plain(&error)),
        // Opening a pipe would block until there is a writer.
        Ok(metadata) if !metadata.is_file() => return Err("it is not a file".to_owned()),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| plain(&error))?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| plain(&error))?;
    if bytes.len() as u64 > most {
        return Err(format!("it is larger than {most} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}

fn plain(error: &std::io::Error) -> String {
    error.kind().to_string()
}

/// Whether a user other than this one and root could have written the file.
pub fn is_foreign(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let me = rustix::process::geteuid().as_raw();
    path.metadata().is_ok_and(|metadata| metadata.uid() != me && metadata.uid() != 0)
}
