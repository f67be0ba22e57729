#!/usr/bin/env python3
"""Whole-process figures of a release build against a model server on this machine. See README.md in this folder.

usage: benches/process.py [BECKET] [RUNS]        (default: target/release/becket, 15)

The server is `model_server.py`: it answers from a list, and notes when each answer's last byte was written and when the next
request's first byte came. CPU is what the kernel accounts to the finished
process (wait4: user and system, all threads). Memory is VmHWM, read every 2 ms from the last answer until the process is gone.
"""
import os, statistics, subprocess, sys, tempfile, threading, time
from model_server import Server, call_answer, text_answer

BECKET = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/becket")
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 15


class Watched(Server):
    """Reads the memory of process `pid` from the `last` answer on."""

    def __init__(self, answers, last):
        self.last, self.pid, self.peak = last, None, 0
        super().__init__(answers)

    def answered(self):
        if self.pid and self.asked > self.last:
            threading.Thread(target=self.sample, daemon=True).start()

    def sample(self):
        """High-water mark until the process is gone."""
        try:
            while True:
                with open(f"/proc/{self.pid}/status") as status:
                    lines = [l for l in status if l.startswith("VmHWM")]
                if not lines:
                    return
                self.peak = max(self.peak, int(lines[0].split()[1]))
                time.sleep(0.002)
        except OSError:
            return


def run(answers, arguments, last=0):
    """One process: CPU milliseconds, wall milliseconds, peak MB, gaps in milliseconds."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as project:
        for n in range(1, 1001):
            with open(f"{project}/f{n}.txt", "w") as file:
                file.write(f"file {n}\n" + "some text in a line\n" * 20)
        # Writes the project's files to the disk now, or becket's sync of its ledger would wait for them, too.
        os.sync()
        server = Watched(answers, last)
        environment = {"PATH": os.environ["PATH"], "HOME": home,
                       "OPENAI_BASE_URL": f"http://127.0.0.1:{server.port}/v1", "OPENAI_API_KEY": "k"}
        started = time.perf_counter()
        with open(f"{home}/out", "wb") as out:
            child = subprocess.Popen([BECKET, *arguments], cwd=project, env=environment,
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        server.pid = child.pid
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - started
        server.socket.close()
        if child.returncode != 0:
            sys.exit(f"becket exited with {child.returncode}: {open(f'{home}/out').read()}")
        return (usage.ru_utime + usage.ru_stime) * 1e3, wall * 1e3, server.peak / 1024, [g * 1e3 for g in server.gaps]


def reads(count):
    return lambda n: call_answer(n, "read", {"path": f"f{n % 1000 + 1}.txt"}) if n < count else text_answer("done", 9)


def row(name, values, unit):
    # On a busy machine a process may be gone before its memory was read: 0 is no figure.
    values = [v for v in values if v] if unit == "MB" else values
    if not values:
        return print(f"{name:<58} not seen")
    print(f"{name:<58} {statistics.median(values):>9.2f} {unit}   ({min(values):.2f} to {max(values):.2f})")


def main():
    print(f"{BECKET}, median of {RUNS} runs (minimum to maximum)")
    task = ["-p", "--model", "openai/m", "--context-window", "2000000", "go"]
    version = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run([BECKET, "--version"], stdout=subprocess.DEVNULL, check=True)
        version.append((time.perf_counter() - started) * 1e3)
    row("--version, wall", version, "ms")
    one = [run(reads(0), task) for _ in range(RUNS)]
    row("one turn, CPU", [r[0] for r in one], "ms")
    row("one turn, wall", [r[1] for r in one], "ms")
    row("one turn, peak memory", [r[2] for r in one], "MB")
    base = statistics.median(r[0] for r in one)
    for count in (200, 1000):
        runs = [run(reads(count), task, count) for _ in range(max(3, RUNS // 3))]
        row(f"{count} steps of one read: CPU a step", [(r[0] - base) / count for r in runs], "ms")
        row(f"{count} steps of one read: answer to next request", [statistics.median(r[3]) for r in runs], "ms")
        row(f"{count} steps of one read: the same, last 50 steps", [statistics.median(r[3][-50:]) for r in runs], "ms")
        row(f"{count} steps of one read: peak memory", [r[2] for r in runs], "MB")
    stream = text_answer("lorem ipsum " * (2 * 1024 * 1024 // 12), 48)
    long = [run(lambda n: stream, task) for _ in range(max(3, RUNS // 3))]
    row("2 MB answer in 48-byte deltas: CPU, less a short turn", [r[0] - base for r in long], "ms")
    row("2 MB answer: peak memory", [r[2] for r in long], "MB")


main()
