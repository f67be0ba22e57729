#!/usr/bin/env python3
"""Figures of the interactive terminal of a release build, through a pseudo-terminal. See README.md in this folder.

usage: benches/terminal.py [BECKET] [RUNS] [NAME …]     (default: target/release/becket, 11, everything)

The model server is `model_server.py`. What is on the screen is what a small emulator here makes of the
bytes; a time ends when the bytes that show something were read. CPU is the scheduler's account (/proc/PID/task/*/schedstat, in
nanoseconds) of becket and its guardian. Linux only.
"""
import fcntl, json, os, re, select, shutil, statistics, struct, subprocess, sys, tempfile
import termios, threading, time, unicodedata
from model_server import DONE, Server, event

BECKET = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/becket")
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 11
WANTED = sys.argv[3:]
ROWS, COLUMNS = 40, 120
HINT = "Describe a task"
WAIT = 60
END = event({}, "stop") + DONE


class Screen:
    """Just enough of a terminal for what becket writes."""
    TOKEN = re.compile(r"\x1b\[([?>=]?)([\d;:]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b(.)|([^\x1b])", re.S)

    def __init__(self):
        self.rows = [[" "] * COLUMNS for _ in range(ROWS)]
        self.x = self.y = self.top = 0
        self.bottom = ROWS
        self.rest = ""

    def feed(self, text):
        text = self.rest + text
        cut = text.rfind("\x1b")
        self.rest = ""
        if cut >= 0 and not self.TOKEN.match(text, cut):
            text, self.rest = text[:cut], text[cut:]
        for match in self.TOKEN.finditer(text):
            private, numbers, final, escape, char = match.groups()
            if char:
                self.put(char)
            elif escape == "M":
                self.rows.insert(self.top, [" "] * COLUMNS)
                del self.rows[self.bottom]
            elif final and not private:
                self.control(final, [int(n) if n.isdigit() else 0 for n in numbers.split(";")])

    def put(self, char):
        if char == "\n":
            if self.y == self.bottom - 1:
                del self.rows[self.top]
                self.rows.insert(self.bottom - 1, [" "] * COLUMNS)
            else:
                self.y = min(self.y + 1, ROWS - 1)
        elif char == "\r":
            self.x = 0
        elif char >= " " and self.x < COLUMNS:
            self.rows[self.y][self.x] = char
            self.x += 2 if unicodedata.east_asian_width(char) in "WF" else 1

    def control(self, final, numbers):
        first = numbers[0] or 1
        if final == "H":
            self.y, self.x = min(first, ROWS) - 1, min((numbers + [1])[1] or 1, COLUMNS) - 1
        elif final == "C":
            self.x = min(self.x + first, COLUMNS - 1)
        elif final == "K":
            self.rows[self.y][self.x:] = [" "] * (COLUMNS - self.x)
        elif final == "J" and numbers[0] == 2:
            self.rows = [[" "] * COLUMNS for _ in range(ROWS)]
        elif final == "r":
            self.top, self.bottom = (first - 1, numbers[1]) if len(numbers) > 1 else (0, ROWS)
            self.x = self.y = 0

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.rows)


