//! Passwords, keys and tokens beside their names: `password=…`, `"apiKey": "…"`, `Authorization: Bearer …`.

use super::Scan;
use super::context::Words;
use super::view::entropy_tenths;
use crate::kinds::Kind;
use std::sync::LazyLock;

/// The longest name of a secret, with its quotes.
const NAME_MOST: usize = 48;
/// The longest secret that is found as a whole.
const SECRET_MOST: usize = 400;

/// Names of what people choose themselves.
static PASSWORDS: LazyLock<Words> = LazyLock::new(|| {
    Words::new([
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "pass",
        "passcode",
        "kennwort",
        "passwort",
        "contraseña",
        "mot de passe",
    ])
});
/// Names of what programs make.
static KEYS: LazyLock<Words> = LazyLock::new(|| {
    Words::new([
        "secret",
        "token",
        "api_key",
        "apikey",
        "api-key",
        "api key",
        "access_key",
        "accesskey",
        "access-key",
        "private_key",
        "privatekey",
        "private-key",
        "secret_key",
        "secretkey",
        "secret-key",
        "auth_key",
        "authkey",
        "account_key",
        "accountkey",
        "sharedaccesskey",
        "shared_access_key",
        "sharedaccesssignature",
        "encryption_key",
        "encryptionkey",
        "signing_key",
        "signingkey",
        "client_secret",
        "clientsecret",
        "auth_token",
        "authtoken",
        "access_token",
        "accesstoken",
        "refresh_token",
        "refreshtoken",
        "bearer",
        "credential",
        "authorization",
        "x-api-key",
        "license_key",
        "session_key",
        "master_key",
        "masterkey",
        "webhook_secret",
        "_authtoken",
        "jwt",
        "sig",
        "signature_key",
        "cookie",
        "sessionid",
        "session_id",
    ])
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Password,
    Key,
}

impl Scan<'_> {
    /// Examines `=` or `:`, and returns where to go on if there is a secret.
    pub(super) fn secret(&mut self, sign: usize) -> Option<usize> {
        let name = self.name_before(sign)?;
        let view = self.view;
        // `=>`, `==` and `:=` too.
        let mut at = view.run(sign + 1, 2, |byte| matches!(byte, b'=' | b'>'));
        at = view.run(at, 4, |byte| byte == b' ');
        at = view.run(at, 2, |byte| byte == b'\\');
        let quote = view.at(at).filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
        at += usize::from(quote.is_some());
        let mut is_named = false;
        for scheme in [b"bearer ".as_slice(), b"basic ", b"token ", b"apikey "] {
            if view.starts_with_ignoring_case(at, scheme) {
                at = view.run(at + scheme.len(), 2, |byte| byte == b' ');
                is_named = true;
                break;
            }
        }
        self.value(at, if is_named { Name::Key } else { name }, quote)
    }

    /// Examines the word `Bearer` without the name of a header before it.
    pub(super) fn bearer(&mut self, start: usize) -> Option<usize> {
        let view = self.view;
        if !view.starts_with_ignoring_case(start, b"bearer ") {
            return None;
        }
        self.value(start + 7, Name::Key, None)
    }

    fn name_before(&self, sign: usize) -> Option<Name> {
        let view = &self.view;
        let mut end = sign;
        while end > 0
            && sign - end < 4
            && view.before(end, 1).is_some_and(|byte| matches!(byte, b' ' | b'"' | b'\'' | b'`' | b'\\' | b']' | b':'))
        {
            end -= 1;
        }
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let start = view.run_back(end, NAME_MOST, is_of_name);
        let name = view.slice(start, end);
        if name.len() < 3 {
            return None;
        }
        if PASSWORDS.are_in(name) {
            return Some(Name::Password);
        }
        KEYS.are_in(name).then_some(Name::Key)
    }

    fn value(&mut self, start: usize, name: Name, quote: Option<u8>) -> Option<usize> {
        let view = self.view;
        let is_of_value = |byte: u8| match quote {
            Some(quote) => byte != quote && byte > b' ' && byte != b'\\' && byte != 0x7f,
            None => byte > b' ' && byte != 0x7f && !b"\"'`<>,;|\\(){}[]&".contains(&byte),
        };
        let mut end = view.run(start, SECRET_MOST, is_of_value);
        // A call, an index, a template, a type.
        if quote.is_none() && matches!(view.at(end), Some(b'(' | b'[' | b'{' | b'<')) {
            return None;
        }
        while !view.text.is_char_boundary(end) {
            end -= 1;
        }
        if quote.is_none() {
            while end > start && matches!(view.at(end - 1), Some(b'.' | b':' | b'!' | b'?')) {
                end -= 1;
            }
        }
        let value = view.slice(start, end);
        if !is_secret(value, name, quote.is_some()) || !view.text.is_char_boundary(start) {
            return None;
        }
        self.found(Kind::Secret, start..end, if name == Name::Key { 75 } else { 70 });
        Some(end)
    }
}

fn is_secret(value: &[u8], name: Name, is_quoted: bool) -> bool {
    if is_placeholder(value) {
        return false;
    }
    let digits = value.iter().any(u8::is_ascii_digit);
    let upper = value.iter().any(u8::is_ascii_uppercase);
    let lower = value.iter().any(u8::is_ascii_lowercase);
    let signs =
        value.iter().any(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'-' | b'.' | b'/' | b':'));
    let classes = [digits, upper, lower, signs].into_iter().filter(|has| *has).count();
    let entropy = entropy_tenths(value);
    match name {
        // `password: string`, `pass = config.password`
        Name::Password if is_quoted => value.len() >= 6 && entropy >= 18 && (digits || signs || classes >= 3),
        Name::Password => value.len() >= 6 && entropy >= 20 && (digits || signs) && classes >= 2,
        Name::Key => value.len() >= 16 && entropy >= 30 && digits && classes >= 2 && !is_path(value),
    }
}

fn is_path(value: &[u8]) -> bool {
    value.starts_with(b"/") || value.starts_with(b"./") || value.windows(3).any(|part| part == b"://")
}

/// Beginnings of values that stand for a secret.
#[rustfmt::skip]
const PLACEHOLDERS: [&str; 22] = [
    "password", "passwd", "secret", "changeme", "change_me", "example", "placeholder", "your", "xxxx", "redacted", "hidden",
    "null", "none", "undefined", "true", "false", "string", "process.env", "os.environ", "env.", "getenv", "****",
];

/// Whether a value stands for a secret instead of being one: `${PASSWORD}`, `<token>`, `********`, `changeme`.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let first = value.first().copied().unwrap_or_default();
    if matches!(first, b'$' | b'<' | b'{' | b'%' | b'[' | b'*' | b'(') {
        return true;
    }
    let mut seen = [false; 256];
    for byte in value {
        seen[usize::from(*byte)] = true;
    }
    if seen.into_iter().filter(|seen| *seen).count() <= 2 {
        return true;
    }
    let head = value.get(..value.len().min(24)).unwrap_or_default().to_ascii_lowercase();
    PLACEHOLDERS.iter().any(|word| head.starts_with(word.as_bytes()) && (value.len() <= word.len() + 12))
}

/// Whether a whole value beside a key is a secret.
pub(crate) fn is_secret_value(key: &str, value: &str) -> bool {
    let name = if PASSWORDS.are_in(key.as_bytes()) {
        Name::Password
    } else if KEYS.are_in(key.as_bytes()) {
        Name::Key
    } else {
        return false;
    };
    value.len() <= SECRET_MOST && !value.contains(char::is_whitespace) && is_secret(value.as_bytes(), name, true)
}
