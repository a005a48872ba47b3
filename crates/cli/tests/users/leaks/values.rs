//! Random personal data, by kind, with valid checksums. Nothing of it belongs to anybody.

use fastrand::Rng;
use sha2::{Digest, Sha256};

/// A value that must not be seen.
#[derive(Clone, Debug)]
pub(crate) struct Planted {
    /// The key that it has in JSON.
    pub(crate) key: &'static str,
    pub(crate) text: String,
    /// Whether it is recognized wherever it is, without its key.
    pub(crate) is_plain: bool,
}

type Make = fn(&mut Rng) -> String;

/// Kinds that are recognized by themselves.
const PLAIN: [(&str, Make); 14] = [
    ("contact", email),
    ("reach", phone),
    ("paid_with", card),
    ("transfer", iban),
    ("number", ssn),
    ("taxpayer", itin),
    ("seen_from", ipv4),
    ("seen_from_6", ipv6),
    ("device", mac),
    ("source", url),
    ("used", api_key),
    ("signed", jwt),
    ("wallet_of", bitcoin),
    ("pem", private_key),
];

/// Kinds that are recognized by their keys.
const KEYED: [(&str, Make); 13] = [
    ("account_number", |rng| digits(rng, 10)),
    ("routing_number", routing),
    ("national_id", dni),
    ("cpf", cpf),
    ("pesel", pesel),
    ("passport_number", |rng| format!("{}{}", letters(rng, 1), digits(rng, 8))),
    ("driver_license", |rng| format!("{}{}", letters(rng, 1), digits(rng, 12))),
    ("date_of_birth", date),
    ("password", password),
    ("first_name", name),
    ("last_name", name),
    ("full_name", |rng| format!("{} {}", name(rng), name(rng))),
    ("street_address", |rng| format!("{} {} Street", rng.u32(1..2_000), name(rng))),
];

pub(crate) fn any(rng: &mut Rng) -> Planted {
    if rng.bool() { plain(rng) } else { keyed(rng) }
}

/// A value that needs no key to be recognized.
pub(crate) fn plain(rng: &mut Rng) -> Planted {
    let (key, make) = PLAIN[rng.usize(..PLAIN.len())];
    Planted { key, text: make(rng), is_plain: true }
}

fn keyed(rng: &mut Rng) -> Planted {
    let (key, make) = KEYED[rng.usize(..KEYED.len())];
    Planted { key, text: make(rng), is_plain: false }
}

pub(crate) fn digits(rng: &mut Rng, count: usize) -> String {
    let first = char::from(b'1' + rng.u8(..9));
    std::iter::once(first).chain((1..count).map(|_| char::from(b'0' + rng.u8(..10)))).collect()
}

fn letters(rng: &mut Rng, count: usize) -> String {
    (0..count).map(|_| char::from(b'A' + rng.u8(..26))).collect()
}

fn alphanumeric(rng: &mut Rng, count: usize) -> String {
    (0..count).map(|_| rng.alphanumeric()).collect()
}

fn hexadecimal(rng: &mut Rng, count: usize) -> String {
    (0..count).map(|_| rng.digit(16)).collect()
}

/// A name that nobody has: syllables.
pub(crate) fn name(rng: &mut Rng) -> String {
    let consonants = ["b", "d", "f", "g", "k", "l", "m", "n", "r", "s", "t", "v", "z", "br", "kr", "st"];
    let vowels = ["a", "e", "i", "o", "u"];
    let mut name = String::new();
    for _ in 0..rng.usize(3..5) {
        name.push_str(consonants[rng.usize(..consonants.len())]);
        name.push_str(vowels[rng.usize(..vowels.len())]);
    }
    // No word of a language ends like this.
    name.push_str(["x", "zk", "qu"][rng.usize(..3)]);
    name[..1].make_ascii_uppercase();
    name
}

