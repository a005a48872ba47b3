//! The native backend: the contract of every backend, and guests that lie on their channel.

use coracle_sandbox::{NativeBackend, NativeConfig};
use coracle_testing::backend_contract;
use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_types::Limits;

/// Runs as the current user: the launcher is a child of this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_native_backend_keeps_the_contract() {
    for pool in [0, 2] {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let backend = NativeBackend::new(NativeConfig {
            home: home.clone(),
            launcher: env!("CARGO_BIN_EXE_coracle").into(),
            python: None,
            pool,
            preload: false,
            require_full_isolation: false,
            folders: Vec::new(),
            limits: Limits::default(),
        });
        backend_contract::holds(&backend, folder.path(), true).await;
        assert_eq!(backend.launcher_pid().await, None);
        let left: Vec<_> =
            std::fs::read_dir(home.join("run")).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, [".lock"]);
    }
}

/// Each one writes invalid frames to the channel of its sandbox, whose number is no secret.
const LIES: [(&str, &str); 10] = [
    ("garbage", "os.write(3, os.urandom(4096).replace(b'\\0', b'x'))"),
    ("an empty frame", "os.write(3, bytes(4))"),
    ("a frame of 4 GiB", "os.write(3, b'\\xff' * 4)"),
    ("no JSON", "say(b'hello')"),
    ("ready again", "say(b'{\"type\":\"ready\",\"protocol\":1,\"runtime\":\"x\"}')"),
    ("another id", "say(b'{\"type\":\"done\",\"id\":2,\"ok\":true,\"exit_code\":0}')"),
    (
        "success with an error",
        "say(b'{\"type\":\"done\",\"id\":1,\"ok\":true,\"exit_code\":0,\"error\":{\"code\":\"a\",\"message\":\"b\"}}')",
    ),
    ("an unknown type", "say(b'{\"type\":\"' + b'x' * 1000000 + b'\"}')"),
    (
        "a huge result",
        "say(b'{\"type\":\"done\",\"id\":1,\"ok\":true,\"exit_code\":0,\"result\":\"' + b'y' * 7000000 + b'\"}')",
    ),
    ("a closed channel", "os.close(3)"),
];

each_user!(code_that_lies_on_its_channel_is_killed_and_reported);
fn code_that_lies_on_its_channel_is_killed_and_reported(who: As) {
    let coracle = Coracle::new(who);
    for (name, lie) in LIES {
        let code = format!(
            "import os, time\ndef say(body):\n    body = len(body).to_bytes(4, 'big') + body\n    while body: body = body[os.write(3, body):]\n{lie}\ntime.sleep(60)\n"
        );
        // A program that waits for the code to end would answer with `timeout`.
        let answer = coracle.run("python", &code, &["--timeout", "20"]);
        assert_eq!(answer["error_code"], "guest_protocol", "{name} as {who:?}: {answer:#}");
        assert!(answer["error"].as_str().unwrap().len() < 200_000, "{name}");
    }
    let status = coracle.exec(&["-c", "import os; os.write(3, bytes(4)); import time; time.sleep(60)"]).status;
    assert_eq!(status.code(), Some(1), "as {who:?}");
    let next = coracle.exec(&["-c", "print(6*7)"]);
    assert_eq!((next.status.code(), next.stdout.as_slice()), (Some(0), &b"42\n"[..]), "as {who:?}: {next:?}");
}

/// An incomplete frame or a flood of calls ends with a limit.
#[test]
fn code_that_abuses_its_channel_is_limited() {
    let coracle = Coracle::new(As::current());
    let half =
        coracle.run("python", "import os, time\nos.write(3, b'\\0\\0\\0\\x20{')\ntime.sleep(60)", &["--timeout", "1"]);
    assert_eq!(half["error_code"], "timeout", "{half:#}");
    let flood = "import os\nbody = b'{\"type\":\"call\",\"id\":1,\"method\":\"m\"}'\nwhile True: os.write(3, len(body).to_bytes(4, 'big') + body)";
    let flood = coracle.run("python", flood, &["--timeout", "3"]);
    // The code never reads the answers: either they fill the channel, or the limit on calls comes first.
    assert!(["calls", "timeout"].contains(&flood["error_code"].as_str().unwrap()), "{flood:#}");
}
