//! Each kind, with what is found and what is not. Tokens of providers are put together here, so that no tool takes them
//! for real ones.

use coracle_privacy::{Detector, DetectorSettings, Kind};

/// The kinds and texts that are found.
fn found(text: &str) -> Vec<(String, String)> {
    let detector = Detector::default();
    detector
        .find(text)
        .into_iter()
        .map(|finding| (finding.kind.label().to_owned(), text[finding.span].to_owned()))
        .collect()
}

/// Each text contains the value between `«` and `»`, which is found with this kind, and nothing else.
fn positives(label: &str, texts: &[&str]) {
    for marked in texts {
        let (before, rest) = marked.split_once('«').unwrap_or_else(|| panic!("no « in {marked}"));
        let (value, after) = rest.split_once('»').unwrap_or_else(|| panic!("no » in {marked}"));
        let text = format!("{before}{value}{after}");
        assert_eq!(found(&text), [(label.to_owned(), value.to_owned())], "{text}");
    }
}

/// Nothing with this kind is found.
fn negatives(label: &str, texts: &[&str]) {
    for text in texts {
        let found: Vec<_> = found(text).into_iter().filter(|(kind, _)| kind == label).collect();
        assert!(found.is_empty(), "{text}: {found:?}");
    }
}

/// Characters that look random.
fn random(length: usize, letters: &[u8]) -> String {
    (0..length).map(|place| char::from(letters[(place * 37 + place / 7 * 11 + 5) % letters.len()])).collect()
}

const ALPHANUMERIC: &[u8] = b"a8Bq0Zk3RwT5xV7mYp1LcJ9dHs2NfG4u6";
const HEX: &[u8] = b"3fa90c7be1d25846";

#[test]
fn email() {
    positives(
        "EMAIL",
        &[
            "write to «ann.lee+x@mail.example.co.uk».",
            "<«ann@example.org»>",
            "mailto:«ann@example.org»?subject=x",
            "\"email\":\"«o'neil@example.org»\"".replace("o'neil", "oneil").as_str(),
            "line\\n«ann@example.org»\\n",
            "«müller@bücher.de», and more",
            "git@ «a@b.io»",
        ],
    );
    negatives(
        "EMAIL",
        &[
            "a@b",
            "@example.org",
            "ann@",
            "icon@2x.png",
            "user@localhost",
            "a@@example.org",
            "@media (min-width: 3px)",
            "npm i @scope/pkg@1.2.3",
        ],
    );
}

#[test]
fn phone() {
    positives(
        "PHONE",
        &[
            "«+44 20 7946 0958»",
            "«+1-202-555-0143»",
            "tel «+49 (0)30 901820»",
            "«+33612345678» is mine",
            "«(202) 555-0143»",
            "«202-555-0143»",
            "«202.555.0143 x22»",
            "«1-800-555-0199»",
            "«001-202-555-0143x901»",
            "mobile: «07700 900 123»",
            "«01.42.68.53.00»",
            "«(07) 4012 3456»",
            "phone 12, «555-0123»".replace("12, ", "").as_str(),
            "call me at «2025550143»",
            "Fax: «030/1234567»",
            "«555 0123» office",
            "phone\\n«555-0123»\\n",
            "«+46 (0)8 123 456 78»",
        ],
    );
    negatives(
        "PHONE",
        &[
            "2024-05-17 11:34:35",
            "order 202-555-0143",
            "550e8400-e29b-41d4-a716-446655440000",
            "12345678-1234-1234-1234-123456789012",
            "ISBN 978-3-16-148410-0",
            "version 10.2.3456",
            "1,234,567.89",
            "$1 234 567 8901",
            "40.7128, -74.0060",
            "1700000000",
            "0x0490754081",
            "J. Foo 12(3): 456-789",
            "call 12345",
            "rgb(255, 255, 255)",
            "commit 1234567",
            "192.168.100.200",
        ],
    );
}

#[test]
fn credit_card() {
    positives(
        "CREDIT_CARD",
        &[
            "«4111 1111 1111 1111»",
            "«5555-5555-5555-4444»",
            "«378282246310005»",
            "card 3782 822463 10005".replace("3782 822463 10005", "«3782 822463 10005»").as_str(),
            "«6011111111111117», exp 12/27",
            "visa «4222222222222»",
        ],
    );
    negatives(
        "CREDIT_CARD",
        &[
            "4111 1111 1111 1112",
            "4222222222222",
            "0.4111111111111111",
            "id 4111111111111111",
            "1700000000000000",
            "4111111111111111a",
            "0000000000000000",
        ],
    );
}

#[test]
fn banks() {
    positives("IBAN", &["«DE89 3704 0044 0532 0130 00»", "iban:«GB82WEST12345698765432»", "«nl91abna0417164300»."]);
    negatives("IBAN", &["DE89 3704 0044 0532 0130 01", "GB82WEST1234569876543", "GB00", "XX82WEST12345698765432"]);
    positives("BANK_ROUTING", &["routing number «021000021»", "ABA: «011401533»"]);
    negatives("BANK_ROUTING", &["routing number 021000022", "021000021"]);
    positives("BANK_ACCOUNT", &["account number «000123456789»", "Acct no. «12-345678»"]);
    negatives("BANK_ACCOUNT", &["000123456789", "account 123"]);
}

