use crate::Cow;

/// Neither "crate::food::Store" in a text nor crate::food::Store in a comment is an import.
pub struct Farm(Vec<Cow>);
