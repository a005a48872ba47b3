//! Words around a candidate that tell what it is.

use super::view::View;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use std::sync::LazyLock;

/// How far before a candidate its context may be, in bytes.
pub(crate) const BEFORE: usize = 56;
/// How far after a candidate its context may be, in bytes.
pub(crate) const AFTER: usize = 16;

/// Words in ASCII. A word is found in any case, at the boundaries of words, also in `camelCase` and `snake_case`.
#[derive(Debug)]
pub(crate) struct Words {
    automaton: Option<AhoCorasick>,
    beginnings: Beginnings,
}

impl Words {
    pub(crate) fn new<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> Self {
        let words: Vec<W> = words.into_iter().collect();
        let beginnings = Beginnings::of(&words);
        let built = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&words);
        // Only far larger lists than these can fail.
        Self { automaton: built.ok(), beginnings }
    }

    pub(crate) fn are_in(&self, text: &[u8]) -> bool {
        if !self.beginnings.may_be_in(text) {
            return false;
        }
        let Some(automaton) = &self.automaton else { return false };
        automaton.find_iter(text).any(|found| is_word(text, found.start(), found.end()))
    }

    pub(crate) fn are_before(&self, view: &View<'_>, position: usize, distance: usize) -> bool {
        self.are_in(view.slice(position.saturating_sub(distance), position))
    }

    pub(crate) fn are_after(&self, view: &View<'_>, position: usize, distance: usize) -> bool {
        self.are_in(view.slice(position, position + distance))
    }
}

/// The number of bits of a byte that its case does not change, if it is a letter.
const FOLDED_BITS: usize = 5;
/// The number of bits of three such bytes.
const BEGINNING_BITS: usize = 3 * FOLDED_BITS;

/// The first three bytes of words, as a set of bits. Most texts have none of them, which is found out far sooner than that
/// they have none of the words.
#[derive(Debug)]
struct Beginnings(Box<[u64; (1 << BEGINNING_BITS) / 64]>);

fn folded(byte: u8) -> usize {
    usize::from(byte) & ((1 << FOLDED_BITS) - 1)
}

impl Beginnings {
    fn of<W: AsRef<[u8]>>(words: &[W]) -> Self {
        let mut set = Self(Box::new([0; (1 << BEGINNING_BITS) / 64]));
        for word in words {
            let beginning = word.as_ref().iter().take(3).fold(0, |index, byte| index << FOLDED_BITS | folded(*byte));
            // Anything may follow a word that is shorter.
            let free = FOLDED_BITS * (3 - word.as_ref().len().min(3));
            for rest in 0..1 << free {
                let index = beginning << free | rest;
                set.0[index / 64] |= 1 << (index % 64);
            }
        }
        set
    }

    fn may_be_in(&self, text: &[u8]) -> bool {
        let has = |index: usize| self.0[index / 64] >> (index % 64) & 1 == 1;
        let mut index = 0;
        for (place, byte) in text.iter().enumerate() {
            index = (index << FOLDED_BITS | folded(*byte)) & ((1 << BEGINNING_BITS) - 1);
            if place >= 2 && has(index) {
                return true;
            }
        }
        // The last bytes may be a short word.
        let missing: &[usize] = match text.len() {
            0 => &[],
            1 => &[2],
            _ => &[1, 2],
        };
        missing.iter().any(|missing| has(index << (FOLDED_BITS * missing) & ((1 << BEGINNING_BITS) - 1)))
    }
}

/// Whether `start..end` is a word. `phone` is one in `phone`, `phones`, `phoneNumber`, `homePhone` and `home_phone`.
fn is_word(text: &[u8], start: usize, end: usize) -> bool {
    let at = |position: usize| text.get(position).copied();
    let before = start.checked_sub(1).and_then(at);
    let starts = match (before, at(start)) {
        (Some(before), Some(first)) => {
            !before.is_ascii_alphabetic() || (before.is_ascii_lowercase() && first.is_ascii_uppercase()) || {
                // The `n` of an escaped line break.
                matches!(before, b'n' | b'r' | b't') && start >= 2 && at(start - 2) == Some(b'\\')
            }
        }
        _ => true,
    };
    let last = end.checked_sub(1).and_then(at).unwrap_or_default();
    let after = match at(end) {
        Some(b's' | b'S') => at(end + 1),
        after => after,
    };
    let goes_on = |after: u8| {
        after.is_ascii_alphabetic()
            && last.is_ascii_alphabetic()
            && !(last.is_ascii_lowercase() && after.is_ascii_uppercase())
    };
    starts && !after.is_some_and(goes_on)
}

