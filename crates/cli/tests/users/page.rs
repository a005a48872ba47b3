//! The web page in a real browser, against the real program with a scripted model.
//!
//! The steps are in `page/*.mjs`. `CORACLE_PAGE_PICTURES` names a folder for pictures of all views.

use crate::playing::Playing;
use crate::server_sign_ins::Guarded;
use crate::site::Site;
use coracle_scripted_model::{Library, Script, Step};
use coracle_testing::harness::{As, program};
use coracle_testing::skip::skip;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Draws a chart from orders, and prints more lines than are shown at first.
const COMPUTES: &str = "\
from servers.shop import list_orders
orders = list_orders()['orders']
for number in range(40):
    print('line', number)
with open('/artifacts/chart.svg', 'w') as file:
    file.write('<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"300\" height=\"80\">'
               '<rect width=\"120\" height=\"80\" fill=\"teal\"/></svg>')
";

/// Reads more than it prints.
const COUNTS: &str = "\
from servers.shop import list_orders
print(len(list_orders()['orders']))
";

/// Prints more than a model gets.
const FLOODS: &str = "\
for number in range(20_000):
    print('row', number)
";

/// Prints without end.
const RUNS: &str = "\
import time
number = 0
while True:
    number += 1
    print('tick', number, flush=True)
    time.sleep(0.01 if number < 10 else 1)
";

/// Calls a tool, and waits for a file.
const WAITS: &str = "\
import os, time
from servers.shop import list_orders
print('orders:', len(list_orders()['orders']), flush=True)
while not os.path.exists('/workspace/go-on'):
    time.sleep(0.05)
print('the code goes on')
";

/// Prints the texts that were uploaded.
const READS: &str = "\
import glob
for name in sorted(glob.glob('/workspace/uploads/*.txt')):
    print(open(name).read())
";

/// Output and files that try to run something or to reach somebody.
const HOSTILE: &str = "\
print('<script>alert(1)</script> <img src=x onerror=alert(1)> \\x1b[31mred')
name = '/artifacts/<img src=x onerror=alert(1)>.svg'
with open(name, 'w') as file:
    file.write('<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"40\" onload=\"alert(1)\">'
               '<script>alert(1)</script><rect width=\"40\" height=\"40\"/></svg>')
";

/// Cancels two orders, whatever is said about that.
const CANCELS: &str = "\
from servers.shop import cancel_order
for order in (1007, 1008):
    cancel_order(id=order)
";

fn code(code: &str) -> Step {
    Step::call("execute_code", json!({"code": code, "timeout_seconds": 600}))
}

/// Cancels an order, if it may.
fn cancels(order: u32) -> Script {
    let source = format!(
        "from coracle import ToolError\nfrom servers.shop import cancel_order\ntry:\n    \
         print('order {order} is', cancel_order(id={order})['status'])\nexcept ToolError as error:\n    \
         print('refused:', error)\n"
    );
    let turns = [vec![code(&source)], vec![Step::text("{{result}}")]];
    Script::new(turns).says(&format!("Cancel order {order}"))
}

