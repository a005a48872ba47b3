//! The media type of an artifact, from its content and its extension, and its preview. Both inputs are hostile, and the
//! type decides how browsers treat the file, so an extension is trusted only if the content agrees.

use coracle_types::Preview;
use std::path::Path;

/// Number of bytes of a file that are read to find its type.
pub(crate) const HEAD_BYTES: usize = 16 << 10;
/// Maximum length of a text preview.
const PREVIEW_LINES: usize = 20;
const PREVIEW_BYTES: usize = 2_000;

/// The type of files that are unknown, or not what their extension says.
pub(crate) const BYTES: &str = "application/octet-stream";

/// The type of a file that begins with `head`; `whole` if that is the whole file.
pub fn mime(name: &str, head: &[u8], whole: bool) -> &'static str {
    let ending =
        Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    if let Some(seen) = by_content(head) {
        return match (seen, ending.as_str()) {
            ("application/zip", "xlsx") => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            ("application/zip", "docx") => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            ("application/zip", "pptx") => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
            (seen, _) => seen,
        };
    }
    if !is_text(head, whole) {
        return BYTES;
    }
    match ending.as_str() {
        "json" | "ipynb" | "geojson" => "application/json",
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "html" | "htm" | "xhtml" => "text/html",
        "svg" => "image/svg+xml",
        "xml" => "application/xml",
        "md" | "markdown" => "text/markdown",
        "txt" | "log" | "py" | "sh" | "ts" | "js" | "sql" | "yaml" | "yml" | "toml" | "ini" | "tex" | "rst" => {
            "text/plain"
        }
        _ => BYTES,
    }
}

/// Formats with a distinct signature.
fn by_content(head: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 9] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"PK\x05\x06", "application/zip"),
        (b"\x1f\x8b", "application/gzip"),
        (b"PAR1", "application/vnd.apache.parquet"),
    ];
    if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    known.into_iter().find(|(start, _)| head.starts_with(start)).map(|(_, mime)| mime)
}

/// Whether this is UTF-8 without control characters that no text has. It may end within a character.
fn is_text(head: &[u8], whole: bool) -> bool {
    text(head, whole).is_some_and(|text| {
        !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}' | '\u{1b}'))
    })
}

fn text(head: &[u8], whole: bool) -> Option<&str> {
    match std::str::from_utf8(head) {
        Ok(text) => Some(text),
        Err(error) if !whole && error.error_len().is_none() => {
            std::str::from_utf8(head.get(..error.valid_up_to()).unwrap_or_default()).ok()
        }
        Err(_) => None,
    }
}

/// The preview of a file of this type. HTML, and anything that could be executed, has none.
pub(crate) fn preview(mime: &str, head: &[u8], whole: bool) -> Option<Preview> {
    match mime {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => {
            let (width, height) = size(mime, head).unzip();
            Some(Preview::Image { width, height })
        }
        "text/plain" | "text/csv" | "text/tab-separated-values" | "text/markdown" | "application/json" => {
            Some(beginning(text(head, whole)?, whole))
        }
        _ => None,
    }
}

fn beginning(text: &str, whole: bool) -> Preview {
    let mut shown = String::new();
    for line in text.split_inclusive('\n').take(PREVIEW_LINES) {
        let room = PREVIEW_BYTES - shown.len();
        if line.len() > room {
            let end = (0..=room).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
            shown.push_str(line.get(..end).unwrap_or_default());
            break;
        }
        shown.push_str(line);
    }
    let truncated = !whole || shown.len() < text.len();
    Preview::Text { text: shown, truncated }
}

fn size(mime: &str, head: &[u8]) -> Option<(u32, u32)> {
    match mime {
        "image/png" => {
            let number = |at: usize| Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?));
            (head.get(12..16)? == b"IHDR").then_some(())?;
            Some((number(16)?, number(20)?))
        }
        "image/gif" => {
            let number = |at: usize| Some(u32::from(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?)));
            Some((number(6)?, number(8)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{mime, preview};
    use coracle_types::Preview;

    #[test]
    fn an_ending_is_believed_only_if_the_content_agrees() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0";
        for (name, head, expected) in [
            ("a.png", &png[..], "image/png"),
            ("a.html", &png[..], "image/png"),
            ("a.png", b"<script>", "application/octet-stream"),
            ("a.html", b"<script>", "text/html"),
            ("a.txt", b"<!doctype html><script>", "text/plain"),
            ("a", b"<!doctype html><script>", "application/octet-stream"),
            ("a.csv", b"a,b\n1,2\n", "text/csv"),
            ("a.csv", b"a\0b", "application/octet-stream"),
            ("a.json", b"\xff\xfe", "application/octet-stream"),
            ("a.SVG", b"<svg/>", "image/svg+xml"),
            ("a.xlsx", b"PK\x03\x04", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
            ("a.jpg", b"PK\x03\x04", "application/zip"),
            ("a.pdf", b"%PDF-1.7", "application/pdf"),
            ("a.txt", b"", "text/plain"),
        ] {
            assert_eq!(mime(name, head, true), expected, "{name}");
        }
        assert_eq!(preview("image/png", png, true), Some(Preview::Image { width: Some(640), height: Some(480) }));
    }

    #[test]
    fn previews_are_short_and_of_nothing_that_runs() {
        let long = "a line\n".repeat(100);
        let Some(Preview::Text { text, truncated }) = preview("text/csv", long.as_bytes(), true) else { panic!() };
        assert_eq!((text.lines().count(), truncated), (20, true));
        let wide = "ü".repeat(5_000);
        let Some(Preview::Text { text, truncated }) = preview("text/plain", wide.as_bytes(), true) else { panic!() };
        assert_eq!((text.len(), truncated), (2_000, true));
        let cut = &"ü".as_bytes()[..1];
        assert_eq!(preview("text/plain", cut, false), Some(Preview::Text { text: String::new(), truncated: true }));
        for never in ["text/html", "image/svg+xml", "application/pdf", "application/octet-stream"] {
            assert_eq!(preview(never, b"x", true), None, "{never}");
        }
        assert_eq!(
            preview("text/plain", b"all\n", true),
            Some(Preview::Text { text: "all\n".to_owned(), truncated: false })
        );
    }
}
