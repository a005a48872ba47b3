//! Settings that nothing uses yet.

/// Settings that are read and checked, but have no effect in this version. Other tools have them, and their files must
/// load.
pub const WITHOUT_EFFECT: &[&str] = &["execution.microsandbox.api_key", "execution.microsandbox.server_url"];

#[cfg(test)]
mod tests {
    use super::WITHOUT_EFFECT;
    use crate::keys::KEYS;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    /// The sentence in the description of a setting without effect.
    const SENTENCE: &str = "Has no effect in this version.";

    fn settings() -> BTreeSet<&'static str> {
        KEYS.iter().map(|key| key.path).collect()
    }

    fn without_effect() -> BTreeSet<&'static str> {
        WITHOUT_EFFECT.iter().copied().collect()
    }

    #[test]
    fn exactly_the_settings_without_effect_say_so() {
        let schema: serde_json::Value = serde_json::from_str(&crate::schema()).unwrap();
        let describes = |path: &&str| {
            let mut part = &schema;
            for name in path.split('.') {
                part = match part["$ref"].as_str() {
                    Some(reference) => schema.pointer(reference.trim_start_matches('#')).unwrap(),
                    None => part,
                };
                part = &part["properties"][name];
            }
            part["description"].as_str().unwrap().contains(SENTENCE)
        };
        assert_eq!(settings().into_iter().filter(describes).collect::<BTreeSet<_>>(), without_effect());
    }

    /// Reads the source of all crates: a field that is declared and that no expression names is a setting that nothing
    /// follows.
    #[test]
    fn every_other_setting_is_used() {
        let mut fields = BTreeSet::new();
        add_fields(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut fields);
        // Limits are read together, by the table in `coracle_types`.
        let is_limit = |path: &&str| path.starts_with("execution.limits.");
        let is_unused = |path: &&str| !is_limit(path) && !fields.contains(path.rsplit('.').next().unwrap());
        let unused: BTreeSet<&str> = settings().into_iter().filter(is_unused).collect();
        let unknown: Vec<_> = unused.difference(&without_effect()).copied().collect();
        assert_eq!(
            unknown,
            Vec::<&str>::new(),
            "no code reads these settings: use them, or add them to WITHOUT_EFFECT"
        );
        // Control: the search can tell that a field is not used.
        assert!(unused.contains("execution.microsandbox.server_url"), "{unused:?}");
    }

    /// Adds the names that follow a dot, outside of comments, literals and tests.
    fn add_fields(folder: &Path, fields: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !["tests", "bench", "target"].contains(&name) {
                add_fields(&path, fields);
            } else if path.extension().is_some_and(|ending| ending == "rs") && name != "tests.rs" {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                    let outside = line.split('"').step_by(2);
                    let names = outside.flat_map(|part| part.split('.').skip(1)).map(|rest| {
                        let end = rest.find(|one: char| !one.is_alphanumeric() && one != '_');
                        rest[..end.unwrap_or(rest.len())].to_owned()
                    });
                    fields.extend(names);
                }
            }
        }
    }
}
