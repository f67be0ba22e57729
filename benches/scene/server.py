"""A model that plays one scene to any agent: Anthropic Messages, Chat Completions and Responses, streamed.

The first turn has five steps: two reads, a failing test, a change, the test again, and an answer. The second one starts a subagent, which
reads a file and runs the test. In the third one the server is overloaded at first, so the agent has to retry. The last prompt of a request
and the number of tool results after it say which step comes next. Names and parameters of tools are taken from the request, because they
differ between agents. A request for a summary gets one, and another request without tools gets a title.
"""
import json, re, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CODE = '''"""Spans of numbers."""


def span(first, last):
    """All numbers from first to last."""
    return list(range(first, last))


def width(first, last):
    """How many numbers a span has."""
    return len(span(first, last))
'''
OLD = "    return list(range(first, last))\n"
NEW = "    # The last number belongs to the span.\n    return list(range(first, last + 1))\n"
TEST = '''import sys
import time

sys.path.insert(0, "src")
from span import span

CASES = [((1, 3), [1, 2, 3]), ((2, 2), [2]), ((3, 2), []), ((0, 4), [0, 1, 2, 3, 4])]

for (first, last), expected in CASES:
    got = span(first, last)
    print(f"span({first}, {last}) = {got}", flush=True)
    assert got == expected, f"expected {expected}"
    time.sleep(1)
print(f"{len(CASES)} passed")
'''
PROMPT = "Fix the off-by-one in src/span.py and run its test."
SECOND = "Let a subagent check who calls span."
TASK = "Read src/span.py, run tests/test_span.py and list every caller of span."
REPORT = "`width` in src/span.py is the only caller of `span`; the test passes."
CALLERS = "The subagent found one caller, `width` in `src/span.py`. It passes the same numbers on, so nothing else has to change."
THIRD = "Read NOTES.md and say in one sentence what changed."
NOTES = "# Notes\n\n" + "".join(f"- {n}: the span from {n} to {n + 7} has {n + 8 - n} numbers, which the report prints in one line\n" for n in range(400))
CHANGED = "`span` includes its last number now."
SUMMARY = """## Goal

Fix the off-by-one in src/span.py and run its test.

## Instructions

## Progress

### Done

- `span` includes its last number; tests/test_span.py passes
- a subagent found that `width` is the only caller

### In progress

### Blocked

## Decisions

- the last number belongs to the span, as its doc string says

## Discoveries

- `range` leaves its end out

## Next steps

## Relevant files

- src/span.py
"""
OVERLOADED = 2  # Requests of the third turn that are refused.
RUN = "python3 tests/test_span.py"
TITLE = "Off-by-one in span"
ANSWER = """## The end was left out

`span(first, last)` stopped one number early, because Python's `range` leaves its end out. **It includes the last number now**, and the \
test passes:

```python
def span(first, last):
    # The last number belongs to the span.
    return list(range(first, last + 1))
```

| call | before | now |
|---|---|---|
| `span(1, 3)` | 1, 2 | 1, 2, 3 |
| `span(2, 2)` | nothing | 2 |
| 範囲 | 終わりなし | 終わりあり |

What I looked at:

- the only caller, `width`, already expected this
- an empty span (`span(3, 2)`) stays empty
  - so no caller has to change

> A range without its end is the usual convention in Python; the doc string says the opposite here.

See [the documentation of range](https://docs.python.org/3/library/stdtypes.html#range).
"""
PATCH = f"""*** Begin Patch
*** Update File: src/span.py
@@ def span(first, last):
     \"\"\"All numbers from first to last.\"\"\"
-{OLD.rstrip()}
+{NEW.rstrip().replace(chr(10), chr(10) + "+")}
*** End Patch
"""


def pick(names, *wanted):
    """The first of `wanted` that is offered, with any case and separators."""
    plain = {name.lower().replace("_", "").replace("-", ""): name for name in names}
    return next((plain[w] for w in wanted if w in plain), None)


