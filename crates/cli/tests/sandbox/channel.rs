//! Guests that lie on their channel.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};

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
