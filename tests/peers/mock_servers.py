#!/usr/bin/env python3
"""Runs becket against a public mock server of model APIs, which others wrote, with every wire format and 34 kinds of answers and faults.

usage: mock_servers.py --binary PATH [--cache DIR] [--jobs N] [--only PART]... [--skip PART]... [--all] [--keep]

The server, npm @copilotkit/aimock, is installed once into the cache folder: OpenAI Chat and Responses, Anthropic, Gemini, Bedrock
Converse, Azure, OpenRouter, Vertex. Without node, npm or the registry, one line says that everything was skipped, and the exit code is 0.
One line for each case; exit 0 if all are as expected. Every run of becket goes through a forwarder that keeps the bytes: they are in
CACHE/work/CASE/bytes.txt with --keep, and always for a case that fails.
"""
import argparse, concurrent.futures, json, os, pathlib, re, shutil, socket, struct, subprocess, sys, threading, time, urllib.request, zlib, base64

AIMOCK = "@copilotkit/aimock@1.43.0"


# ---------------------------------------------------------------- plumbing

class Tap:
    """A TCP forwarder on a port of its own that keeps what goes through it."""

    def __init__(self, port, strip=b""):
        self.to, self.strip, self.conns = port, strip, []
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                a, _ = self.listener.accept()
            except OSError:
                return
            conn = {"out": bytearray(), "in": bytearray()}
            self.conns.append(conn)
            try:
                b = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                a.close()
                continue
            threading.Thread(target=self._pump, args=(a, b, conn["out"], self.strip), daemon=True).start()
            threading.Thread(target=self._pump, args=(b, a, conn["in"], b""), daemon=True).start()

    @staticmethod
    def _pump(a, b, kept, strip):
        while True:
            try:
                data = a.recv(65536)
            except OSError:  # a reset goes on as a reset
                try:
                    b.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    b.close()
                except OSError:
                    pass
                return
            if not data:
                try:
                    b.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
                return
            kept += data
            if strip:
                for method in (b"POST ", b"GET "):
                    if data.startswith(method + strip + b"/"):
                        data = method + data[len(method) + len(strip):]
            try:
                b.sendall(data)
            except OSError:
                return

    def posts(self):
        """The requests to the model: (path, headers, body as JSON)."""
        found = []
        for conn in list(self.conns):
            data = bytes(conn["out"])
            while data:
                head, sep, rest = data.partition(b"\r\n\r\n")
                if not sep:
                    break
                lines = head.decode("latin1").split("\r\n")
                headers = {k.lower(): v.strip() for k, _, v in (l.partition(":") for l in lines[1:])}
                n = int(headers.get("content-length", 0))
                method, path = lines[0].split(" ")[:2]
                if method == "POST":
                    try:
                        body = json.loads(rest[:n])
                    except ValueError:
                        body = None
                    found.append((path, headers, body))
                data = rest[n:]
        return found

    def save(self, path):
        with open(path, "wb") as f:
            for i, conn in enumerate(self.conns):
                f.write(b"\n##### connection %d, sent by becket\n" % i + bytes(conn["out"]))
                f.write(b"\n##### connection %d, answered\n" % i + bytes(conn["in"]))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def http(url, data=None, method=None):
    request = urllib.request.Request(url, None if data is None else json.dumps(data).encode(), {"content-type": "application/json"}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as r:
        text = r.read().decode()
    return json.loads(text) if text else None


def wait_for(url, process, log, seconds=240):
    end = time.time() + seconds
    while time.time() < end:
        if process.poll() is not None:
            break
        try:
            http(url)
            return
        except Exception:
            time.sleep(0.05)
    raise SystemExit(f"{url} did not come up:\n" + open(log).read()[-2000:])


def png(colour=(200, 30, 30)):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = b"\0" + bytes(colour) * 16
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(row * 16)) + chunk(b"IEND", b"")


