#!/usr/bin/env python3
"""Writes the list of functions that a session runs. The linker lays them together (crates/becket/build.rs).

usage: benches/layout.py BECKET [OUT]     (BECKET: a release build with symbols; default OUT: crates/becket/session-functions.txt)

    cargo rustc --release -p becket --bin becket -- -C strip=none

The functions are those that valgrind's callgrind saw in a few short sessions, headless and at a terminal. A name has `*` in
place of its hashes, so the list fits other compilers and versions, too. Needs valgrind.
"""
import fcntl, os, pty, re, select, struct, subprocess, sys, tempfile, termios, time
from model_server import Server, call_answer, text_answer

BECKET = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
OUT = sys.argv[2] if len(sys.argv) > 2 else f"{HERE}/../crates/becket/session-functions.txt"
# Mangled names end in `17h`, sixteen digits and `E`, or have a hash behind each `Cs`.
OLD, NEW = re.compile(r"17h[0-9a-f]{16}E.*$"), re.compile(r"(?<=Cs)[0-9A-Za-z]+(?=_)")


def pattern(name):
    """The name with `*` for its hashes."""
    return OLD.sub("17h*", name) if name.startswith("_ZN") else NEW.sub("*", re.sub(r"\.llvm\..*", "", name))


CALLS = [("read", {"path": "a.txt"}), ("write", {"path": "b.txt", "content": "two\n"}),
         ("edit", {"path": "a.txt", "old": "one", "new": "two"}), ("grep", {"pattern": "two"}),
         ("glob", {"pattern": "**/*.txt"}), ("bash", {"command": "ls"}), ("read", {"path": "missing"})]


def work(n):
    return call_answer(n, *CALLS[n]) if n < len(CALLS) else text_answer("It is **done**:\n\n- one\n- two\n", 7)


def functions(home, project, answer, arguments, keys=None):
    """The names of the functions of BECKET that ran with these arguments, as the linker knows them, without their hashes."""
    server = Server(answer)
    profile = f"{home}/callgrind"
    command = ["valgrind", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={profile}", BECKET, *arguments]
    environment = {"PATH": os.environ["PATH"], "HOME": home, "TERM": "xterm-256color", "LANG": "C.UTF-8",
                   "OPENAI_BASE_URL": f"http://127.0.0.1:{server.port}/v1", "OPENAI_API_KEY": "k"}
    if keys is None:
        subprocess.run(command, cwd=project, env=environment, stdin=subprocess.DEVNULL, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(project)
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        seen = b""
        for wanted, typed in keys:
            end = time.time() + 120
            while wanted not in seen and time.time() < end:
                if select.select([terminal], [], [], 1)[0]:
                    try:
                        seen += os.read(terminal, 65536)
                    except OSError:
                        break
            seen = b""
            os.write(terminal, typed)
        try:
            while os.read(terminal, 65536):
                pass
        except OSError:
            pass
        os.waitpid(child, 0)
    server.socket.close()
    names, objects, here, found = {}, {}, None, set()
    for line in open(profile, errors="replace"):
        kind, _, rest = line.rstrip("\n").partition("=")
        if kind not in ("fn", "cfn", "ob", "cob"):
            continue
        number, _, name = rest.partition(" ")
        known = objects if kind in ("ob", "cob") else names
        if name:
            known[number] = name
        if kind == "ob":
            here = objects[number]
        # Valgrind knows no file for functions that the linker has laid together before.
        elif kind == "fn" and here in (BECKET, "???") and number in names:
            found.add(pattern(names[number].split("'")[0]))
    return found


def main():
    order = set()
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as project:
        open(f"{project}/a.txt", "w").write("one\n")
        task = ["-p", "--model", "openai/m", "--permission-mode", "bypassPermissions"]
        sessions = [
            (lambda n: text_answer("done", 9), [*task, "go"], None),
            (work, [*task, "go"], None),
            (lambda n: text_answer("lorem ipsum " * 2000, 48), [*task, "-c", "go on"], None),
            (work, ["--model", "openai/m", "--permission-mode", "bypassPermissions"],
             [(b"task", b"go\r"), (b"two", b"\x04")]),
        ]
        for answer, arguments, keys in sessions:
            new = functions(home, project, answer, arguments, keys)
            print(f"{len(new)} functions: becket {' '.join(arguments)}")
            order |= new
    listed = sorted(name for name in order if re.fullmatch(r"[A-Za-z_][\w.$*]+", name))
    with open(OUT, "w") as out:
        out.write("".join(f"{name}\n" for name in listed))
    print(f"{len(listed)} functions in {os.path.relpath(OUT)}")


main()