class Tools:
    """The tools of a request as `name -> properties of the input`; `custom` names those that take plain text."""

    def __init__(self, body):
        self.properties, self.custom, self.namespaces = {}, set(), {}
        offered = [(None, tool) for tool in body.get("tools") or []]
        # Codex puts the tools for subagents into a namespace.
        offered += [(tool.get("name"), inner) for _, tool in offered for inner in tool.get("tools") or []]
        for space, tool in offered:
            tool = tool.get("function") or tool
            if space:
                self.namespaces[tool.get("name")] = space
            schema = tool.get("input_schema") or tool.get("parameters") or {}
            if tool.get("name"):
                self.properties[tool["name"]] = schema.get("properties", {})
                if tool.get("type") == "custom" and "format" in tool:
                    self.custom.add(tool["name"])

    def call(self, name, **values):
        """`values` under the names that this tool's parameters have."""
        spellings = {"path": ("path", "filepath", "file"), "old": ("oldstring", "oldtext", "old"), "new": ("newstring", "newtext", "new"),
                     "command": ("command", "cmd"), "description": ("description",)}
        properties, out = self.properties[name], {}
        for value in values:
            key = pick(properties, *spellings[value])
            if key:
                kind = properties[key].get("type")
                out[key] = ["bash", "-lc", values[value]] if kind == "array" else values[value]
        if "edits" in properties and "old" in values and not pick(properties, *spellings["old"]):
            fields = (properties["edits"].get("items") or {}).get("properties", {"oldText": {}, "newText": {}})
            out["edits"] = [{pick(fields, *spellings["old"]): values["old"], pick(fields, *spellings["new"]): values["new"]}]
        return name, out

    def shell(self, command, why):
        name = pick(self.properties, "bash", "shellcommand", "execcommand", "shell", "localshell")
        return self.call(name, command=command, description=why)

    def read(self, path):
        name = pick(self.properties, "read", "readfile")
        return self.call(name, path=path) if name else self.shell(f"cat {path}", f"Read {path}")

    def delegate(self):
        """The call that starts a subagent, `None` for an agent without subagents."""
        name = pick(self.properties, "task", "agent", "spawnagent")
        if not name:
            return None
        kinds = next((self.properties[name][key].get("enum") or [] for key in ("agent", "subagent_type", "agent_type")
                      if key in self.properties[name]), [])
        kind = next((k for k in ("general", "general-purpose", "worker") if k in kinds), "general-purpose" if name == "Agent" else "general")
        values = {"description": "Check the callers of span", "prompt": TASK, "message": TASK, "agent": kind, "subagent_type": kind,
                  "task_name": "callers_of_span"}
        return name, {key: value for key, value in values.items() if key in self.properties[name]}

    def change(self, root):
        name = pick(self.properties, "edit", "applypatch")
        if name in self.custom:
            return name, PATCH
        if name and "patch" in name:
            return name, {"input": PATCH}
        if not name:
            return self.shell(f"apply_patch <<'EOF'\n{PATCH}EOF", "Change src/span.py")
        return self.call(name, path=f"{root}/src/span.py", old=OLD, new=NEW)


def texts(item):
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return [str(part.get("text", "")) for part in parts if isinstance(part, dict)]


def conversation(body):
    """Messages of a request, in any of the three formats."""
    return (body.get("messages") or (body.get("input") if isinstance(body.get("input"), list) else [])) or []


def turn(body):
    """The last prompt of the scene, and the number of tool results after it."""
    items = conversation(body)
    for at in range(len(items) - 1, -1, -1):
        if items[at].get("role") == "user":
            said = "\n".join(texts(items[at]))
            found = next((prompt for prompt in (TASK, THIRD, SECOND, PROMPT) if prompt in said), None)
            if found:
                return found, results(items[at + 1:])
    return PROMPT, results(items)


