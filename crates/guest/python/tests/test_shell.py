"""Bash: output, status, syntax, background jobs, variables, and the state of a session."""

from __future__ import annotations

import os
import time

from driver import GuestCase


class ShellCase(GuestCase):
    def ok(self, code: str, **extra: object) -> str:
        """The output of a script that must succeed."""
        before = self.guest.stdout()
        self.assertEqual(self.guest.bash(code, **extra), {"ok": True, "exit_code": 0}, self.guest.stderr())
        return self.guest.stdout()[len(before) :]


class Running(ShellCase):
    def test_output_and_surroundings(self) -> None:
        self.assertEqual(self.ok('echo "$0 $# $-"; cat; echo err >&2; pwd'), f"bash 0 hBc\n{self.guest.workspace}\n")
        self.assertEqual(self.guest.stderr(), "err\n")

    def test_status(self) -> None:
        done = self.guest.bash("exit 7")
        self.assertEqual(done, {"ok": False, "exit_code": 7, "error": {"code": "exception", "message": "bash exited with status 7", "traceback": ""}})
        self.assertEqual(self.guest.bash("nonexistent-command")["exit_code"], 127)
        self.assertEqual(self.guest.stderr(), "bash: line 1: nonexistent-command: command not found\n")
        self.assertEqual(self.guest.bash("(exit 2)")["error"]["code"], "exception")

    def test_signal(self) -> None:
        done = self.guest.bash("kill -KILL $$")
        self.assertEqual((done["exit_code"], done["error"]["message"]), (137, "bash was killed by signal SIGKILL"))

    def test_kill_0_does_not_reach_the_agent(self) -> None:
        self.assertEqual(self.guest.bash("kill -TERM 0")["exit_code"], 143)
        self.assertEqual(self.ok("echo alive"), "alive\n")

    def test_syntax(self) -> None:
        for code in ("if", "echo 'open", "echo first\n)"):
            self.assertEqual(self.guest.bash(code)["error"]["code"], "syntax", code)

    def test_long_code(self) -> None:
        filler = "# " + "x" * 200_000 + "\n"
        self.assertEqual(self.ok(filler + 'echo "$0 long"'), "bash long\n")
        self.assertEqual(self.guest.bash(filler + "exit 4")["exit_code"], 4)
        self.assertEqual(self.guest.bash(filler + "if")["error"]["code"], "syntax")

    def test_null_characters(self) -> None:
        self.assertIn("null", self.guest.bash("echo \0")["error"]["message"])

    def test_background_jobs_do_not_block(self) -> None:
        begun = time.monotonic()
        self.ok("sleep 20 & echo $! >job")
        self.assertLess(time.monotonic() - begun, 10)
        with open(os.path.join(self.guest.workspace, "job")) as file:
            os.kill(int(file.read()), 9)

    def test_pipes_end_by_sigpipe(self) -> None:
        self.assertEqual(self.ok("yes | head -1; echo ${PIPESTATUS[0]}"), "y\n141\n")

    def test_signals_are_not_blocked_after_python(self) -> None:
        self.assertEqual(self.guest.run("1")["result"], 1)
        self.assertEqual(self.guest.bash("kill -TERM $$; sleep 5")["exit_code"], 143)

    def test_variables(self) -> None:
        given = {"s": "it's $HOME\n\"x\"", "n": 5, "l": [1, {"a": None}], "b": True}
        self.assertEqual(self.ok('printf "%s|" "$s" "$n" "$l" "$b"; sh -c \'printf %s "$s"\'', vars=given), 'it\'s $HOME\n"x"|5|[1,{"a":null}]|true|it\'s $HOME\n"x"')

    def test_large_variables(self) -> None:
        self.assertEqual(self.ok('echo ${#big}; /bin/echo ok', vars={"big": "x" * 300_000}), "300000\nok\n")

    def test_bad_variables(self) -> None:
        for name in ("é", "a-b", "__x__", "1"):
            self.assertEqual(self.guest.bash("true", vars={name: "v"})["error"]["code"], "exception")
        self.assertIn("null", self.guest.bash("true", vars={"a": "\0"})["error"]["message"])

    def test_without_room_for_the_state_it_still_runs(self) -> None:
        os.rmdir(self.guest.state)
        with open(self.guest.state, "w"):
            pass
        self.assertEqual(self.ok("echo $v", vars={"v": "seen"}), "seen\n")


