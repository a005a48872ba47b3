use crate::error::PackageError;

/// Packages that are installed without a requirements file, by their names in pip.
pub(crate) const USUAL: [&str; 8] =
    ["numpy", "pandas", "scipy", "matplotlib", "seaborn", "scikit-learn", "sympy", "plotly"];

/// Maximum length of a requirement in bytes.
const MAX_CHARACTERS: usize = 500;

/// Package requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    /// Normalized name.
    pub(crate) name: String,
    /// Original text.
    pub(crate) text: String,
}

impl Requirement {
    /// Parses a line of a requirements file. Options, paths and comments are rejected.
    pub(crate) fn new(text: &str) -> Result<Self, PackageError> {
        let text = text.trim();
        let wrong = |reason| Err(PackageError::Requirement { text: text.to_owned(), reason });
        if text.len() > MAX_CHARACTERS || text.chars().any(char::is_control) {
            return wrong("it is too long or contains hidden characters");
        }
        let name = Self::named(text);
        let rest = &text[name.len()..];
        if name.is_empty() || !name.ends_with(|c: char| c.is_ascii_alphanumeric()) {
            return wrong("the name is missing");
        }
        if !rest.trim_start().is_empty() && !rest.trim_start().starts_with(['<', '>', '=', '!', '~', '[', '@', ';']) {
            return wrong("the text after the name is not a version");
        }
        Ok(Self { name, text: text.to_owned() })
    }

    /// Normalized name at the start of a requirement, with the same length as in the text.
    pub(crate) fn named(text: &str) -> String {
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
    fn only_package_requirements_are_accepted() {
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
