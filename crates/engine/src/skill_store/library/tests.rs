use super::{Library, Origin, SkillSource};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn skill(source: &Path, folder: &str, description: &str) -> PathBuf {
    let path = source.join(folder);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("SKILL.md"), format!("---\nname: {folder}\ndescription: {description}\n---\nbody")).unwrap();
    path.canonicalize().unwrap()
}

fn source(path: &Path, origin: Origin) -> SkillSource {
    SkillSource { path: path.to_owned(), origin }
}

#[test]
fn the_project_goes_before_the_user_and_both_before_ours() {
    let home = TempDir::new().unwrap();
    let (project, user, cache) = (home.path().join("p"), home.path().join("u"), home.path().join("cache"));
    skill(&project, "pdf", "of the project");
    skill(&user, "pdf", "of the user");
    skill(&user, "charts", "better charts");
    let sources = vec![source(&project, Origin::Project), source(&user, Origin::User)];
    let library = Library::new(sources, Some(&cache));
    let found = library.read_now();
    let told: Vec<(&str, Origin)> = found.skills.iter().map(|skill| (skill.name.as_str(), skill.origin)).collect();
    let expected = [
        ("charts", Origin::User),
        ("data-analysis", Origin::Builtin),
        ("pdf", Origin::Project),
        ("symbolic-math", Origin::Builtin),
    ];
    assert_eq!(told, expected);
    assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
    assert!(found.warnings[0].contains("which goes first"), "{:?}", found.warnings);
    assert!(found.skills.iter().all(|skill| skill.warnings.is_empty()), "{:?}", found.skills);
    let mounts: Vec<PathBuf> = library.mounts().into_iter().map(|(_, seen_at)| seen_at).collect();
    for name in ["charts", "data-analysis", "pdf", "symbolic-math"] {
        assert!(mounts.contains(&Path::new("/skills").join(name)), "{mounts:?}");
    }
    assert_eq!(library.find("pdf").unwrap().description, "of the project");
    assert!(library.find("pdg").unwrap_err().to_string().contains("did you mean \"pdf\"?"));
}

#[test]
fn links_that_lead_elsewhere_are_not_followed() {
    let home = TempDir::new().unwrap();
    let (agents, claude, outside) = (home.path().join("agents"), home.path().join("claude"), home.path().join("else"));
    skill(&agents, "pdf", "d");
    skill(&outside, "evil", "d");
    fs::create_dir_all(&claude).unwrap();
    std::os::unix::fs::symlink("../agents/pdf", claude.join("pdf")).unwrap();
    std::os::unix::fs::symlink(outside.join("evil"), claude.join("evil")).unwrap();
    let library = Library::new(vec![source(&agents, Origin::User), source(&claude, Origin::User)], None);
    let found = library.read_now();
    let names: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["pdf"]);
    assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
    assert!(found.warnings[0].ends_with("claude/evil: a link that leads elsewhere is not followed"));
}

/// Only root can create files of another user. The same folder is read if it belongs to the current user.
#[test]
fn what_belongs_to_another_user_is_not_read_in_a_project() {
    let home = TempDir::new().unwrap();
    let project = home.path().join("skills");
    let pdf = skill(&project, "pdf", "d");
    skill(&project, "own", "d");
    let library = Library::new(vec![source(&project, Origin::Project)], None);
    assert_eq!(library.read_now().skills.len(), 2);
    if !rustix::process::geteuid().is_root() {
        coracle_testing::skip::skip("skills of another user: only root can change the owner of a file");
        return;
    }
    std::os::unix::fs::chown(&pdf, Some(4321), Some(4321)).unwrap();
    let found = library.read_now();
    assert_eq!((found.skills.len(), found.warnings.len()), (1, 1), "{found:?}");
    std::os::unix::fs::chown(&project, Some(4321), Some(4321)).unwrap();
    let found = library.read_now();
    assert_eq!((found.skills.len(), found.warnings.len()), (0, 1), "{found:?}");
}

#[test]
fn of_the_operators_folder_everything_is_seen() {
    let home = TempDir::new().unwrap();
    let configured = home.path().join("skills");
    fs::create_dir_all(configured.join("shared")).unwrap();
    fs::write(configured.join("shared/notes.md"), "no skill").unwrap();
    let library = Library::new(vec![source(&configured, Origin::Configured)], None);
    let shared = configured.join("shared").canonicalize().unwrap();
    assert_eq!(library.mounts(), [(shared, PathBuf::from("/skills/shared"))]);
    assert_eq!(library.read_now().skills, []);
}

#[test]
fn ours_are_one_mount_where_there_are_no_others() {
    let home = TempDir::new().unwrap();
    let (user, cache) = (home.path().join("u"), home.path().join("cache"));
    let library = Library::new(vec![source(&user, Origin::User)], Some(&cache));
    let mounts = library.mounts();
    assert_eq!(mounts.len(), 1, "{mounts:?}");
    let (from, seen_at) = &mounts[0];
    assert_eq!(seen_at, Path::new("/skills"));
    assert!(from.join("charts/SKILL.md").is_file() && from.join("symbolic-math/SKILL.md").is_file());
    skill(&user, "pdf", "d");
    assert_eq!(library.mounts().len(), 4);
}
