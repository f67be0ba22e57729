#!/usr/bin/env python3
"""Pictures of one task in the terminal: becket, or another agent, in tmux, against the model of `server.py`.

usage: benches/scene/scene.py AGENT OUT [--binary PATH] [--size 80x24] [--look dark] [--svg] [--log FILE]

AGENT is becket, claude, codex, opencode or pi. Writes OUT/AGENT-SIZE-LOOK-N.png (or .svg) and the text beside it. N: 1 the start, 2 the
question about the change, 3 the running test, 4 the end of the turn, 5 to 8 the pages above it, 9 the question with its list in focus
(becket), 10 a subagent at work, 11 the end of its turn, 12 a retry, 13 the end of that turn, 14 the line of a compaction. Looks: dark, light, 16 (sixteen colours), nocolor (`NO_COLOR`). Everything is made in a temporary folder, which is also the home
folder of the agent. Needs tmux, and Pillow for PNG.
"""
import argparse, fcntl, json, os, pty, re, select, shutil, signal, struct, subprocess, sys, tempfile, termios, time
import picture, server

HERE = os.path.dirname(os.path.abspath(__file__))
WAIT = float(os.environ.get("SCENE_WAIT", 45))
# More seconds before the picture of a question, for a slow machine on which code gets its colours late.
PAUSE = float(os.environ.get("SCENE_PAUSE", 0))


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text if isinstance(text, str) else json.dumps(text, indent=2))


class Agent:
    """How an agent is started, and what shows that it is ready. `pages`: it scrolls itself, by PageUp."""
    pages, question, ready, allow, log, down = False, None, "", ["Enter"], None, []
    up = ["PageUp"]
    compacted = r"(?i)compacted|summary"

    def __init__(self, binary, home, project, port, look):
        self.binary, self.home, self.project, self.port, self.look = binary, home, project, port, look
        self.url = f"http://127.0.0.1:{port}"

    def environment(self):
        return {}


class Becket(Agent):
    pages, question, ready, down = True, r"1 Yes", "Describe a task", ["End"]

    def command(self):
        put(f"{self.home}/.config/becket/config.toml", '[permissions]\nallow = ["Bash(python3 *)"]\n')
        return [self.binary, "--model", "anthropic/claude-sonnet-4-5"]

    def environment(self):
        return {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": self.url}


class Claude(Agent):
    question, ready = r"1\. Yes", r"❯|shortcuts"

    def command(self):
        theme = "light" if self.look == "light" else "dark"
        put(f"{self.home}/.claude.json", {
            "hasCompletedOnboarding": True, "theme": theme, "customApiKeyResponses": {"approved": ["none"], "rejected": []},
            "projects": {self.project: {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True, "allowedTools": []}}})
        put(f"{self.home}/.claude/settings.json", {"permissions": {"allow": ["Bash(python3:*)"]}, "theme": theme})
        return [self.binary, "--model", "claude-sonnet-4-5"]

    def environment(self):
        return {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": self.url, "DISABLE_AUTOUPDATER": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1"}


class Codex(Agent):
    compacted = r"(?i)context compacted"
    pages, question, ready, allow = True, r"Yes, proceed|Would you like|1\. Yes", r"›", ["y"]

    def command(self):
        put(f"{self.home}/.codex/config.toml", f'''model = "gpt-5.1-codex"
model_provider = "scene"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[model_providers.scene]
name = "scene"
base_url = "{self.url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[projects."{self.project}"]
trust_level = "trusted"
[features]
multi_agent = true
[notice]
hide_gpt5_1_migration_prompt = true
''')
        return [self.binary]

    def environment(self):
        return {"OPENAI_API_KEY": "none", "CODEX_HOME": f"{self.home}/.codex"}


class Opencode(Agent):
    pages, question, ready = True, r"Allow once", r"Ask anything|ctrl\+p|tab "
    up = ["PageUp", "PageUp"]  # Its page is half a screen.

    def command(self):
        put(f"{self.home}/.config/opencode/opencode.json", {
            "$schema": "https://opencode.ai/config.json", "autoupdate": False, "share": "disabled",
            "provider": {"scene": {"npm": "@ai-sdk/openai-compatible", "name": "scene", "options": {"baseURL": f"{self.url}/v1", "apiKey": "none"},
                                   "models": {"m": {"name": "m", "limit": {"context": 128000, "output": 16000}}}}},
            "model": "scene/m", "small_model": "scene/m", "permission": {"edit": "ask", "bash": "allow", "task": "allow"}})
        return [self.binary]

    def environment(self):
        return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}