pub(crate) fn email(rng: &mut Rng) -> String {
    let end = ["org", "com", "net", "de", "co.uk"][rng.usize(..5)];
    format!(
        "{}.{}{}@{}.{end}",
        name(rng).to_lowercase(),
        name(rng).to_lowercase(),
        rng.u32(..100),
        name(rng).to_lowercase()
    )
}

fn phone(rng: &mut Rng) -> String {
    let area = ["415", "212", "312", "206", "617", "303"][rng.usize(..6)];
    let (exchange, line) = (rng.u32(200..911) / 10 * 10 + rng.u32(2..9), rng.u32(1_000..10_000));
    match rng.u8(..4) {
        0 => format!("+1 ({area}) {exchange}-{line}"),
        1 => format!("({area}) {exchange}-{line}"),
        2 => format!("+44 20 7{} {line}", rng.u32(100..1_000)),
        _ => format!("+49 30 {}", digits(rng, 8)),
    }
}

fn luhn(payload: &str) -> char {
    let sum: u32 = payload
        .bytes()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let digit = u32::from(digit - b'0');
            if place % 2 == 1 {
                digit
            } else if digit > 4 {
                2 * digit - 9
            } else {
                2 * digit
            }
        })
        .sum();
    char::from_digit((10 - sum % 10) % 10, 10).unwrap()
}

fn card(rng: &mut Rng) -> String {
    let (prefix, length) = [("4", 15), ("52", 15), ("37", 14)][rng.usize(..3)];
    let payload = format!("{prefix}{}", digits(rng, length - prefix.len()));
    let number = format!("{payload}{}", luhn(&payload));
    match rng.u8(..3) {
        0 => number,
        sign => grouped(&number, 4, if sign == 1 { " " } else { "-" }),
    }
}

fn grouped(text: &str, size: usize, sign: &str) -> String {
    let groups: Vec<&str> = text.as_bytes().chunks(size).map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(sign)
}

fn iban(rng: &mut Rng) -> String {
    let (country, rest) = match rng.u8(..3) {
        0 => ("DE", digits(rng, 18)),
        1 => ("NL", format!("INGB{}", digits(rng, 10))),
        _ => ("GB", format!("NWBK{}", digits(rng, 14))),
    };
    let remainder = format!("{rest}{country}00").bytes().fold(0_u32, |left, byte| {
        let value = if byte.is_ascii_digit() { byte - b'0' } else { byte - b'A' + 10 };
        (if value < 10 { left * 10 } else { left * 100 } + u32::from(value)) % 97
    });
    let iban = format!("{country}{:02}{rest}", 98 - remainder);
    if rng.bool() { iban } else { grouped(&iban, 4, " ") }
}

fn routing(rng: &mut Rng) -> String {
    let payload = format!("{:02}{}", rng.u32(1..13), digits(rng, 6));
    let sum: u32 = payload.bytes().zip([3, 7, 1].into_iter().cycle()).map(|(d, w)| u32::from(d - b'0') * w).sum();
    format!("{payload}{}", (10 - sum % 10) % 10)
}

fn ssn(rng: &mut Rng) -> String {
    format!("{:03}-{:02}-{:04}", rng.u32(100..666), rng.u32(10..100), rng.u32(1_000..10_000))
}

fn itin(rng: &mut Rng) -> String {
    format!("9{:02}-{:02}-{:04}", rng.u32(10..100), rng.u32(70..89), rng.u32(1_000..10_000))
}

fn dni(rng: &mut Rng) -> String {
    let number = rng.usize(10_000_000..100_000_000);
    format!("{number}{}", char::from(b"TRWAGMYFPDXBNJZSQVHLCKE"[number % 23]))
}

fn cpf(rng: &mut Rng) -> String {
    let mut all: Vec<u32> = digits(rng, 9).bytes().map(|digit| u32::from(digit - b'0')).collect();
    for _ in 0..2 {
        let most = all.len() as u32 + 1;
        let sum: u32 = all.iter().zip((2..=most).rev()).map(|(digit, weight)| digit * weight).sum();
        all.push(sum * 10 % 11 % 10);
    }
    let text: String = all.iter().map(u32::to_string).collect();
    format!("{}.{}.{}-{}", &text[..3], &text[3..6], &text[6..9], &text[9..])
}