class Terminal:
    def __init__(self, home, project, server, *arguments, typed=b""):
        self.screen, self.bytes = Screen(), 0
        self.fd, slave = os.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.write(self.fd, typed) if typed else None
        environment = {"PATH": os.environ["PATH"], "HOME": home, "TERM": "xterm-256color", "COLORTERM": "truecolor",
                       "LANG": "C.UTF-8", "OPENAI_API_KEY": "k",
                       "OPENAI_BASE_URL": f"http://127.0.0.1:{server.port}/v1" if server else "http://127.0.0.1:9/v1"}

        def own():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.started = time.perf_counter()
        self.child = subprocess.Popen([BECKET, "--model", "openai/m", "--context-window", "2000000000", *arguments],
                                      stdin=slave, stdout=slave, stderr=slave, cwd=project, env=environment, preexec_fn=own)
        os.close(slave)
        self.decoder = __import__("codecs").getincrementaldecoder("utf-8")("replace")

    def read(self, seconds):
        """What came within `seconds`; the time at which it was read."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return None
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:
            data = b""
        at = time.perf_counter()
        if not data:
            sys.exit("becket ended:\n" + self.screen.text())
        self.bytes += len(data)
        self.screen.feed(self.decoder.decode(data))
        return at

    def until(self, wanted):
        """The time at which the screen showed it."""
        end = time.perf_counter() + WAIT
        at = time.perf_counter()
        while not wanted(self.screen):
            at = self.read(max(0, end - time.perf_counter()))
            if at is None:
                sys.exit("it did not come; the screen:\n" + self.screen.text())
        return at

    def shows(self, text):
        return self.until(lambda screen: text in screen.text())

    def settle(self, seconds=0.3):
        while self.read(seconds) is not None:
            pass

    def watch(self, seconds):
        """Reads for so long, also while it never falls silent."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self.read(left)

    def type(self, keys):
        view = memoryview(keys.encode() if isinstance(keys, str) else keys)
        while view:
            # Reads while it writes. becket stops reading keys when the terminal's buffer is full of its output, and both would wait.
            ready, writable, _ = select.select([self.fd], [self.fd], [], WAIT)
            if ready:
                self.read(0)
            if writable:
                view = view[os.write(self.fd, view[:4096]):]
        return time.perf_counter()

    def tree(self):
        """becket and what it started that is still there."""
        out, todo = [], [self.child.pid]
        while todo:
            pid = todo.pop()
            out.append(pid)
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    todo += [int(p) for p in open(f"/proc/{pid}/task/{task}/children").read().split()]
            except OSError:
                pass
        return out

    def tasks(self, file):
        for pid in self.tree():
            for task in os.listdir(f"/proc/{pid}/task"):
                try:
                    yield open(f"/proc/{pid}/task/{task}/{file}").read()
                except OSError:
                    pass

    def cpu(self):
        """Milliseconds."""
        return sum(int(line.split()[0]) for line in self.tasks("schedstat")) / 1e6

    def switches(self):
        return sum(int(n) for text in self.tasks("status") for n in re.findall(r"ctxt_switches:\s+(\d+)", text))

    def memory(self):
        """MB that are theirs, shared pages by their share; and all that is resident."""
        pss = rss = 0
        for pid in self.tree():
            text = open(f"/proc/{pid}/smaps_rollup").read()
            pss += int(re.search(r"^Pss:\s+(\d+)", text, re.M)[1])
            rss += int(re.search(r"^Rss:\s+(\d+)", text, re.M)[1])
        return pss / 1024, rss / 1024

    def close(self):
        self.child.kill()
        self.child.wait()
        os.close(self.fd)


def place():
    home, project = tempfile.mkdtemp(prefix="becket-bench-"), tempfile.mkdtemp(prefix="becket-bench-")
    return home, project


def gone(*folders):
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def row(name, values, unit="ms", goal=""):
    values = sorted(values)
    p99 = values[min(len(values) - 1, int(len(values) * 0.99))]
    print(f"{name:<52} median {statistics.median(values):>8.2f}  min {values[0]:>8.2f}  p99 {p99:>8.2f} {unit}  n={len(values)} {goal}",
          flush=True)


def short(_):
    yield event({"role": "assistant", "content": "Done."}) + END


def first_frame():
    home, project = place()
    # The first run is not counted, because the kernel reads the files from the disk.
    times, typed = [], []
    for run in range(RUNS * 2 + 1):
        keys = b"kept" if run % 2 else b""
        terminal = Terminal(home, project, None, typed=keys)
        at = terminal.shows("› kept" if keys else HINT)
        if run:
            (typed if keys else times).append((at - terminal.started) * 1e3)
        terminal.close()
    row("start to first frame", times, goal="(goal 40)")
    row("start to keys typed before, on the screen", typed)
    version = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run([BECKET, "--version"], stdout=subprocess.DEVNULL, check=True)
        version.append((time.perf_counter() - started) * 1e3)
    row("  for comparison: becket --version", version)
    gone(home, project)


