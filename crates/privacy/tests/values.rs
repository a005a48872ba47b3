//! Keys of JSON are evidence.

use coracle_privacy::{Detector, DetectorSettings};

fn found(key: &str, value: &str) -> Vec<(String, String)> {
    // Only the keys: not what the names look like.
    let mut settings = DetectorSettings::default();
    settings.names = false;
    let detector = Detector::new(settings).unwrap_or_else(|error| panic!("{error}"));
    let findings = detector.find_in_value(key, value);
    findings.into_iter().map(|finding| (finding.kind.label().to_owned(), value[finding.span].to_owned())).collect()
}

/// The value as a whole is found because of its key, and not without it.
#[test]
fn bare_values_are_found_by_their_keys() {
    for (key, value, label) in [
        ("ssn", "536904399", "US_SSN"),
        ("customerSSN", "536 90 4399", "US_SSN"),
        ("itin", "912781234", "US_ITIN"),
        ("phone", "5550123", "PHONE"),
        ("homePhone", "2025550143", "PHONE"),
        ("dob", "19800312", "DATE_OF_BIRTH"),
        ("date_of_birth", "1980-03-12", "DATE_OF_BIRTH"),
        ("passport_number", "C01X00T47", "PASSPORT"),
        ("drivers_license", "S5301234", "DRIVER_LICENSE"),
        ("account_number", "12345678", "BANK_ACCOUNT"),
        ("routing_number", "021000021", "BANK_ROUTING"),
        ("national_id", "44051401359", "NATIONAL_ID"),
        ("bsn", "111222333", "NATIONAL_ID"),
        ("cardNumber", "4222222222222", "CREDIT_CARD"),
        ("first_name", "Mara", "PERSON"),
        ("lastName", "Zieliński", "PERSON"),
        ("name", "Mara Lindqvist", "PERSON"),
        ("street", "12 Rose Lane", "ADDRESS"),
        ("billing_address", "12 Rose Lane, Leeds", "ADDRESS"),
        ("city", "Leeds", "ADDRESS"),
        ("zip", "90210", "ADDRESS"),
        ("password", "Tr0ub4dor&3", "SECRET"),
        ("apiKey", "9f8A7b6C5d4E3f2A1b0C", "SECRET"),
    ] {
        assert_eq!(found(key, value), [(label.to_owned(), value.to_owned())], "{key}: {value}");
        // Names and addresses are also known by what they are.
        if !matches!(label, "PERSON" | "ADDRESS") {
            assert_eq!(found("x", value), [], "x: {value}");
        }
    }
}

#[test]
fn white_space_around_a_value_is_left_out() {
    assert_eq!(found("first_name", "  Mara\n"), [("PERSON".to_owned(), "Mara".to_owned())]);
}

#[test]
fn keys_do_not_make_anything_out_of_values_of_another_form() {
    for (key, value) in [
        ("ssn", "pending"),
        ("ssn", "000000000"),
        ("phone", "n/a"),
        ("phone", "12"),
        ("dob", "unknown"),
        ("name", "left-pad"),
        ("name", "Acme Software Inc"),
        ("name", "README.md"),
        ("name", "main"),
        ("first_name", ""),
        ("first_name", "null"),
        ("file_name", "mara lindqvist"),
        ("address", "0x7ffe"),
        ("address", "12"),
        ("memory_address", "main street"),
        ("city", "12"),
        ("zip", "archive of files"),
        ("account_number", "none"),
        ("password", "********"),
        ("token", "next"),
        ("passport", "yes"),
        ("description", "A tool that lists 12 things"),
    ] {
        assert_eq!(found(key, value), [], "{key}: {value}");
    }
}

#[test]
fn structured_values_keep_their_kind_whatever_the_key() {
    for (key, value, label) in [
        ("name", "ann@example.org", "EMAIL"),
        ("address", "ann@example.org", "EMAIL"),
        ("address", "81.2.69.142", "IP_ADDRESS"),
        ("password", "postgres://app:Vq7-tree-9@db.example.org/x", "URL_CREDENTIALS"),
    ] {
        assert_eq!(found(key, value), [(label.to_owned(), value.to_owned())], "{key}: {value}");
    }
}