fn pesel(rng: &mut Rng) -> String {
    let birth = format!("{:02}{:02}{:02}", rng.u32(50..99), rng.u32(1..13), rng.u32(1..29));
    let payload = format!("{birth}{}", digits(rng, 4));
    let sum: u32 = payload.bytes().zip([1, 3, 7, 9].into_iter().cycle()).map(|(d, w)| u32::from(d - b'0') * w).sum();
    format!("{payload}{}", (10 - sum % 10) % 10)
}

fn date(rng: &mut Rng) -> String {
    format!("{}-{:02}-{:02}", rng.u32(1940..2005), rng.u32(1..13), rng.u32(1..29))
}

fn ipv4(rng: &mut Rng) -> String {
    format!("{}.{}.{}.{}", rng.u8(20..99), rng.u8(100..255), rng.u8(10..255), rng.u8(10..255))
}

fn ipv6(rng: &mut Rng) -> String {
    format!("2a02:{:x}:{:x}::{:x}:{:x}", rng.u16(0x1000..), rng.u16(0x1000..), rng.u16(0x1000..), rng.u16(0x1000..))
}

fn mac(rng: &mut Rng) -> String {
    grouped(&format!("02{}", hexadecimal(rng, 10)), 2, ":")
}

fn password(rng: &mut Rng) -> String {
    format!("{}{}{}!x", letters(rng, 3), alphanumeric(rng, 12), rng.u32(10..100))
}

fn url(rng: &mut Rng) -> String {
    let (user, host) = (name(rng).to_lowercase(), name(rng).to_lowercase());
    format!("https://{user}:{}@{host}.org/{}", alphanumeric(rng, 14), name(rng).to_lowercase())
}

fn api_key(rng: &mut Rng) -> String {
    match rng.u8(..4) {
        0 => format!("ghp_{}", alphanumeric(rng, 36)),
        1 => format!("AKIA{}", letters(rng, 16)),
        2 => format!("AIza{}", alphanumeric(rng, 35)),
        _ => format!("glpat-{}", alphanumeric(rng, 20)),
    }
}

pub(crate) fn base64(bytes: &[u8], set: &[u8; 64]) -> String {
    let digit = |value: u32| char::from(set[value as usize & 63]);
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let value = three.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        text.extend((0..=three.len()).map(|place| digit(value >> (18 - 6 * place))));
    }
    text
}

pub(crate) const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
pub(crate) const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn jwt(rng: &mut Rng) -> String {
    let payload = format!(r#"{{"sub":"{}","iat":{}}}"#, digits(rng, 8), digits(rng, 10));
    let signature: Vec<u8> = (0..32).map(|_| rng.u8(..)).collect();
    let parts = [br#"{"alg":"HS256","typ":"JWT"}"#.as_slice(), payload.as_bytes(), &signature];
    parts.map(|part| base64(part, URL_SAFE)).join(".")
}

fn private_key(rng: &mut Rng) -> String {
    let body: Vec<u8> = (0..240).map(|_| rng.u8(..)).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", grouped(&base64(&body, STANDARD), 64, "\n"))
}

fn bitcoin(rng: &mut Rng) -> String {
    const BASE58: &[u8] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut bytes = vec![0_u8];
    // Without further zeros, so that the address has one leading 1.
    bytes.extend((0..20).map(|_| rng.u8(1..)));
    let checksum = Sha256::digest(Sha256::digest(&bytes));
    bytes.extend(&checksum[..4]);
    let mut text = Vec::new();
    while bytes.iter().any(|byte| *byte != 0) {
        let mut left = 0_u32;
        for byte in &mut bytes {
            let value = left * 256 + u32::from(*byte);
            (*byte, left) = ((value / 58) as u8, value % 58);
        }
        text.push(BASE58[left as usize]);
    }
    text.push(b'1');
    text.reverse();
    String::from_utf8(text).unwrap()
}
