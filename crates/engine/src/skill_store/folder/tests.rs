use super::{SkillFolder, split};
use crate::skill_store::{Origin, SkillError};
use std::fs;
use tempfile::TempDir;

fn read(folder: &str, file: &str, text: &str) -> Option<Result<SkillFolder, String>> {
    let home = TempDir::new().unwrap();
    let path = home.path().join(folder);
    fs::create_dir(&path).unwrap();
    fs::write(path.join(file), text).unwrap();
    SkillFolder::read(&path, folder, Origin::User)
}

/// Covers valid front matter, violations that only cause a warning, and front matter that cannot be used.
#[test]
fn heads_are_read_as_the_specification_has_them() {
    let long = |count: usize| "x".repeat(count);
    let head = |fields: &str| format!("---\n{fields}\n---\n# Body\n");
    let right = [
        ("pdf", head("name: pdf\ndescription: Reads PDFs.")),
        ("pdf-2", head("name: pdf-2\ndescription: 'Reads: PDFs.'\nlicense: Apache-2.0\ncompatibility: needs git")),
        ("a", head("name: a\ndescription: >-\n  Folded\n  text.\nmetadata:\n  author: me\n  version: \"1.0\"")),
        ("b", head("name: b\ndescription: d\nallowed-tools: Bash(git add:*) Read")),
        ("c", head(&format!("name: c\ndescription: {}", long(1024)))),
        ("d", "\u{feff}---\r\nname: d\r\ndescription: d\r\n---\r\nbody".to_owned()),
    ];
    for (folder, text) in right {
        let skill = read(folder, "SKILL.md", &text).unwrap().unwrap_or_else(|error| panic!("{folder}: {error}"));
        assert_eq!((skill.name.as_str(), skill.warnings.as_slice()), (folder, [].as_slice()), "{text}");
    }
    let forgiven = [
        ("pdf", head("name: other\ndescription: d"), "its folder is called"),
        ("PDF Tools", head("name: PDF Tools\ndescription: d"), "other characters"),
        ("-a", head("name: -a\ndescription: d"), "hyphen"),
        ("a--b", head("name: a--b\ndescription: d"), "two hyphens"),
        ("n", head("description: d"), "no `name`"),
        ("e", head(&format!("name: e\ndescription: {}", long(1025))), "longer than 1024"),
        ("f", head(&format!("name: f\ndescription: d\ncompatibility: {}", long(501))), "longer than 500"),
        ("g", head(&format!("name: {}\ndescription: d", long(65))), "longer than 64"),
        ("h", head("name: h\ndescription: Use this when: somebody asks: now"), "in quotes"),
        ("i", head("name: i\ndescription: d\nmetadata: text"), "not a map"),
    ];
    for (folder, text, warning) in forgiven {
        let skill = read(folder, "SKILL.md", &text).unwrap().unwrap_or_else(|error| panic!("{folder}: {error}"));
        assert!(skill.warnings.iter().any(|told| told.contains(warning)), "{folder}: {:?}", skill.warnings);
    }
    let refused = [
        ("# No head".to_owned(), "does not begin with a head"),
        ("---\nname: x\ndescription: never ends".to_owned(), "does not begin with a head"),
        (head("name: x"), "no `description`"),
        (head("name: x\ndescription: ''"), "no `description`"),
        (head("name: [x\ndescription"), "no YAML"),
        (head("- a\n- b"), "not a map"),
        (head(&format!("name: x\ndescription: d\n{}", "# comment\n".repeat(2000))), "longer than 16384"),
        (
            head(
                "description: d\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d]",
            ),
            "no YAML",
        ),
        (long(300 << 10), "longer than 262144"),
    ];
    for (text, reason) in refused {
        let error = read("x", "SKILL.md", &text).unwrap().unwrap_err();
        assert!(error.contains(reason), "{error}: {}", text.chars().take(80).collect::<String>());
    }
    assert_eq!(read("x", "README.md", "no skill"), None);
}

