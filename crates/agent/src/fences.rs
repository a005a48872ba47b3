//! Code in the text of models that do not call tools reliably.

/// Code that a model wrote into its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedCode {
    /// The language after the opening fence.
    pub language: &'static str,
    /// The code.
    pub code: String,
}

/// Names after a fence, and the language that each one means.
const LANGUAGES: [(&str, &str); 9] = [
    ("python", "python"),
    ("py", "python"),
    ("python3", "python"),
    ("typescript", "typescript"),
    ("ts", "typescript"),
    ("bash", "bash"),
    ("sh", "bash"),
    ("shell", "bash"),
    ("tool_code", "python"),
];

/// The last complete block of code in a text, if it is in a language that can be run.
///
/// The last one, because models explain first and act at the end. A block that is followed by more than a short remark is
/// an example in an explanation rather than an act.
pub fn fenced_code(text: &str) -> Option<FencedCode> {
    const LONGEST_REMARK: usize = 200;
    let mut found = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((fence, info)) = opening(line) else { continue };
        let mut code = String::new();
        let mut is_closed = false;
        for line in lines.by_ref() {
            if is_closing(line, fence) {
                is_closed = true;
                break;
            }
            code.push_str(line);
            code.push('\n');
        }
        let name = info.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        let language = LANGUAGES.iter().find(|(alias, _)| *alias == name).map(|(_, language)| *language);
        found = match language {
            Some(language) if is_closed && !code.trim().is_empty() => Some(FencedCode { language, code }),
            _ => None,
        };
        let rest: usize = lines.clone().map(str::len).sum();
        if found.is_some() && rest > LONGEST_REMARK && !lines.clone().any(|line| opening(line).is_some()) {
            return None;
        }
    }
    found
}

/// The fence and the text after it, if a line opens a block.
fn opening(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    (length >= 3).then(|| line.split_at(length))
}

fn is_closing(line: &str, fence: &str) -> bool {
    let line = line.trim();
    line.starts_with(fence) && line.trim_start_matches(&fence[..1]).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(&'static str, String)> {
        fenced_code(text).map(|found| (found.language, found.code))
    }

    #[test]
    fn the_last_block_is_run() {
        let text = "First this:\n```python\nprint(1)\n```\nthen that:\n~~~ts\nawait f()\n~~~\n";
        assert_eq!(found(text), Some(("typescript", "await f()\n".to_owned())));
        assert_eq!(found("````bash\necho '```'\n````"), Some(("bash", "echo '```'\n".to_owned())));
    }

    #[test]
    fn other_blocks_are_not() {
        for text in ["```\nprint(1)\n```", "```json\n{}\n```", "```python\nprint(1)", "```python\n\n```", "print(1)"] {
            assert_eq!(found(text), None, "{text}");
        }
        let explained = format!("```python\nprint(1)\n```\n{}", "This prints a number. ".repeat(20));
        assert_eq!(found(&explained), None);
    }
}
