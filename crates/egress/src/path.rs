//! Paths of requests compared with path patterns of rules.

use std::fmt;

use percent_encoding::percent_decode_str;

/// Path of a rule: `/v1/status`, `/v1/*` (everything below), `/v1/*/public` (one segment).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathPattern {
    text: String,
    /// `None` stands for any segment.
    segments: Vec<Option<Vec<u8>>>,
    /// Whether the pattern ends in `/*`.
    with_rest: bool,
}

impl PathPattern {
    /// Fails with what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains(['?', '#']) {
            return Err("a path pattern has no query and no fragment: rules compare only the path");
        }
        let (body, with_rest) = match text.strip_suffix("/*") {
            Some(body) => (body, true),
            None => (text, false),
        };
        let has_partial_star = body.split('/').any(|segment| segment.contains('*') && segment != "*");
        if has_partial_star {
            return Err("`*` stands for a whole segment: write /v1/* or /v1/*/status");
        }
        let plain = if body.is_empty() { Some(Vec::new()) } else { segments(body) };
        let Some(plain) = plain else {
            return Err("a path pattern has no empty segments, no `.` and `..`, and no encoded slashes");
        };
        let segments = plain.into_iter().map(|segment| (segment != b"*").then_some(segment)).collect();
        Ok(Self { text: text.to_owned(), segments, with_rest })
    }

    /// Whether the path of a request matches. A path that servers may read in different ways matches no pattern.
    pub(crate) fn matches(&self, path: &str) -> bool {
        let Some(segments) = segments(path) else { return false };
        let fits =
            if self.with_rest { segments.len() > self.segments.len() } else { segments.len() == self.segments.len() };
        let mut pairs = self.segments.iter().zip(&segments);
        fits && pairs.all(|(pattern, segment)| pattern.as_ref().is_none_or(|pattern| pattern == segment))
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The decoded segments of an absolute path. `None` if it is ambiguous: what one server takes for a part of a name, is a
/// separator or a step upwards for another. Only the last segment may be empty.
fn segments(path: &str) -> Option<Vec<Vec<u8>>> {
    let body = path.strip_prefix('/')?;
    let last = body.split('/').count() - 1;
    let decoded = body.split('/').enumerate().map(|(index, segment)| {
        let has_bad_escape = segment.split('%').skip(1).any(|rest| {
            let digits = rest.as_bytes().get(..2);
            digits.is_none_or(|digits| !digits.iter().all(u8::is_ascii_hexdigit))
        });
        let plain: Vec<u8> = percent_decode_str(segment).collect();
        let is_odd = |byte: &u8| b"/\\%".contains(byte) || byte.is_ascii_control();
        let name = plain.split(|byte| *byte == b';').next().unwrap_or_default();
        let is_step = name == b"." || name == b"..";
        let is_hole = plain.is_empty() && index != last;
        (!has_bad_escape && !is_step && !is_hole && !plain.iter().any(is_odd)).then_some(plain)
    });
    decoded.collect()
}

#[cfg(test)]
mod tests {
    use super::PathPattern;

    fn matches(pattern: &str, path: &str) -> bool {
        PathPattern::parse(pattern).unwrap().matches(path)
    }

    #[test]
    fn patterns_match_whole_segments() {
        assert!(matches("/v1/status", "/v1/status"));
        assert!(!matches("/v1/status", "/v1/status/x"));
        assert!(!matches("/v1/status", "/v1/Status"));
        assert!(matches("/v1/*", "/v1/a/b"));
        assert!(matches("/v1/*", "/v1/"));
        assert!(!matches("/v1/*", "/v1"));
        assert!(!matches("/v1/*", "/v10/a"));
        assert!(matches("/v1/*/public", "/v1/anything/public"));
        assert!(!matches("/v1/*/public", "/v1/a/b/public"));
        assert!(matches("/*", "/"));
        assert!(matches("/", "/"));
        assert!(!matches("/", "/a"));
        assert!(matches("/a%20b", "/a%20b"));
        assert!(matches("/%61", "/a"));
    }

    #[test]
    fn ambiguous_paths_match_nothing() {
        let ambiguous = [
            "/v1/../admin",
            "/v1/%2e%2e/admin",
            "/v1/.%2E/admin",
            "/v1/..;x/admin",
            "/v1/..%2fadmin",
            "/v1/a%5c..",
            "/v1/a\\..\\admin",
            "/v1//admin",
            "/v1/%252e%252e/admin",
            "/v1/%zz",
            "/v1/%",
            "/v1/a%00",
            "/v1/./a",
            "v1/a",
        ];
        for path in ambiguous {
            assert!(!matches("/v1/*", path), "{path}");
        }
        assert!(matches("/v1/*", "/v1/a..b/..c"));
    }

    #[test]
    fn wrong_patterns_are_explained() {
        for pattern in ["/v1?x=1", "/v1/foo*", "/a//b", "/a/../b", "/a%2fb"] {
            assert!(PathPattern::parse(pattern).is_err(), "{pattern}");
        }
    }
}