def asks_for_summary(body):
    said = [text for item in conversation(body)[-1:] if item.get("role") == "user" for text in texts(item)]
    if not body.get("tools"):
        said += texts({"content": body.get("system") or ""})
        said += [text for item in conversation(body)[:1] if item.get("role") in ("system", "developer") for text in texts(item)]
    asked = r"(?i)(create|write|provide|produce|need|give)[^.]{0,60}(summary|summari[sz]e|for continuing)|context checkpoint"
    return re.search(asked, "\n".join(said)) is not None


def second(tools, done, started):
    call = tools.delegate()
    if done == 0 and call:
        return "I'll give this to a subagent.", [call]
    if done == 1 and call and call[0] == "spawn_agent" and started:
        return "", [("wait_agent", {"targets": started[-1:], "timeout_ms": 60000})]
    return CALLERS, []


def delegated(tools, done, root):
    if done == 0:
        return "", [tools.read(f"{root}/src/span.py")]
    if done == 1:
        return "", [tools.shell(RUN, "Run the test of span")]
    return REPORT, []


def step(body, root):
    """`(text, calls)` that come next."""
    tools = Tools(body)
    prompt, done = turn(body)
    last = conversation(body)[-1:]
    if last and last[0].get("role") == "user" and prompt not in "\n".join(texts(last[0])) and asks_for_summary(body):
        return SUMMARY, []
    if not tools.properties:
        return (SUMMARY if asks_for_summary(body) else TITLE), []
    if prompt == SECOND:
        return second(tools, done, re.findall(r'agent_id[^0-9a-z]+([0-9a-f-]{36})', json.dumps(conversation(body))))
    if prompt == TASK:
        return delegated(tools, done, root)
    if prompt == THIRD:
        return ("", [tools.read(f"{root}/NOTES.md")]) if done == 0 else (CHANGED, [])
    if done < 2:
        return "I'll look at the code and its test first.", [tools.read(f"{root}/src/span.py"), tools.read(f"{root}/tests/test_span.py")]
    if done == 2:
        return "", [tools.shell(RUN, "Run the test of span")]
    if done == 3:
        return "The end is left out. I'll include it.", [tools.change(root)]
    if done == 4:
        return "", [tools.shell(RUN, "Run the test of span")]
    return ANSWER, []


def pieces(text, size=7):
    return [text[i:i + size] for i in range(0, len(text), size)]


def anthropic(text, calls):
    usage = {"input_tokens": 6900, "output_tokens": 12, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    yield "message_start", {"message": {"id": f"msg_{time.monotonic_ns()}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
                                        "stop_reason": None, "stop_sequence": None, "usage": usage}}
    index = 0
    if text:
        yield "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
        for piece in pieces(text):
            yield "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": piece}}
        yield "content_block_stop", {"index": 0}
        index = 1
    for name, value in calls:
        yield "content_block_start", {"index": index, "content_block": {"type": "tool_use", "id": f"toolu_{time.monotonic_ns()}",
                                                                        "name": name, "input": {}}}
        yield "content_block_delta", {"index": index, "delta": {"type": "input_json_delta", "partial_json": json.dumps(value)}}
        yield "content_block_stop", {"index": index}
        index += 1
    yield "message_delta", {"delta": {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None},
                            "usage": {"output_tokens": 240}}
    yield "message_stop", {}


