//! Suggestions for mistyped names.

/// The candidate that was probably meant.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = fold(written);
    let farthest = (written.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&written, &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= farthest)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Removes differences in case, hyphens and underscores.
fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).take(100).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["sandbox_type", "sandbox_image", "skills_dir"];
        assert_eq!(nearest("sandbox_typ", names), Some("sandbox_type"));
        assert_eq!(nearest("sandboxImage", names), Some("sandbox_image"));
        assert_eq!(nearest("skill_dir", names), Some("skills_dir"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("", names), None);
    }
}
