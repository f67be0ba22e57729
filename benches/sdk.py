#!/usr/bin/env python3
"""becket under the programs that drive it: many sessions at once, killed programs and servers, the cost of MCP servers.

usage: benches/sdk.py sessions [BECKET] [HOW MANY]     (default: target/release/becket, 100)
       benches/sdk.py kills    [BECKET] [ROUNDS]       (50)
       benches/sdk.py servers  [BECKET] [PAIRS]        (30)

`sessions` and `kills` drive becket through the Python package claude_agent_sdk, as tests/peers/sdks/install.sh installs it: run
them with the Python of that folder. Needs Linux. The model server is on this machine, so no network takes part. Each part ends
with exit code 1 if its promise is broken: every session gets its own answers; after a kill no process is left, nothing waits for
ever, and the session goes on; three servers of 20 tools cost a turn at most 15 ms of CPU.
"""
import asyncio, http.server, json, os, random, shutil, signal, statistics, subprocess, sys, tempfile, threading, time
from model_server import call_answer, text_answer

HERE = os.path.abspath(__file__)


class Model:
    """A model server whose answer depends on the request alone, so that many sessions can ask at once."""

    def __init__(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                said = answer(body)
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_):
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            request_queue_size = 256
            daemon_threads = True

            def handle_error(self, *_):
                """A killed client is what is measured here."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def prompts(body):
    """Texts of the user's messages."""
    texts = []
    for message in body["messages"]:
        if message["role"] == "user":
            content = message["content"]
            texts.append(content if isinstance(content, str) else "".join(p.get("text", "") for p in content))
    return texts


