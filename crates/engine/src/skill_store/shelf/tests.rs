use super::{Kept, Shelf};
use crate::skill_store::{CodeSkill, SkillError, SkillLanguage, SkillName};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use tempfile::TempDir;

fn kept(name: &str, code: &str) -> Kept {
    let skill = CodeSkill {
        name: SkillName::new(name).unwrap(),
        language: SkillLanguage::Python,
        description: "d".to_owned(),
        tags: Vec::new(),
        author: "ada".to_owned(),
        tools: Vec::new(),
        example: None,
        created_at: "then".to_owned(),
        saved_at: "now".to_owned(),
        version: 0,
    };
    Kept { skill, code: code.to_owned() }
}

fn shelf() -> (TempDir, Shelf) {
    let home = TempDir::new().unwrap();
    let shelf = Shelf::new(&home.path().join("ada"));
    (home, shelf)
}

fn importable(shelf: &Shelf) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(shelf.importable())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn versions_are_kept_and_the_newest_is_imported() {
    let (_home, shelf) = shelf();
    let name = SkillName::new("a").unwrap();
    for (number, code) in [(1, "one"), (2, "two"), (3, "three")] {
        assert_eq!(shelf.save(kept("a", code)).unwrap().version, number);
    }
    assert_eq!(shelf.version(&name, None).unwrap().code, "three");
    assert_eq!(shelf.version(&name, Some(1)).unwrap().code, "one");
    assert_eq!(shelf.versions_of(&name).unwrap(), [1, 2, 3]);
    assert_eq!(importable(&shelf), ["__init__.py", "a.py"]);
    assert_eq!(fs::read_to_string(shelf.importable().join("a.py")).unwrap(), "three");
    assert_eq!((mode(shelf.importable()), mode(&shelf.importable().join("a.py"))), (0o755, 0o644));
    let error = shelf.version(&name, Some(9)).unwrap_err();
    assert_eq!(error.to_string(), "skill a has no version 9: there are 1 to 3");
}

#[test]
fn another_language_takes_the_place_of_the_first() {
    let (_home, shelf) = shelf();
    shelf.save(kept("a", "x = 1")).unwrap();
    let mut other = kept("a", "export const x = 1");
    other.skill.language = SkillLanguage::Typescript;
    shelf.save(other).unwrap();
    assert_eq!(importable(&shelf), ["__init__.py", "a.ts"]);
}

#[test]
fn what_is_removed_is_gone_with_all_versions() {
    let (_home, shelf) = shelf();
    shelf.save(kept("alpha", "1")).unwrap();
    shelf.save(kept("beta", "2")).unwrap();
    let alpha = SkillName::new("alpha").unwrap();
    shelf.remove(&alpha).unwrap();
    assert_eq!(importable(&shelf), ["__init__.py", "beta.py"]);
    assert!(matches!(shelf.version(&alpha, None), Err(SkillError::Missing { .. })));
    assert!(matches!(shelf.remove(&alpha), Err(SkillError::Missing { .. })));
    assert_eq!(shelf.save(kept("alpha", "3")).unwrap().version, 1);
    let near = shelf.version(&SkillName::new("alpa").unwrap(), None).unwrap_err();
    assert_eq!(near.to_string(), "there is no skill \"alpa\"; did you mean \"alpha\"?");
}

#[test]
fn names_that_differ_only_in_case_are_refused() {
    let (_home, shelf) = shelf();
    shelf.save(kept("report", "1")).unwrap();
    assert!(matches!(shelf.save(kept("Report", "2")), Err(SkillError::Taken { .. })));
    assert_eq!(shelf.save(kept("report", "2")).unwrap().version, 2);
}

/// A crash can happen after every step. The next access repairs the shelf.
#[test]
fn a_crash_midway_is_put_right() {
    let (home, shelf) = shelf();
    shelf.save(kept("a", "old")).unwrap();
    shelf.save(kept("b", "kept")).unwrap();
    let versions = home.path().join("ada/skill-versions");
    // A version is on disk, but the file to import is missing.
    let mut second = kept("a", "new");
    second.skill.version = 2;
    fs::write(versions.join("a/000002.json"), serde_json::to_vec(&second).unwrap()).unwrap();
    fs::remove_file(shelf.importable().join("b.py")).unwrap();
    // A partly written file.
    fs::write(versions.join(".new-abc"), "half").unwrap();
    // An incomplete removal.
    shelf.save(kept("c", "gone")).unwrap();
    fs::rename(versions.join("c"), versions.join(".gone-c")).unwrap();
    let again = Shelf::new(&home.path().join("ada"));
    again.prepare().unwrap();
    assert_eq!(importable(&again), ["__init__.py", "a.py", "b.py"]);
    assert_eq!(fs::read_to_string(again.importable().join("a.py")).unwrap(), "new");
    let mut left: Vec<_> = fs::read_dir(&versions).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".lock", "a", "b"]);
}

/// A version that cannot be read does not hide other skills, and files that were added by hand are kept.
#[test]
fn a_spoiled_version_hides_no_other_skill() {
    let (home, shelf) = shelf();
    shelf.save(kept("a", "1")).unwrap();
    shelf.save(kept("b", "2")).unwrap();
    fs::write(home.path().join("ada/skill-versions/a/000001.json"), "{").unwrap();
    fs::write(shelf.importable().join("own.py"), "x = 1").unwrap();
    let names: Vec<String> = shelf.all().unwrap().iter().map(|kept| kept.skill.name.to_string()).collect();
    assert_eq!(names, ["b"]);
    shelf.prepare().unwrap();
    assert!(shelf.importable().join("own.py").is_file());
}

/// A link in place of a version or of the file to import is not followed.
#[test]
fn links_are_not_followed() {
    let (home, shelf) = shelf();
    shelf.save(kept("a", "1")).unwrap();
    let outside = home.path().join("outside.json");
    let mut planted = kept("a", "planted");
    planted.skill.version = 2;
    fs::write(&outside, serde_json::to_vec(&planted).unwrap()).unwrap();
    let link = home.path().join("ada/skill-versions/a/000002.json");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    assert!(shelf.version(&SkillName::new("a").unwrap(), None).is_err());
    fs::remove_file(link).unwrap();
    // Writing through the link would change its target.
    let target = home.path().join("target");
    fs::write(&target, "untouched").unwrap();
    fs::remove_file(shelf.importable().join("a.py")).unwrap();
    std::os::unix::fs::symlink(&target, shelf.importable().join("a.py")).unwrap();
    shelf.save(kept("a", "2")).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
    assert!(!shelf.importable().join("a.py").is_symlink());
    assert_eq!(fs::read_to_string(shelf.importable().join("a.py")).unwrap(), "2");
}

#[test]
fn savers_take_turns() {
    let (_home, shelf) = shelf();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5).for_each(|_| drop(shelf.save(kept("a", "x")).unwrap())));
        }
    });
    let numbers: Vec<u32> = (1..=20).collect();
    assert_eq!(shelf.versions_of(&SkillName::new("a").unwrap()).unwrap(), numbers);
}

#[test]
fn old_versions_go_when_there_are_too_many() {
    let (_home, shelf) = shelf();
    for _ in 0..super::MAX_VERSIONS + 3 {
        shelf.save(kept("a", "x")).unwrap();
    }
    let numbers = shelf.versions_of(&SkillName::new("a").unwrap()).unwrap();
    assert_eq!((numbers.len(), numbers.first().copied()), (super::MAX_VERSIONS, Some(4)));
}
