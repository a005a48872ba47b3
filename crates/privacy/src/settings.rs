use crate::kinds::{Kind, Kinds};

/// What a detector looks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DetectorSettings {
    /// Kinds to look for besides those that are on by default.
    pub enable: Vec<Kind>,
    /// Kinds not to look for. Takes precedence over `enable`.
    pub disable: Vec<Kind>,
    /// The least confidence of a finding, in percent.
    pub min_confidence: u8,
    /// Whether names and addresses are looked for in running text too, which takes far longer than everything else. Keys
    /// of JSON are evidence of them in any case.
    pub names: bool,
    /// Patterns and words of the operator.
    pub custom: Vec<CustomPattern>,
}

/// The least confidence of a finding by default, in percent.
pub const DEFAULT_CONFIDENCE: u8 = 50;

impl Default for DetectorSettings {
    fn default() -> Self {
        Self {
            enable: Vec::new(),
            disable: Vec::new(),
            min_confidence: DEFAULT_CONFIDENCE,
            names: true,
            custom: Vec::new(),
        }
    }
}

impl DetectorSettings {
    pub(crate) fn kinds(&self) -> Kinds {
        let mut kinds = Kinds::of_default();
        self.enable.iter().for_each(|kind| kinds.insert(kind));
        self.disable.iter().for_each(|kind| kinds.remove(kind));
        kinds
    }
}

/// A kind that the operator defines.
#[derive(Clone, Debug)]
pub struct CustomPattern {
    /// Label of the kind: capital letters, digits and underscores, such as `EMPLOYEE_ID`.
    pub label: String,
    /// What is looked for.
    pub matcher: Matcher,
    /// Words of which one must be shortly before a match. If there are none, no context is needed.
    pub context: Vec<String>,
    /// Confidence of the findings, in percent.
    pub confidence: u8,
}

/// What a pattern of the operator looks for.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// A regular expression without look-around and back-references. A match is at most 1 KiB long.
    Regex(String),
    /// Whole words or phrases, in any case.
    Words(Vec<String>),
}

/// A detector cannot be made from its settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetectorError {
    /// A label cannot be used.
    #[error("invalid label {label:?} of a privacy pattern: {reason}")]
    Label {
        /// The label.
        label: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A regular expression cannot be used.
    #[error("invalid regular expression of the privacy pattern {label}: {reason}")]
    Regex {
        /// The label of the pattern.
        label: String,
        /// What is wrong with the expression.
        reason: String,
    },
    /// A list of words cannot be used.
    #[error("invalid words of the privacy pattern {label}: {reason}")]
    Words {
        /// The label of the pattern.
        label: String,
        /// What is wrong with the words.
        reason: &'static str,
    },
    /// There are too many patterns.
    #[error("too many privacy patterns: {count}, but at most {most} are allowed")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
}