class Sessions(ShellCase):
    def test_the_state_is_kept(self) -> None:
        self.ok("a='one\ntwo'; export e=env; arr=(x 'y z'); declare -A map=([k]=v); declare -i int=3; f() { echo \"f $1\"; }; g() { echo g; }; export -f g; mkdir d; cd d")
        out = self.ok('echo "$a"; sh -c \'echo $e\'; echo "${arr[1]} ${map[k]}"; int+=2; echo $int; f 1; bash -c g; basename "$PWD"; cd - >/dev/null; basename "$PWD"')
        self.assertEqual(out, "one\ntwo\nenv\ny z v\n5\nf 1\ng\nd\nworkspace\n")

    def test_the_state_is_kept_after_exit_and_failure(self) -> None:
        self.guest.bash("a=1; exit 3")
        self.guest.bash("set -e; b=2; false; b=3")
        self.guest.bash("set -u; c=3; echo $nothing_here")
        self.assertEqual(self.ok("echo $a $b $c $-"), "1 2 3 hBc\n")

    def test_exit_traps_of_the_code(self) -> None:
        self.assertEqual(self.ok("trap 'echo bye' EXIT; a=1"), "bye\n")
        self.assertEqual(self.guest.bash("trap 'echo \"status $?\"' EXIT; b=2; exit 5")["exit_code"], 5)
        self.guest.bash("set -e; trap 'c=3' 0; false")
        self.ok("trap 'echo never' EXIT; trap - EXIT; d=4")
        self.ok("(trap 'echo sub' EXIT); e=5")
        self.assertEqual(self.ok("echo $a $b $c $d $e"), "1 2 3 4 5\n")
        self.assertTrue(self.guest.stdout().startswith("bye\nstatus 5\nsub\n"), self.guest.stdout())

    def test_read_only_variables_do_not_affect_the_next_run(self) -> None:
        self.ok("readonly R=1; x=2")
        self.assertEqual(self.ok("R=5; echo $R $x"), "5 2\n")
        self.assertEqual(self.guest.stderr(), "")

    def test_tracing_does_not_show_our_part(self) -> None:
        self.ok("set -x; a=1")
        self.assertEqual(self.guest.stderr(), "+ a=1\n")

    def test_strange_settings(self) -> None:
        self.ok("set -o noclobber; IFS=abc; PATH=/nowhere; v=kept")
        self.assertEqual(self.ok('echo "$v $PATH"'), "kept /nowhere\n")

    def test_a_killed_shell_keeps_the_earlier_state(self) -> None:
        self.ok("a=1")
        self.guest.bash("a=2; kill -KILL $$")
        self.assertEqual(self.ok("echo $a"), "1\n")
        self.guest.bash("a=3; exec true")
        self.assertEqual(self.ok("echo $a"), "1\n")

    def test_new_variables_replace_old_ones(self) -> None:
        self.ok("v=old")
        self.assertEqual(self.ok("echo $v", vars={"v": "new"}), "new\n")

    def test_variables_that_were_unset_stay_so(self) -> None:
        self.ok("v=1")
        self.ok("unset v")
        self.assertEqual(self.ok("echo ${v-unset}"), "unset\n")

    def test_the_directory_is_shared_with_python(self) -> None:
        self.guest.run("import os; os.mkdir('p'); os.chdir('p')")
        self.assertEqual(self.ok('basename "$PWD"; cd ..'), "p\n")
        self.assertEqual(self.guest.run("os.getcwd()")["result"], self.guest.workspace)

    def test_orphans_are_harmless(self) -> None:
        self.ok("(sleep 0.1 &) ; true")
        time.sleep(0.3)
        self.assertEqual(self.ok("echo on"), "on\n")