class Run:
    """One run of becket: code, result line, assistant content, requests."""

    def __init__(self, code, out, err, seconds, posts):
        self.code, self.err, self.seconds, self.posts = code, err, seconds, posts
        self.lines = []
        for line in out.splitlines():
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.lines.append({"type": "no JSON", "line": line})
        results = [l for l in self.lines if l.get("type") == "result"]
        self.result = results[-1] if results else {}
        self.text = self.result.get("result")
        self.usage = self.result.get("usage") or {}

    def blocks(self, kind):
        return [b for l in self.lines if l.get("type") == "assistant" for b in l["message"]["content"] if b.get("type") == kind]

    def retries(self):
        return [l for l in self.lines if l.get("subtype") == "api_retry"]

    def brief(self):
        return f"exit {self.code}, result {self.text!r}, errors {self.result.get('errors')}, {len(self.posts)} requests, {self.seconds:.1f} s, stderr {self.err[-300:]!r}"


class Case:
    def __init__(self, suite, fmt, name):
        self.suite, self.fmt, self.name = suite, fmt, name
        self.id = f"{suite.name}/{fmt}/{name}"
        self.dir = suite.work / self.id.replace("/", "-")
        if self.dir.exists():
            shutil.rmtree(self.dir)
        for sub in ("home/config/becket", "home/data", "project"):
            (self.dir / sub).mkdir(parents=True)
        (self.dir / "project/notes.txt").write_text("the first word is swordfish\n")
        (self.dir / "project/other.txt").write_text("the second word is mackerel\n")
        (self.dir / "project/pic.png").write_bytes(png())
        provider = suite.formats[fmt]
        self.tap = Tap(suite.port, provider.get("strip", b""))
        base = f"http://127.0.0.1:{self.tap.port}"
        self.env = {k: v.replace("BASE", base) for k, v in provider.get("env", {}).items()}
        self.model = provider["model"].replace("MODEL", f"model-{fmt}-{name}")
        # X-Test-Id: aimock counts the requests of each id apart
        config = provider["config"].replace("BASE", base)
        config += f'headers = {{ "X-Test-Id" = "{self.id}" }}\n' + provider["tail"].replace("MODEL", f"model-{fmt}-{name}")
        (self.dir / "home/config/becket/config.toml").write_text(config)

    def becket(self, *args, stdin=None):
        env = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.dir / "home"), "XDG_CONFIG_HOME": str(self.dir / "home/config"),
               "XDG_DATA_HOME": str(self.dir / "home/data"), "LANG": "C.UTF-8", **self.env}
        before, start = len(self.tap.posts()), time.time()
        try:
            p = subprocess.run([self.suite.binary, "-p", "--output-format", "stream-json", "--verbose", "--model", self.model, *args],
                               cwd=self.dir / "project", env=env, input=stdin, stdin=None if stdin else subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=90)
            code, out, err = p.returncode, p.stdout, p.stderr
        except subprocess.TimeoutExpired as e:
            code, out, err = "none after 90 s", (e.stdout or b"").decode(), (e.stderr or b"").decode()
        run = Run(code, out, err, time.time() - start, self.tap.posts()[before:])
        with open(self.dir / "runs.txt", "a") as f:
            f.write(f"$ {args}\n{run.brief()}\n--- stdout\n{out}\n--- stderr\n{err}\n")
        return run


class Failed(Exception):
    pass


def check(what, ok, run=None):
    if not ok:
        raise Failed(what + (f" ({run.brief()})" if run else ""))