#[test]
fn us_identifiers() {
    positives(
        "US_SSN",
        &["«536-90-4399»", "SSN 536904399".replace("536904399", "«536904399»").as_str(), "ssn: «536 90 4399»"],
    );
    negatives(
        "US_SSN",
        &[
            "000-12-3456",
            "666-12-3456",
            "123-00-4567",
            "123-45-0000",
            "536904399",
            "536-90-43991",
            "a536-90-4399",
            "078-05-1120",
        ],
    );
    positives("US_ITIN", &["«912-78-1234»", "ITIN «912781234»"]);
    negatives("US_ITIN", &["912-49-1234", "912781234"]);
}

#[test]
fn network() {
    positives(
        "IP_ADDRESS",
        &[
            "from «81.2.69.142»:443",
            "«2001:db8:85a3::8a2e:370:7334»",
            "http://«203.0.113.9»/x",
            "::ffff:81.2.69.142".replace("::ffff:81.2.69.142", "«::ffff:81.2.69.142»").as_str(),
            "[«2606:4700::1111»]:80",
            "ip=«198.51.100.7»",
            "«10.1.2.3»/8",
        ],
    );
    negatives(
        "IP_ADDRESS",
        &[
            "127.0.0.1",
            "0.0.0.0",
            "255.255.255.0",
            "::1",
            "::",
            "version 1.2.3.4",
            "v1.2.3.4",
            "1.2.3.4.5",
            "256.1.1.1",
            "std::fmt",
            "a::b",
            "dead::beef",
            "12:34:56",
            "Chrome/86.0.4240.198",
            "1.2.3.4-beta",
            "fa::ce",
        ],
    );
    positives("MAC_ADDRESS", &["«00:1a:2b:3c:4d:5e»", "«00-1A-2B-3C-4D-5E»", "«001a.2b3c.4d5e»"]);
    negatives(
        "MAC_ADDRESS",
        &["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "00:1a:2b:3c:4d:5e:6f", "12-03-20-11-45-59", "de:ad"],
    );
}

#[test]
fn urls() {
    positives(
        "URL_CREDENTIALS",
        &["«postgres://app:s3cr3t@db.example.org:5432/x»", "see «https://ann:hunter2@example.org/a?b=c»."],
    );
    negatives(
        "URL_CREDENTIALS",
        &[
            "https://example.org/a:b@c",
            "https://ann@example.org/",
            "postgres://user:${PASSWORD}@db/x",
            "postgres://user:password@localhost/x",
        ],
    );
    assert!(found("see https://example.org/a.").is_empty());
    let mut settings = DetectorSettings::default();
    settings.enable.push(Kind::Url);
    let text = "see https://example.org/a.";
    let findings = Detector::new(settings).unwrap().find(text);
    assert_eq!(&text[findings[0].span.clone()], "https://example.org/a");
}

#[test]
fn keys_of_providers() {
    let forms = [
        ("AKIA", 16, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".as_slice()),
        ("AIza", 35, ALPHANUMERIC),
        ("ghp_", 36, ALPHANUMERIC),
        ("github_pat_", 82, ALPHANUMERIC),
        ("glpat-", 20, ALPHANUMERIC),
        ("xoxb-", 50, ALPHANUMERIC),
        ("sk_live_", 24, ALPHANUMERIC),
        ("sk-proj-", 60, ALPHANUMERIC),
        ("sk-ant-api03-", 90, ALPHANUMERIC),
        ("npm_", 36, ALPHANUMERIC),
        ("pypi-AgEIcHlwaS5vcmc", 120, ALPHANUMERIC),
        ("SK", 32, HEX),
        ("hf_", 34, ALPHANUMERIC),
        ("dop_v1_", 64, HEX),
        ("shpat_", 32, HEX),
        ("sq0atp-", 22, ALPHANUMERIC),
        ("key-", 32, HEX),
        ("hvs.", 90, ALPHANUMERIC),
        ("123456789:AA", 33, ALPHANUMERIC),
        ("hooks.slack.com/services/T", 40, ALPHANUMERIC),
    ];
    for (prefix, length, letters) in forms {
        let key = format!("{prefix}{}", random(length, letters));
        for text in [key.clone(), format!("export K='{key}'"), format!("{{\"k\": \"{key}\"}}"), format!("x\\n{key}\\n")]
        {
            assert_eq!(found(&text), [("API_KEY".to_owned(), key.clone())], "{text}");
        }
        // Not as a part of a longer word, and not if it is a placeholder.
        assert!(!found(&format!("z{key}")).iter().any(|(kind, found)| kind == "API_KEY" && *found == key), "z{key}");
        let placeholder = format!("{prefix}{}", "x".repeat(length));
        assert!(found(&placeholder).is_empty(), "{placeholder}");
    }
    let sendgrid = format!("SG.{}.{}", random(22, ALPHANUMERIC), random(43, ALPHANUMERIC));
    assert_eq!(found(&sendgrid), [("API_KEY".to_owned(), sendgrid.clone())]);
    let discord = format!("MTIzNDU2Nzg5MDEyMzQ1Njc4.{}.{}", random(6, ALPHANUMERIC), random(38, ALPHANUMERIC));
    assert_eq!(found(&discord), [("API_KEY".to_owned(), discord.clone())]);
    negatives(
        "API_KEY",
        &["sk-learn", "key-value pairs", "npm_config_registry", "SKIPPED", "ACCESS", "hf_hub_download", "ghp_"],
    );
}

#[test]
fn tokens_and_private_keys() {
    let jwt = format!("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{}", random(43, ALPHANUMERIC));
    for text in [jwt.clone(), format!("Authorization: Bearer {jwt}"), format!("token={jwt}; path=/")] {
        assert_eq!(found(&text), [("JWT".to_owned(), jwt.clone())], "{text}");
    }
    negatives("JWT", &["eyJhbGciOiJIUzI1NiJ9", "eyJub3Q.json.here12345", "eyJ.eyJ.eyJ"]);
    let body = random(64, ALPHANUMERIC);
    for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
        let block = format!("-----BEGIN {label}-----\n{body}\n{body}==\n-----END {label}-----");
        assert_eq!(found(&format!("a\n{block}\nb")), [("PRIVATE_KEY".to_owned(), block.clone())]);
        let escaped = block.replace('\n', "\\n");
        assert_eq!(found(&format!("\"{escaped}\"")), [("PRIVATE_KEY".to_owned(), escaped.clone())]);
        let cut = format!("-----BEGIN {label}-----\n{body}");
        assert_eq!(found(&format!("{cut} is cut")), [("PRIVATE_KEY".to_owned(), cut.clone())]);
    }
    let public = format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----");
    negatives("PRIVATE_KEY", &[public.as_str(), "-----BEGIN PRIVATE KEY", "-----------"]);
}

#[test]
fn secrets() {
    positives(
        "SECRET",
        &[
            "password=«hunter2!x»",
            "DB_PASSWORD=«kX9#mQ2vL»",
            "\"password\": \"«Tr0ub4dor&3»\"",
            "api_key = '«9f8A7b6C5d4E3f2A1b0C»'",
            "Authorization: Bearer «a8Bq0Zk3RwT5xV7mYp1LcJ9d»",
            "curl -H 'Bearer «a8Bq0Zk3RwT5xV7mYp1LcJ9d»'",
            "clientSecret: «a8Bq0Zk3RwT5xV7mYp1LcJ9d»",
        ],
    );
    negatives(
        "SECRET",
        &[
            "password = get_password()",
            "password: string",
            "let token = parser.next_token();",
            "password=${PASSWORD}",
            "password: ********",
            "token_count = 1234567890123456",
            "api_key = os.environ['KEY']",
            "secret: <your-secret-here>",
            "password=changeme",
            "passed: 12345678a",
            "next_token = tokens[i + 1]",
            "monkey: 9f8A7b6C5d4E3f2A1b0C",
        ],
    );
}

#[test]
fn with_context() {
    positives("PASSPORT", &["passport no. «C01X00T47»", "Passport: «123456789»"]);
    negatives("PASSPORT", &["C01X00T47", "passport control 12"]);
    positives("DRIVER_LICENSE", &["driver's license «D123-4567-8901»", "driving licence «MORGA657054SM9IJ»"]);
    negatives("DRIVER_LICENSE", &["D123-4567-8901", "license MIT-2024"]);
    positives(
        "DATE_OF_BIRTH",
        &["born on «12 March 1980»", "DOB: «03/12/1980»", "date of birth «1980-03-12»", "birthday «March 12, 1980»"],
    );
    negatives("DATE_OF_BIRTH", &["1980-03-12", "released on 12 March 1980", "reborn 1.2.3"]);
}

#[test]
fn crypto_addresses() {
    positives(
        "CRYPTO_ADDRESS",
        &[
            "«1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa»",
            "«bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4»",
            "to «0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed».",
        ],
    );
    negatives(
        "CRYPTO_ADDRESS",
        &[
            "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb",
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5",
            "5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD",
        ],
    );
}

#[test]
fn national_ids() {
    positives(
        "NATIONAL_ID",
        &[
            "«529.982.247-25»",
            "dni «12345678Z»",
            "«X1234567L»",
            "«RSSMRA85T10A562S»",
            "«AB123456C»",
            "«AB 12 34 56 C»",
            "«85.07.30-033.28»",
            "«131052-308T»",
            "PESEL «44051401359»",
            "«756.9217.0769.85»",
            "«S1234567D»",
            "NHS number «943 476 5919»",
            "«11010519491231002X»",
            "«A123456(3)»",
            "BSN: «111222333»",
            "SIN «046 454 286»",
            "Steuer-ID «36574261809»",
        ],
    );
    negatives(
        "NATIONAL_ID",
        &[
            "529.982.247-26",
            "12345678A",
            "44051401359",
            "756.9217.0769.86",
            "S1234567E",
            "111222333",
            "046 454 286",
            "BSN: 111222334",
            "AB123456Z",
        ],
    );
}
