//! A conversation as Markdown.

use crate::transcript::{CodeLanguage, CodeResult, Passage, Speaker};
use coracle_models::Part;
use std::fmt::Write as _;

/// Maximum length of a title in the heading, in characters.
const MAX_TITLE: usize = 200;

pub(super) fn of(title: Option<&str>, passages: &[Passage]) -> String {
    let mut text = String::new();
    if let Some(title) = title {
        let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_TITLE).collect();
        let _ = writeln!(text, "# {title}\n");
    }
    for passage in passages {
        text.push_str(&passage_text(passage, Heading::Shown));
        text.push('\n');
    }
    text
}

/// Whether the name of the speaker precedes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heading {
    Shown,
    Hidden,
}

/// One passage as Markdown, with a newline at its end.
pub(super) fn passage_text(passage: &Passage, heading: Heading) -> String {
    let mut text = String::new();
    match passage {
        Passage::Message { speaker, parts } => {
            if heading == Heading::Shown || *speaker != Speaker::Assistant {
                let _ = writeln!(text, "**{}**\n", name(*speaker));
            }
            for part in parts {
                text.push_str(&part_text(part));
            }
        }
        Passage::Reasoning(thought) => {
            let quoted: Vec<String> = thought.lines().map(|line| format!("> {line}")).collect();
            let _ = writeln!(text, "{}", quoted.join("\n"));
        }
        Passage::Code { language, code, result } => {
            text.push_str(&fenced(code_name(*language), code));
            text.push_str(&result_text(result.as_ref()));
        }
        Passage::Call { name, arguments, result } => {
            let _ = writeln!(text, "Call of `{}`:\n", name.replace('`', ""));
            text.push_str(&fenced("json", arguments));
            text.push_str(&result_text(result.as_ref()));
        }
        Passage::Shortened => text.push_str("*The conversation before was shortened for the model.*\n"),
    }
    text
}

fn name(speaker: Speaker) -> &'static str {
    match speaker {
        Speaker::User => "User",
        Speaker::Assistant => "Assistant",
        Speaker::System => "Instructions",
    }
}

fn code_name(language: CodeLanguage) -> &'static str {
    match language {
        CodeLanguage::Python => "python",
        CodeLanguage::TypeScript => "typescript",
        CodeLanguage::Bash => "bash",
    }
}

fn part_text(part: &Part) -> String {
    match part {
        Part::Text { text } => format!("{text}\n"),
        Part::Image { mime, data } => format!("![image](data:{mime};base64,{data})\n"),
        Part::ImageUrl { url } => format!("![image](<{}>)\n", url.replace(['<', '>', '\n'], "")),
    }
}

fn result_text(result: Option<&CodeResult>) -> String {
    let Some(result) = result else { return "\n*No result.*\n".to_owned() };
    let mut text = format!("\n{}:\n\n", if result.is_error { "Error" } else { "Result" });
    text.push_str(&fenced("text", &result.text));
    for image in &result.images {
        text.push('\n');
        text.push_str(&part_text(image));
    }
    text
}

/// A block of code whose fence is longer than any in it.
fn fenced(language: &str, code: &str) -> String {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", code.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::fenced;

    #[test]
    fn code_cannot_end_its_block() {
        assert_eq!(fenced("python", "x\n"), "```python\nx\n```\n");
        assert_eq!(fenced("text", "a\n````\nb"), "`````text\na\n````\nb\n`````\n");
    }
}
