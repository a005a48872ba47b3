use crate::status::Mistake;

/// No requirement is longer.
const MAX_CHARACTERS: usize = 500;

/// One package that somebody has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    /// Its name, in the one spelling that all its spellings have in common.
    pub(super) name: String,
    /// As it was written.
    pub(super) text: String,
}

impl Requirement {
    /// A line of a requirements file that can be nothing else: no option, no path, no comment.
    pub(super) fn new(text: &str) -> Result<Self, Mistake> {
        let text = text.trim();
        let hint = "write it as pip does: polars, 'polars>=1,<2', 'httpx[http2]', 'name @ https://…/name.whl'";
        let wrong = |reason: &str| Err(Mistake::new(format!("{text:?} is not a package: {reason}"), Some(hint)));
        if text.len() > MAX_CHARACTERS || text.chars().any(char::is_control) {
            return wrong("it is too long, or has characters that cannot be seen");
        }
        let name = Self::named(text);
        let rest = &text[name.len()..];
        if name.is_empty() || !name.ends_with(|c: char| c.is_ascii_alphanumeric()) {
            return wrong("a package begins with its name");
        }
        if !rest.trim_start().is_empty() && !rest.trim_start().starts_with(['<', '>', '=', '!', '~', '[', '@', ';']) {
            return wrong("the text after the name is not a version");
        }
        Ok(Self { name, text: text.to_owned() })
    }

    /// The name that a requirement begins with; of the same length as it is there.
    pub(super) fn named(text: &str) -> String {
        let is_part = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name = text.trim().chars().take_while(is_part);
        let name: String = name.map(|c| if c == '_' || c == '.' { '-' } else { c.to_ascii_lowercase() }).collect();
        if name.starts_with('-') { String::new() } else { name }
    }
}

#[cfg(test)]
mod tests {
    use super::Requirement;

    #[test]
    fn packages_are_told_from_everything_else() {
        for (text, name) in [
            ("polars", "polars"),
            ("Scikit_Learn >= 1.2", "scikit-learn"),
            ("httpx[http2]", "httpx"),
            ("a @ https://example.com/a-1-py3-none-any.whl", "a"),
            ("numpy<2; python_version<'3.12'", "numpy"),
        ] {
            assert_eq!(Requirement::new(text).unwrap().name, name);
        }
        for text in
            ["", "--index-url=http://x", "-r x", "./x.whl", "/etc/passwd", "a\nb", "a b", "a#b", "x-", "git+https://x"]
        {
            assert!(Requirement::new(text).is_err(), "{text:?}");
        }
    }
}
