//! The kinds of personal data, and the one table of their labels, descriptions and defaults. `docs/privacy.md` has the
//! same table, and a test compares the two.

use std::fmt;
use std::sync::Arc;

/// What kind of personal data something is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// An e-mail address.
    Email,
    /// A phone number.
    Phone,
    /// A name of a person.
    Person,
    /// A postal address or a part of one.
    Address,
    /// The number of a payment card.
    CreditCard,
    /// An international bank account number.
    Iban,
    /// A number of a bank account, with context.
    BankAccount,
    /// A US bank routing number, with context.
    BankRouting,
    /// A US social security number.
    UsSsn,
    /// A US individual taxpayer identification number.
    UsItin,
    /// A national identification or personal tax number of another country.
    NationalId,
    /// A passport number, with context.
    Passport,
    /// A number of a driving licence, with context.
    DriverLicense,
    /// A date of birth, with context.
    DateOfBirth,
    /// An IPv4 or IPv6 address.
    IpAddress,
    /// A MAC address.
    MacAddress,
    /// A URL with a user name and a password.
    UrlCredentials,
    /// Any other URL.
    Url,
    /// An API key or token of a known provider.
    ApiKey,
    /// A password, key or token beside its name.
    Secret,
    /// A private key.
    PrivateKey,
    /// A JSON Web Token.
    Jwt,
    /// An address of a cryptocurrency.
    CryptoAddress,
    /// A kind that the operator has defined, by its label.
    Custom(Arc<str>),
}

/// One row of the table of kinds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KindInfo {
    /// The kind.
    pub kind: Kind,
    /// Its label, as in tokens and settings.
    pub label: &'static str,
    /// What is found, in one sentence.
    pub description: &'static str,
    /// Whether the kind is on by default.
    pub is_default: bool,
}

const fn row(kind: Kind, label: &'static str, is_default: bool, description: &'static str) -> KindInfo {
    KindInfo { kind, label, description, is_default }
}

const ON: bool = true;
const OFF: bool = false;

/// All kinds except those of the operator, in the order of their variants.
static TABLE: [KindInfo; 23] = [
    row(Kind::Email, "EMAIL", ON, "E-mail addresses."),
    row(
        Kind::Phone,
        "PHONE",
        ON,
        "Phone numbers: international (`+44 20 7946 0958`), North American, and national formats. Short and bare numbers \
         need context, such as `phone` or `call`.",
    ),
    row(
        Kind::Person,
        "PERSON",
        ON,
        "Names of people, found in English text by a statistical model. Keys of JSON such as `first_name` are evidence.",
    ),
    row(
        Kind::Address,
        "ADDRESS",
        ON,
        "Postal addresses, their parts, and places in English text. Keys of JSON such as `street` are evidence.",
    ),
    row(
        Kind::CreditCard,
        "CREDIT_CARD",
        ON,
        "Numbers of payment cards: the prefix and length of a brand, and the Luhn checksum.",
    ),
    row(Kind::Iban, "IBAN", ON, "International bank account numbers: the country's length, and the checksum."),
    row(Kind::BankAccount, "BANK_ACCOUNT", ON, "Numbers of bank accounts, with context such as `account number`."),
    row(
        Kind::BankRouting,
        "BANK_ROUTING",
        ON,
        "US bank routing numbers: prefix and checksum, with context such as `routing` or `ABA`.",
    ),
    row(
        Kind::UsSsn,
        "US_SSN",
        ON,
        "US social security numbers in the form `123-45-6789`; nine digits without hyphens need context.",
    ),
    row(
        Kind::UsItin,
        "US_ITIN",
        ON,
        "US individual taxpayer identification numbers in the form `912-78-1234`; nine digits without hyphens need \
         context.",
    ),
    row(
        Kind::NationalId,
        "NATIONAL_ID",
        ON,
        "National identification and personal tax numbers with checksums. Forms that other numbers may have too need \
         context.",
    ),
    row(Kind::Passport, "PASSPORT", ON, "Passport numbers, with context."),
    row(Kind::DriverLicense, "DRIVER_LICENSE", ON, "Numbers of driving licences, with context."),
    row(Kind::DateOfBirth, "DATE_OF_BIRTH", ON, "Dates of birth, with context such as `born` or `DOB`."),
    row(
        Kind::IpAddress,
        "IP_ADDRESS",
        ON,
        "IPv4 and IPv6 addresses, except loopback, unspecified, multicast and broadcast addresses and netmasks.",
    ),
    row(Kind::MacAddress, "MAC_ADDRESS", ON, "MAC addresses of devices."),
    row(Kind::UrlCredentials, "URL_CREDENTIALS", ON, "URLs with a user name and a password."),
    row(Kind::Url, "URL", OFF, "All other URLs. Off by default, because a URL alone is no personal data."),
    row(Kind::ApiKey, "API_KEY", ON, "API keys and tokens of well-known providers."),
    row(
        Kind::Secret,
        "SECRET",
        ON,
        "Passwords, keys and tokens beside their names (`password=…`, `Authorization: Bearer …`), if they look random \
         enough.",
    ),
    row(Kind::PrivateKey, "PRIVATE_KEY", ON, "Private keys in PEM and similar blocks."),
    row(Kind::Jwt, "JWT", ON, "JSON Web Tokens whose header is JSON."),
    row(
        Kind::CryptoAddress,
        "CRYPTO_ADDRESS",
        ON,
        "Addresses of Bitcoin, Litecoin, Tron and Ethereum with their checksums.",
    ),
];