def chat(text, calls):
    def chunk(delta, finish=None, **more):
        return None, {"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": "m",
                      "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(text):
        yield chunk({"content": piece})
    for index, (name, value) in enumerate(calls):
        yield chunk({"tool_calls": [{"index": index, "id": f"call_{time.monotonic_ns()}", "type": "function",
                                     "function": {"name": name, "arguments": json.dumps(value)}}]})
    usage = {"prompt_tokens": 6900, "completion_tokens": 240, "total_tokens": 7140}
    yield chunk({}, "tool_calls" if calls else "stop", usage=usage)


def responses(text, calls, spaces):
    number = time.monotonic_ns()
    output = []
    yield "response.created", {"response": {"id": f"resp_{number}", "object": "response", "status": "in_progress", "output": []}}
    if text:
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "in_progress", "content": []}
        yield "response.output_item.added", {"output_index": 0, "item": item}
        for piece in pieces(text):
            yield "response.output_text.delta", {"item_id": item["id"], "output_index": 0, "content_index": 0, "delta": piece}
        item = {**item, "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}
        output.append(item)
        yield "response.output_item.done", {"output_index": 0, "item": item}
    for name, value in calls:
        at = len(output)
        ids = {"id": f"fc_{number}_{at}", "call_id": f"call_{number}_{at}", "name": name, "status": "completed"}
        if isinstance(value, str):
            item = {"type": "custom_tool_call", **ids, "input": value}
        else:
            space = {"namespace": spaces[name]} if name in spaces else {}
            item = {"type": "function_call", **ids, **space, "arguments": json.dumps(value)}
        output.append(item)
        yield "response.output_item.added", {"output_index": at, "item": item}
        yield "response.output_item.done", {"output_index": at, "item": item}
    usage = {"input_tokens": 6900, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 240,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 7140}
    yield "response.completed", {"response": {"id": f"resp_{number}", "object": "response", "status": "completed", "output": output,
                                              "usage": usage}}


def results(items):
    """Tool results of a conversation, in any of the three formats."""
    count = 0
    for item in items:
        count += item.get("role") == "tool" or str(item.get("type", "")).endswith("_call_output")
        if isinstance(item.get("content"), list):
            count += sum(part.get("type") == "tool_result" for part in item["content"])
    return count


class Server:
    """Listens on a free port of this machine. `pause` are the seconds between two pieces of text."""

    def __init__(self, root, pause=0.004, log=None):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.plain({})

            def do_GET(self):
                self.plain({"object": "list", "data": [], "models": []})

            def plain(self, value):
                data = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def do_POST(self):
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                try:
                    body = json.loads(raw)
                except ValueError:
                    return self.plain({})
                if log:
                    with open(log, "a") as file:
                        file.write(json.dumps({"path": self.path, "body": body}) + "\n")
                path = self.path.split("?")[0]
                kind = {"messages": anthropic, "completions": chat, "responses": responses}.get(path.rsplit("/", 1)[-1])
                if not kind:
                    return self.plain({"input_tokens": 6900})
                outer.asked += 1
                if outer.refuses(body):
                    return self.overloaded(kind)
                text, calls = step(body, root)
                if not body.get("stream"):
                    return self.whole(kind, text)
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                try:
                    spaces = (Tools(body).namespaces,) if kind is responses else ()
                    for name, value in kind(text, calls, *spaces):
                        if name:
                            value = {"type": name, **value}
                            self.wfile.write(f"event: {name}\n".encode())
                        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
                        self.wfile.flush()
                        time.sleep(outer.pause)
                    if kind is chat:
                        self.wfile.write(b"data: [DONE]\n\n")
                except OSError:
                    pass
                self.close_connection = True

            def overloaded(self, kind):
                data = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}).encode()
                self.send_response(529 if kind is anthropic else 503)
                self.send_header("content-type", "application/json")
                self.send_header("retry-after", "4")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def whole(self, kind, text):
                if kind is anthropic:
                    message = next(anthropic(text, []))[1]["message"]
                    return self.plain({**message, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"})
                self.plain({"id": "c1", "object": "chat.completion", "model": "m", "choices": [
                    {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})

        self.pause, self.asked, self.left = pause, 0, OVERLOADED
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def refuses(self, body):
        """True for the first requests of the third turn."""
        prompt, done = turn(body)
        if prompt != THIRD or done or not self.left or not body.get("tools"):
            return False
        self.left -= 1
        return True
