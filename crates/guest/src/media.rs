//! Images, audio and the like that come with the reply of a tool, kept as files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};

/// Where they are: private to the sandbox, and gone with it.
const FOLDER: &str = "/tmp/media";

/// How files of a type end; others end in `bin`.
const ENDINGS: [(&str, &str); 18] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/svg+xml", "svg"),
    ("image/bmp", "bmp"),
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("video/mp4", "mp4"),
    ("text/plain", "txt"),
    ("text/html", "html"),
    ("text/csv", "csv"),
    ("text/markdown", "md"),
    ("application/json", "json"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
];

/// Writes what base64 says to a new file; its path.
pub(crate) fn save(mime: &str, data: &str) -> io::Result<String> {
    let bytes = STANDARD.decode(data).map_err(io::Error::other)?;
    let plain = mime.split(';').next().unwrap_or_default().trim();
    let ending = ENDINGS.iter().find(|(known, _)| *known == plain).map_or("bin", |(_, ending)| ending);
    fs::create_dir_all(FOLDER)?;
    let mut number = fs::read_dir(FOLDER)?.count() + 1;
    loop {
        let path = format!("{FOLDER}/{number}.{ending}");
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => return file.write_all(&bytes).map(|()| path),
            // Somebody else was faster: several programs may call at once.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}
