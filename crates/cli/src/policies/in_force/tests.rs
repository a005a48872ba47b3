use super::{Held, PolicyInForce};
use coracle_config::{LoadOptions, Loaded};
use coracle_engine::{CallCaps, Toolbox, ToolboxConfig};
use coracle_policy::{Policy, ToolNames};
use coracle_store::{MemoryStore, Store};
use coracle_types::{Decision, Schema, ServerName, Tool, ToolHints};
use coracle_upstream::{Options, Upstream};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;
use tempfile::TempDir;

/// A server whose policy comes from a settings file.
struct Place {
    _folder: TempDir,
    file: PathBuf,
    options: LoadOptions,
    policy: Arc<PolicyInForce>,
}

fn rule(decision: &str) -> String {
    format!("policy: {{ tools: {{ \"bank.pay\": {decision} }} }}\n")
}

/// A server that has started with the decision `allow`.
fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("coracle.yaml");
    std::fs::write(&file, rule("allow")).unwrap();
    let options = LoadOptions { file: Some(file.clone()), ..LoadOptions::default() };
    let loaded = coracle_config::load(&options).unwrap();
    let config = ToolboxConfig {
        cache: folder.path().join("cache"),
        registry: None,
        embedder: None,
        caps: CallCaps::default(),
        unusable: Vec::new(),
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let upstream = Upstream::new(Vec::new(), Options::default());
    let toolbox = Toolbox::new(config, upstream, store, Policy::default());
    let policy = PolicyInForce::new(options.clone(), &loaded, toolbox);
    let place = Place { _folder: folder, file, options, policy };
    let mut held = place.policy.hold();
    let new = held.read(&loaded).unwrap();
    held.replace(new);
    drop(held);
    place
}

impl Place {
    fn decision(&self) -> Decision {
        let tool = Tool {
            server: ServerName::new("bank").unwrap(),
            name: "pay".to_owned(),
            title: None,
            description: String::new(),
            input_schema: Schema::default(),
            output_schema: None,
            category: None,
            hints: ToolHints::default(),
        };
        self.policy.toolbox.approvals().policy().decide(&tool, &ToolNames::of_wire(&tool)).decision
    }

    fn load(&self) -> Loaded {
        coracle_config::load(&self.options).unwrap()
    }

    /// What an admin does: a change of the file that applies at once.
    fn change(&self, held: &mut Held<'_>, decision: &str) {
        std::fs::write(&self.file, rule(decision)).unwrap();
        let new = held.read(&self.load()).unwrap();
        held.reconfigure(new, Vec::new(), Vec::new());
    }
}

#[tokio::test]
async fn settings_that_were_read_earlier_do_not_replace_later_ones() {
    let place = place();
    let place = &place;
    let (about_to, waits) = mpsc::channel();
    let mut held = place.policy.hold();
    thread::scope(|scope| {
        let follower = scope.spawn(move || {
            let read = || {
                // Whoever reads the settings has the lock, so no admin is changing them.
                assert!(place.policy.applied.try_lock().is_err(), "the settings are read without the lock");
                Ok(place.load())
            };
            about_to.send(()).unwrap();
            place.policy.take_up_from(read).unwrap().is_some()
        });
        waits.recv().unwrap();
        place.change(&mut held, "deny");
        drop(held);
        assert!(!follower.join().unwrap(), "the change was taken up twice");
    });
    assert_eq!(place.decision(), Decision::Deny);
}

#[tokio::test]
async fn a_changed_file_is_taken_up_whole_or_not_at_all() {
    let place = place();
    assert_eq!(place.decision(), Decision::Allow);
    assert!(place.policy.take_up().unwrap().is_none());
    let broken = "policy:\n  tools: { \"bank.pay\": deny }\n  rules:\n    - { name: x, require: args.amount <= }\n";
    std::fs::write(&place.file, broken).unwrap();
    let told = format!("{:#}", place.policy.take_up().err().unwrap());
    assert!(told.contains("coracle.yaml:4:") && told.contains("the expression cannot be parsed"), "{told}");
    assert_eq!(place.decision(), Decision::Allow);
    std::fs::write(&place.file, rule("deny")).unwrap();
    assert!(place.policy.take_up().unwrap().is_some());
    assert_eq!(place.decision(), Decision::Deny);
}

#[tokio::test]
async fn changed_cedar_files_are_taken_up() {
    let place = place();
    let cedar = place.file.with_file_name("p.cedar");
    std::fs::write(&cedar, "permit(principal, action, resource);\n").unwrap();
    std::fs::write(&place.file, "policy: { tools: { \"bank.pay\": allow }, files: [p.cedar] }\n").unwrap();
    let policies = || place.policy.toolbox.approvals().policy().cedar().map_or(0, |cedar| cedar.iter().count());
    assert!(place.policy.take_up().unwrap().is_some());
    assert_eq!(policies(), 0);
    std::fs::write(&cedar, "forbid(principal, action, resource);\n").unwrap();
    assert!(place.policy.take_up().unwrap().is_some());
    assert_eq!(policies(), 1);
    std::fs::write(&cedar, "\nforbid(principal, action, resource) when { context.nothing };\n").unwrap();
    let told = format!("{:#}", place.policy.take_up().err().unwrap());
    assert!(told.contains("p.cedar:2:"), "{told}");
    assert_eq!(policies(), 1);
}