def strings(value):
    """All texts in a JSON value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for v in value:
            yield from strings(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from strings(v)


def has(body, text):
    return any(text in s for s in strings(body))


# ---------------------------------------------------------------- aimock

# what aimock itself does wrong, so that the case proves nothing
NOT_WITH_AIMOCK = {
    ("messages", "filter"): "its stop_reason is `content_filter`, which Anthropic does not have",
    ("responses", "filter"): "it sends `response.completed` with the status `failed`, which OpenAI does not",
}

USAGE = {"prompt_tokens": 111, "completion_tokens": 22, "total_tokens": 133, "input_tokens": 111, "output_tokens": 22,
         "promptTokenCount": 111, "candidatesTokenCount": 22, "totalTokenCount": 133}
ANSWER = "The answer is 42, é 你好 ∑ and nothing else."
LONG = "This answer is long enough to be cut in the middle of the stream by the server. " * 4


def fixtures():
    def f(case, response, **more):
        match = {"userMessage": f"CASE-{case}.", **more.pop("match", {})}
        return {"match": match, "response": response, **more}

    def call(name, id=None, **arguments):
        return {"name": name, "arguments": arguments, **({"id": id} if id else {})}

    def error(status, message, kind, code=None, **more):
        return {"error": {"message": message, "type": kind, **({"code": code} if code else {})}, "status": status, **more}
    first, then = {"match": {"hasToolResult": False}}, {"match": {"hasToolResult": True}}
    ok = {"content": "All is well again."}
    two = [call("read", path="notes.txt"), call("read", path="other.txt")]
    return [
        f("text", {"content": ANSWER, "usage": USAGE}),
        f("second", {"content": "The second answer."}),
        f("tiny", {"content": ANSWER}, chunkSize=1),
        f("tool", {"toolCalls": [call("read", path="notes.txt")], "usage": USAGE}, **first),
        f("tool", {"content": "It is swordfish.", "usage": USAGE}, match={"toolResultContains": "swordfish"}),
        f("ids", {"toolCalls": [call("read", "call:with/odd+chars=|and a very long tail that no server of Mistral would ever take", path="notes.txt")]}, **first),
        f("ids", {"content": "It is swordfish."}, **then),
        f("parallel", {"toolCalls": two}, **first),
        f("parallel", {"content": "They are swordfish and mackerel."}, **then),
        f("mixed", {"content": "I will look.", "toolCalls": two}, **first),
        f("mixed", {"content": "Both were read."}, **then),
        f("toolfirst", {"blocks": [{"type": "toolCall", **call("read", path="notes.txt")}, {"type": "text", "text": "I am looking."}, {"type": "toolCall", **call("read", path="other.txt")}]}, **first),
        f("toolfirst", {"content": "Both were read."}, **then),
        f("denied", {"toolCalls": [call("bash", command="touch made.txt")]}, **first),
        f("denied", {"content": "I was not allowed to."}, **then),
        f("unknowntool", {"toolCalls": [call("launch_rocket", target="moon")]}, **first),
        f("unknowntool", {"content": "There is no such tool."}, **then),
        f("badargs", {"toolCalls": [{"name": "read", "arguments": "{\"path\": \"notes.txt"}]}, **first),
        f("badargs", {"content": "My arguments were broken."}, **then),
        f("reason", {"content": "Thought about it.", "reasoning": "First I think, then I answer."}),
        f("thinktool", {"toolCalls": [call("read", path="notes.txt")], "reasoning": "I should read the notes."}, **first),
        f("thinktool", {"content": "It is swordfish."}, **then),
        f("image", {"content": "A red square."}),
        {"match": {"userMessage": "Image in the result of"}, "response": {"content": "A red square."}},
        {"match": {"userMessage": "reached the output limit"}, "response": {"content": " here and goes on."}},
        f("readimage", {"toolCalls": [call("read", path="pic.png")]}, **first),
        f("readimage", {"content": "A red square."}, **then),
        f("schema", {"content": {"colour": "red", "count": 3}}),
        f("length", {"content": "This was cut", "finishReason": "length"}),
        f("filter", {"content": "I cannot", "finishReason": "content_filter"}),
        f("e429", error(429, "Slow down", "rate_limit_error", "rate_limit_exceeded", retryAfter=1), match={"sequenceIndex": 0}),
        f("e429", ok),
        f("e500", error(500, "Something broke", "server_error"), match={"sequenceIndex": 0}),
        f("e500", ok),
        f("e503", error(503, "Overloaded", "overloaded_error"), match={"sequenceIndex": 0}),
        f("e503", ok),
        f("e401", error(401, "Incorrect API key provided", "authentication_error", "invalid_api_key")),
        f("e400", error(400, "Unknown parameter: 'foo'", "invalid_request_error")),
        f("overflow", error(400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", "invalid_request_error", "context_length_exceeded")),
        # the delay gets the chunks onto the wire before aimock destroys the connection
        f("cut", {"content": LONG}, truncateAfterChunks=10, latency=10),
        f("cutcall", {"blocks": [{"type": "toolCall", **call("write", path="made.txt", content=LONG)}, {"type": "text", "text": LONG}]}, truncateAfterChunks=10, latency=10, **first),
        f("cutcall", {"content": "The call was made."}, **then),
        f("drop", ok, match={"sequenceIndex": 0}, chaos={"disconnectRate": 1}),
        f("drop", ok),
        f("malformed", ok, match={"sequenceIndex": 0}, chaos={"malformedRate": 1}),
        f("malformed", ok),
    ]


def text(c):
    r = c.becket("CASE-text. Answer.")
    check("exit code 0", r.code == 0, r)
    check("the whole text", r.text == ANSWER, r)
    check("one request", len(r.posts) == 1, r)
    check(f"usage 111/22, not {r.usage}", (r.usage.get("input_tokens"), r.usage.get("output_tokens")) == (111, 22), r)
    r = c.becket("-c", "CASE-second. And now?")
    check("second turn: exit code 0", r.code == 0, r)
    check("second turn: its text", r.text == "The second answer.", r)
    check("second turn: sends the first question and answer", has(r.posts[-1][2], "CASE-text.") and has(r.posts[-1][2], "The answer is 42"), r)


def tiny(c):
    r = c.becket("CASE-tiny. Answer.")
    check("exit code 0 and the whole text", r.code == 0 and r.text == ANSWER, r)


def tools(c, name, answer, files, also=()):
    r = c.becket(f"CASE-{name}. Look.")
    check("exit code 0", r.code == 0, r)
    check("the final text", r.text == answer, r)
    check("two requests", len(r.posts) == 2, r)
    calls = r.blocks("tool_use")
    check(f"{len(files)} calls of Read, not {[b.get('name') for b in calls]}", [b["name"] for b in calls] == ["Read"] * len(files), r)
    body = r.posts[1][2]
    for word in files:
        check(f"the result with `{word}` is sent", has(body, word), r)
    for word in also:
        check(f"`{word}` is sent back", has(body, word), r)
    return r


def tool(c):
    r = tools(c, "tool", "It is swordfish.", ["swordfish"])
    check(f"usage 222/44, not {r.usage}", (r.usage.get("input_tokens"), r.usage.get("output_tokens")) == (222, 44), r)


def ids(c): tools(c, "ids", "It is swordfish.", ["swordfish"])
def parallel(c): tools(c, "parallel", "They are swordfish and mackerel.", ["swordfish", "mackerel"])
def mixed(c): tools(c, "mixed", "Both were read.", ["swordfish", "mackerel"], ["I will look."])
def toolfirst(c): tools(c, "toolfirst", "Both were read.", ["swordfish", "mackerel"], ["I am looking."])


def denied(c):
    r = c.becket("CASE-denied. Do it.")
    check("exit code 5", r.code == 5, r)
    check("the command did not run", not (c.dir / "project/made.txt").exists(), r)
    check("one denial", len(r.result.get("permission_denials", [])) == 1, r)
    check("the final text", r.text == "I was not allowed to.", r)


def unknowntool(c):
    r = c.becket("CASE-unknowntool. Do it.")
    check("exit code 0 and the final text", r.code == 0 and r.text == "There is no such tool.", r)
    check("the model learns it", has(r.posts[1][2], "launch_rocket"), r)


def badargs(c):
    r = c.becket("CASE-badargs. Do it.")
    check("exit code 0 and the final text", r.code == 0 and r.text == "My arguments were broken.", r)
    check("two requests", len(r.posts) == 2, r)
    check("nothing was read", not has(r.posts[1][2], "swordfish"), r)


def reason(c):
    r = c.becket("CASE-reason. Think.")
    check("exit code 0 and the final text", r.code == 0 and r.text == "Thought about it.", r)
    check(f"the reasoning as a block of its own, not {r.blocks('thinking')}", any("First I think" in b.get("thinking", "") for b in r.blocks("thinking")), r)


def thinktool(c):
    r = tools(c, "thinktool", "It is swordfish.", ["swordfish"])
    check("the reasoning as a block of its own", any("read the notes" in b.get("thinking", "") for b in r.blocks("thinking")), r)
    body = r.posts[1][2]
    if c.fmt in ("messages", "anthropic", "bedrock"):
        sent = [b for m in body["messages"] if m["role"] == "assistant" for b in m["content"] if b["type"] == "thinking"]
        check(f"signed reasoning is sent back, not {sent}", len(sent) == 1 and sent[0]["thinking"] == "I should read the notes." and sent[0]["signature"], r)
    if c.fmt in ("responses", "azure"):
        sent = [i for i in body["input"] if i.get("type") == "reasoning"]
        check(f"encrypted reasoning is sent back, not {sent}", len(sent) == 1 and sent[0].get("encrypted_content"), r)


PIC = base64.b64encode(png()).decode()


def image(c):
    line = json.dumps({"type": "user", "message": {"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIC}}, {"type": "text", "text": "CASE-image. What is it?"}]}}) + "\n"
    r = c.becket("--input-format", "stream-json", stdin=line)
    check("exit code 0 and the final text", r.code == 0 and r.text == "A red square.", r)
    check("a PNG is sent", has(r.posts[0][2], "iVBORw0KGgo"), r)


def readimage(c):
    r = c.becket("CASE-readimage. What is in pic.png?")
    check("exit code 0 and the final text", r.code == 0 and r.text == "A red square.", r)
    check("two requests", len(r.posts) == 2, r)
    check("a PNG is sent", has(r.posts[1][2], "iVBORw0KGgo"), r)


SCHEMA = json.dumps({"type": "object", "properties": {"colour": {"type": "string"}, "count": {"type": "integer"}}, "required": ["colour", "count"], "additionalProperties": False})


def schema(c):
    r = c.becket("--json-schema", SCHEMA, "CASE-schema. Answer.")
    check("exit code 0", r.code == 0, r)
    check(f"the object, not {r.result.get('structured_output')}", r.result.get("structured_output") == {"colour": "red", "count": 3}, r)


def length(c):
    r = c.becket("CASE-length. Answer.")
    check("exit code 0 and both halves", r.code == 0 and "goes on" in (r.text or ""), r)
    check("the model is asked to go on", len(r.posts) == 2 and has(r.posts[1][2], "This was cut"), r)


def filtered(c):
    r = c.becket("CASE-filter. Answer.")
    check("exit code 1", r.code == 1, r)
    check("no retry", len(r.posts) == 1, r)


def again(name, least):
    def case(c):
        r = c.becket(f"CASE-{name}. Answer.")
        check("exit code 0 and the text of the second attempt", r.code == 0 and r.text == "All is well again.", r)
        check("two requests", len(r.posts) == 2, r)
        check("one api_retry line", len(r.retries()) == 1, r)
        check(f"waits {least} s", r.seconds >= least, r)
    return case


def final(name, code, *words):
    def case(c):
        r = c.becket(f"CASE-{name}. Answer.")
        check(f"exit code {code}", r.code == code, r)
        # after a refusal, becket runs the program that prints the key once more and sends the request again
        check("no retry", len(r.posts) == (2 if (c.fmt, name) == ("vertex", "e401") else 1), r)
        for word in words:
            check(f"`{word}` in the message", word.lower() in (" ".join(r.result.get("errors") or []) + r.err).lower(), r)
    return case


def cut(c):
    r = c.becket("CASE-cut. Answer.")
    check("exit code 7", r.code == 7, r)
    check("the text so far", r.text and LONG.startswith(r.text[:60]), r)
    check("four attempts", len(r.posts) == 4, r)


def cutcall(c):
    r = c.becket("--permission-mode", "acceptEdits", "CASE-cutcall. Do it.")
    check("no file is written by half a call", not (c.dir / "project/made.txt").exists(), r)
    check("exit code 7", r.code == 7, r)


AIMOCK_CASES = {
    "text": text, "tiny": tiny, "tool": tool, "ids": ids, "parallel": parallel, "mixed": mixed, "toolfirst": toolfirst, "denied": denied,
    "unknowntool": unknowntool, "badargs": badargs, "reason": reason, "thinktool": thinktool, "image": image, "readimage": readimage,
    "schema": schema, "length": length, "filter": filtered,
    "e429": again("e429", 1), "e500": again("e500", 1), "e503": again("e503", 1), "drop": again("drop", 0), "malformed": again("malformed", 0),
    "e401": final("e401", 7, "key"), "e400": final("e400", 7, "foo"), "overflow": final("overflow", 9, "context"),
    "cut": cut, "cutcall": cutcall,
}
# cases that prove little on top of another format with the same code: they run with --all only
BRIEF = ["text", "tool", "parallel", "thinktool", "image", "e429", "e401"]


def provider(name, path, model, *extra, env=None, strip=b""):
    lines = [f"[providers.{name}]", *([f'base_url = "BASE{path}"'] if path is not None else []), *extra]
    short = model.partition("/")[2]
    return {"config": "\n".join(lines) + "\n", "model": model, "env": env or {}, "strip": strip,
            "tail": f'[[providers.{name}.models]]\nname = "{short}"\nwindow = 128000\nmax_output = 8000\nimages = true\n'}


KEY, KEYS = 'api_key_env = "MOCK_KEY"', {"MOCK_KEY": "sk-mock"}
AWS = {"AWS_ACCESS_KEY_ID": "AKIAMOCKMOCKMOCKMOCK", "AWS_SECRET_ACCESS_KEY": "mock/secret", "AWS_REGION": "eu-west-1"}
AIMOCK_FORMATS = {
    "chat": provider("mock", "/v1", "mock/some-model", 'kind = "openai-chat"', KEY, env=KEYS),
    "responses": provider("mock", "/v1", "mock/gpt-mock", 'kind = "openai-responses"', KEY, env=KEYS),
    "messages": provider("mock", "", "mock/claude-mock", 'kind = "anthropic"', KEY, env=KEYS),
    "gemini": provider("mock", "/v1beta", "mock/gemini-2.5-flash", 'kind = "gemini"', KEY, env=KEYS),
    "openrouter": provider("openrouter", "/api/v1", "openrouter/acme/mock-1", KEY, env=KEYS),
    "azure": provider("azure", None, "azure/my-deployment", env={"AZURE_OPENAI_API_KEY": "sk-mock", "AZURE_OPENAI_ENDPOINT": "BASE"}),
    "vertex": provider("vertex", "/v1/projects/p/locations/us-central1", "vertex/gemini-2.5-flash", 'key_command = ["echo", "token-mock"]', 'project = "p"', 'region = "us-central1"'),
    # aimock has the Messages of Bedrock's own host not under /anthropic: the forwarder takes the prefix away
    "bedrock": provider("bedrock", "", "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0", 'region = "eu-west-1"', env=AWS, strip=b"/anthropic"),
    "bedrock-gpt": provider("bedrock", "", "bedrock/openai.gpt-oss-120b-1:0", 'region = "eu-west-1"', env={"AWS_BEARER_TOKEN_BEDROCK": "token-mock"}),
    "converse": provider("bedrock", "", "bedrock/amazon.nova-pro-v1:0", 'region = "eu-west-1"', env={"AWS_BEARER_TOKEN_BEDROCK": "token-mock"}),
    "converse-aws": provider("bedrock", "", "bedrock/amazon.nova-pro-v1:0", 'region = "eu-west-1"', env=AWS),
}
FULL = ["chat", "responses", "messages", "gemini", "converse"]


class Aimock:
    name = "aimock"

    def __init__(self, args, cache):
        self.binary, self.work, self.formats = args.binary, cache / "work", AIMOCK_FORMATS
        home = cache / "aimock"
        cli = home / "node_modules/@copilotkit/aimock/dist/cli.js"
        if not cli.exists() or json.loads((home / "node_modules/@copilotkit/aimock/package.json").read_text())["version"] != AIMOCK.rpartition("@")[2]:
            home.mkdir(parents=True, exist_ok=True)
            try:
                subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", "--ignore-scripts", "--prefix", str(home), AIMOCK], check=True)
            except (OSError, subprocess.CalledProcessError) as why:
                print(f"mock servers: {AIMOCK} cannot be installed ({why}); skipped")
                sys.exit(0)
        (home / "fixtures.json").write_text(json.dumps({"fixtures": fixtures()}))
        self.port = free_port()
        self.log = home / "log.txt"
        if not shutil.which("node"):
            print("mock servers: node is not installed; skipped")
            sys.exit(0)
        self.process = subprocess.Popen(["node", str(cli), "-p", str(self.port), "-f", str(home / "fixtures.json"), "--strict"], stdout=open(self.log, "w"), stderr=subprocess.STDOUT)

    def cases(self, everything):
        for fmt in self.formats:
            for name, function in AIMOCK_CASES.items():
                if (everything or fmt in FULL or name in BRIEF) and (fmt, name) not in NOT_WITH_AIMOCK:
                    yield fmt, name, function



def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", required=True)
    peers = os.environ.get("BECKET_PEERS") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "becket-peers")
    p.add_argument("--cache", default=os.path.join(peers, "mocks"))
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--only", action="append", default=[], help="only cases whose name SERVER/FORMAT/CASE contains this")
    p.add_argument("--skip", action="append", default=[], help="not the cases whose name contains this, such as `converse`")
    p.add_argument("--all", action="store_true", help="every case with every format")
    p.add_argument("--keep", action="store_true")
    args = p.parse_args()
    args.binary = os.path.abspath(args.binary)
    cache = pathlib.Path(args.cache).absolute()
    (cache / "work").mkdir(parents=True, exist_ok=True)
    start, bad, count, suites = time.time(), 0, 0, []
    try:
        for make in [Aimock]:
            if any(o.startswith(f"{make.name}/") for o in args.skip) or args.only and not any(o in make.name or make.name in o or "/" not in o for o in args.only):
                continue
            suite = make.__new__(make)
            suites.append(suite)
            suite.__init__(args, cache)
        for s in suites:
            try:
                wait_for(f"http://127.0.0.1:{s.port}/health", s.process, s.log)
            except (Exception, SystemExit) as why:
                # The server may fail to start for reasons that are not becket's: an old node, or a machine without a loopback address.
                print(f"mock servers: {s.name} does not start ({str(why)[:200]}); skipped")
                return 0
        print(f"servers up after {time.time() - start:.1f} s", flush=True)
        todo = [(s, fmt, name, function) for s in suites for fmt, name, function in s.cases(args.all) if (not args.only or any(o in f"{s.name}/{fmt}/{name}" for o in args.only)) and not any(o in f"{s.name}/{fmt}/{name}" for o in args.skip)]

        def one(item):
            s, fmt, name, function = item
            case, began = Case(s, fmt, name), time.time()
            try:
                with getattr(s, "lock", threading.Semaphore()):
                    if hasattr(s, "before"):
                        s.before(case)
                    function(case)
                why = None
            except Failed as e:
                why = str(e)
            except Exception as e:
                why = f"{type(e).__name__}: {e}"
            case.tap.listener.close()
            if why or args.keep:
                case.tap.save(case.dir / "bytes.txt")
            else:
                shutil.rmtree(case.dir, ignore_errors=True)
            return case, why, time.time() - began
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for case, why, seconds in pool.map(one, todo):
                count += 1
                bad += bool(why)
                print(f"{'FAIL' if why else 'ok  '} {case.id:34} {seconds:4.1f} s" + (f"  expected: {why}" if why else ""), flush=True)
        for s in suites:
            why = s.finish() if hasattr(s, "finish") else None
            if why is not None:
                count += 1
                bad += bool(why)
                print(f"{'FAIL' if why else 'ok  '} {s.name}/verdict" + (f"  expected: {why}" if why else ""), flush=True)
    finally:
        for s in suites:
            if hasattr(s, "process"):
                s.process.kill()
                s.process.wait()
    print(f"{count - bad} of {count} cases as expected, {time.time() - start:.0f} s" + (f"; bytes of the others: {cache}/work/*/bytes.txt" if bad else ""))
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main())
