//! The host does not follow links that code creates.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use std::fs;

each_user!(the_host_does_not_follow_links_of_code);
fn the_host_does_not_follow_links_of_code(who: As) {
    let coracle = Coracle::new(who);
    let (folder, canary) = coracle.beside();
    let [folder, canary] = [&folder, &canary].map(|path| path.to_str().unwrap());
    let code = format!(
        "import os\n\
             os.symlink({canary:?}, '/artifacts/stolen.txt')\n\
             os.symlink({folder:?}, '/artifacts/folder')\n\
             os.mkfifo('/artifacts/fifo')\n\
             open('/artifacts/own.txt', 'w').write('own')\n\
             os.symlink({folder:?}, '/workspace/.coracle-output')\n\
             print('x' * 2_000_000)\n"
    );
    let execution = coracle.run("python", &code, &[]);
    let names: Vec<_> =
        execution["artifacts"].as_array().unwrap().iter().map(|artifact| artifact["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["own.txt"], "{who:?}: {execution:#}");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "{who:?}: the whole output went out of the workspace");
    let found = std::process::Command::new("grep")
        .args(["-rl", "CANARY-OF-THE-HOST"])
        .arg(coracle.home().join("workspaces"))
        .output()
        .unwrap();
    assert!(found.stdout.is_empty(), "{who:?}: {found:?}");

    let control = Coracle::new(who).run("python", "print('x' * 2_000_000)", &[]);
    assert!(control["output_file"].is_string(), "{who:?}: the whole output is not kept where it may be: {control:#}");
}
