//! Code inherits neither the environment nor the descriptors of `coracle exec`. The escape tests of the sandbox look
//! further.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle, as_ordinary};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

each_user!(code_inherits_nothing_from_the_program);
fn code_inherits_nothing_from_the_program(who: As) {
    let coracle = Coracle::new(who);
    let (_, canary) = coracle.beside();
    let code = format!(
        "import os\n\
         def inode(fd):\n    try:\n        return os.fstat(fd).st_ino\n    except OSError:\n        return 0\n\
         print('CANARY' in str(dict(os.environ)), {} in [inode(fd) for fd in range(256)])",
        fs::metadata(&canary).unwrap().ino()
    );
    let printed = |words: &[&str]| {
        let mut command = Command::new("bash");
        command.args(["-c", "exec 9<\"$0\"; exec \"$@\""]).arg(&canary).args(words).arg(&code);
        command.env("CANARY_VARIABLE", "CANARY").env("CORACLE_HOME", coracle.home()).current_dir("/");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{who:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let prefix = if who == As::Ordinary { as_ordinary() } else { Vec::new() };
    let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
    let program = coracle_testing::harness::program().to_str().unwrap();
    assert_eq!(printed(&[&prefix[..], &[program, "exec", "-c"]].concat()), "False False\n", "{who:?}");
    // Control: the same code outside a sandbox.
    assert_eq!(printed(&[&prefix[..], &["/usr/bin/python3", "-I", "-c"]].concat()), "True True\n", "{who:?}");
}
