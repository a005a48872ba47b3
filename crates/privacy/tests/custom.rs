//! Patterns and words of the operator, and settings of kinds.

use coracle_privacy::{CustomPattern, Detector, DetectorError, DetectorSettings, Kind, Matcher};

fn pattern(label: &str, matcher: Matcher, context: &[&str]) -> CustomPattern {
    let context = context.iter().map(ToString::to_string).collect();
    CustomPattern { label: label.to_owned(), matcher, context, confidence: 80 }
}

fn regex(label: &str, expression: &str) -> CustomPattern {
    pattern(label, Matcher::Regex(expression.to_owned()), &[])
}

fn words(label: &str, words: &[&str]) -> CustomPattern {
    pattern(label, Matcher::Words(words.iter().map(ToString::to_string).collect()), &[])
}

fn with(custom: Vec<CustomPattern>) -> Result<Detector, DetectorError> {
    let mut settings = DetectorSettings::default();
    settings.custom = custom;
    Detector::new(settings)
}

fn found(detector: &Detector, text: &str) -> Vec<(String, String)> {
    let findings = detector.find(text);
    findings.into_iter().map(|finding| (finding.kind.label().to_owned(), text[finding.span].to_owned())).collect()
}

fn error(custom: CustomPattern) -> String {
    with(vec![custom]).map_or_else(|error| error.to_string(), |_| "no error".to_owned())
}

#[test]
fn patterns_and_words_are_found() {
    let mut case = regex("CASE_NUMBER", r"\b\d{5}\b");
    case.context = vec!["case".to_owned()];
    let detector =
        with(vec![regex("EMPLOYEE_ID", r"\bE-\d{6}\b"), words("PROJECT", &["Blue Heron", "Zeta"]), case]).unwrap();
    let text =
        "E-123456 leads blue heron and zeta, not zetas; case 12345, page 12345 of the book with many words in it.";
    let expected =
        [("EMPLOYEE_ID", "E-123456"), ("PROJECT", "blue heron"), ("PROJECT", "zeta"), ("CASE_NUMBER", "12345")];
    let expected: Vec<_> = expected.iter().map(|(kind, value)| ((*kind).to_owned(), (*value).to_owned())).collect();
    assert_eq!(found(&detector, text)[..4], expected);
    let far = format!("case closed{}12345", " and so on".repeat(20));
    assert_eq!(found(&detector, &far), []);
    // At any place of a long text, also across the ends of windows.
    let long = "lorem ipsum E-123456 ".repeat(2_000);
    assert_eq!(found(&detector, &long).len(), 2_000);
    let line = "x".repeat(4_090) + "-E-123456-" + &"y".repeat(9_000);
    assert_eq!(found(&detector, &line).len(), 1);
}

#[test]
fn errors_say_which_pattern_is_wrong() {
    assert_eq!(
        error(regex("BROKEN", "a(b")),
        "invalid regular expression of the privacy pattern BROKEN: unclosed group"
    );
    assert!(error(regex("LARGE", r"(\w{1,500}){1,500}")).contains("LARGE: it is larger than"));
    assert!(error(regex("EMPTY", "a*")).ends_with("EMPTY: it matches the empty text"));
    assert!(error(regex("LOOK", "(?=a)b")).contains("LOOK: look-around"));
    assert!(error(words("NONE", &[])).contains("NONE: there must be"));
    assert!(error(words("BLANK", &[" "])).contains("BLANK: each must have"));
    for label in ["", "lower", "1ST", "EMAIL", "A_", "A B", &"A".repeat(33)] {
        assert!(error(words(label, &["x"])).starts_with("invalid label"), "{label}");
    }
    let many = (0..201).map(|number| words(&format!("K{number}"), &["x"])).collect();
    assert!(with(many).unwrap_err().to_string().contains("201"));
}

#[test]
fn kinds_are_switched_on_and_off() {
    let text = "https://example.org/a ann@example.org";
    let mut settings = DetectorSettings::default();
    settings.enable = vec![Kind::Url, Kind::Email];
    settings.disable = vec![Kind::Email];
    let detector = Detector::new(settings).unwrap();
    assert_eq!(found(&detector, text), [("URL".to_owned(), "https://example.org/a".to_owned())]);
    assert!(detector.looks_for(&Kind::Url) && !detector.looks_for(&Kind::Email));
    assert_eq!(found(&Detector::default(), text), [("EMAIL".to_owned(), "ann@example.org".to_owned())]);
    let mut settings = DetectorSettings::default();
    settings.min_confidence = 96;
    assert_eq!(found(&Detector::new(settings).unwrap(), text), []);
}
