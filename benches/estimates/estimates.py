#!/usr/bin/env python3
"""becket's estimate of each request against the number of tokens that a real vocabulary counts in it, for every wire format.

usage: estimates.py --binary PATH --tools DIR [--sessions N] [--only WAY] [--jobs N] [--keep DIR]     (the Python of benches/estimates/install.sh)
       estimates.py --binary PATH --tools DIR --llamacpp URL     (the counts of a llama.cpp server: its chat template and its model's vocabulary)

Each session is run by the real binary against a server on this machine. The server counts the request that it got, reports the count as the usage of
its answer, and lets becket read files, run commands and write code, in sessions of one favourite kind of text with others mixed in. becket's estimate is
the one that it recorded before it sent the request (`estimate` in the session's ledger); the request is found by the hash of its bytes. One line for each
way: errors of the first request of a session, of those after a compaction, and of all from the second on. Exit 1 if the median of the latter is above 3 %
or the 99th percentile above 8 %.
"""
import argparse, concurrent.futures, functools, glob, hashlib, http.server, json, os, pathlib, random, shutil, statistics, subprocess, sys, tempfile, threading, urllib.request, zlib, struct
import counts, material, wires

# name: (wire format, family, model, provider section)
KEY = 'api_key_env = "BENCH_KEY"'
WAYS = {
    "anthropic": ("messages", "claude", "anthropic/claude-sonnet-4-5", ["[providers.anthropic]", 'base_url = "BASE"', KEY]),
    "openai": ("responses", "openai", "openai/gpt-5", ["[providers.openai]", 'base_url = "BASE/v1"', 'kind = "openai-responses"', KEY]),
    "google": ("gemini", "gemini", "google/gemini-2.5-pro", ["[providers.google]", 'base_url = "BASE/v1beta"', KEY]),
    "chat-qwen": ("chat", "qwen", "work/qwen3-coder", ["[providers.work]", 'base_url = "BASE/v1"', 'kind = "openai-chat"', KEY]),
    "chat-deepseek": ("chat", "deepseek", "work/deepseek-chat", ["[providers.work]", 'base_url = "BASE/v1"', 'kind = "openai-chat"', KEY]),
    "chat-gpt": ("chat", "openai", "work/gpt-4o", ["[providers.work]", 'base_url = "BASE/v1"', 'kind = "openai-chat"', KEY]),
    "converse": ("converse", "llama", "bedrock/us.meta.llama3-3-70b-instruct-v1:0", ["[providers.bedrock]", 'base_url = "BASE"', 'region = "eu-west-1"']),
}
# A llama.cpp server counts a request in each of its formats, without answering it: the path of the count.
SERVED = {
    "llamacpp-chat": ("chat", "openai-chat", "/v1", "/v1/chat/completions/input_tokens"),
    "llamacpp-responses": ("responses", "openai-responses", "/v1", "/v1/responses/input_tokens"),
    "llamacpp-messages": ("messages", "anthropic", "", "/v1/messages/count_tokens"),
}
SUMMARY = "## Goal\nFinish the work.\n\n## Instructions\n\n## Progress\n### Done\n- read the files\n\n### In progress\n- the change\n\n### Blocked\n\n## Decisions\n- keep the names\n\n## Discoveries\n\n## Next steps\n1. go on\n\n## Relevant files\n"


