//! Files that are generated and checked in.
//!
//! The settings schema and the API document come from types of their crates, and a test in each crate compares them. The
//! configuration reference comes from the schema, so it is compared here, without building anything.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::configuration::reference;
use crate::metadata::{cargo, repository};

const SCHEMA: &str = "schema/coracle.schema.json";
const REFERENCE: &str = "docs/configuration.md";

/// A file that a test compares with what its crate generates, or writes if `CORACLE_UPDATE` is set.
struct Tested {
    path: &'static str,
    package: &'static str,
    binary: &'static str,
    test: &'static str,
}

const TESTED: &[Tested] = &[
    Tested {
        path: SCHEMA,
        package: "coracle-config",
        binary: "config",
        test: "schema::the_schema_is_the_one_in_the_file",
    },
    Tested {
        path: "docs/openapi.json",
        package: "coracle-server",
        binary: "openapi",
        test: "the_document_is_up_to_date",
    },
];

/// Returns one sentence if the configuration reference at `root` does not match the schema beside it.
pub fn reference_violations(root: &Path) -> Result<Vec<String>> {
    let (found, expected) = found_and_expected(root)?;
    let out_of_date = (found != expected).then(|| format!("{REFERENCE} is out of date: run `cargo xtask generate`"));
    Ok(out_of_date.into_iter().collect())
}

/// Writes the generated files: those that `wanted` names, or all.
pub(crate) fn write(wanted: &[String]) -> Result<()> {
    let known = || TESTED.iter().map(|tested| tested.path).chain([REFERENCE]);
    if let Some(unknown) = wanted.iter().find(|name| !known().any(|path| path == name.as_str())) {
        bail!("{unknown} is not generated; there are {}", known().collect::<Vec<_>>().join(", "));
    }
    let is_wanted = |path: &str| wanted.is_empty() || wanted.iter().any(|name| name == path);
    for Tested { path, package, binary, test } in TESTED.iter().filter(|tested| is_wanted(tested.path)) {
        let mut command = cargo();
        command.args(["test", "--quiet", "--locked", "--package", package, "--test", binary, "--", "--exact", test]);
        let status = command.env("CORACLE_UPDATE", "1").status().with_context(|| format!("cannot generate {path}"))?;
        if !status.success() {
            bail!("the generator of {path} failed: {status}");
        }
    }
    // Last, because it is made from the schema.
    if is_wanted(REFERENCE) {
        let root = repository();
        let (_, expected) = found_and_expected(&root)?;
        fs::write(root.join(REFERENCE), expected).with_context(|| format!("cannot write {REFERENCE}"))?;
    }
    Ok(())
}

fn found_and_expected(root: &Path) -> Result<(String, String)> {
    let read = |path: &str| fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"));
    let found = read(REFERENCE)?;
    let schema = serde_json::from_str(&read(SCHEMA)?).with_context(|| format!("cannot parse {SCHEMA}"))?;
    let expected = reference(&found, &schema).with_context(|| format!("cannot generate {REFERENCE}"))?;
    Ok((found, expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::MARKER;

    #[test]
    fn a_reference_that_does_not_match_the_schema_is_named() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let schema = fs::read_to_string(repository().join(SCHEMA)).unwrap();
        write(SCHEMA, &schema);
        write(REFERENCE, &format!("Words.\n\n{MARKER}\nold\n"));
        let violation = [format!("{REFERENCE} is out of date: run `cargo xtask generate`")];
        assert_eq!(reference_violations(root.path()).unwrap(), violation);

        let (_, expected) = found_and_expected(root.path()).unwrap();
        write(REFERENCE, &expected);
        assert_eq!(reference_violations(root.path()).unwrap(), Vec::<String>::new());
        assert!(expected.starts_with("Words.\n"), "the words above the marker stay");

        write(SCHEMA, &schema.replace("Port that `coracle up` listens on", "Port to listen on"));
        assert_eq!(reference_violations(root.path()).unwrap(), violation);
    }

    #[test]
    fn a_file_that_is_not_generated_is_refused() {
        let error = write(&["README.md".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("README.md is not generated; there are schema/"), "{error}");
    }

    /// Their names are checked here because only `generate` uses them, which no test runs.
    #[test]
    fn the_tests_that_write_files_exist() {
        for Tested { path, package, binary, test } in TESTED {
            let folder = repository().join("crates").join(package.trim_start_matches("coracle-")).join("tests");
            let (module, name) = test.split_once("::").map_or((None, *test), |(module, name)| (Some(module), name));
            let file = match module {
                Some(module) => folder.join(binary).join(format!("{module}.rs")),
                None => folder.join(format!("{binary}.rs")),
            };
            let source = fs::read_to_string(&file).unwrap();
            assert!(source.contains(&format!("fn {name}()")), "{path}: {}", file.display());
            assert!(repository().join(path).is_file(), "{path}");
        }
    }
}
