"""Five wire formats: a request as one common form, and an answer as the format streams it.

The common form of a request: {"system": [text], "tools": [{"name", "description", "schema"}], "messages": [{"role", "parts"}]}; a part is
("text", text), ("call", name, arguments), ("result", name, text) or ("image", width, height). An answer is a text and a list of calls.
"""
import base64, json, struct, zlib


def png_size(data):
    head = base64.b64decode(data[:64] + "=" * (-len(data[:64]) % 4))
    return struct.unpack(">II", head[16:24])


def picture(data):
    return ("image", *png_size(data))


def texts(value):
    """The texts of a field that is a text or a list of blocks."""
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    return [block["text"] for block in value if isinstance(block, dict) and "text" in block]


# ---------------------------------------------------------------- requests

def read_messages(body):
    def part(block):
        kind = block["type"]
        if kind == "text":
            return [("text", block["text"])]
        if kind == "tool_use":
            return [("call", block["name"], block["input"])]
        if kind == "image":
            return [picture(block["source"]["data"])]
        if kind == "tool_result":
            content = block.get("content") or ""
            inner = content if isinstance(content, list) else [{"type": "text", "text": content}]
            found = [p for b in inner for p in part(b)]
            return [("result", "", "".join(p[1] for p in found if p[0] == "text"))] + [p for p in found if p[0] == "image"]
        raise ValueError(f"unknown block {kind}")
    messages = []
    for message in body["messages"]:
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        messages.append({"role": message["role"], "parts": [p for b in blocks for p in part(b)]})
    tools = [{"name": t["name"], "description": t.get("description", ""), "schema": t["input_schema"]} for t in body.get("tools", []) if "input_schema" in t]
    return {"system": texts(body.get("system")), "tools": tools, "messages": messages}


def read_chat(body):
    system, messages = [], []

    def blocks(content):
        if isinstance(content, list):
            return [picture(b["image_url"]["url"].partition(",")[2]) if b["type"] == "image_url" else ("text", b["text"]) for b in content]
        return [("text", content)] if content else []
    for message in body["messages"]:
        if message["role"] in ("system", "developer"):
            system += texts(message["content"])
        elif message["role"] == "tool":
            messages.append({"role": "tool", "parts": [("result", "", "".join(texts(message["content"])))]})
        else:
            calls = [("call", c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message.get("tool_calls") or []]
            messages.append({"role": message["role"], "parts": blocks(message.get("content")) + calls})
    tools = [{"name": t["function"]["name"], "description": t["function"].get("description", ""), "schema": t["function"]["parameters"]} for t in body.get("tools", [])]
    return {"system": system, "tools": tools, "messages": messages}


def read_responses(body):
    system, messages = texts(body.get("instructions")), []
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "function_call":
            messages.append({"role": "assistant", "parts": [("call", item["name"], json.loads(item["arguments"]))]})
        elif kind == "function_call_output":
            output = item["output"]
            parts = [("result", "", "".join(texts(output)))]
            if isinstance(output, list):
                parts += [picture(b["image_url"].partition(",")[2]) for b in output if b["type"] == "input_image"]
            messages.append({"role": "tool", "parts": parts})
        elif item["role"] in ("system", "developer"):
            system += texts(item["content"])
        else:
            content = item["content"]
            blocks = content if isinstance(content, list) else [{"type": "input_text", "text": content}]
            parts = [picture(b["image_url"].partition(",")[2]) if b["type"] == "input_image" else ("text", b["text"]) for b in blocks]
            messages.append({"role": item["role"], "parts": parts})
    tools = [{"name": t["name"], "description": t.get("description", ""), "schema": t["parameters"]} for t in body.get("tools", []) if t["type"] == "function"]
    return {"system": system, "tools": tools, "messages": messages}


def read_gemini(body):
    def part(p):
        if "functionCall" in p:
            return [("call", p["functionCall"]["name"], p["functionCall"].get("args", {}))]
        if "functionResponse" in p:
            answer = p["functionResponse"]
            inner = [q for extra in answer.get("parts", []) for q in part(extra)]
            return [("result", answer["name"], answer["response"])] + inner
        if "inlineData" in p:
            return [picture(p["inlineData"]["data"])]
        return [("text", p["text"])]
    system = [p["text"] for p in body.get("systemInstruction", {}).get("parts", [])]
    messages = [{"role": {"model": "assistant"}.get(c.get("role"), "user"), "parts": [q for p in c["parts"] for q in part(p)]} for c in body["contents"]]
    declared = [d for t in body.get("tools", []) for d in t.get("functionDeclarations", [])]
    tools = [{"name": d["name"], "description": d.get("description", ""), "schema": d.get("parameters") or d.get("parametersJsonSchema") or {}} for d in declared]
    return {"system": system, "tools": tools, "messages": messages}


def read_converse(body):
    def part(block):
        if "toolUse" in block:
            return [("call", block["toolUse"]["name"], block["toolUse"]["input"])]
        if "toolResult" in block:
            inner = [p for b in block["toolResult"]["content"] for p in part(b)]
            return [("result", "", "".join(p[1] for p in inner if p[0] == "text"))] + [p for p in inner if p[0] == "image"]
        if "image" in block:
            return [picture(block["image"]["source"]["bytes"])]
        return [("text", block["text"])] if "text" in block else []
    messages = [{"role": m["role"], "parts": [p for b in m["content"] for p in part(b)]} for m in body["messages"]]
    specs = [t["toolSpec"] for t in body.get("toolConfig", {}).get("tools", []) if "toolSpec" in t]
    tools = [{"name": s["name"], "description": s.get("description", ""), "schema": s["inputSchema"]["json"]} for s in specs]
    return {"system": texts(body.get("system")), "tools": tools, "messages": messages}


# ---------------------------------------------------------------- answers

def sse(events):
    return b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events)


