//! SPDX licence expressions, as far as manifests use them: `OR`, `AND`, `WITH`, parentheses, and the old `/`.

use anyhow::{Result, bail};

/// Whether `expression` can be met with only `allowed` licences.
pub(super) fn is_satisfiable(expression: &str, allowed: &[&str]) -> Result<bool> {
    let tokens = tokens(expression)?;
    let mut parser = Parser { tokens: &tokens, allowed };
    let satisfiable = parser.alternatives()?;
    match parser.tokens.first() {
        None => Ok(satisfiable),
        Some(token) => bail!("`{}` comes unexpectedly", token.text()),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Or,
    And,
    With,
    Open,
    Close,
    Name(String),
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Or => "OR",
            Token::And => "AND",
            Token::With => "WITH",
            Token::Open => "(",
            Token::Close => ")",
            Token::Name(name) => name,
        }
    }
}

fn tokens(expression: &str) -> Result<Vec<Token>> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " / ");
    spaced.split_whitespace().map(token).collect()
}

fn token(word: &str) -> Result<Token> {
    let is_name = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '+' | ':'));
    Ok(match word {
        "OR" | "or" | "/" => Token::Or,
        "AND" | "and" => Token::And,
        "WITH" | "with" => Token::With,
        "(" => Token::Open,
        ")" => Token::Close,
        word if is_name(word) => Token::Name(word.to_owned()),
        word => bail!("`{word}` is not the name of a licence"),
    })
}

/// Evaluates while parsing. Every part is parsed even if the result is known, so that no error is missed.
struct Parser<'a> {
    tokens: &'a [Token],
    allowed: &'a [&'a str],
}

impl Parser<'_> {
    fn alternatives(&mut self) -> Result<bool> {
        let mut satisfiable = self.conjunction()?;
        while self.take(&Token::Or) {
            satisfiable |= self.conjunction()?;
        }
        Ok(satisfiable)
    }

    fn conjunction(&mut self) -> Result<bool> {
        let mut satisfiable = self.term()?;
        while self.take(&Token::And) {
            satisfiable &= self.term()?;
        }
        Ok(satisfiable)
    }

    fn term(&mut self) -> Result<bool> {
        if self.take(&Token::Open) {
            let satisfiable = self.alternatives()?;
            if !self.take(&Token::Close) {
                bail!("a closing parenthesis is missing");
            }
            return Ok(satisfiable);
        }
        let licence = self.name()?;
        if self.take(&Token::With) {
            let exception = self.name()?;
            return Ok(self.allowed.contains(&format!("{licence} WITH {exception}").as_str()));
        }
        Ok(self.allowed.contains(&licence.as_str()))
    }

    fn name(&mut self) -> Result<String> {
        match self.tokens.split_first() {
            Some((Token::Name(name), rest)) => {
                self.tokens = rest;
                Ok(name.clone())
            }
            Some((token, _)) => bail!("a licence is missing before `{}`", token.text()),
            None => bail!("a licence is missing at the end"),
        }
    }

    fn take(&mut self, wanted: &Token) -> bool {
        match self.tokens.split_first() {
            Some((token, rest)) if token == wanted => {
                self.tokens = rest;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[&str] = &["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"];

    #[test]
    fn satisfiable() {
        for expression in [
            "MIT",
            "MIT OR GPL-3.0-only",
            "GPL-3.0-only OR MIT",
            "GPL-3.0-only/MIT",
            "MIT / Apache-2.0",
            "MIT or Apache-2.0",
            "(MIT OR GPL-2.0-or-later) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0-only",
            "GPL-3.0-only AND ISC OR MIT",
            "((MIT))",
        ] {
            assert!(is_satisfiable(expression, ALLOWED).unwrap(), "{expression}");
        }
    }

    #[test]
    fn not_satisfiable() {
        for expression in [
            "GPL-3.0-only",
            "mit",
            "MIT+",
            "MIT AND GPL-3.0-only",
            "MIT AND (GPL-3.0-only OR AGPL-3.0-only)",
            "(MIT OR Apache-2.0) AND GPL-3.0-only",
            "Apache-2.0 WITH Classpath-exception-2.0",
            "GPL-3.0-only WITH LLVM-exception",
            "LicenseRef-own",
        ] {
            assert!(!is_satisfiable(expression, ALLOWED).unwrap(), "{expression}");
        }
    }

    #[test]
    fn invalid_expressions_are_errors_after_a_satisfied_part() {
        for expression in [
            "",
            "OR",
            "MIT OR",
            "MIT AND",
            "AND MIT",
            "MIT MIT",
            "(MIT",
            "MIT)",
            "()",
            "MIT WITH",
            "MIT WITH (ISC)",
            "MIT OR (ISC",
            "MIT OR _",
            "(MIT) WITH LLVM-exception",
        ] {
            assert!(is_satisfiable(expression, ALLOWED).is_err(), "{expression:?}");
        }
    }
}