def environment(home, url):
    return {"PATH": os.environ["PATH"], "HOME": home, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k"}


def marked(room):
    """Processes whose home is in this folder: becket, its commands, its servers, what watches them."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if any(entry.startswith(f"HOME={room}".encode()) for entry in file.read().split(b"\0")):
                    with open(f"/proc/{pid}/cmdline", "rb") as line:
                        found[int(pid)] = line.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            pass
    return {pid: line for pid, line in found.items() if line}


def gone(room, seconds=10):
    """Waits until no process of this folder is left. Returns those that are left, and the seconds that it took."""
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        left = marked(room)
        if not left:
            return {}, time.perf_counter() - began
        time.sleep(0.01)
    return left, seconds


def memory(room):
    """The memory of all processes of this folder in MB, shared pages counted once."""
    total = 0
    for pid in marked(room):
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except OSError:
            pass
    return total / 1024


# -------------------------------------------------------------------------------------------------------------- sessions


def sessions(becket, count):
    from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

    def answer(body):
        if body["messages"][-1]["role"] == "tool":
            return text_answer(f"read for {prompts(body)[-1]}", 20)
        return call_answer(len(body["messages"]), "read", {"path": "a.txt"})

    model, room = Model(answer), tempfile.mkdtemp(prefix="bench sdk ")
    peak, done = [0.0], threading.Event()

    def watch():
        while not done.wait(0.2):
            peak[0] = max(peak[0], memory(room))

    async def one(number):
        home, work = os.path.join(room, f"h{number}"), os.path.join(room, f"w{number}")
        os.makedirs(home), os.makedirs(work)
        with open(os.path.join(work, "a.txt"), "w") as file:
            file.write(f"file of {number}\n")
        options = ClaudeAgentOptions(cli_path=becket, cwd=work, model="openai/test-model",
                                     env=environment(home, model.url))
        wrong, ids = [], set()
        async with ClaudeSDKClient(options) as client:
            for turn in range(2):
                await client.query(f"session {number} turn {turn}")
                end = None
                async for message in client.receive_response():
                    if isinstance(message, ResultMessage):
                        end = message
                ids.add(end.session_id)
                if end.is_error or end.result != f"read for session {number} turn {turn}":
                    wrong.append((number, turn, end.result))
        return wrong, ids

    async def everything():
        return await asyncio.gather(*(one(number) for number in range(count)))

    threading.Thread(target=watch, daemon=True).start()
    before, began = os.times(), time.perf_counter()
    results = asyncio.run(everything())
    wall, after = time.perf_counter() - began, os.times()
    done.set()
    left, _ = gone(room)
    wrong = [one for some, _ in results for one in some]
    ids = set().union(*(ids for _, ids in results))
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"{count} sessions at once, 2 turns each: {wall:.1f} s, CPU of becket {cpu / count * 1000:.0f} ms a session, "
          f"memory of all at most {peak[0]:.0f} MB ({peak[0] / count:.1f} a session); "
          f"wrong answers {len(wrong)}, sessions {len(ids)}, processes left {len(left)}")
    shutil.rmtree(room, ignore_errors=True)
    return not wrong and len(ids) == count and not left


# ----------------------------------------------------------------------------------------------------------------- kills


def drive(becket, work, home, url):
    """The program that is killed: a session that works until the end of time."""
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

    async def main():
        servers = {"own": {"type": "stdio", "command": sys.executable, "args": [HERE, "serve", "3"]}}
        options = ClaudeAgentOptions(cli_path=becket, cwd=work, model="openai/test-model", mcp_servers=servers,
                                     permission_mode="bypassPermissions", env=environment(home, url))
        async with ClaudeSDKClient(options) as client:
            await client.query("work")
            print(os.getpid(), flush=True)
            async for _ in client.receive_messages():
                pass

    asyncio.run(main())


def drivers():
    """Forks a program that drives becket for each line of stdin: loading the package takes longer than a round."""
    import claude_agent_sdk  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            drive(*json.loads(line))
            os._exit(0)


def kill_programs(becket, rounds, dice):
    """Kills the program that drives becket. Returns the rounds that went wrong, the seconds until all was gone, and the number of
    kills before the session had begun."""

    def answer(body):
        if "go on" in prompts(body)[-1]:
            return text_answer("went on", 20)
        number = len(body["messages"])
        calls = [("bash", {"command": "sleep 60"}), ("mcp__own__tool_1", {"text": "x"}), ("bash", {"command": "echo x"})]
        return call_answer(number, *calls[number % 3])

    model, wrong, seconds, early = Model(answer), [], [], 0
    source = subprocess.Popen([sys.executable, HERE, "drivers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    for number in range(rounds):
        room = tempfile.mkdtemp(prefix="bench kill ")
        home, work = os.path.join(room, "h"), os.path.join(room, "w")
        os.makedirs(home), os.makedirs(work)
        source.stdin.write(json.dumps([becket, work, home, model.url]) + "\n")
        source.stdin.flush()
        program = int(source.stdout.readline())
        time.sleep(dice.random() * 1.5)
        os.kill(program, signal.SIGKILL)
        left, took = gone(room)
        seconds.append(took)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        command = [becket, "-p", "--continue", "--model", "openai/test-model", "go on"]
        ran = subprocess.run(command, cwd=work, env=environment(home, model.url), stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=60)
        # A program that dies before its prompt is recorded leaves no session.
        none = "there is no session" in ran.stderr
        early += none
        if left or not (none or ran.stdout == "went on\n"):
            wrong.append((number, left, ran.stdout, ran.stderr))
        shutil.rmtree(room, ignore_errors=True)
    source.stdin.close()
    source.wait()
    return wrong, seconds, early


class Driven:
    """A becket that this program drives over the raw wire."""

    def __init__(self, becket, work, home, url, servers):
        config = json.dumps({"mcpServers": servers})
        command = [becket, "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--model",
                   "openai/test-model", "--permission-mode", "bypassPermissions", "--mcp-config", config]
        self.child = subprocess.Popen(command, cwd=work, env=environment(home, url), text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def send(self, line):
        self.child.stdin.write(json.dumps(line) + "\n")
        self.child.stdin.flush()

    def until(self, wanted):
        """Reads lines up to the one that is wanted, for at most a minute."""
        timer = threading.Timer(60, self.child.kill)
        timer.start()
        try:
            for line in self.child.stdout:
                line = json.loads(line)
                if wanted(line):
                    return line
            raise RuntimeError("becket ended, or said nothing for a minute")
        finally:
            timer.cancel()

    def request(self, subtype):
        self.send({"type": "control_request", "request_id": "r", "request": {"subtype": subtype}})
        return self.until(lambda line: line["type"] == "control_response")["response"]["response"]

    def connected(self, count):
        while sum(one["status"] == "connected" for one in self.request("mcp_status")["mcpServers"]) < count:
            time.sleep(0.02)

    def turn(self, text):
        self.send({"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None})
        return self.until(lambda line: line["type"] == "result")

    def cpu(self):
        """Milliseconds of CPU of becket itself, all threads."""
        total = 0
        for thread in os.listdir(f"/proc/{self.child.pid}/task"):
            with open(f"/proc/{self.child.pid}/task/{thread}/schedstat") as file:
                total += int(file.read().split()[0])
        return total / 1e6

    def end(self):
        self.child.stdin.close()
        return self.child.wait(timeout=30)


def kill_servers(becket, rounds, dice):
    """Kills an MCP server while its tools are called. Returns the rounds that went wrong."""

    def answer(body):
        asked = sum(message["role"] == "tool" for message in body["messages"])
        # A turn makes six calls and then ends.
        if asked % 6 == 0 and body["messages"][-1]["role"] == "tool":
            return text_answer("done", 20)
        return call_answer(asked, "mcp__own__tool_1", {"text": f"call {asked}"})

    model, wrong, room = Model(answer), [], tempfile.mkdtemp(prefix="bench server ")
    home, work = os.path.join(room, "h"), os.path.join(room, "w")
    os.makedirs(home), os.makedirs(work)
    servers = {"own": {"command": sys.executable, "args": [HERE, "serve", "3"]}}
    driven = Driven(becket, work, home, model.url, servers)
    driven.connected(1)
    killed = 0
    for number in range(rounds):
        stop = threading.Event()

        def kill():
            nonlocal killed
            stop.wait(dice.random() * 0.15)
            for pid, line in marked(room).items():
                if line.startswith(sys.executable) and HERE in line:
                    try:
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
                    except OSError:
                        pass

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            end = driven.turn(f"round {number}")
            if end["is_error"] or end["result"] != "done":
                wrong.append((number, end))
        except RuntimeError as error:
            wrong.append((number, str(error)))
            break
        finally:
            killer.join()
    try:
        driven.connected(1)
    except RuntimeError as error:
        wrong.append(("the server is not connected again", str(error)))
    code = driven.end()
    left, _ = gone(room)
    if code or left:
        wrong.append(("the end", code, left))
    shutil.rmtree(room, ignore_errors=True)
    return wrong, killed


def kills(becket, rounds):
    dice = random.Random(7)
    wrong, seconds, early = kill_programs(becket, rounds, dice)
    print(f"{rounds} programs killed, {early} before their session had begun: all processes gone after {statistics.median(seconds) * 1000:.0f} ms (median), "
          f"{max(seconds) * 1000:.0f} ms at most; rounds with a process left or a session that does not go on: {len(wrong)}")
    more, killed = kill_servers(becket, rounds, dice)
    print(f"{killed} MCP servers killed in {rounds} turns of one session: turns that did not end well: {len(more)}")
    for one in wrong + more:
        print(" ", one)
    return not wrong and not more and killed > 0


# --------------------------------------------------------------------------------------------------------------- servers


def serve(count):
    """An MCP server over stdio with this many tools."""
    text = {"type": "string", "description": "The text to work on, as it is in the file"}
    schema = {"type": "object", "properties": {"text": text, "limit": {"type": "integer"}}, "required": ["text"]}
    about = "Looks for something in the project and says where it is, in which line, and the text around it."
    tools = [{"name": f"tool_{n}", "description": about, "inputSchema": schema} for n in range(count)]
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        if message["method"] == "initialize":
            result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                      "serverInfo": {"name": "bench", "version": "1"}}
        elif message["method"] == "tools/list":
            result = {"tools": tools}
        else:
            result = {"content": [{"type": "text", "text": "found"}]}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


def servers(becket, pairs):
    offered = []

    def answer(body):
        offered.append(sum(tool["function"]["name"].startswith("mcp__s") for tool in body["tools"]))
        if body["messages"][-1]["role"] == "tool":
            return text_answer("done", 20)
        return call_answer(len(body["messages"]), "read", {"path": "a.txt"})

    model, figures = Model(answer), {0: [], 3: []}
    for _ in range(pairs):
        for count in figures:
            room = tempfile.mkdtemp(prefix="bench mcp ")
            with open(os.path.join(room, "a.txt"), "w") as file:
                file.write("text\n")
            config = {f"s{n}": {"command": sys.executable, "args": [HERE, "serve", "20"]} for n in range(count)}
            driven = Driven(becket, room, room, model.url, config)
            driven.connected(count)
            driven.turn("first")
            before = driven.cpu()
            end = driven.turn("second")
            figures[count].append(driven.cpu() - before)
            driven.end()
            assert end["result"] == "done" and offered[-1] == 20 * count, (end, offered[-1])
            shutil.rmtree(room, ignore_errors=True)
    none, three = (statistics.median(figures[count]) for count in figures)
    print(f"CPU of a turn with one call, median of {pairs}: {none:.1f} ms without servers, {three:.1f} ms with three connected "
          f"servers of 20 tools each: {three - none:+.1f} ms")
    return three - none <= 15


if __name__ == "__main__":
    part, rest = sys.argv[1], sys.argv[2:]
    if part == "serve":
        serve(int(rest[0]))
    elif part == "drivers":
        drivers()
    else:
        which, default = {"sessions": (sessions, 100), "kills": (kills, 50), "servers": (servers, 30)}[part]
        path = os.path.abspath(rest[0] if rest else "target/release/becket")
        sys.exit(0 if which(path, int(rest[1]) if len(rest) > 1 else default) else 1)
