/// Result of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Text to print.
    pub text: String,
    /// Whether everything that was measured also worked as expected.
    pub is_good: bool,
}

impl From<String> for Outcome {
    fn from(text: String) -> Self {
        Self { text, is_good: true }
    }
}