/// What the context of a candidate, or the key of its value, is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Phone,
    Card,
    SocialSecurity,
    NationalId,
    BankRouting,
    BankAccount,
    Passport,
    DriverLicense,
    Birth,
}

static PHONE: LazyLock<Words> = LazyLock::new(|| {
    Words::new([
        "phone",
        "telephone",
        "tel",
        "mobile",
        "mob",
        "cell",
        "cellphone",
        "fax",
        "landline",
        "call",
        "called",
        "calling",
        "dial",
        "ring me",
        "sms",
        "text me",
        "texted",
        "message",
        "voicemail",
        "whatsapp",
        "telegram",
        "viber",
        "hotline",
        "helpline",
        "desk",
        "office",
        "contact",
        "reach me",
        "reach us",
        "reached at",
        "answering",
        "answer at",
        "handset",
        "pager",
        "switchboard",
        "reception",
        "telefon",
        "telefono",
        "telefone",
        "movil",
        "celular",
        "handy",
        "mobil",
        "portable",
        "gsm",
        "rufnummer",
        "telefonnummer",
    ])
});
static CARD: LazyLock<Words> = LazyLock::new(|| {
    Words::new([
        "card",
        "credit",
        "debit",
        "visa",
        "mastercard",
        "amex",
        "american express",
        "maestro",
        "discover",
        "diners",
        "jcb",
        "cc",
        "pan",
        "ccnum",
        "creditcard",
        "cardnumber",
        "kreditkarte",
        "carte",
        "tarjeta",
    ])
});
static SOCIAL_SECURITY: LazyLock<Words> = LazyLock::new(|| {
    Words::new(["ssn", "social security", "social sec", "socialsecurity", "social_security", "itin", "taxpayer", "tin"])
});
static BANK_ROUTING: LazyLock<Words> =
    LazyLock::new(|| Words::new(["routing", "aba", "rtn", "transit number", "routingnumber"]));
static BANK_ACCOUNT: LazyLock<Words> = LazyLock::new(|| {
    Words::new([
        "account number",
        "account no",
        "account num",
        "account #",
        "account",
        "acct",
        "acct no",
        "accountnumber",
        "bank account",
        "checking",
        "savings",
        "kontonummer",
        "numero de cuenta",
    ])
});
static PASSPORT: LazyLock<Words> = LazyLock::new(|| {
    Words::new([
        "passport",
        "passeport",
        "reisepass",
        "pasaporte",
        "passaporto",
        "passaporte",
        "paspoort",
        "travel document",
    ])
});
static DRIVER_LICENSE: LazyLock<Words> = LazyLock::new(|| {
    Words::new([
        "driver license",
        "driver's license",
        "drivers license",
        "driver licence",
        "driver's licence",
        "drivers licence",
        "driving license",
        "driving licence",
        "driver_license",
        "drivers_license",
        "driver-license",
        "driverlicense",
        "driverslicense",
        "driving_licence",
        "license number",
        "licence number",
        "license no",
        "licence no",
        "dl number",
        "dl no",
        "dl#",
        "dl:",
        "dln",
        "fuhrerschein",
        "permis de conduire",
        "licencia de conducir",
        "driving permit",
    ])
});
static BIRTH: LazyLock<Words> = LazyLock::new(|| {
    Words::new([
        "date of birth",
        "birth date",
        "birthdate",
        "birthday",
        "birth_date",
        "date_of_birth",
        "dateofbirth",
        "dob",
        "d.o.b",
        "born",
        "born on",
        "birth",
        "bday",
        "geburtsdatum",
        "geboren",
        "date de naissance",
        "fecha de nacimiento",
        "data di nascita",
    ])
});
static NATIONAL_ID: LazyLock<Words> = LazyLock::new(|| {
    Words::new([
        "national id",
        "national identification",
        "national number",
        "national insurance",
        "identity number",
        "identity card",
        "id number",
        "id card",
        "personal number",
        "personal id",
        "personal code",
        "citizen",
        "social insurance",
        "social security",
        "insurance number",
        "tax id",
        "tax number",
        "tax file",
        "tax no",
        "taxpayer",
        "tin",
        "tfn",
        "national_id",
        "tax_id",
        "nationalid",
        "taxid",
        "dni",
        "nie",
        "nif",
        "nino",
        "nhs",
        "bsn",
        "burgerservicenummer",
        "pesel",
        "personnummer",
        "fodselsnummer",
        "cpr",
        "cpf",
        "aadhaar",
        "aadhar",
        "uidai",
        "sin",
        "idnr",
        "steuer-id",
        "steueridentifikationsnummer",
        "steuernummer",
        "tckn",
        "tc kimlik",
        "kimlik",
        "teudat zehut",
        "cnp",
        "oib",
        "egn",
        "amka",
        "insz",
        "rijksregisternummer",
        "isikukood",
        "asmens kodas",
        "svnr",
        "sozialversicherungsnummer",
        "nir",
        "secu",
        "ahv",
        "avs",
        "jmbg",
        "rut",
        "run",
        "pps",
        "ppsn",
        "hetu",
        "rodne cislo",
        "codice fiscale",
        "id no",
        "id-number",
        "id_number",
        "identification number",
    ])
});
/// What number a number is that looks like one of a phone.
static NO_PHONE: LazyLock<Words> = LazyLock::new(|| {
    Words::new([
        "order",
        "invoice",
        "id",
        "ids",
        "uuid",
        "guid",
        "ref",
        "reference",
        "isbn",
        "issn",
        "doi",
        "pmid",
        "version",
        "ver",
        "rev",
        "revision",
        "tracking",
        "sku",
        "ticket",
        "case",
        "serial",
        "part",
        "model",
        "lat",
        "lon",
        "lng",
        "latitude",
        "longitude",
        "price",
        "amount",
        "total",
        "sum",
        "balance",
        "build",
        "release",
        "commit",
        "hash",
        "checksum",
        "sha",
        "md5",
        "offset",
        "address 0x",
        "bytes",
        "size",
        "port",
        "pid",
        "line",
        "page",
        "pages",
        "batch",
        "lot",
        "barcode",
        "ean",
        "upc",
        "asin",
        "vin",
        "chapter",
        "section",
        "vol",
        "volume",
        "rgb",
        "matrix",
        "coordinates",
        "timestamp",
        "epoch",
        "score",
        "error code",
        "errno",
        "exit code",
        "zip",
        "postcode",
    ])
});

