#!/usr/bin/env node
// Starts the coracle program from the package for this platform.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `coracle-mcp-${process.platform}-${process.arch}`;

function program() {
  try {
    return require.resolve(`${name}/bin/coracle`);
  } catch {
    console.error(
      `coracle: cannot find the package ${name}\n` +
        "  hint: Coracle runs on Linux with glibc, on the processors listed in the optional dependencies of " +
        "coracle-mcp; if yours is among them, install again without --omit=optional",
    );
    process.exit(125);
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });

// Signals from a terminal reach the program by themselves, but those sent to this process alone do not. It ends when the
// program ends.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
  process.on(signal, () => child.kill(signal));
}

child.on("error", (error) => {
  console.error(`coracle: cannot start ${child.spawnfile}: ${error.message}`);
  process.exit(125);
});

child.on("exit", (code, signal) => {
  process.exit(code ?? 128 + constants.signals[signal]);
});
