#!/usr/bin/env python3
"""Writes the list of functions that a session runs. The linker lays them together (crates/becket/build.rs).

usage: benches/layout.py BECKET [OUT]     (BECKET: a release build with symbols; default OUT: crates/becket/session-functions.txt)

    cargo rustc --release -p becket --bin becket -- -C strip=none

The functions are those that valgrind's callgrind saw in a few short sessions, headless and at a terminal. A name has `*` in
place of its hashes, so the list fits other compilers and versions, too. But where such a name would also match functions
that no session runs, and those are larger than the ones that run, the hash stays: copies of one generic function for
different types differ in nothing else. The functions of a short headless turn come first, as a group, because they run in every session;
then those that only the longer sessions run. Needs valgrind and nm.
"""
import fcntl, os, pty, re, select, struct, subprocess, sys, tempfile, termios, time
from model_server import Server, call_answer, text_answer

BECKET = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
OUT = sys.argv[2] if len(sys.argv) > 2 else f"{HERE}/../crates/becket/session-functions.txt"
# Mangled names end in `17h`, sixteen digits and `E`, or have a hash behind each `Cs`.
OLD, NEW = re.compile(r"17h[0-9a-f]{16}E.*$"), re.compile(r"(?<=Cs)[0-9A-Za-z]+(?=_)")


def bare(name):
    """The name without what link-time optimisation appends."""
    return re.sub(r"\.llvm\..*", "", name)


def pattern(name):
    """The name with `*` for its hashes."""
    return OLD.sub("17h*", name) if name.startswith("_ZN") else NEW.sub("*", name)


def sizes():
    """The bytes of each function of BECKET by its bare name, and the names that have the same pattern."""
    found, alike = {}, {}
    for line in subprocess.run(["nm", "-S", BECKET], check=True, capture_output=True, text=True).stdout.splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "tTwW":
            name = bare(fields[3])
            found[name] = int(fields[1], 16)
            alike.setdefault(pattern(name), set()).add(name)
    return found, alike


def listed(ran, size, alike):
    """The entries of the list for the functions that ran, and the bytes that they put together."""
    entries, total = set(), 0
    for wanted in {pattern(name) for name in ran}:
        names = alike.get(wanted, set())
        used = sum(size[name] for name in names & ran)
        if used * 2 >= sum(size[name] for name in names):
            entries.add(wanted)
            total += sum(size[name] for name in names)
        else:
            entries |= {f"{name}*" for name in names & ran}
            total += used
    return sorted(entry for entry in entries if re.fullmatch(r"[A-Za-z_][\w.$*]+", entry)), total


CALLS = [("read", {"path": "a.txt"}), ("write", {"path": "b.txt", "content": "two\n"}),
         ("edit", {"path": "a.txt", "old": "one", "new": "two"}), ("grep", {"pattern": "two"}),
         ("glob", {"pattern": "**/*.txt"}), ("bash", {"command": "ls"}), ("read", {"path": "missing"})]


def work(n):
    return call_answer(n, *CALLS[n]) if n < len(CALLS) else text_answer("It is **done**:\n\n- one\n- two\n", 7)


def functions(home, project, answer, arguments, keys=None):
    """The bare names of the functions of BECKET that ran with these arguments."""
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
            found.add(bare(names[number].split("'")[0]))
    return found


def main():
    groups = []
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
            groups.append(functions(home, project, answer, arguments, keys))
            print(f"{len(groups[-1])} functions: becket {' '.join(arguments)}")
    size, alike = sizes()
    with open(OUT, "w") as out:
        for head, ran in [("a short turn", groups[0]), ("longer sessions", set().union(*groups[1:]) - groups[0])]:
            entries, total = listed(ran, size, alike)
            out.write(f"# {head}\n" + "".join(f"{entry}\n" for entry in entries))
            print(f"{head}: {len(entries)} entries, {total / 1e6:.1f} MB of functions")


main()
