"""Child process that runs one command and never outlives the process that started it.

    python launcher.py PARENT_PID COMMAND [ARGUMENT...]

It prints the command's process id on one line, then waits. The command is killed when standard input ends, which happens
however the parent dies (SIGKILL included), or when the parent is gone although somebody else still holds the pipe
(a forked sibling inherits it). The exit status is the command's.

Standard library only and no imports of ours: it is started with `-I -S` so that it is up in some ten milliseconds.
"""

import os
import subprocess
import sys
import threading

#: Seconds between two looks at the parent; the pipe tells sooner in all common cases.
_PARENT_CHECK_INTERVAL = 1.0

_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


def _die_with_launcher() -> None:
    """Ask Linux to kill the command when this launcher itself is killed.

    The request is bound to the *thread* that forks. The launcher forks from its main thread, which lives as long as it
    does; the parent may fork from a short-lived one and therefore cannot use it for the broker itself.
    """
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def main(arguments: list[str]) -> int:
    """Run the command until it ends or the parent does; return its exit status."""
    parent, command = int(arguments[0]), arguments[1:]
    process = subprocess.Popen(  # noqa: S603  (the parent's own arguments)
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=_die_with_launcher if sys.platform == "linux" else None,
    )
    print(process.pid, flush=True)  # noqa: T201  (the parent reads it)
    threading.Thread(target=_kill_at_end_of_input, args=(process,), daemon=True).start()
    while True:
        try:
            return process.wait(timeout=_PARENT_CHECK_INTERVAL)
        except subprocess.TimeoutExpired:
            if sys.platform != "win32" and os.getppid() != parent:
                process.kill()


def _kill_at_end_of_input(process: "subprocess.Popen[bytes]") -> None:
    while os.read(0, 1024):
        pass
    process.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