class Pi(Agent):
    ready = r"pi v|\d+%/"

    def command(self):
        put(f"{self.home}/.pi/agent/models.json", {"providers": {"scene": {
            "baseUrl": f"{self.url}/v1", "api": "openai-completions", "apiKey": "none",
            "models": [{"id": "m", "contextWindow": 128000, "maxTokens": 16000}]}}})
        put(f"{self.home}/.pi/agent/settings.json", {"theme": "light" if self.look == "light" else "dark",
                                                      "defaultProvider": "scene", "defaultModel": "m"})
        return [self.binary, "--provider", "scene", "--model", "m", "--offline"]

    def environment(self):
        return {"PI_OFFLINE": "1"}


AGENTS = {"becket": Becket, "claude": Claude, "codex": Codex, "opencode": Opencode, "pi": Pi}


class Pane:
    """A window of a tmux server of its own."""

    def __init__(self, columns, rows, kind, environment, cwd, command):
        self.socket, self.columns, self.rows, self.kind = f"scene{os.getpid()}", columns, rows, kind
        text, behind = ("#%02x%02x%02x" % colour for colour in picture.GROUNDS[kind])
        conf = f"{cwd}/../tmux.conf"
        # The style of the window is also the answer to a question for the terminal's colours (OSC 10 and 11).
        put(conf, f"set -g status off\nset -g history-limit 5000\nset -g escape-time 0\n"
                  f"set -g window-style 'fg={text},bg={behind}'\nset -g default-terminal tmux-256color\nset -g set-clipboard off\n"
                  "set -as terminal-features ',xterm-256color:RGB'\n")
        keep = {key: os.environ[key] for key in ("PATH",) if key in os.environ}
        wrapped = ["env", "-i", *(f"{k}={v}" for k, v in {**keep, **environment}.items()), *command]
        self.tmux("-f", conf, "new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", cwd, *wrapped)

    def tmux(self, *arguments):
        done = subprocess.run(["tmux", "-L", self.socket, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"tmux {arguments[0]}: {done.stderr.strip()}")
        return done.stdout

    def capture(self):
        """The screen, as a client that attaches draws it."""
        screen = picture.Screen(self.columns, self.rows, self.kind)
        pid, fd = pty.fork()
        if not pid:
            # Before tmux starts: a client that begins in a window of no known size draws 80x24 first.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns, 0, 0))
            os.environ.update(TERM="xterm-256color", LANG="C.UTF-8")
            os.execvp("tmux", ["tmux", "-L", self.socket, "attach", "-f", "ignore-size,read-only"])
        data, limit = b"", time.monotonic() + 2
        while select.select([fd], [], [], 0.04 if len(data) > 500 else max(0, limit - time.monotonic()))[0] and time.monotonic() < limit:
            try:
                data += os.read(fd, 1 << 16)
            except OSError:
                break
        os.close(fd)
        os.waitpid(pid, 0)
        screen.feed(data.decode("utf-8", "replace"))
        return screen

    def text(self):
        return self.tmux("capture-pane", "-p")

    def until(self, pattern, seconds=WAIT):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if re.search(pattern, self.text()):
                return True
            time.sleep(0.05)
        return False

    def settle(self, quiet=1.0, most=6.0):
        """Waits until nothing has changed for `quiet` seconds."""
        begin = last = time.monotonic()
        seen = self.text()
        while time.monotonic() - last < quiet and time.monotonic() - begin < most:
            time.sleep(0.1)
            now = self.text()
            if now != seen:
                seen, last = now, time.monotonic()

    def keys(self, *keys, literal=False):
        self.tmux("send-keys", *(["-l"] if literal else []), *keys)


def end(folder):
    """Ends processes that an agent left running: those that have the folder in their environment."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                ours = f"HOME={folder}/".encode() in file.read()
            if ours:
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass  # Another user's, or over.


def play(name, out, binary, size, look, extension, log=None):
    kind = "light" if look == "light" else "dark"
    folder = tempfile.mkdtemp(prefix="scene-")
    home = os.path.join(folder, "ana")
    project = os.path.join(home, "span")
    put(f"{project}/src/span.py", server.CODE)
    put(f"{project}/tests/test_span.py", server.TEST)
    put(f"{project}/NOTES.md", server.NOTES)
    for git in (["init", "-q", "-b", "main"], ["add", "."], ["-c", "user.name=ana", "-c", "user.email=ana@example.com", "commit", "-qm", "span"]):
        subprocess.run(["git", *git], cwd=project, check=True, env={**os.environ, "HOME": home})
    model = server.Server(project, log=log)
    agent = AGENTS[name](binary, home, project, model.port, look)
    command = agent.command()
    environment = {"HOME": home, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
                   "TERM": "xterm-16color" if look == "16" else "xterm-256color",
                   **({"COLORTERM": "truecolor"} if look != "16" else {}), **({"NO_COLOR": "1"} if look == "nocolor" else {}),
                   **agent.environment()}
    pane = Pane(*size, kind, environment, project, command)

    def shot(number):
        stem = os.path.join(out, f"{name}-{size[0]}x{size[1]}-{look}-{number}")
        screen = pane.capture()
        put(f"{stem}.txt", screen.text())
        picture.write(screen, f"{stem}.{extension}")

    try:
        pane.until(agent.ready)
        pane.settle(2.5, 30)
        shot(1)
        submit(pane, model, server.PROMPT)
        if agent.question:
            if not pane.until(agent.question):
                print(f"{name}: no question\n{pane.text()}", file=sys.stderr)
            pane.settle(1.8)
            time.sleep(PAUSE)
            shot(2)
            if name == "becket":
                pane.keys("Enter")
                pane.settle(0.6)
                shot(9)
            pane.keys(*agent.allow)
        else:
            pane.until("The end is left out")
        pane.until(r"span\(2, 2\) = \[2\]", 2.5)
        time.sleep(0.3)
        shot(3)
        if not pane.until("documentation of range|usual convention"):
            print(f"{name}: no end\n{pane.text()}", file=sys.stderr)
        pane.settle(1.5)
        shot(4)
        history = int(pane.tmux("display", "-p", "#{history_size}"))
        for above in range(1, 5):
            before = pane.text()
            if agent.pages:
                pane.keys(*agent.up)
                pane.settle(0.5)
                if pane.text() == before:
                    break
            elif (above - 1) * size[1] >= history:
                break
            else:
                pane.tmux("copy-mode", "-H")
                pane.tmux("send-keys", "-X", "-N", str(size[1]), "scroll-up")
            shot(4 + above)
        back(pane, agent)
        more(pane, model, agent, shot)
    finally:
        pane.tmux("kill-server")
        model.http.shutdown()
        end(folder)
        shutil.rmtree(folder, ignore_errors=True)


def submit(pane, model, prompt):
    """Types a prompt and sends it."""
    asked = model.asked
    for _ in range(5):  # An agent that is not ready yet loses what is typed.
        for letter in prompt:  # Faster typing would pass for a paste.
            pane.keys(letter, literal=True)
            time.sleep(0.02)
        if pane.until(re.escape(prompt), 40):
            break
        pane.keys("C-u")  # What arrived is not whole: away with it, or it is sent twice.
        pane.settle()
    pane.settle(0.5)
    pane.keys("Enter")
    for _ in range(4):
        end_of_wait = time.monotonic() + 12
        while model.asked == asked and time.monotonic() < end_of_wait:
            time.sleep(0.1)
        if model.asked != asked:
            break
        pane.keys("Enter")


def back(pane, agent):
    """Goes back to the end of the transcript, and to the input."""
    if agent.pages:
        for _ in range(8):
            pane.keys("PageDown")
        pane.keys(*agent.down)
    elif pane.tmux("display", "-p", "#{pane_in_mode}").strip() == "1":
        pane.tmux("send-keys", "-X", "cancel")
    pane.settle()


def more(pane, model, agent, shot):
    """The turns after the first one: a subagent, a retry, a compaction."""
    submit(pane, model, server.SECOND)
    pane.until(r"span\(2, 2\) = \[2\]\s*$|test_span|tool use", 6)
    time.sleep(2.2)
    shot(10)
    pane.until("found one caller|nothing else has to change")
    pane.settle(1.5)
    shot(11)
    submit(pane, model, server.THIRD)
    time.sleep(1.5)
    shot(12)
    pane.until("includes its last number now")
    pane.settle(1.5)
    shot(13)
    submit(pane, model, "/compact")
    pane.until(agent.compacted, 20)
    pane.settle(2.5, 12)
    shot(14)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # So that what was started is ended.
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("agent", choices=AGENTS)
    parse.add_argument("out")
    parse.add_argument("--binary")
    parse.add_argument("--size", action="append")
    parse.add_argument("--look", action="append", choices=["dark", "light", "16", "nocolor"])
    parse.add_argument("--svg", action="store_true")
    parse.add_argument("--log", help="a file for the requests that the model gets")
    given = parse.parse_args()
    default = os.path.join(HERE, "../../target/debug/becket") if given.agent == "becket" else given.agent
    binary = shutil.which(given.binary or default)
    if not binary:
        sys.exit(f"{given.binary or default} is not there; name it with --binary")
    os.makedirs(given.out, exist_ok=True)
    for size in given.size or ["80x24"]:
        for look in given.look or ["dark"]:
            play(given.agent, given.out, os.path.abspath(binary), tuple(map(int, size.split("x"))), look,
                 "svg" if given.svg else "png", given.log)


if __name__ == "__main__":
    main()
