//! The name that was probably meant by a name that does not exist.

/// Similarity below which two names are not variants of each other.
const ALIKE: f64 = 0.75;

/// The known name most similar to `name`, if one is similar enough.
pub(crate) fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|candidate| (strsim::jaro_winkler(name, candidate), candidate));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (best.0 >= ALIKE).then_some(best.1)
}
