use crate::{file, groups};
use coracle_policy::{CedarPolicies, PolicyFile};

fn told(text: &str) -> String {
    CedarPolicies::new(&[file(text)], &groups()).unwrap_err().to_string()
}

#[test]
fn errors_name_the_file_and_the_line() {
    for (text, origin, message) in [
        ("\n\nforbid(principal, action, resource)", "p.cedar:3:36", "unexpected end of input"),
        ("forbid(principal, action, resource)\nwhen { context.amount > 5 };", "p.cedar:2:", "amount"),
        ("\nforbid(principal, action == Action::\"cal\", resource);", "p.cedar:2:", "cal"),
        ("\nforbid(principal in Team::\"x\", action, resource);", "p.cedar:2:", "Team"),
        (
            "\n\nforbid(principal, action == Action::\"call\", resource) when { context.args.long.getTag(\"n\") > 1 };",
            "p.cedar:3:",
            "tag",
        ),
        (
            "\nforbid(principal, action == Action::\"call\", resource) when { resource.destructive };",
            "p.cedar:2:",
            "destructive",
        ),
        ("\npermit(principal in Group::\"finance\", action, resource);", "p.cedar:2:1", "a permit has no effect here"),
        (
            "\n@aks(\"x\") forbid(principal, action, resource);",
            "p.cedar:2:1",
            "the annotation @aks has no meaning here",
        ),
        ("@ask(\"x\") forbid(principal, action, resource);", "p.cedar:1:1", "@ask applies to calls only"),
        (
            "@ask(\"x\") @approvers(\"sales\") forbid(principal, action == Action::\"call\", resource);",
            "p.cedar:1:1",
            "\"sales\", which is not in policy.groups",
        ),
        (
            "@ask(\"x\") @approvals(\"0\") forbid(principal, action == Action::\"call\", resource);",
            "p.cedar:1:1",
            "@approvals must be a number",
        ),
        ("@approvals(\"2\") forbid(principal, action, resource);", "p.cedar:1:1", "@approvals needs @approvers"),
        ("@approvers(\"legal\") forbid(principal, action, resource);", "p.cedar:1:1", "need @ask"),
        (
            "@ask(\"x\") @approvers(\"legal\") @approvals(\"2\") forbid(principal, action == Action::\"call\", resource);",
            "p.cedar:1:1",
            "2 approvals are required, and legal has 1 members",
        ),
        (
            "@id(\"a\") forbid(principal, action, resource);\n@id(\"a\") forbid(principal, action, resource);",
            "p.cedar:2:1",
            "another policy",
        ),
        ("forbid(principal == ?principal, action, resource);", "p.cedar", "template"),
        ("forbid(principal, action == Action::\"execute\", resource is Tool);", "p.cedar:1:", "action"),
    ] {
        let told = told(text);
        assert!(told.starts_with(origin) && told.contains(message), "{text}\n{told}");
    }
}

#[test]
fn one_error_rejects_all_files_and_all_errors_are_told() {
    let file = |path: &str, text: &str| PolicyFile { path: path.to_owned(), text: text.to_owned() };
    let good = file("good.cedar", "permit(principal, action, resource);\nforbid(principal, action, resource);");
    assert_eq!(CedarPolicies::new(std::slice::from_ref(&good), &groups()).unwrap().iter().count(), 1);
    let files = [good, file("a.cedar", "forbid(nobody, action, resource);"), file("b.cedar", "\nforbid(")];
    let told = CedarPolicies::new(&files, &groups()).unwrap_err().to_string();
    assert!(told.contains("a.cedar:1:") && told.contains("b.cedar:2:"), "{told}");
}