fn library() -> Library {
    let pieces = ["## Boats\n\n", "A coracle is **sm", "all**.\n\n"];
    let boats = vec![
        Step::reasoning("I think about boats."),
        Step::pieces(&pieces),
        Step::gate("door"),
        Step::pieces(&["It fl", "oats.\n\n| kind | oars |\n|---|---:|\n", "| coracle | 1 |\n"]),
    ];
    let computes = [vec![Step::text("I draw it."), code(COMPUTES)], vec![Step::text("The chart is ready.")]];
    let fails = [vec![Step::status_times(400, 1), Step::text("It works now.")]];
    let hostile = [vec![code(HOSTILE)], vec![Step::text("Done.")]];
    let steps = [
        vec![Step::text("I begin."), Step::gate("steps"), code("print('a step')")],
        vec![Step::text("I have heard: {{user}}")],
    ];
    let waves = vec![
        Step::pieces(&[
            "With $\\omega = ",
            "2\\pi f$ and \\(k\\), a formula follows.\n\n$$\n\\begin{aligned}\nx\n",
            "+ y &= 1\n",
        ]),
        Step::gate("maths"),
        Step::pieces(&["\\end{aligned}\n$$\n\n", "\\[\n\\frac{a}{b}\n\\]\n\n", "That is all."]),
    ];
    let stages = [
        vec![
            Step::pieces(&["The first st", "age.\n\n"]),
            Step::gate("stage-1"),
            Step::text("The second stage."),
            code(WAITS),
        ],
        vec![Step::pieces(&["The third ", "stage.\n\n"]), Step::gate("stage-3"), Step::text("The end.")],
    ];
    let stays = [vec![Step::pieces(&["I stay.\n\n", "And I wri"]), Step::gate("stay"), Step::text("te on.")]];
    let waits = [vec![Step::text("I wait."), Step::gate("afar"), Step::text(" It is open.")]];
    Library { default: Some("echo".to_owned()), ..Library::default() }
        .with("echo", Script::new([vec![Step::text("{{user}}")]]))
        .with("boats", Script::new([boats]).says("Tell me about boats"))
        .with("computes", Script::new(computes).says("Compute"))
        .with("fails", Script::new(fails).says("Fail"))
        .with("runs", Script::new([vec![code(RUNS)], vec![Step::text("Over.")]]).says("Run for ever"))
        .with("floods", Script::new([vec![code(FLOODS)], vec![Step::text("Printed.")]]).says("Print a lot"))
        .with("hostile", Script::new(hostile).says("Show hostile output"))
        .with("steps", Script::new(steps).says("Work in steps"))
        .with("waves", Script::new([waves]).says("Explain the waves"))
        .with("stages", Script::new(stages).says("Work in stages"))
        .with("stays", Script::new(stays).says("Stay"))
        .with("waits", Script::new(waits).says("Wait for the gate"))
        .with("reads", Script::new([vec![code(READS)], vec![Step::text("{{result}}")]]))
        .with("counts", Script::new([vec![code(COUNTS)], vec![Step::text("Counted.")]]).says("Count the orders"))
        .with("plans", Script::new([vec![code(CANCELS)], vec![Step::text("Planned.")]]).says("Plan to cancel orders"))
        .with("one", cancels(1007))
        .with("other", cancels(1008))
}

/// The folder with the driver of the browser, and the browser.
fn tools() -> Option<(PathBuf, PathBuf)> {
    let folder = std::env::var_os("CORACLE_TEST_SERVERS").map(PathBuf::from);
    let target = || PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../test-servers");
    let modules = folder.unwrap_or_else(target).join("npm-page/node_modules");
    let browser = PathBuf::from("/usr/bin/chromium");
    if !modules.is_dir() || !browser.exists() {
        skip("the web page in a browser: run `cargo xtask needs`");
        return None;
    }
    if !has_page() {
        skip("the web page in a browser: this build has no page");
        return None;
    }
    Some((modules, browser))
}

/// Whether the program contains the page.
fn has_page() -> bool {
    coracle_page::index().is_some()
}

/// Plays a scenario against a server of its own.
fn play(scenario: &str) {
    play_with(scenario, json!({}));
}

/// Plays a scenario with further MCP servers.
fn play_with(scenario: &str, servers: Value) {
    play_in_context(scenario, servers, None);
}

/// Plays a scenario with further MCP servers, and a model whose context has this size in tokens.
fn play_in_context(scenario: &str, mut servers: Value, context: Option<u32>) {
    let Some(tools) = tools() else { return };
    servers["shop"] = shop();
    let model = Playing::new(library());
    let mut settings = format!("{}mcpServers: {servers}\n", model.settings("chat"));
    if let Some(tokens) = context {
        settings = settings.replace("api: chat }", &format!("api: chat, context_tokens: {tokens} }}"));
    }
    let site = Site::with_settings(As::current(), &[], &settings);
    let said = site.said_until("/sign-in/");
    let link = said.split_whitespace().find(|word| word.contains("/sign-in/")).unwrap();
    site.said_until("server    shop: 3 tools");
    run(scenario, &tools, &model, &site, link);
}