def png(width, height, rng):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = b"\0" + bytes(rng.randrange(256) for _ in range(24)) * (width // 8 + 1)
    rows = row[:1 + 3 * width] * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Served:
    """The counts of a llama.cpp server, in the place of a family and its vocabulary."""

    def __init__(self, url, path):
        self.url, self.path = url, path
        self.model = self.ask("/v1/models")["data"][0]["id"].rpartition("/")[2].removesuffix(".gguf")

    def ask(self, path, raw=None):
        with urllib.request.urlopen(urllib.request.Request(self.url + path, raw, {"content-type": "application/json"}), timeout=60) as answer:
            return json.load(answer)

    def total(self, raw):
        return self.ask(self.path, raw)["input_tokens"]

    @functools.lru_cache(maxsize=20_000)
    def count(self, text):
        return len(self.ask("/tokenize", json.dumps({"content": text}).encode())["tokens"])


class Session:
    """One session: its files, the answers of its model, and the counts of its requests."""

    def __init__(self, way, number, kinds, vocabulary, folder, window):
        self.served = vocabulary if isinstance(vocabulary, Served) else None
        if self.served:
            self.wire, kind, path, _ = SERVED[way]
            self.family, self.model = "qwen", f"work/{self.served.model}"
            self.section = ["[providers.work]", f'base_url = "BASE{path}"', f'kind = "{kind}"', KEY]
        else:
            self.wire, self.family, self.model, self.section = WAYS[way]
        self.rng = random.Random(f"{way} {number}")
        self.kinds, self.count, self.folder = kinds, vocabulary.count, folder
        names = sorted(kinds)
        self.favourite = names[number % len(names)]
        self.language = self.favourite if self.favourite in material.PROSE else self.rng.choice(["English", "English", "German", "Chinese", "Japanese"])
        self.window = window or (40_000 if number % 5 == 4 else None)
        self.files, self.seen, self.lock, self.cached = 0, {}, threading.Lock(), 0
        self.steps = 0

    def size(self, least, most):
        """Each order of magnitude as likely as the next."""
        return int(least * (most / least) ** self.rng.random())

    def text(self, kind, least, most):
        size = self.size(least, most)
        # `size` is in bytes, not in letters.
        piece = material.piece(self.kinds[kind], size, self.rng)
        return piece.encode()[:size].decode(errors="ignore")

    def step(self):
        """The next answer: a text and calls."""
        self.steps += 1
        text = self.text(self.language, 30, 900)
        if self.steps > self.turn_steps:
            return text, []
        return text, [self.call() for _ in range(1 if self.rng.random() < 0.8 else 2)]

    def call(self):
        kind = self.favourite if self.rng.random() < 0.67 else self.rng.choice(sorted(self.kinds))
        roll = self.rng.random()
        self.files += 1
        if roll < 0.06 and not self.served:
            name = f"picture{self.files}.png"
            size = self.rng.choice([(320, 200), (800, 600), (1280, 800), (1920, 1080)])
            (self.folder / "project" / name).write_bytes(png(*size, self.rng))
            return "read", {"path": name}
        if roll < 0.25:
            code = self.rng.choice([k for k in ("Rust", "Python", "C", "TypeScript", "Go") if k in self.kinds])
            return "write", {"path": f"made{self.files}.txt", "content": self.text(code, 100, 6_000)}
        name = f"file{self.files}.txt"
        (self.folder / "project" / name).write_text(self.text(kind, 80, 16_000))
        if roll < 0.62:
            return "read", {"path": name}
        return "bash", {"command": f"cat {name}", "description": "Show the file"}

    def answer(self, raw):
        body = json.loads(raw)
        read, say, _ = wires.WIRES[self.wire]
        family, request = counts.FAMILIES[self.family], read(body)
        with self.lock:
            total = self.served.total(raw) if self.served else family.request(self.count, request)
            self.seen[hashlib.sha256(raw).hexdigest()] = total
            last = [p for p in request["messages"][-1]["parts"] if p[0] == "text"]
            text, calls = (SUMMARY, []) if last and "## Next steps" in last[-1][1] else self.step()
            output = family.message(self.count, {"role": "assistant", "parts": [("text", text)] + [("call", n, a) for n, a in calls]})
            cached = min(self.cached, total)
            self.cached = total
            ids = [f"call{self.rng.randrange(16**8):08x}" for _ in calls]
        return say(text, calls, (total - cached, cached, output, ids))

    def run(self, binary):
        session = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                raw = self.rfile.read(int(self.headers["content-length"]))
                said = session.answer(raw)
                self.send_response(200)
                self.send_header("content-type", wires.WIRES[session.wire][2])
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                """becket drops a request that it does not need any more, such as a summary made ahead."""
        server = Server(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for sub in ("home/config/becket", "home/data", "project"):
            (self.folder / sub).mkdir(parents=True)
        base = f"http://127.0.0.1:{server.server_address[1]}"
        config = "\n".join(self.section).replace("BASE", base) + "\n"
        if self.wire in ("chat", "converse") or self.served:
            provider, _, short = self.model.partition("/")
            config += f'[[providers.{provider}.models]]\nname = "{short}"\nwindow = 128000\nmax_output = 8000\nimages = {"false" if self.served else "true"}\n'
        (self.folder / "home/config/becket/config.toml").write_text(config)
        home = str(self.folder / "home")
        env = {"PATH": os.environ["PATH"], "HOME": home, "XDG_CONFIG_HOME": home + "/config", "XDG_DATA_HOME": home + "/data", "LANG": "C.UTF-8",
               "BENCH_KEY": "sk-bench", "AWS_BEARER_TOKEN_BEDROCK": "token"}
        try:
            for turn in range(3):
                self.steps, self.turn_steps = 0, self.rng.randrange(4, 13)
                command = [binary, "-p", "--model", self.model, "--permission-mode", "bypassPermissions"]
                command += ["--context-window", str(self.window)] if self.window else []
                command += ["-c"] if turn else []
                done = subprocess.run([*command, "--", "Work. " + self.text(self.language, 40, 1_500)], cwd=self.folder / "project", env=env, stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=300)
                if done.returncode:
                    raise RuntimeError(f"{self.model}, {self.favourite}: exit {done.returncode}: {done.stderr[-600:]}")
        finally:
            server.shutdown()
            server.server_close()
        return self.errors()

    def errors(self):
        """(position, error) of each request of the conversation, in shares of the true count."""
        found, first, compacted = [], True, False
        for path in glob.glob(str(self.folder / "home/data/**/ledger.jsonl"), recursive=True):
            for line in open(path):
                for entry in json.loads(line).get("entries", []):
                    if entry["kind"] == "compaction":
                        compacted = True
                    if entry["kind"] != "request" or entry["purpose"] != "turn":
                        continue
                    true = self.seen[entry["sha256"]]
                    at = "first" if first else "compacted" if compacted else "later"
                    found.append((at, entry["estimate"] / true - 1, self.favourite, true))
                    first = compacted = False
        return found


def share(values, of):
    values = sorted(values)
    return values[int((len(values) - 1) * of)] if values else float("nan")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", required=True)
    p.add_argument("--tools", default=os.path.expanduser("~/.cache/becket-estimates"))
    p.add_argument("--llamacpp", help="address of a llama.cpp server, whose counts are taken")
    p.add_argument("--window", type=int, help="context window of all sessions; else 40,000 tokens for one in five")
    p.add_argument("--sessions", type=int, default=60)
    p.add_argument("--only", default="")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--keep", help="folder for the sessions, which are else deleted")
    p.add_argument("--worst", type=int, default=0, help="how many of the largest errors to list")
    args = p.parse_args()
    kinds, bad = material.load(args.tools, 1), 0
    print(f"{len(kinds)} kinds of text: {', '.join(sorted(kinds))}")
    print(f"{'':14} {'requests':>8} {'median':>8} {'p99':>8} {'largest':>8} | {'first: median':>13} {'largest':>8} | {'compacted: n':>12} {'median':>8} {'largest':>8}", flush=True)
    for way in [w for w in (SERVED if args.llamacpp else WAYS) if args.only in w]:
        if args.llamacpp:
            vocabulary = Served(args.llamacpp, SERVED[way][3])
        else:
            vocabulary = counts.Vocabulary(args.tools, counts.FAMILIES[WAYS[way][1]].vocabulary)
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(args.keep or scratch) / way
            shutil.rmtree(root, ignore_errors=True)

            def one(number):
                folder = root / str(number)
                try:
                    return Session(way, number, kinds, vocabulary, folder, args.window).run(os.path.abspath(args.binary))
                finally:
                    if not args.keep:
                        shutil.rmtree(folder, ignore_errors=True)
            with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
                all = [e for errors in pool.map(one, range(args.sessions)) for e in errors]
        first = [abs(e[1]) for e in all if e[0] == "first"]
        after = [abs(e[1]) for e in all if e[0] == "compacted"]
        later = [abs(e[1]) for e in all if e[0] != "first"]
        median, p99 = statistics.median(later), share(later, 0.99)
        bad += median > 0.03 or p99 > 0.08
        print(f"{way:14} {len(later):8} {median:8.2%} {p99:8.2%} {max(later):8.2%} | {statistics.median(first):13.2%} {max(first):8.2%} | {len(after):12} "
              f"{(statistics.median(after) if after else 0):8.2%} {max(after, default=0):8.2%}", flush=True)
        for at, error, favourite, true in sorted(all, key=lambda e: -abs(e[1]))[:args.worst]:
            print(f"    {at:10} {error:+8.2%} of {true} tokens, {favourite}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
