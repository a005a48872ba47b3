use super::Query;
use crate::{Catalog, ServerTools};
use coracle_types::{ServerName, Tool, ToolHints};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn tool(server: &str, name: &str, description: &str) -> Tool {
    let schema = json!({ "type": "object", "properties": { "repoPath": { "type": "string" } } });
    Tool {
        server: ServerName::new(server).unwrap(),
        name: name.to_owned(),
        title: None,
        description: description.to_owned(),
        input_schema: schema.as_object().unwrap().clone().into(),
        output_schema: None,
        category: None,
        hints: ToolHints::default(),
    }
}

fn server(name: &str, tools: &[(&str, &str)]) -> ServerTools {
    let tools = tools.iter().map(|(tool_name, text)| tool(name, tool_name, text));
    ServerTools::new(ServerName::new(name).unwrap(), tools)
}

fn catalog() -> Catalog {
    Catalog::new(vec![
        server("git", &[("git_status", "Shows the working tree status"), ("git_log", "Shows the commit logs")]),
        server("files", &[("readFile", "Reads a file"), ("write_file", "Writes text"), ("搜索文件", "在文件夹中搜索")]),
        server("mail", &[("send_message", "Sends an e-mail to somebody"), ("forecast", "The weather of tomorrow")]),
    ])
}

fn found(query: &str) -> Vec<String> {
    catalog().search(&Query::new(query), 10).iter().map(|hit| hit.entry.name.clone()).collect()
}

fn first(query: &str) -> String {
    found(query).first().cloned().unwrap_or_default()
}

#[test]
fn words_and_names_are_found() {
    assert_eq!(first("status"), "git_status");
    assert_eq!(first("reading files"), "readFile");
    assert_eq!(first("搜索"), "搜索文件");
}

#[test]
fn meanings_are_found_without_a_common_word() {
    assert_eq!(first("temperature and rain"), "forecast");
    assert_eq!(first("email"), "send_message");
    assert_eq!(first("history of revisions"), "git_log");
}

#[test]
fn odd_queries_get_an_answer() {
    assert_eq!(found("").len(), 7);
    assert_eq!(found("  ?! 🎉").len(), 7, "no words");
    assert_eq!(found("qqqqzzzzxxxx"), Vec::<String>::new());
    assert_eq!(first(&"send an e-mail ".repeat(10_000)), "send_message");
    assert!(Catalog::new(Vec::new()).search(&Query::new("file"), 10).is_empty());
    assert!(found("404").is_empty() && first("the status of 404 things, 17 of them") == "git_status");
    assert!(found("file\0name \u{202e} \u{feff}").contains(&"readFile".to_owned()));
}

#[test]
fn a_server_restricts_the_search_and_no_words_match_everything() {
    let catalog = catalog();
    assert_eq!(catalog.search(&Query { server: Some("git"), ..Query::new("") }, 10).len(), 2);
    assert!(
        catalog
            .search(&Query { server: Some("git"), ..Query::new("file") }, 10)
            .iter()
            .all(|hit| hit.entry.server == "git")
    );
    assert_eq!(catalog.search(&Query { server: Some("files"), ..Query::new("file") }, 1).len(), 1);
}

#[test]
fn parts_of_a_task_find_separate_tools() {
    let all = found("Look up tomorrow's weather in Rome, then send the result by mail to my friend Anna");
    assert_eq!(
        all[..2].iter().filter(|name| ["forecast", "send_message"].contains(&name.as_str())).count(),
        2,
        "{all:?}"
    );
}

/// Learned fields of results are searched, too.
#[test]
fn learned_keys_are_found() {
    let mut places = server("places", &[("look", "Looks"), ("go", "Goes")]);
    places.shapes.insert("look".to_owned(), crate::Shape::observe(&json!({ "temperature": 3, "name": "x" })));
    let catalog = Catalog::new(vec![places]);
    let hits = catalog.search(&Query::new("temperature"), 10);
    assert_eq!(hits.first().map(|hit| hit.entry.name.as_str()), Some("look"));
}

#[test]
fn a_server_that_has_not_changed_is_not_read_again() {
    let before = catalog();
    before.prepare_search();
    let servers: Vec<ServerTools> = before.servers().iter().map(|server| ServerTools::clone(server)).collect();
    let mut changed = servers.clone();
    changed[0].tools.push(tool("git", "git_blame", "Who wrote a line").into());
    let after = Catalog::after(changed, &before);
    let shared = |one: usize| std::sync::Arc::ptr_eq(&before.index().shards[one], &after.index().shards[one]);
    assert!(!shared(0) && shared(1) && shared(2));
    assert_eq!(after.search(&Query::new("blame"), 1)[0].entry.name, "git_blame");
    assert!(before.search(&Query::new("blame"), 9).iter().all(|hit| hit.entry.name != "git_blame"));
    let same = Catalog::after(servers, &before);
    assert!(std::sync::Arc::ptr_eq(&before.index().shards[0], &same.index().shards[0]));
}