/// Plays a scenario as an admin, on a server with another user.
fn play_as_admin(scenario: &str) {
    let Some(tools) = tools() else { return };
    let model = Playing::new(library());
    let (site, link) = site_with_users(&model);
    run(scenario, &tools, &model, &site, &link);
}

/// Plays a scenario on a server whose users ann, bob and carla are a group, two of whom approve calls. Dave is in no group.
fn play_with_approvers(scenario: &str) {
    let Some(tools) = tools() else { return };
    let model = Playing::new(library());
    let policy = json!({
        "groups": {"finance": ["ann", "bob", "carla"]},
        "approvers": {"shop.cancel_order": {"group": "finance", "count": 2}},
    });
    let (site, link) = site_with(&model, &["bob", "carla", "dave"], &format!("policy: {policy}\n"));
    run(scenario, &tools, &model, &site, &link);
    let audit = site.run(&["audit", "show", "--json"]);
    let given: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|record: &Value| record["kind"] == "approval.given")
        .collect();
    let told: Vec<_> = given.iter().map(|record| (&record["user"], &record["caller"], &record["answer"])).collect();
    let (ann, bob, carla, once, refuse) =
        (&json!("ann"), &json!("bob"), &json!("carla"), &json!("once"), &json!("refuse"));
    assert_eq!(told, [(bob, ann, once), (carla, ann, once), (carla, ann, refuse)]);
    assert!(given.iter().all(|record| record["credential"] == "session" && record["groups"] == json!(["finance"])));
}

/// A server with an admin and another user, and the sign-in link of the admin.
fn site_with_users(model: &Playing) -> (Site, String) {
    site_with(model, &["bob"], "")
}

/// A server with the admin ann and other users, and the sign-in link of the admin.
fn site_with(model: &Playing, users: &[&str], more: &str) -> (Site, String) {
    let limit = "  daily_tokens: 100000\n";
    let settings = format!("{}{limit}mcpServers: {}\n{more}", model.settings("chat"), json!({"shop": shop()}));
    let site = Site::with_settings(As::current(), users, &settings);
    let said = site.run(&["users", "add", "ann", "--admin"]);
    let (_, token) = said.trim().split_once("/sign-in/").unwrap();
    let link = format!("http://{}/sign-in/{token}", site.address());
    (site, link)
}

/// Plays a scenario that has the server killed and started again: it writes `kill` or `start` to standard output, and
/// reads a line when that is done. The server has users, whose browsers stay signed in.
fn play_with_kills(scenario: &str) {
    let Some(tools) = tools() else { return };
    let model = Playing::new(library());
    let (mut site, link) = site_with_users(&model);
    let address = site.address().to_owned();
    let home = tempfile::tempdir().unwrap();
    let mut command = scenario_command(scenario, &tools, &model, &site, &link, home.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut answers = child.stdin.take().unwrap();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        match line.unwrap().as_str() {
            "kill" => site.kill(),
            "start" => site.start_at(&address),
            other => panic!("{scenario}: {other}"),
        }
        writeln!(answers, "done").unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{scenario}: {}", String::from_utf8_lossy(&output.stderr));
}

fn shop() -> Value {
    json!({"command": program(), "args": ["mcp-demo", "shop"]})
}

/// The command that plays a scenario in a browser that signs in with this link.
fn scenario_command(
    scenario: &str,
    (modules, browser): &(PathBuf, PathBuf),
    model: &Playing,
    site: &Site,
    link: &str,
    home: &Path,
) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/users/page").join(scenario);
    let mut command = Command::new("node");
    command
        .arg(script)
        .env("CORACLE_PAGE_MODULES", modules)
        .env("CORACLE_PAGE_BROWSER", browser)
        .env("CORACLE_PAGE_URL", format!("http://{}", site.address()))
        .env("CORACLE_PAGE_LINK", link)
        .env("CORACLE_PAGE_MODEL", model.address())
        .env("HOME", home)
        .env_remove("http_proxy")
        .env_remove("https_proxy");
    command
}

