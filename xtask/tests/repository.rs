//! The rules of the repository, asked of the repository itself.

use xtask::{
    Metadata, Resolve, direction_violations, document_violations, licence_violations, reference_violations, repository,
    tidy_report,
};

#[test]
fn crates_depend_on_each_other_only_as_drawn() {
    let metadata = Metadata::load(Resolve::Members).unwrap();
    assert!(metadata.members().any(|package| package.name == "coracle-types"));
    assert_none(&direction_violations(&metadata));
}

#[test]
fn every_dependency_has_a_licence_that_we_can_meet() {
    let metadata = Metadata::load(Resolve::Everything).unwrap();
    assert!(metadata.packages.len() > metadata.members().count());
    assert_none(&licence_violations(&metadata));
}

#[test]
fn the_source_is_tidy() {
    let report = tidy_report(&repository()).unwrap();
    for warning in &report.warnings {
        println!("warning: {warning}");
    }
    assert_none(&report.violations);
}

#[test]
fn documents_name_commands_and_files_that_exist() {
    assert_none(&document_violations(&repository()).unwrap());
}

#[test]
fn the_configuration_reference_matches_the_schema() {
    assert_none(&reference_violations(&repository()).unwrap());
}

#[track_caller]
fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}
