//! Circles of imports are found in small crates that have them, and in no other.

use std::path::Path;
use xtask::circle_violations;

#[track_caller]
fn found(case: &str, expected: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/circles").join(case);
    assert_eq!(circle_violations(&root).unwrap(), expected);
}

#[test]
fn a_crate_without_circles_passes() {
    found("none", &[]);
}

#[test]
fn two_files_that_use_each_other_are_a_circle_also_through_a_re_export() {
    found("direct", &["crates/one/src: hen.rs:2 → egg.rs:6 → hen.rs"]);
}

#[test]
fn a_circle_through_the_files_of_a_folder_is_found() {
    found("through_children", &["crates/one/src: bank.rs:3 → shop/visitors.rs:3 → customer.rs:1 → bank.rs"]);
}
