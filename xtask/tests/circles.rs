//! Circles of imports are found in small crates that have them, and in no other.

use std::path::{Path, PathBuf};
use xtask::circle_violations;

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/circles").join(name)
}

#[test]
fn a_crate_without_circles_passes() {
    assert_eq!(circle_violations(&case("none")).unwrap(), Vec::<String>::new());
}

#[test]
fn two_files_that_use_each_other_are_a_circle_even_through_a_re_export() {
    let expected = ["crates/one/src: hen.rs:2 → egg.rs:6 → hen.rs"];
    assert_eq!(circle_violations(&case("direct")).unwrap(), expected);
}

#[test]
fn a_circle_through_the_files_of_a_folder_is_found() {
    let expected = ["crates/one/src: bank.rs:3 → shop/visitors.rs:3 → customer.rs:1 → bank.rs"];
    assert_eq!(circle_violations(&case("through_children")).unwrap(), expected);
}