/// Runs the steps of a scenario.
fn run(scenario: &str, tools: &(PathBuf, PathBuf), model: &Playing, site: &Site, link: &str) {
    let home = tempfile::tempdir().unwrap();
    let mut command = scenario_command(scenario, tools, model, site, link, home.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{scenario}: {}", String::from_utf8_lossy(&said));
}

#[test]
fn a_conversation_lives_in_the_page() {
    play("conversation.mjs");
}

#[test]
fn reloading_during_a_run_shows_everything_once() {
    play("reload.mjs");
}

#[test]
fn seven_tabs_follow_a_run() {
    play("tabs.mjs");
}

#[test]
fn the_page_reconnects_to_a_server_that_was_killed() {
    play_with_kills("killed.mjs");
}

#[test]
fn the_first_use_works_by_keyboard_alone() {
    play("keyboard.mjs");
}

#[test]
fn runs_are_stopped_and_calls_approved() {
    play("control.mjs");
}

#[test]
fn plans_are_ticked_and_run() {
    play("plan.mjs");
}

#[test]
fn a_group_approves_calls() {
    play_with_approvers("approvers.mjs");
}

#[test]
fn messages_are_queued_or_sent_to_the_run() {
    play("queue.mjs");
}

#[test]
fn edited_messages_start_branches() {
    play("branch.mjs");
}

#[test]
fn conversations_are_exported_and_forked() {
    play("export.mjs");
}

#[test]
fn code_is_run_again_and_all_of_its_output_shown() {
    play("rerun.mjs");
}

#[test]
fn what_one_device_starts_appears_on_another() {
    play("devices.mjs");
}

#[test]
fn a_first_key_can_be_entered() {
    let Some(tools) = tools() else { return };
    let model = Playing::new(Library { key: Some("the-right-key".to_owned()), ..library() });
    let settings = format!("agent: {{ providers: {{ lab: {{ url: '{}/v1', api: chat }} }} }}\n", model.address());
    let site = Site::with_settings(As::current(), &[], &settings);
    let said = site.said_until("/sign-in/");
    let link = said.split_whitespace().find(|word| word.contains("/sign-in/")).unwrap();
    run("first-key.mjs", &tools, &model, &site, link);
}

#[test]
fn files_are_added_to_messages() {
    play("uploads.mjs");
}

#[test]
fn tokens_are_counted_and_estimates_marked() {
    play("tokens.mjs");
}

#[test]
fn the_share_of_the_context_is_shown_if_its_size_is_known() {
    play_in_context("context.mjs", json!({}), Some(40_000));
}

#[test]
fn the_command_palette_works_by_keyboard() {
    play("palette.mjs");
}

#[test]
fn formulas_are_rendered() {
    play("maths.mjs");
}

#[test]
fn files_are_previewed_and_changed() {
    play("files.mjs");
}

#[test]
fn pages_pdf_files_and_documents_are_previewed() {
    play("previews.mjs");
}

#[test]
fn runs_and_sessions_are_listed_and_ended() {
    play("activity.mjs");
}

#[test]
fn tools_are_tried_and_clients_configured() {
    let odd = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/users/page/odd-server.mjs");
    let broken = json!({"command": "/does/not/exist"});
    let odd = json!({"command": "node", "args": [odd], "disabledTools": ["never"]});
    play_with("tools.mjs", json!({"odd": odd, "broken": broken}));
}

#[test]
fn servers_are_added_and_removed_in_the_page() {
    play("servers.mjs");
}

#[test]
fn admins_change_servers_and_policy_for_everyone() {
    play_as_admin("operator.mjs");
}

#[test]
fn users_sign_in_to_servers_in_the_page() {
    let guarded = Guarded::start();
    play_with("sign-in.mjs", json!({"guarded": {"url": guarded.url()}}));
}

#[test]
fn skills_are_saved_compared_and_tested() {
    play("skills.mjs");
}

#[test]
fn admins_manage_users_and_users_their_data() {
    play_as_admin("admin.mjs");
}

#[test]
fn hostile_content_runs_nothing_and_sends_nothing() {
    play("hostile.mjs");
}

#[test]
fn every_view_is_accessible_in_both_themes_and_at_two_widths() {
    play("views.mjs");
}