/// A large catalogue can be searched by words at once, and by meaning once the vectors are computed.
#[test]
fn a_large_catalogue_is_searched_by_meaning_later() {
    let many: Vec<(String, String)> =
        (0..4_000).map(|number| (format!("tool_{number}"), format!("Does thing number {number}"))).collect();
    let mut tools: Vec<(&str, &str)> = many.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    tools.push(("forecast", "The weather of tomorrow"));
    let catalog = Catalog::new(vec![server("many", &tools)]);
    assert_eq!(catalog.search(&Query::new("weather"), 1)[0].entry.name, "forecast");
    let begun = Instant::now();
    while !catalog.knows_meanings() {
        assert!(begun.elapsed() < Duration::from_mins(1));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(catalog.search(&Query::new("temperature and rain"), 1)[0].entry.name, "forecast");
}

#[test]
fn scores_are_the_same_each_time() {
    let query = "search the commits of a repository, then write a file";
    let scores = |catalog: &Catalog| -> Vec<(String, u32)> {
        catalog.search(&Query::new(query), 10).iter().map(|hit| (hit.entry.name.clone(), hit.score.to_bits())).collect()
    };
    assert_eq!(scores(&catalog()), scores(&catalog()));
}

fn names(hits: &[super::Hit<'_>]) -> Vec<String> {
    hits.iter().map(|hit| hit.entry.path()).collect()
}

#[test]
fn tools_that_were_used_rank_slightly_higher() {
    let twins = Catalog::new(vec![server("p", &[("send", "Sends a text")]), server("q", &[("send", "Sends a text")])]);
    assert_eq!(names(&twins.search(&Query::new("send"), 2)), ["p.send", "q.send"]);
    let uses = super::Uses::from([(("q".to_owned(), "send".to_owned()), 3), (("gone".to_owned(), "x".to_owned()), 9)]);
    let query = Query { uses: Some(&uses), ..Query::new("send") };
    assert_eq!(names(&twins.search(&query, 2)), ["q.send", "p.send"]);
    // However often another tool was used, it does not rank above one that matches.
    let uses = super::Uses::from([(("mail".to_owned(), "forecast".to_owned()), 1_000_000)]);
    let query = Query { uses: Some(&uses), ..Query::new("status") };
    assert_eq!(catalog().search(&query, 1)[0].entry.name, "git_status");
}

#[test]
fn equivalent_tools_of_several_servers_are_grouped() {
    let catalog = Catalog::new(vec![
        server("github", &[("create_issue", "Create a new issue in a repository"), ("list_issues", "List issues")]),
        server("gitlab", &[("gitlab_create_issue", "Create a new issue in a project repository")]),
        server("jira", &[("create_issue", "Bakes bread")]),
    ]);
    let groups = Catalog::grouped(catalog.search(&Query::new("create an issue"), 10));
    let shown: Vec<(String, Vec<String>)> = groups
        .iter()
        .map(|group| (group.hit.entry.path(), group.also.iter().map(|entry| entry.path()).collect()))
        .collect();
    let leads: Vec<&str> = shown.iter().map(|(lead, _)| lead.as_str()).collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(leads.contains(&"jira.create_issue") && leads.contains(&"github.list_issues"), "{shown:?}");
    assert_eq!(shown.iter().map(|(_, also)| also.len()).sum::<usize>(), 1, "{shown:?}");
}

#[test]
fn categories_are_set_declared_or_guessed() {
    let mut told = server("git", &[("git_log", "Shows the commit logs")]);
    told.category = Some("Versions".to_owned());
    let mut said = server("mail", &[("send_message", "Sends an e-mail to somebody"), ("forecast", "The weather")]);
    Arc::make_mut(&mut said.tools[1]).category = Some("Weather".to_owned());
    let guessed = server("postgres", &[("query", "Runs a query"), ("list_tables", "Lists tables")]);
    let odd = server("zzqx", &[("zzqx", "")]);
    let catalog = Catalog::new(vec![told, said, guessed, odd]);
    let all: Vec<(String, usize)> = catalog.categories().into_iter().map(|one| (one.name, one.tools)).collect();
    let expected = [("Versions", 1), ("Weather", 1), ("communication", 1), ("data", 2), ("other", 1)];
    assert_eq!(all, expected.map(|(name, tools)| (name.to_owned(), tools)));
    let of = |category| names(&catalog.search(&Query { category: Some(category), ..Query::new("") }, 10));
    assert_eq!(of("weather"), ["mail.forecast"]);
    assert_eq!(of("data"), ["postgres.list_tables", "postgres.query"]);
    assert_eq!(of("mail"), ["mail.forecast", "mail.send_message"], "a server counts as a category");
    assert_eq!(of("cooking"), Vec::<String>::new());
    assert!(catalog.knows_category("VERSIONS") && !catalog.knows_category("cooking"));
    let query = Query { category: Some("data"), ..Query::new("list the commit logs") };
    assert_eq!(names(&catalog.search(&query, 1)), ["postgres.list_tables"]);
    assert_eq!(names(&catalog.search(&Query::new("list the commit logs"), 1)), ["git.git_log"]);
}

#[test]
fn tools_that_only_seem_to_match_rank_lower() {
    let catalog = Catalog::new(vec![
        server(
            "git",
            &[
                ("git_commit", "Records changes to the repository"),
                ("git_log", "Shows the commit logs"),
                ("git_branch", "List Git branches"),
                ("git_create_branch", "Creates a new branch from an optional base branch"),
            ],
        ),
        server(
            "files",
            &[
                ("read_file", "Read the complete contents of a file. DEPRECATED: use read_text_file instead"),
                ("read_text_file", "Read the complete contents of a file as text"),
            ],
        ),
    ]);
    let order = |query: &str| -> Vec<String> {
        catalog.search(&Query::new(query), 10).iter().map(|hit| hit.entry.function.clone()).collect()
    };
    let before = |query: &str, first: &str, second: &str| {
        let found = order(query);
        let place = |name: &str| found.iter().position(|function| function == name).unwrap_or(usize::MAX);
        assert!(place(first) < place(second), "{query}: {found:?}");
    };
    before("write the last commits of a repository to a file", "git_log", "git_commit");
    before("commit the changes to the repository", "git_commit", "git_log");
    before("list the branches", "git_branch", "git_create_branch");
    before("read a file", "read_text_file", "read_file");
    before("which deprecated tool can read a file", "read_file", "read_text_file");
}

/// A task with several steps gets the tool for each step, in order, and no others.
#[test]
fn a_task_gets_the_tools_of_its_steps() {
    let mut git = server(
        "git",
        &[
            ("git_status", "Shows the working tree status"),
            ("git_diff", "Shows differences between branches or commits"),
            ("git_commit", "Records changes to the repository"),
            ("git_add", "Adds file contents to the staging area"),
            ("git_log", "Shows the commit logs"),
            ("git_show", "Shows the contents of a commit, or of a file or directory given as <revision>:<path>"),
            ("git_create_branch", "Creates a new branch from an optional base branch"),
            ("git_branch", "List Git branches"),
        ],
    );
    let log = git.tools.iter_mut().find(|tool| tool.name == "git_log").unwrap();
    let schema = json!({ "properties": { "repo_path": {}, "max_count": {} } });
    Arc::make_mut(log).input_schema = schema.as_object().unwrap().into();
    let catalog = Catalog::new(vec![
        git,
        server(
            "files",
            &[
                ("read_file", "Read the complete contents of a file as text. DEPRECATED: use read_text_file instead"),
                ("read_text_file", "Read the complete contents of a file from the file system as text"),
                ("write_file", "Create a new file or completely overwrite an existing file with new content"),
                ("edit_file", "Make line-based edits to a text file"),
                ("list_directory", "Get a detailed listing of all files and directories in a specified path"),
                ("move_file", "Move or rename files and directories"),
            ],
        ),
        server(
            "mail",
            &[
                ("send_mail", "Sends an e-mail to somebody"),
                ("list_mails", "Lists the e-mails of a mailbox"),
                ("delete_mail", "Deletes an e-mail"),
            ],
        ),
    ]);
    let chosen = |task: &str| -> Vec<String> {
        catalog.select(&Query::new(task), 5, 0.6).iter().map(|hit| hit.entry.name.clone()).collect()
    };
    for (task, expected) in [
        ("write the last commits of a repository to a file", ["git_log", "write_file"]),
        ("save the newest commits in a text file", ["git_log", "write_file"]),
        ("send the most recent commits to my boss by mail", ["git_log", "send_mail"]),
        ("export all branches of the repository to a file", ["git_branch", "write_file"]),
        ("mail the names of the files in a folder to Anna", ["list_directory", "send_mail"]),
        ("list the mails, then write them to a file", ["list_mails", "write_file"]),
        ("read a text file and send it by mail", ["read_text_file", "send_mail"]),
        ("create a new branch and commit the changes", ["git_create_branch", "git_commit"]),
    ] {
        assert_eq!(chosen(task), expected, "{task}");
    }
    // One step: the best tool, and those with a similar score.
    assert_eq!(chosen("commit the changes")[0], "git_commit");
    assert_eq!(chosen("move a file to another folder")[0], "move_file");
    assert_eq!(catalog.select(&Query::new("list the branches"), 1, 0.0).len(), 1);
    assert!(catalog.select(&Query::new("qqqqzzzz"), 5, 0.6).is_empty());
    assert!(catalog.select(&Query::new("write the qqqqzzzz to the xxxxqqqq"), 5, 0.6).len() < 3);
}
