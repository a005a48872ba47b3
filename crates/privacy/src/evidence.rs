//! What the key of a value says about it: the value of `ssn` is probably a social security number.

mod keys;

use crate::finding::Finding;
use crate::kinds::Kind;
use crate::scan::{self, Topic};
use keys::{Expected, KEYS, OTHERS};

/// Longer keys are no evidence.
const KEY_MOST: usize = 80;
/// The longest value that is a name or an address as a whole.
const VALUE_MOST: usize = 200;

/// What a key says about its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// What the text of the value is about.
    pub(crate) topic: Option<Topic>,
    expected: Expected,
}

impl Evidence {
    /// What a key says, if it says something.
    pub(crate) fn of_key(key: &str) -> Option<Self> {
        if key.len() > KEY_MOST {
            return None;
        }
        let words = words_of(key);
        let expected = expected(&words).or_else(|| is_name_of_secret(key).then_some(Expected::Secret))?;
        let topic = match expected {
            Expected::Phone => Some(Topic::Phone),
            Expected::SocialSecurity => Some(Topic::SocialSecurity),
            Expected::NationalId => Some(Topic::NationalId),
            Expected::Passport => Some(Topic::Passport),
            Expected::DriverLicense => Some(Topic::DriverLicense),
            Expected::Birth => Some(Topic::Birth),
            Expected::Card => Some(Topic::Card),
            Expected::BankRouting => Some(Topic::BankRouting),
            Expected::BankAccount => Some(Topic::BankAccount),
            _ => None,
        };
        Some(Self { topic, expected })
    }

    /// The whole value as a finding, if it can be what the key says.
    pub(crate) fn whole_value(self, key: &str, text: &str) -> Option<Finding> {
        let value = text.trim();
        if value.is_empty() || value.len() > VALUE_MOST && self.expected != Expected::Secret {
            return None;
        }
        let (kind, confidence) = self.kind_of(key, value)?;
        let start = text.len() - text.trim_start().len();
        Some(Finding::new(kind, start..start + value.len(), confidence))
    }

    fn kind_of(self, key: &str, value: &str) -> Option<(Kind, u8)> {
        let digits: Vec<u8> = value.bytes().filter(u8::is_ascii_digit).collect();
        let is_of_digits = value.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b' ' | b'-' | b'.' | b'/'));
        let is_identifier = |least: usize, most: usize| {
            (least..=most).contains(&value.len())
                && digits.len() >= 4
                && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'-' | b'.' | b'/'))
        };
        match self.expected {
            Expected::PartOfName => is_name(value, Parts::Any).then_some((Kind::Person, 85)),
            Expected::Name => is_name(value, Parts::Several).then_some((Kind::Person, 60)),
            Expected::Street => is_street(value).then_some((Kind::Address, 80)),
            Expected::City => is_name(value, Parts::Any).then_some((Kind::Address, 75)),
            Expected::PostalCode => {
                let fits = !digits.is_empty() && value.len() <= 10 && is_of(value, " -");
                fits.then_some((Kind::Address, 75))
            }
            Expected::Phone => scan::is_phone(value).then_some((Kind::Phone, 85)),
            Expected::SocialSecurity => {
                let kind = is_of_digits.then(|| scan::social_security_kind(&digits)).flatten();
                kind.map(|kind| (kind, 95))
            }
            Expected::NationalId => {
                let confidence = if scan::is_national(value) { 95 } else { 65 };
                is_identifier(6, 20).then_some((Kind::NationalId, confidence))
            }
            Expected::Passport => is_identifier(5, 15).then_some((Kind::Passport, 90)),
            Expected::DriverLicense => is_identifier(4, 25).then_some((Kind::DriverLicense, 90)),
            Expected::Birth => scan::is_date(value).then_some((Kind::DateOfBirth, 95)),
            Expected::Card => (is_of_digits && scan::is_card(&digits)).then_some((Kind::CreditCard, 95)),
            Expected::BankRouting => (is_of_digits && scan::is_routing(&digits)).then_some((Kind::BankRouting, 95)),
            Expected::BankAccount => {
                (is_of_digits && (5..=20).contains(&digits.len())).then_some((Kind::BankAccount, 85))
            }
            Expected::Secret => scan::is_secret_value(key, value).then_some((Kind::Secret, 80)),
        }
    }
}

