//! Stores images, audio and other media of a tool's reply as files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};

/// The folder of the files: private to the sandbox, and removed with it.
const FOLDER: &str = "/tmp/media";

/// File extensions by media type. The default is `bin`.
const ENDINGS: [(&str, &str); 24] = [
    ("application/gzip", "gz"),
    ("application/json", "json"),
    ("application/pdf", "pdf"),
    ("application/xml", "xml"),
    ("application/zip", "zip"),
    ("audio/flac", "flac"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("image/bmp", "bmp"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/tiff", "tiff"),
    ("image/webp", "webp"),
    ("text/css", "css"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("text/plain", "txt"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
];

/// Decodes base64 to a new file. Returns its path and its size.
pub(crate) fn save(mime: &str, data: &str) -> io::Result<(String, usize)> {
    let bytes = STANDARD.decode(data).map_err(io::Error::other)?;
    let plain = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let ending = ENDINGS.iter().find(|(known, _)| *known == plain).map_or("bin", |(_, ending)| ending);
    fs::create_dir_all(FOLDER)?;
    let mut number = fs::read_dir(FOLDER)?.count() + 1;
    loop {
        let path = format!("{FOLDER}/{number}.{ending}");
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => return file.write_all(&bytes).map(|()| (path, bytes.len())),
            // Several programs may call at once, and another was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}