def answer():
    words = "lorem ipsum dolor sit amet, consectetur adipiscing elit; `code` and **more** of it, line by line\n\n"
    text = (words * (500_000 // len(words) + 1))[:500_000]
    deltas = b"".join(event({"content": text[i:i + 100]}) for i in range(0, len(text), 100))

    def body(_):
        yield deltas + event({"content": "\n\nTHE-END"}) + END

    walls, cpus, written = [], [], []
    for _ in range(RUNS):
        home, project = place()
        server = Server(body)
        terminal = Terminal(home, project, server)
        terminal.shows(HINT)
        terminal.settle()
        terminal.type("go")
        terminal.settle()
        before, bytes_before = terminal.cpu(), terminal.bytes
        terminal.type("\r")
        at = terminal.shows("THE-END")
        walls.append((at - server.began) * 1e3)
        cpus.append(terminal.cpu() - before)
        written.append((terminal.bytes - bytes_before) / 1024)
        terminal.close()
        server.socket.close()
        gone(home, project)
    row("500 kB answer in 5,000 deltas: first byte to screen", walls, goal="(goal 300)")
    row("  CPU from Enter until then", cpus, goal="(goal 200)")
    row("  written to the terminal", written, "kB")


def keys(terminal, count):
    """Times from a key to the frame that shows it."""
    out = []
    for n in range(count):
        if n % 60 == 0:
            terminal.type("\x15")
            terminal.until(lambda screen: not re.search(r"^› z", screen.text(), re.M))
        wanted = "› " + "z" * (n % 60 + 1)
        sent = terminal.type("z")
        at = terminal.until(lambda screen: any("".join(r).rstrip() == wanted for r in screen.rows))
        out.append((at - sent) * 1e3)
        # A pause of varying length, as between keys of a person, so that keys do not fall into step with frames.
        terminal.watch(0.011 + (n * 7 % 13) / 1000)
    return out


def key_idle():
    home, project = place()
    terminal = Terminal(home, project, None)
    terminal.shows(HINT)
    terminal.settle()
    row("key to screen, idle", keys(terminal, 300), goal="(goal 5)")
    terminal.close()
    gone(home, project)


def imported(home, project, count, size):
    """A session of so many messages, of `size` bytes each."""
    path = f"{home}/session.jsonl"
    text = ("word " * (size // 5 + 1))[:size]
    with open(path, "w") as file:
        for n in range(count):
            role = "assistant" if n % 2 else "user"
            content = [{"type": "text", "text": f"{n} {text}"}] if n % 2 else f"{n} {text}"
            file.write(json.dumps({"type": role, "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None,
                                   "sessionId": "11111111-2222-4333-8444-555555555555", "cwd": project,
                                   "timestamp": "2026-01-01T00:00:00.000Z", "isSidechain": False,
                                   "message": {"role": role, "content": content}}) + "\n")
    environment = {"PATH": os.environ["PATH"], "HOME": home}
    subprocess.run([BECKET, "import", "--here", path], cwd=project, env=environment, check=True, stdout=subprocess.DEVNULL)
    os.remove(path)


def key_streaming():
    home, project = place()
    imported(home, project, 10_000, 200)
    stop = threading.Event()

    def body(_):
        n, began = 0, time.perf_counter()
        while not stop.is_set() and n < 400_000:
            due = int((time.perf_counter() - began) * 5_000)
            if due > n:
                yield b"".join(event({"content": f"w{i} " if i % 20 else "\n\n"}) for i in range(n, due))
                n = due
            time.sleep(0.005)
        yield END

    server = Server(body)
    terminal = Terminal(home, project, server, "-c")
    terminal.shows("›")
    terminal.settle(1)
    terminal.type("go\r")
    terminal.until(lambda screen: re.search(r"w\d\d\d+", screen.text()))
    times = keys(terminal, 300)
    if "Esc interrupts" not in terminal.screen.text():
        sys.exit("the answer had ended: these were not keys while streaming")
    row("key to screen, 5,000 deltas/s, 10,000 messages", times, goal="(goal p99 16)")
    terminal.type("\x15")
    terminal.watch(0.05)
    sent = terminal.type("\x1b")
    at = terminal.shows("interrupted")
    row("Esc to 'interrupted', while streaming", [(at - sent) * 1e3], goal="(goal 50)")
    stop.set()
    terminal.close()
    server.socket.close()
    gone(home, project)


def escape():
    def body(_):
        for n in range(100_000):
            yield event({"content": f"w{n} "})
            time.sleep(0.005)

    times = []
    for _ in range(RUNS):
        home, project = place()
        server = Server(body)
        terminal = Terminal(home, project, server)
        terminal.shows(HINT)
        terminal.type("go\r")
        terminal.shows("w20 ")
        sent = terminal.type("\x1b")
        times.append((terminal.shows("interrupted") - sent) * 1e3)
        terminal.close()
        server.socket.close()
        gone(home, project)
    row("Esc to 'interrupted'", times, goal="(goal 50)")


def idle():
    home, project = place()
    server = Server(short)
    terminal = Terminal(home, project, server)
    terminal.shows(HINT)
    terminal.settle(2)
    for when in ("before a turn", "after a turn"):
        cpu, switches, written = terminal.cpu(), terminal.switches(), terminal.bytes
        terminal.settle(10)
        print(f"idle for 10 s, {when}: {terminal.cpu() - cpu:.3f} ms CPU, {terminal.switches() - switches} context switches, "
              f"{terminal.bytes - written} bytes (goal 0)", flush=True)
        pss, rss = terminal.memory()
        print(f"idle memory with guardian, {when}: {pss:.1f} MB (shared pages by share), {rss:.1f} MB resident in all (goal 25)",
              flush=True)
        if when == "before a turn":
            terminal.type("go\r")
            terminal.shows("Done.")
            terminal.settle(2)
    terminal.close()
    server.socket.close()
    gone(home, project)


def paste():
    home, project = place()
    text = "".join(f"line {n} of what is pasted\n" for n in range(1_000_000 // 26))[:1_000_000]
    times, whole = [], []
    for _ in range(RUNS):
        terminal = Terminal(home, project, None)
        terminal.shows(HINT)
        terminal.settle()
        began = time.perf_counter()
        sent = terminal.type("\x1b[200~" + text.replace("\n", "\r") + "\x1b[201~")
        at = terminal.shows("[pasted")
        times.append((at - sent) * 1e3)
        whole.append((at - began) * 1e3)
        terminal.close()
    row("1 MB paste: last byte to chip", times, goal="(goal 100)")
    row("  first byte to chip", whole)
    gone(home, project)


def resume():
    home, project = place()
    imported(home, project, 5_000, 20_000)
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(home) for f in files) / 1e6
    times, cpus, held = [], [], []
    for _ in range(RUNS + 1):
        terminal = Terminal(home, project, None, "-c")
        at = terminal.until(lambda screen: "› " in screen.text() and "word word" in screen.text())
        cpus.append(terminal.cpu())
        times.append((at - terminal.started) * 1e3)
        terminal.settle(1)
        held.append(terminal.memory()[1])
        if len(times) == 1:
            # The first run ends becket properly, so that it writes a checkpoint for the others.
            terminal.type("\x04")
            time.sleep(5)
        terminal.close()
    row(f"resume of {size:.0f} MB: first screen", times[1:], goal="(goal 200)")
    row("  CPU until then", cpus[1:])
    row("  held a second later, resident in all", held[1:], "MB", "(goal 120)")
    gone(home, project)


def completion():
    home, project = place()
    for d in range(1_000):
        os.makedirs(f"{project}/dir{d % 40}/part{d:03}", exist_ok=True)
        for f in range(100):
            open(f"{project}/dir{d % 40}/part{d:03}/name{d:03}_{f:02}.txt", "w").close()
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    terminal = Terminal(home, project, None)
    terminal.shows(HINT)
    terminal.type("@name")
    terminal.shows("❯ dir")
    terminal.settle(5)
    times, before = [], terminal.cpu()
    for n in range(100):
        # A name that is not the first of the list until its last letter is typed.
        name = f"name{n * 7 % 1000:03}_{n * 13 % 10}{1 + n % 9}"
        terminal.type("\x15")
        terminal.settle(0.05)
        # Only the last key is timed: people type the keys before it with pauses.
        terminal.type("@" + name[:-1])
        terminal.settle(0.15)
        sent = terminal.type(name[-1])
        at = terminal.until(lambda screen: any(r[0] == "❯" and name in "".join(r) for r in screen.rows))
        times.append((at - sent) * 1e3)
    times.sort()
    row("@ completion on 100,000 files", times)
    print(f"  p95 {times[94]:.2f} ms (goal 50); CPU {(terminal.cpu() - before) / 100:.2f} ms a query with its keys", flush=True)
    terminal.close()
    gone(home, project)


ALL = [first_frame, answer, key_idle, key_streaming, escape, idle, paste, resume, completion]


def main():
    print(f"{BECKET}, {RUNS} runs, {ROWS}x{COLUMNS}, load {os.getloadavg()[0]:.1f}", flush=True)
    for measure in ALL:
        if not WANTED or measure.__name__ in WANTED:
            measure()
    print(f"load at the end {os.getloadavg()[0]:.1f}")


main()