#[test]
fn what_others_write_beside_the_specification_is_understood() {
    let text = "---\nname: My Skill\nversion: 1.2\ndescription: d\nwhen_to_use: always\ndependencies: pandas>=1.0, numpy\n---\nBody";
    let skill = read("my", "Skill.md", text).unwrap().unwrap();
    assert_eq!((skill.version.as_deref(), skill.use_when.as_deref()), (Some("1.2"), Some("always")));
    assert_eq!(skill.dependencies, ["pandas>=1.0", "numpy"]);
    assert_eq!(skill.location(), "/skills/my/Skill.md");
    let listed = read("my", "SKILL.md", "---\nname: my\ndescription: d\ndependencies:\n  - pandas>=1.0\n---\n")
        .unwrap()
        .unwrap();
    assert_eq!(listed.dependencies, ["pandas>=1.0"]);
}

#[test]
fn head_and_body_are_told_apart() {
    assert_eq!(split("---\na: b\n---\n\n# x\n---\n"), Some(("a: b\n", "# x\n---\n")));
    assert_eq!(split("---\n---\n"), Some(("", "")));
    assert_eq!(split(""), None);
}

/// Files below the folder can be read. Nothing outside of it can, through any path or link.
#[test]
fn no_path_leads_out_of_the_folder() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("secret"), "canary").unwrap();
    let path = home.path().join("pdf");
    fs::create_dir_all(path.join("references")).unwrap();
    fs::write(path.join("SKILL.md"), "---\nname: pdf\ndescription: d\n---\n# How\n").unwrap();
    fs::write(path.join("references/forms.md"), "forms").unwrap();
    fs::write(path.join("logo.png"), [0xff, 0xfe, 0]).unwrap();
    std::os::unix::fs::symlink("references/forms.md", path.join("inside.md")).unwrap();
    for (name, target) in [("out", "../secret"), ("absolute", "/etc/passwd"), ("up", "..")] {
        std::os::unix::fs::symlink(target, path.join(name)).unwrap();
    }
    let skill = SkillFolder::read(&path, "pdf", Origin::User).unwrap().unwrap();
    assert_eq!(skill.get(None).unwrap().content, "# How\n");
    assert_eq!(skill.get(Some("SKILL.md")).unwrap().files, ["logo.png", "references/forms.md"]);
    assert_eq!(skill.get(Some("references/forms.md")).unwrap().content, "forms");
    assert_eq!(skill.get(Some("./references/../inside.md")).unwrap().content, "forms");
    let long = "x/".repeat(3000);
    for bad in [
        "../secret",
        "/etc/passwd",
        "out",
        "absolute",
        "up/secret",
        "references/../../secret",
        "references",
        "missing",
        "logo.png",
        "a\0b",
        "..",
        "/",
        "pdf/../../secret",
        &long,
    ] {
        let outcome = skill.get(Some(bad));
        assert!(matches!(outcome, Err(SkillError::NoFile { .. })), "{bad:?}: {outcome:?}");
    }
    // The `SKILL.md` itself must not be a link that leads out of the folder.
    fs::remove_file(path.join("SKILL.md")).unwrap();
    std::os::unix::fs::symlink("../secret", path.join("SKILL.md")).unwrap();
    assert!(SkillFolder::read(&path, "pdf", Origin::User).unwrap().is_err());
}

#[test]
fn when_it_is_of_use_may_be_said_in_a_section() {
    let body = |text: &str| super::when_to_use(text);
    let listed = "# A\n\n## When to Use This Skill\n\nInvoke this skill when:\n- **PDF** files are read.\n* forms; \n\n## Next\n- no\n";
    assert_eq!(body(listed).as_deref(), Some("PDF files are read; forms"));
    assert_eq!(
        body("### when to use?\n\nFor tables\nof numbers.\n\nMore.\n").as_deref(),
        Some("For tables of numbers.")
    );
    assert_eq!(body("## When to Use This Skill\n1. first\n2) second\n").as_deref(), Some("first; second"));
    for none in ["", "## Usage\n- x\n", "when to use this skill\n- x\n", "## When to Use This Skill\n\n## Next\n"] {
        assert_eq!(body(none), None, "{none:?}");
    }
}