impl Topic {
    fn words(self) -> &'static Words {
        match self {
            Self::Phone => &PHONE,
            Self::Card => &CARD,
            Self::SocialSecurity => &SOCIAL_SECURITY,
            Self::NationalId => &NATIONAL_ID,
            Self::BankRouting => &BANK_ROUTING,
            Self::BankAccount => &BANK_ACCOUNT,
            Self::Passport => &PASSPORT,
            Self::DriverLicense => &DRIVER_LICENSE,
            Self::Birth => &BIRTH,
        }
    }

    /// Whether the text shortly before a position is about this.
    pub(crate) fn is_before(self, view: &View<'_>, position: usize) -> bool {
        self.words().are_before(view, position, BEFORE)
    }

    /// Whether the text shortly before a position, but not before `from`, is about this.
    pub(crate) fn is_between(self, view: &View<'_>, from: usize, position: usize) -> bool {
        self.words().are_in(view.slice(position.saturating_sub(BEFORE).max(from), position))
    }
}

/// Whether a number is a phone number by the words around it.
pub(crate) fn says_phone(view: &View<'_>, start: usize, end: usize) -> bool {
    PHONE.are_before(view, start, BEFORE) || PHONE.are_after(view, end, AFTER)
}

/// Whether the words right before a number say that it is something else than a phone number.
pub(crate) fn denies_phone(view: &View<'_>, start: usize) -> bool {
    NO_PHONE.are_before(view, start, 20)
}

#[cfg(test)]
mod tests {
    use super::Topic;

    #[test]
    fn a_text_without_beginnings_of_words_has_no_words() {
        let words = ["id", "v", "phone", "dl#", "contrase\u{f1}a"];
        let set = super::Beginnings::of(&words);
        for word in words {
            for text in
                [word.to_owned(), format!("x{word}"), format!("{word}y"), format!("-- {} --", word.to_uppercase())]
            {
                assert!(set.may_be_in(text.as_bytes()), "{text}");
            }
        }
        for text in ["", "a", "ab", "i", "di", "pho", "none of them", "12345 87"] {
            assert!(text == "pho" || !set.may_be_in(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn words_are_found_at_their_boundaries() {
        for text in ["phone", "Phones: ", "homePhone", "phoneNumber", "home_phone", "PHONE_1", "x\\nphone"] {
            assert!(Topic::Phone.words().are_in(text.as_bytes()), "{text}");
        }
        for text in ["microphonez", "telling", "locally", "excellent", "TELLING", ""] {
            assert!(!Topic::Phone.words().are_in(text.as_bytes()), "{text}");
        }
    }
}