fn is_name_of_secret(key: &str) -> bool {
    scan::is_secret_value(key, "aB3$xY9!kL0_mN7@qR2")
}

/// The words of a key in lower case, joined by underscores: `firstName`, `First Name` and `first-name` are
/// `first_name`.
fn words_of(key: &str) -> String {
    let mut words = String::with_capacity(key.len() + 4);
    let mut was_lower = false;
    for c in key.chars() {
        if c.is_alphanumeric() {
            if c.is_uppercase() && was_lower {
                words.push('_');
            }
            was_lower = c.is_lowercase() || c.is_ascii_digit();
            words.extend(c.to_lowercase());
        } else {
            was_lower = false;
            if !words.ends_with('_') && !words.is_empty() {
                words.push('_');
            }
        }
    }
    words.truncate(words.trim_end_matches('_').len());
    words
}

fn expected(words: &str) -> Option<Expected> {
    let mut best: Option<(usize, Expected)> = None;
    for (expected, keys) in KEYS {
        for key in keys {
            let Some(before) = words.strip_suffix(key) else { continue };
            let is_word = before.is_empty() || before.ends_with('_');
            let qualifier = before.trim_end_matches('_').rsplit('_').next().unwrap_or_default();
            if is_word && !OTHERS.contains(&qualifier) && best.is_none_or(|(length, _)| key.len() > length) {
                best = Some((key.len(), expected));
            }
        }
    }
    best.map(|(_, expected)| expected)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    /// One word is enough.
    Any,
    /// Two words that start with capital letters, at least.
    Several,
}

fn is_of(value: &str, signs: &str) -> bool {
    value.chars().all(|c| c.is_alphanumeric() || signs.contains(c))
}

/// Words of names that are not of people.
const NOT_OF_PEOPLE: [&str; 40] = [
    "inc",
    "ltd",
    "llc",
    "gmbh",
    "corp",
    "corporation",
    "company",
    "co",
    "ag",
    "sa",
    "plc",
    "group",
    "bank",
    "university",
    "school",
    "hospital",
    "the",
    "and",
    "of",
    "for",
    "service",
    "server",
    "system",
    "project",
    "team",
    "department",
    "office",
    "center",
    "centre",
    "foundation",
    "association",
    "institute",
    "society",
    "software",
    "technologies",
    "solutions",
    "studio",
    "test",
    "default",
    "unknown",
];

/// Whether a value has the form of a name: a few words of letters.
fn is_name(value: &str, parts: Parts) -> bool {
    let words: Vec<&str> = value.split_whitespace().collect();
    let is_short = words.len() <= 6 && value.chars().count() <= 60;
    let letters = value.chars().all(|c| c.is_alphabetic() || " .'’-,\u{300}\u{301}".contains(c));
    let capitals = words.iter().filter(|word| word.chars().next().is_some_and(char::is_uppercase)).count();
    let is_of_people = || {
        words.iter().all(|word| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            !NOT_OF_PEOPLE.contains(&word.as_str())
        })
    };
    let has_letter = value.chars().any(char::is_alphabetic);
    let is_whole = match parts {
        Parts::Any => !matches!(value, "null" | "none" | "None" | "N/A" | "n/a" | "unknown" | "undefined"),
        Parts::Several => capitals >= 2 && (2..=4).contains(&words.len()) && is_of_people(),
    };
    is_short && letters && has_letter && is_whole
}

fn is_street(value: &str) -> bool {
    let letters = value.chars().filter(|c| c.is_alphabetic()).count();
    letters >= 3
        && !value.contains("://")
        && !value.contains('@')
        && !value.starts_with("0x")
        && (value.contains(' ') || is_of(value, "-.'’"))
}

#[cfg(test)]
mod tests {
    use super::{Evidence, words_of};

    #[test]
    fn keys_are_words() {
        for key in ["firstName", "first_name", "First Name", "first-name", "FIRST_NAME", "FirstName"] {
            assert_eq!(words_of(key), "first_name", "{key}");
        }
    }

    #[test]
    fn names_of_other_things_are_no_evidence() {
        for key in ["file_name", "hostName", "email_address", "ipAddress", "tool_name", "id", "", "description"] {
            assert!(Evidence::of_key(key).is_none(), "{key}");
        }
        for key in ["name", "address", "customerFirstName", "homePhone", "billing_address", "apiKey", "db_password"] {
            assert!(Evidence::of_key(key).is_some(), "{key}");
        }
    }
}
