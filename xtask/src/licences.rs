//! Permitted licences of dependencies.
//!
//! `cargo-deny` does this too, but compiling it takes longer than all other checks together, and of the registries that
//! the tests install from, only PyPI has a binary: version 0.14.2, which panics on what `cargo metadata` prints today.

mod expression;

use crate::metadata::Metadata;

/// Licence of this repository.
const OWN: &str = "Apache-2.0";

/// Licences whose terms an Apache-2.0 binary can meet.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Returns one sentence for each package whose licence is not permitted, and for each of ours that is not Apache-2.0.
pub fn licence_violations(metadata: &Metadata) -> Vec<String> {
    let mut violations = Vec::new();
    for package in &metadata.packages {
        let who = format!("`{} {}`", package.name, package.version);
        let problem = match package.license.as_deref() {
            None => Some("has no licence in its manifest".to_owned()),
            Some(licence) if metadata.is_member(package) => {
                (licence != OWN).then(|| format!("is ours and must be under {OWN}, not `{licence}`"))
            }
            Some(licence) => match expression::is_satisfiable(licence, ALLOWED) {
                Ok(true) => None,
                Ok(false) => {
                    Some(format!("comes under `{licence}`, which the list in xtask/src/licences.rs does not allow"))
                }
                Err(error) => Some(format!("has a licence that cannot be read, `{licence}`: {error}")),
            },
        };
        violations.extend(problem.map(|problem| format!("{who} {problem}")));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Package;

    fn violations(licence: Option<&str>, workspace_members: &[&str]) -> Vec<String> {
        licence_violations(&Metadata {
            packages: vec![Package {
                id: "some-id".to_owned(),
                name: "some".to_owned(),
                version: "1.2.3".to_owned(),
                license: licence.map(str::to_owned),
                dependencies: Vec::new(),
            }],
            workspace_members: workspace_members.iter().map(|id| (*id).to_owned()).collect(),
            target_directory: "target".into(),
        })
    }

    #[test]
    fn a_dependency_under_an_allowed_licence_passes() {
        assert_eq!(violations(Some("GPL-3.0-only OR MIT"), &[]), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_under_another_licence_is_named() {
        assert_eq!(
            violations(Some("GPL-3.0-only"), &[]),
            ["`some 1.2.3` comes under `GPL-3.0-only`, which the list in xtask/src/licences.rs does not allow"]
        );
    }

    #[test]
    fn a_missing_licence_fails() {
        assert_eq!(violations(None, &[]), ["`some 1.2.3` has no licence in its manifest"]);
    }

    #[test]
    fn an_unreadable_licence_fails() {
        assert_eq!(
            violations(Some("MIT OR"), &[]),
            ["`some 1.2.3` has a licence that cannot be read, `MIT OR`: a licence is missing at the end"]
        );
    }

    #[test]
    fn our_own_crates_are_apache() {
        assert_eq!(violations(Some("Apache-2.0"), &["some-id"]), Vec::<String>::new());
        assert_eq!(
            violations(Some("MIT"), &["some-id"]),
            ["`some 1.2.3` is ours and must be under Apache-2.0, not `MIT`"]
        );
    }
}