def say_messages(text, calls, used):
    def event(kind, **more):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()
    fresh, cached, output, ids = used
    usage = {"input_tokens": fresh, "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0, "output_tokens": 1}
    out = event("message_start", message={"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None, "usage": usage})
    at = 0
    if text:
        out += event("content_block_start", index=at, content_block={"type": "text", "text": ""})
        out += event("content_block_delta", index=at, delta={"type": "text_delta", "text": text}) + event("content_block_stop", index=at)
        at += 1
    for (name, arguments), call in zip(calls, ids):
        out += event("content_block_start", index=at, content_block={"type": "tool_use", "id": call, "name": name, "input": {}})
        out += event("content_block_delta", index=at, delta={"type": "input_json_delta", "partial_json": json.dumps(arguments)}) + event("content_block_stop", index=at)
        at += 1
    out += event("message_delta", delta={"stop_reason": "tool_use" if calls else "end_turn"}, usage={"output_tokens": output})
    return out + event("message_stop")


def say_chat(text, calls, used):
    fresh, cached, output, ids = used

    def chunk(delta, finish=None):
        return {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    tools = [{"index": n, "id": ids[n], "type": "function", "function": {"name": name, "arguments": json.dumps(a)}} for n, (name, a) in enumerate(calls)]
    usage = {"prompt_tokens": fresh + cached, "completion_tokens": output, "total_tokens": fresh + cached + output, "prompt_tokens_details": {"cached_tokens": cached}}
    events = [chunk({"role": "assistant", "content": text})] + ([chunk({"tool_calls": tools})] if tools else [])
    events += [chunk({}, "tool_calls" if calls else "stop"), {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [], "usage": usage}]
    return sse(events) + b"data: [DONE]\n\n"


def say_responses(text, calls, used):
    fresh, cached, output, ids = used
    items = [{"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}] if text else []
    items += [{"type": "function_call", "id": f"fc_{i}", "call_id": i, "name": name, "arguments": json.dumps(a), "status": "completed"} for (name, a), i in zip(calls, ids)]
    events = [{"type": "response.created", "response": {"id": "resp", "status": "in_progress", "output": []}}]
    for n, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": n, "item": {**item, "content": []} if item["type"] == "message" else {**item, "arguments": ""}})
        if item["type"] == "message":
            events.append({"type": "response.output_text.delta", "output_index": n, "content_index": 0, "item_id": "msg", "delta": text})
        else:
            events.append({"type": "response.function_call_arguments.delta", "output_index": n, "item_id": item["id"], "delta": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": n, "item": item})
    usage = {"input_tokens": fresh + cached, "input_tokens_details": {"cached_tokens": cached}, "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": fresh + cached + output}
    events.append({"type": "response.completed", "response": {"id": "resp", "status": "completed", "output": items, "usage": usage}})
    return b"".join(f"event: {e['type']}\ndata: {json.dumps({**e, 'sequence_number': n})}\n\n".encode() for n, e in enumerate(events))


def say_gemini(text, calls, used):
    fresh, cached, output, _ = used
    parts = ([{"text": text}] if text else []) + [{"functionCall": {"name": name, "args": a}} for name, a in calls]
    usage = {"promptTokenCount": fresh + cached, "cachedContentTokenCount": cached, "candidatesTokenCount": output, "totalTokenCount": fresh + cached + output}
    return sse([{"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}])


def frame(name, payload):
    def header(key, value):
        return bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    head = header(":event-type", name) + header(":content-type", "application/json") + header(":message-type", "event")
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(head) + len(body), len(head))
    data = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + body
    return data + struct.pack(">I", zlib.crc32(data))


def say_converse(text, calls, used):
    fresh, cached, output, ids = used
    out, at = frame("messageStart", {"role": "assistant"}), 0
    if text:
        out += frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}) + frame("contentBlockStop", {"contentBlockIndex": 0})
        at = 1
    for (name, arguments), call in zip(calls, ids):
        out += frame("contentBlockStart", {"contentBlockIndex": at, "start": {"toolUse": {"toolUseId": call, "name": name}}})
        out += frame("contentBlockDelta", {"contentBlockIndex": at, "delta": {"toolUse": {"input": json.dumps(arguments)}}})
        out += frame("contentBlockStop", {"contentBlockIndex": at})
        at += 1
    usage = {"inputTokens": fresh, "outputTokens": output, "totalTokens": fresh + cached + output, "cacheReadInputTokens": cached, "cacheWriteInputTokens": 0}
    return out + frame("messageStop", {"stopReason": "tool_use" if calls else "end_turn"}) + frame("metadata", {"usage": usage, "metrics": {"latencyMs": 1}})


WIRES = {
    "messages": (read_messages, say_messages, "text/event-stream"),
    "chat": (read_chat, say_chat, "text/event-stream"),
    "responses": (read_responses, say_responses, "text/event-stream"),
    "gemini": (read_gemini, say_gemini, "text/event-stream"),
    "converse": (read_converse, say_converse, "application/vnd.amazon.eventstream"),
}
