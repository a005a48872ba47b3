//! Links between documents: the file must exist, and so must the heading.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::Document;

/// `[text](address)` in a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    /// Where `[` stands, in bytes.
    pub(crate) start: usize,
    /// Where the closing `)` ends.
    pub(crate) end: usize,
    pub(crate) text: &'a str,
    pub(crate) address: &'a str,
}

/// The links of a document, without what looks like one in code.
pub(crate) fn links(text: &str) -> Vec<Link<'_>> {
    let visible = without_code(text);
    let mut links = Vec::new();
    for (middle, _) in visible.match_indices("](") {
        let Some(length) = visible[middle..].find(')') else { continue };
        let Some(start) = opening(&visible[..middle]) else { continue };
        let end = middle + length + 1;
        links.push(Link { start, end, text: &text[start + 1..middle], address: &text[middle + 2..end - 1] });
    }
    links
}

/// The `[` that belongs to a `]` at the end of `before`.
fn opening(before: &str) -> Option<usize> {
    let mut depth = 1;
    for (place, c) in before.char_indices().rev() {
        match c {
            ']' => depth += 1,
            '[' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(place);
        }
    }
    None
}

/// The text with all code blanked out, byte for byte, so that places stay the same. A code span inside the text of a link
/// loses its content, not the brackets around it.
fn without_code(text: &str) -> String {
    let blank = |part: &str| part.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect::<String>();
    let mut visible = String::with_capacity(text.len());
    let mut fenced = false;
    // A span may go on in the next line, but not in the next paragraph.
    let mut in_span = false;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || fenced {
            fenced ^= is_fence;
            visible.push_str(&blank(line));
            continue;
        }
        in_span &= !line.trim().is_empty();
        for (number, part) in line.split('`').enumerate() {
            if number > 0 {
                visible.push(' ');
                in_span = !in_span;
            }
            visible.push_str(&if in_span { blank(part) } else { part.to_owned() });
        }
    }
    visible
}

/// The file that a link in `document` leads to, from the root of the repository; `None` for an address on the network.
pub(crate) fn target(document: &Path, address: &str) -> Option<PathBuf> {
    if address.contains("://") || address.starts_with("mailto:") {
        return None;
    }
    let path = address.split('#').next().unwrap_or_default();
    if path.is_empty() {
        return Some(document.to_path_buf());
    }
    let mut target = document.parent().unwrap_or(Path::new("")).to_path_buf();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => {
                target.pop();
            }
            Component::CurDir => {}
            other => target.push(other),
        }
    }
    Some(target)
}

pub(super) fn violations(root: &Path, document: &Document) -> Vec<String> {
    let shown = document.path.display();
    let mut violations = Vec::new();
    for Link { address, .. } in links(&document.text) {
        let Some(target) = target(&document.path, address) else { continue };
        if !root.join(&target).exists() {
            violations.push(format!("{shown}: the link to `{address}` leads nowhere"));
            continue;
        }
        let Some((_, heading)) = address.split_once('#') else { continue };
        let text = fs::read_to_string(root.join(&target)).unwrap_or_default();
        if !headings(&text).iter().any(|anchor| anchor == heading) {
            violations.push(format!("{shown}: {} has no heading for `{address}`", target.display()));
        }
    }
    violations
}

/// The anchors of a document's headings, as GitHub and mdBook make them.
fn headings(text: &str) -> Vec<String> {
    let visible = without_code(text);
    let lines = text.lines().zip(visible.lines());
    lines
        .filter(|(_, visible)| visible.starts_with('#'))
        .map(|(line, _)| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Vec<&str> {
        links(text).iter().map(|link| link.address).collect()
    }

    #[test]
    fn links_are_found_outside_code() {
        let text = "[a](x.md) and [`b](no)`](y.md#z)\n```\n[c](no)\n```\n`[d](no)\nno](no)` [e](z.md)\n";
        assert_eq!(addresses(text), ["x.md", "y.md#z", "z.md"]);
        let first = &links(text)[0];
        assert_eq!((first.text, &text[first.start..first.end]), ("a", "[a](x.md)"));
    }

    #[test]
    fn targets_are_relative_to_the_document() {
        let page = Path::new("docs/guide.md");
        for (address, expected) in
            [("a.md", "docs/a.md"), ("../b.md#c", "b.md"), ("#limits", "docs/guide.md"), ("../examples/", "examples")]
        {
            assert_eq!(target(page, address).as_deref(), Some(Path::new(expected)), "{address}");
        }
        assert_eq!(target(page, "https://example.org/"), None);
    }

    #[test]
    fn files_and_headings_must_exist() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.md"), "# One\n## `two` & three\n```\n# no heading\n```\n").unwrap();
        let check =
            |text: &str| violations(root.path(), &Document { path: PathBuf::from("b.md"), text: text.to_owned() });
        for good in ["[x](a.md)", "[x](a.md#one)", "[x](a.md#two--three)", "[x](https://example.org/none#x)"] {
            assert_eq!(check(good), Vec::<String>::new(), "{good}");
        }
        assert_eq!(check("[x](c.md)"), ["b.md: the link to `c.md` leads nowhere"]);
        for bad in ["[x](a.md#four)", "[x](a.md#no-heading)"] {
            assert_eq!(check(bad).len(), 1, "{bad}");
        }
    }
}
