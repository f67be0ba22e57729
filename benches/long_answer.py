#!/usr/bin/env python3
"""Memory of one answer of 50 MB, in each output. See README.md in this folder.

usage: benches/long_answer.py [BECKET] [MEGABYTES] [OUTPUT …]      (default: target/release/becket, 50, every output)

The server is `model_server.py`. The answer is text that does not repeat, in deltas of 400 bytes. Memory is VmHWM of the process,
read until it ends. `terminal` is the interactive session on a pseudo-terminal that reads as fast as it can; it ends when the answer
does. Linux only.
"""
import fcntl, json, os, pty, random, re, select, subprocess, struct, sys, tempfile, termios, threading, time
from model_server import DONE, Server, event

BECKET = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/becket")
MEGABYTES = float(sys.argv[2]) if len(sys.argv) > 2 else 50
OUTPUTS = {
    "text": ["-p"],
    "json": ["-p", "--output-format", "json"],
    "stream-json": ["-p", "--output-format", "stream-json"],
    "partial": ["-p", "--output-format", "stream-json", "--include-partial-messages"],
    "unsaved": ["-p", "--no-session-persistence"],
    "terminal": None,
}
WORDS = [word for word in re.findall(r"[a-z]{3,}", open(__file__).read())]


def lines(size):
    dice = random.Random(1)
    while size > 0:
        line = " ".join(dice.choices(WORDS, k=11)) + f" {dice.getrandbits(64):x}\n"
        size -= len(line)
        yield line


TEXT = "".join(lines(int(MEGABYTES * 2**20)))


def answer(_):
    for at in range(0, len(TEXT), 1 << 16):
        piece = TEXT[at:at + (1 << 16)]
        yield b"".join(event({"content": piece[i:i + 400]}) for i in range(0, len(piece), 400))
    yield event({}, "stop", {"prompt_tokens": 900, "completion_tokens": 20}) + DONE


class Memory:
    """The high-water mark of a process until it is gone."""

    def __init__(self, pid):
        self.pid, self.peak = pid, 0
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        try:
            while True:
                text = open(f"/proc/{self.pid}/status").read()
                found = re.search(r"^VmHWM:\s+(\d+)", text, re.M)
                if not found:
                    return
                self.peak = max(self.peak, int(found[1]))
                time.sleep(0.002)
        except OSError:
            return


def headless(arguments, environment, project):
    child = subprocess.Popen([BECKET, "--model", "openai/m", "--context-window", "2000000000", *arguments, "go"], cwd=project,
                             env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    memory, printed = Memory(child.pid), 0
    while chunk := child.stdout.read(1 << 16):
        printed += len(chunk)
    return child.wait(), memory.peak, printed


def terminal(environment, project):
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(project)
        os.execve(BECKET, [BECKET, "--model", "openai/m", "--context-window", "2000000000"],
                  environment | {"TERM": "xterm-256color", "LANG": "C.UTF-8"})
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    memory, printed, tail, began, asked = Memory(pid), 0, b"", time.time(), False
    while time.time() - began < 900 and select.select([fd], [], [], 120)[0]:
        data = os.read(fd, 1 << 16)
        printed += len(data)
        tail = (tail + data)[-4000:]
        if not asked and b"/help" in tail:
            os.write(fd, b"go\r")
            asked = True
        # becket ends a turn with a line that begins with ✓ and shows the duration.
        if "✓".encode() in tail:
            break
    else:
        print("the answer did not end:", tail[-500:])
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(fd)
    return 0, memory.peak, printed


def main():
    print(f"{BECKET}, an answer of {len(TEXT) / 2**20:.1f} MB")
    for name, arguments in OUTPUTS.items():
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as project:
            server = Server(answer)
            environment = {"PATH": os.environ["PATH"], "HOME": home, "OPENAI_API_KEY": "k",
                           "OPENAI_BASE_URL": f"http://127.0.0.1:{server.port}/v1"}
            began = time.perf_counter()
            run = terminal(environment, project) if arguments is None else headless(arguments, environment, project)
            code, peak, printed = run
            print(f"{name:<14} {peak / 1024:>8.1f} MB   {time.perf_counter() - began:>6.1f} s   {printed / 2**20:>7.1f} MB printed"
                  + (f"   exit {code}" if code else ""), flush=True)
            server.socket.close()


main()