impl Kind {
    /// The table of all kinds except those of the operator.
    pub fn table() -> &'static [KindInfo] {
        &TABLE
    }

    /// The kind with a label, except those of the operator.
    pub fn from_label(label: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.label.eq_ignore_ascii_case(label)).map(|row| row.kind.clone())
    }

    /// The label of this kind, as in tokens and settings: `EMAIL`.
    pub fn label(&self) -> &str {
        match self {
            Self::Custom(label) => label,
            known => known.position().and_then(|position| TABLE.get(position)).map_or("", |row| row.label),
        }
    }

    /// The position in the table, or none for a kind of the operator.
    fn position(&self) -> Option<usize> {
        Some(match self {
            Self::Email => 0,
            Self::Phone => 1,
            Self::Person => 2,
            Self::Address => 3,
            Self::CreditCard => 4,
            Self::Iban => 5,
            Self::BankAccount => 6,
            Self::BankRouting => 7,
            Self::UsSsn => 8,
            Self::UsItin => 9,
            Self::NationalId => 10,
            Self::Passport => 11,
            Self::DriverLicense => 12,
            Self::DateOfBirth => 13,
            Self::IpAddress => 14,
            Self::MacAddress => 15,
            Self::UrlCredentials => 16,
            Self::Url => 17,
            Self::ApiKey => 18,
            Self::Secret => 19,
            Self::PrivateKey => 20,
            Self::Jwt => 21,
            Self::CryptoAddress => 22,
            Self::Custom(_) => return None,
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A set of kinds. It always contains those of the operator: each of their patterns is there because it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(u32);

impl Kinds {
    /// The kinds that are on by default.
    pub(crate) fn of_default() -> Self {
        let mut kinds = Self(0);
        TABLE.iter().filter(|row| row.is_default).for_each(|row| kinds.insert(&row.kind));
        kinds
    }

    pub(crate) fn insert(&mut self, kind: &Kind) {
        self.0 |= Self::bit(kind);
    }

    pub(crate) fn remove(&mut self, kind: &Kind) {
        self.0 &= !Self::bit(kind);
    }

    pub(crate) fn contains(self, kind: &Kind) -> bool {
        matches!(kind, Kind::Custom(_)) || self.0 & Self::bit(kind) != 0
    }

    fn bit(kind: &Kind) -> u32 {
        kind.position().map_or(0, |position| 1 << position)
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, TABLE};

    #[test]
    fn the_table_is_in_the_order_of_the_positions() {
        for (position, row) in TABLE.iter().enumerate() {
            assert_eq!(row.kind.position(), Some(position), "{}", row.label);
            assert_eq!(row.kind.label(), row.label);
            assert_eq!(Kind::from_label(row.label), Some(row.kind.clone()));
            assert!(row.description.ends_with('.'), "{}", row.description);
        }
        assert_eq!(Kind::Custom("TICKET".into()).label(), "TICKET");
        assert_eq!(Kind::from_label("TICKET"), None);
    }
}
