#!/usr/bin/env python3
"""Measures what the confinement adds to one call of a command, in whole runs of the built binary.

usage: benches/confined.py [BECKET] [ROUNDS]

Each case is a headless run of a scripted model that calls `bash` with `/bin/true`. It is run with few and with many calls, so the
difference divided by the number of calls is the cost of one call, without becket's own start and without the self-test of the
sandbox. The cases run in turn in every round. CPU is what the kernel accounts to becket and everything that it started. Prints the
medians of the rounds, and the medians of the differences to the unconfined case of the same round.
"""
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

BECKET = os.path.realpath(sys.argv[1] if len(sys.argv) > 1 else "target/release/becket")
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 9
FEW, MANY = 5, 65
LACKING = str(pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/lacking.py")
# A kernel without namespaces of users has no bubblewrap, so the workspace level uses Landlock there.
NO_BUBBLEWRAP = ["python3", LACKING, "namespaces"]
CASES = {
    "unconfined": ([], ["--permission-mode", "bypassPermissions", "--sandbox", "off"]),
    "Landlock, read-only": ([], ["--permission-mode", "bypassPermissions", "--sandbox", "read-only"]),
    "Landlock, workspace": (NO_BUBBLEWRAP, ["--permission-mode", "bypassPermissions", "--sandbox", "required"]),
    "bubblewrap, workspace": ([], ["--permission-mode", "bypassPermissions", "--sandbox", "required"]),
}


def run(dir, calls, words, flags):
    """Milliseconds of one run: on the clock, and of the CPU."""
    # becket stops a model that repeats the same call, so each call is different.
    call = lambda n: {"text": "t", "calls": [{"name": "bash", "input": {"command": f"/bin/true {n}"}}]}
    steps = [call(n) for n in range(calls)]
    script = dir / f"{calls}.json"
    script.write_text(json.dumps({"steps": steps + [{"text": "end"}]}))
    command = words + [BECKET, "-p", "--model", f"script:{script}", "--max-turns", "1000", *flags, "--", "go"]
    variables = {"HOME": str(dir / "home"), "PATH": os.environ["PATH"]}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    ran = subprocess.run(command, cwd=dir / "ws", env=variables, stdin=subprocess.DEVNULL, capture_output=True)
    took, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode != 0:
        sys.exit(f"{command}: {ran.stderr.decode()}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took * 1e3, cpu * 1e3


def main():
    with tempfile.TemporaryDirectory() as name:
        dir = pathlib.Path(name)
        (dir / "home").mkdir()
        (dir / "ws").mkdir()
        subprocess.run(["git", "init", "-q"], cwd=dir / "ws", check=True)
        figures = {name: [] for name in CASES}
        for _ in range(ROUNDS):
            for name, (words, flags) in CASES.items():
                few, many = run(dir, FEW, words, flags), run(dir, MANY, words, flags)
                figures[name].append([(m - f) / (MANY - FEW) for f, m in zip(few, many)])
    plain = figures["unconfined"]
    print(f"{ROUNDS} rounds, load {os.getloadavg()[0]:.1f}")
    for name, rounds in figures.items():
        wall, cpu = (statistics.median(one[n] for one in rounds) for n in (0, 1))
        more = [statistics.median(one[n] - of[n] for one, of in zip(rounds, plain)) for n in (0, 1)]
        print(f"{name}: {wall:.2f} ms ({cpu:.2f} ms CPU), {more[0]:+.2f} ms ({more[1]:+.2f} ms CPU)")


main()
