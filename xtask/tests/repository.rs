//! The rules of the repository, applied to the repository itself.

use xtask::{
    Metadata, Resolve, architecture_violations, circle_violations, command_names, direction_violations,
    document_violations, licence_violations, reference_violations, repository, tidy_report, unsafe_violations,
};

#[test]
fn dependencies_between_crates_are_permitted() {
    let metadata = Metadata::load(Resolve::Members).unwrap();
    assert!(metadata.members().any(|package| package.name == "coracle-types"));
    assert_none(&direction_violations(&metadata));
}

#[test]
fn the_architecture_document_shows_the_dependencies_between_crates() {
    let metadata = Metadata::load(Resolve::Members).unwrap();
    assert_none(&architecture_violations(&repository(), &metadata).unwrap());
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    assert_none(&circle_violations(&repository()).unwrap());
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    assert_none(&unsafe_violations(&repository()).unwrap());
}

#[test]
fn every_dependency_has_a_permitted_licence() {
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
    assert_none(&document_violations(&repository(), &command_names()).unwrap());
}

#[test]
fn the_configuration_reference_matches_the_schema() {
    assert_none(&reference_violations(&repository()).unwrap());
}

#[track_caller]
fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}
