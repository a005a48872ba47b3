"""The state of bash between the runs of a session: variables, functions and the working directory.

Each run is a new shell. It reads a prelude (through `BASH_ENV`, so that `set` options, `$0`, line numbers and the code
itself are not affected) that restores the state and sets an EXIT trap to save it. The code may set EXIT traps, too:
`trap` is a function that adds ours to them. Not kept: options, aliases, read-only variables, and everything after
`exec` or SIGKILL, which leave a shell no time to save.
"""

from __future__ import annotations

import os
import sys

ROOT = "/tmp"
"""The folder of the files: private to the sandbox, and removed with it."""

EXPORT_BYTES = 100 * 1024
"""The maximum length of an exported variable: with a longer one, the kernel would refuse to start any program."""

_COMPLETE = "# complete"

_PRELUDE = r"""
__coracle_end() {
  builtin set +eux +o noclobber
  builtin trap - DEBUG ERR RETURN
  builtin unset -f trap __coracle_arm __coracle_end
  local __coracle_letter __coracle_name __coracle_names=()
  for __coracle_letter in _ {a..z} {A..Z}; do
    builtin eval "__coracle_names+=(\"\${!$__coracle_letter@}\")"
  done
  {
    for __coracle_name in "${__coracle_names[@]}"; do
      case $__coracle_name in
        __coracle*|_|BASH|BASHOPTS|BASHPID|BASH_*|COMP_*|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO) ;;
        OPTIND|PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID) ;;
        *) [[ ${!__coracle_name@a} == *r* ]] || builtin declare -p -- "$__coracle_name" ;;
      esac
    done
    builtin declare -f
    builtin declare -Fx
    builtin printf '%s\n' '# complete'
  } >"$__coracle_state/new"
  builtin printf '%s' "$PWD" >"$__coracle_state/directory"
}
__coracle_arm() {
  local __coracle_trap
  __coracle_trap=$(builtin trap -p EXIT)
  case $__coracle_trap in
    *__coracle_end*) builtin return ;;
    '') builtin set -- '' ;;
    *) builtin eval "builtin set -- ${__coracle_trap#trap -- }" ;;
  esac
  builtin trap -- "$1"$'\n{ __coracle_end; } 2>/dev/null' EXIT
}
trap() {
  builtin trap "$@"
  local __coracle_status=$?
  if [[ $BASHPID == "$$" ]]; then
    case " $* " in *' EXIT '* | *' SIGEXIT '* | *' exit '* | *' 0 '*) __coracle_arm ;; esac
  fi
  builtin return "$__coracle_status"
}
builtin trap -- $'{ __coracle_end; } 2>/dev/null' EXIT
"""


class State:
    """The files of the shell's state. All state is in them, so that objects of this class are interchangeable."""

    def __init__(self) -> None:
        self._folder = os.path.join(ROOT, f".coracle-bash-{os.getpid()}")

    def relay_folder(self) -> str:
        """The folder in which `tool` makes its requests."""
        return self._path("relay")

    def write_prelude(self, variables: dict[str, str]) -> str:
        """Write the prelude of the next shell, and return its path."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        for name in ("new", "directory"):
            # Files of an earlier shell must not be mistaken for those that the next one saves.
            if os.path.exists(self._path(name)):
                os.remove(self._path(name))
        lines = ["unset BASH_ENV BASH_EXECUTION_STRING", f"__coracle_state={quote(self._folder)}"]
        if os.path.exists(self._path("kept")):
            lines.append(f". {quote(self._path('kept'))} >/dev/null 2>&1")
        for name, value in variables.items():
            lines.append(f"{name}={quote(value)}")
            lines.append(f"export {'-n ' if len(value.encode('utf-8', 'replace')) > EXPORT_BYTES else ''}{name}")
        network = sys.modules.get("coracle_guest.network")
        if network is not None:
            lines += network.prelude()
        return self._write("prelude", "\n".join(lines) + _PRELUDE)

    def write_code(self, code: str) -> str:
        """Write code that is too long for an argument, and return its path."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        return self._write("code", code)

    def adopt(self) -> None:
        """Adopt the state that the shell has saved, if it is complete."""
        try:
            with open(self._path("new"), "rb") as file:
                file.seek(-len(_COMPLETE) - 1, os.SEEK_END)
                complete = file.read().strip() == _COMPLETE.encode()
            if complete:
                os.replace(self._path("new"), self._path("kept"))
            with open(self._path("directory"), "rb") as file:
                # The directory belongs to the session, not to one of its languages.
                os.chdir(file.read())
        except (OSError, ValueError):
            # The shell had no time to save, or its directory is gone: the earlier state stays.
            pass

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _write(self, name: str, content: str) -> str:
        path = self._path(name)
        with open(path, "wb") as file:
            file.write(content.encode("utf-8", "replace"))
        return path


def quote(value: str) -> str:
    """Quote `value` as one word of shell code."""
    return "'" + value.replace("'", "'\\''") + "'"
