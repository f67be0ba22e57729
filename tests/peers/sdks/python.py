"""Drives becket through the official Python SDK: claude_agent_sdk, unchanged, with `cli_path`.

usage: python.py BECKET [SCENARIO...]; prints `ok NAME` for each scenario, and a traceback with exit code 1 for a
failure. The model is scripted, except where ANTHROPIC_BASE_URL names a server.
"""

import asyncio
import base64
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import uuid

import claude_agent_sdk as sdk
from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    PermissionUpdate,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolUseBlock,
    query,
)
from claude_agent_sdk.types import PermissionRuleValue

BECKET = sys.argv[1]
PNG = base64.b64encode(
    base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
).decode()
SCENARIOS = []


def scenario(function):
    SCENARIOS.append(function)
    return function


def call(name, given, text="", id=None):
    out = {"name": name, "input": given}
    if id:
        out["id"] = id
    return {"text": text, "calls": [out]}


class Place:
    """A folder to work in, a home, and a model that answers from a script."""

    def __init__(self):
        self.dir = tempfile.TemporaryDirectory()
        self.cwd = os.path.join(self.dir.name, "work")
        self.home = os.path.join(self.dir.name, "home")
        os.makedirs(self.cwd)
        os.makedirs(self.home)
        self.number = 0
        self.stderr = []

    def model(self, *steps, **more):
        self.number += 1
        path = os.path.join(self.dir.name, f"model{self.number}.json")
        steps = [{"text": step} if isinstance(step, str) else step for step in steps]
        with open(path, "w") as file:
            json.dump({"name": "scripted", "window": 200000, "steps": steps, **more}, file)
        return f"script:{path}"

    def options(self, model, **more):
        env = {"HOME": self.home, **more.pop("env", {})}
        return ClaudeAgentOptions(
            cli_path=BECKET, cwd=self.cwd, model=model, env=env, stderr=self.stderr.append, **more
        )

    def write(self, name, text):
        path = os.path.join(self.cwd, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path


async def collect(prompt, options):
    return [message async for message in query(prompt=prompt, options=options)]


def result(messages):
    found = [message for message in messages if isinstance(message, ResultMessage)]
    assert len(found) == 1, messages
    return found[0]


def inits(messages):
    return [m for m in messages if isinstance(m, SystemMessage) and m.subtype == "init"]


def calls(messages):
    blocks = [block for m in messages if isinstance(m, AssistantMessage) for block in m.content]
    return [block for block in blocks if isinstance(block, ToolUseBlock)]


async def one(*messages):
    for message in messages:
        yield {"type": "user", "message": {"role": "user", "content": message}, "parent_tool_use_id": None}


@scenario
async def a_query_gives_its_answer(place):
    messages = await collect("say hello", place.options(place.model("hello there")))
    end = result(messages)
    assert (end.subtype, end.is_error, end.result, end.num_turns) == ("success", False, "hello there", 1), end
    init = inits(messages)
    assert len(init) == 1, messages
    data = init[0].data
    for tool in ["Read", "Write", "Edit", "Bash", "Grep", "Glob", "Task", "TodoWrite"]:
        assert tool in data["tools"], data["tools"]
    assert tuple(int(n) for n in data["claude_code_version"].split(".")) >= (2, 0, 0)
    assert "compact" in data["slash_commands"] and "Explore" in data["agents"], data
    assert data["session_id"] == end.session_id
    texts = [b.text for m in messages if isinstance(m, AssistantMessage) for b in m.content if isinstance(b, TextBlock)]
    assert texts == ["hello there"], texts


@scenario
async def a_query_over_the_wire_of_anthropic(place):
    base = os.environ.get("ANTHROPIC_BASE_URL")
    if not base:
        return
    env = {"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "sk-test"}
    messages = await collect("say hello", place.options("claude-sonnet-4-5", env=env))
    end = result(messages)
    assert end.result == "Hello over the wire." and end.total_cost_usd is not None, end
    assert inits(messages)[0].data["model"] == "claude-sonnet-4-5"


@scenario
async def tools_have_the_known_names_inputs_and_results(place):
    path = place.write("a.txt", "one\ntwo\n")
    model = place.model(
        call("read", {"path": "a.txt"}),
        call("edit", {"path": "a.txt", "old": "two", "new": "three"}),
        call("bash", {"command": "echo hi"}),
        "done",
    )
    options = place.options(model, permission_mode="acceptEdits", allowed_tools=["Bash(echo:*)"])
    messages = await collect("go", options)
    assert result(messages).result == "done"
    read, edit, bash = calls(messages)
    assert (read.name, read.input) == ("Read", {"file_path": os.path.realpath(path)}), read
    assert edit.name == "Edit" and edit.input["old_string"] == "two" and edit.input["new_string"] == "three", edit
    assert (bash.name, bash.input["command"]) == ("Bash", "echo hi")
    results = [m.tool_use_result for m in messages if getattr(m, "tool_use_result", None)]
    assert results[0]["file"]["content"] == "one\ntwo" and results[0]["type"] == "text", results[0]
    assert results[1]["structuredPatch"][0]["lines"], results[1]
    assert results[2]["stdout"].strip().startswith("hi"), results[2]
    assert open(path).read() == "one\nthree\n"


@scenario
async def a_client_keeps_the_session_and_begins_each_turn_with_init(place):
    async with ClaudeSDKClient(place.options(place.model("first", "second"))) as client:
        sessions = []
        for prompt, answer in [("one", "first"), ("two", "second")]:
            await client.query(prompt)
            messages = [m async for m in client.receive_response()]
            assert result(messages).result == answer, messages
            assert len(inits(messages)) == 1, messages
            sessions.append(result(messages).session_id)
        assert len(set(sessions)) == 1
        info = await client.get_server_info()
        assert any(command["name"] == "compact" for command in info["commands"]), info


@scenario
async def a_program_allows_with_another_input(place):
    asked = []

    async def may(tool, given, context):
        asked.append((tool, given, context.tool_use_id, context.suggestions))
        return PermissionResultAllow(updated_input={**given, "content": "changed by the host\n"})

    model = place.model(call("write", {"path": "new.txt", "content": "from the model\n"}, id="w1"), "done")
    messages = await collect(one("go"), place.options(model, can_use_tool=may))
    assert result(messages).result == "done"
    tool, given, id, suggestions = asked[0]
    assert (tool, given["content"], id) == ("Write", "from the model\n", "w1"), asked
    assert given["file_path"] == os.path.join(os.path.realpath(place.cwd), "new.txt"), given
    assert suggestions, "a suggestion for next time"
    assert open(os.path.join(place.cwd, "new.txt")).read() == "changed by the host\n"


@scenario
async def a_program_denies(place):
    async def may(tool, given, context):
        return PermissionResultDeny(message="not on a Tuesday")

    model = place.model(
        call("write", {"path": "new.txt", "content": "x"}),
        {"expect": {"contains": ["not on a Tuesday"]}, "text": "understood"},
    )
    messages = await collect(one("go"), place.options(model, can_use_tool=may))
    end = result(messages)
    assert end.result == "understood" and end.permission_denials, end
    assert end.permission_denials[0]["tool_name"] == "Write"
    assert not os.path.exists(os.path.join(place.cwd, "new.txt"))


QUESTIONS = [
    {
        "question": "Which database?",
        "header": "Database",
        "options": [{"label": "sqlite", "description": "one file"}, {"label": "postgres", "description": "a server"}],
        "multiSelect": False,
    }
]


@scenario
async def a_program_answers_questions_of_the_model(place):
    asked = []

    async def may(tool, given, context):
        asked.append((tool, given))
        return PermissionResultAllow(updated_input={**given, "answers": {"Which database?": "sqlite"}})

    model = place.model(
        {"expect": {"tools": ["ask_user"]}, **call("AskUserQuestion", {"questions": QUESTIONS, "answers": {"Which database?": "mine"}})},
        {"expect": {"contains": ['User has answered your questions: "Which database?"="sqlite"']}, "text": "sqlite it is"},
    )
    # No mode and no rule spares the question.
    options = place.options(model, can_use_tool=may, permission_mode="bypassPermissions")
    messages = await collect(one("go"), options)
    assert result(messages).result == "sqlite it is", messages
    assert asked == [("AskUserQuestion", {"questions": QUESTIONS})], asked
    assert "AskUserQuestion" in inits(messages)[0].data["tools"], inits(messages)[0].data["tools"]
    results = [m.tool_use_result for m in messages if getattr(m, "tool_use_result", None)]
    assert results[0]["answers"] == {"Which database?": "sqlite"}, results


@scenario
async def a_question_without_an_answer_says_so(place):
    async def may(tool, given, context):
        return PermissionResultDeny(message="ask me tomorrow")

    model = place.model(
        call("ask_user", {"questions": QUESTIONS}),
        {"expect": {"contains": ["The user did not answer", "ask me tomorrow"]}, "text": "I assumed sqlite"},
    )
    assert result(await collect(one("go"), place.options(model, can_use_tool=may))).result == "I assumed sqlite"
    # Nobody can be asked: the tool is not offered, and a call of it fails.
    model = place.model(
        call("ask_user", {"questions": QUESTIONS}),
        {"expect": {"contains": ["There is no tool named"]}, "text": "alone"},
    )
    messages = await collect("go", place.options(model))
    assert result(messages).result == "alone" and "AskUserQuestion" not in inits(messages)[0].data["tools"]


@scenario
async def a_plan_is_agreed_to_and_carried_out(place):
    asked = []

    async def may(tool, given, context):
        asked.append((tool, given))
        if tool == "ExitPlanMode" and len(asked) == 1:
            return PermissionResultDeny(message="with tests")
        return PermissionResultAllow()

    model = place.model(
        {"expect": {"contains": ["Permission mode plan", "exit_plan"]}, **call("write", {"path": "a.txt", "content": "early"})},
        {"expect": {"contains": ["permission mode plan only reads"]}, **call("ExitPlanMode", {"plan": "# Plan"})},
        {"expect": {"contains": ["did not agree to the plan", "with tests"]}, **call("exit_plan", {"plan": "# Better"})},
        {"expect": {"contains": ["User has approved your plan"]}, **call("write", {"path": "a.txt", "content": "now"})},
        call("exit_plan", {"plan": "again"}),
        {"expect": {"contains": ["not in permission mode plan"]}, "text": "done"},
    )
    options = place.options(model, can_use_tool=may, permission_mode="plan")
    messages = await collect(one("go"), options)
    assert result(messages).result == "done", messages
    assert [tool for tool, _ in asked] == ["ExitPlanMode", "ExitPlanMode", "Write"], asked
    assert asked[1][1] == {"plan": "# Better"}, asked
    modes = [m.data["permissionMode"] for m in messages if isinstance(m, SystemMessage) and m.subtype == "status"]
    assert [mode for mode in modes if mode] == ["default"], modes
    assert open(os.path.join(place.cwd, "a.txt")).read() == "now"


@scenario
async def a_cell_of_a_notebook_is_changed(place):
    text = '{"cells": [{"cell_type": "code", "source": ["a"], "outputs": [], "execution_count": 1, "metadata": {}}],  "nbformat": 4}\n'
    path = place.write("n.ipynb", text)
    model = place.model(
        {"expect": {"tools": ["notebook_edit"]}, **call("read", {"path": "n.ipynb"})},
        call("NotebookEdit", {"notebook_path": path, "cell_id": "1", "new_source": "b\nc"}),
        {"expect": {"contains": ["Replaced cell 1 of n.ipynb"]}, "text": "done"},
    )
    messages = await collect("go", place.options(model, permission_mode="acceptEdits"))
    assert result(messages).result == "done", messages
    assert [block.input for block in calls(messages)][1]["notebook_path"] == path
    want = text.replace('["a"]', '["b\\n","c"]').replace('"execution_count": 1', '"execution_count": null')
    have = open(path).read()
    assert have == want or have == want.replace('","', '", "'), have


@scenario
async def a_denial_can_end_the_turn(place):
    async def may(tool, given, context):
        return PermissionResultDeny(message="stop", interrupt=True)

    model = place.model(call("write", {"path": "new.txt", "content": "x"}), "never")
    async with ClaudeSDKClient(place.options(model, can_use_tool=may)) as client:
        await client.query("go")
        end = result([m async for m in client.receive_response()])
        assert end.subtype == "error_during_execution" and end.is_error, end


@scenario
async def rules_of_an_answer_hold_for_the_session(place):
    asked = []

    async def may(tool, given, context):
        asked.append(tool)
        rule = PermissionUpdate(
            type="addRules", rules=[PermissionRuleValue(tool_name="Write")], behavior="allow", destination="session"
        )
        return PermissionResultAllow(updated_permissions=[rule])

    model = place.model(
        call("write", {"path": "a.txt", "content": "a"}), call("write", {"path": "b.txt", "content": "b"}), "done"
    )
    messages = await collect(one("go"), place.options(model, can_use_tool=may))
    assert result(messages).result == "done" and asked == ["Write"], asked
    assert os.path.exists(os.path.join(place.cwd, "b.txt"))


@scenario
async def an_interrupt_ends_the_turn_and_the_session_goes_on(place):
    slow = call("bash", {"command": "sleep 60"})
    model = place.model(slow, "after the interrupt")
    options = place.options(model, permission_mode="bypassPermissions")
    async with ClaudeSDKClient(options) as client:
        await client.query("go")
        messages = []
        async for message in client.receive_messages():
            messages.append(message)
            if isinstance(message, AssistantMessage):
                await client.interrupt()
            if isinstance(message, ResultMessage):
                break
        assert result(messages).subtype == "error_during_execution", messages
        await client.query("again")
        assert result([m async for m in client.receive_response()]).result == "after the interrupt"


@scenario
async def each_query_has_a_response_of_its_own(place):
    model = place.model(
        call("read", {"path": "a.txt"}), "one", call("bash", {"command": "touch b.txt"}), "two", "three", "four"
    )
    place.write("a.txt", "A")
    asked, events = [], []

    async def may(tool, given, context):
        asked.append(tool)
        return PermissionResultAllow()

    async def hook(given, call_id, context):
        events.append(given["hook_event_name"])
        return {}

    hooks = {"UserPromptSubmit": [HookMatcher(hooks=[hook])], "Stop": [HookMatcher(hooks=[hook])]}
    async with ClaudeSDKClient(place.options(model, can_use_tool=may, hooks=hooks)) as client:
        # The first message is sent before any turn, the others at once after it, while the turn begins or works.
        for text in ["first", "second", "third"]:
            await client.query(text)
        for wanted in ["one", "two", "three"]:
            messages = [m async for m in client.receive_response()]
            assert result(messages).result == wanted and len(inits(messages)) == 1, (wanted, messages)
        await client.query("fourth")
        assert result([m async for m in client.receive_response()]).result == "four"
    assert asked == ["Bash"] and os.path.exists(os.path.join(place.cwd, "b.txt")), asked
    assert events == ["UserPromptSubmit", "Stop"] * 4, events


@scenario
async def messages_of_one_prompt_have_their_results_and_hooks(place):
    # The SDK closes the input of becket when it is idle after a result. It must not be, while messages wait.
    events = []

    async def hook(given, call_id, context):
        events.append(given["prompt"])
        return {}

    options = place.options(
        place.model("one", "two", "three"), hooks={"UserPromptSubmit": [HookMatcher(hooks=[hook])]}
    )
    messages = await collect(one("a", "b", "c"), options)
    ends = [m.result for m in messages if isinstance(m, ResultMessage)]
    assert ends == ["one", "two", "three"] and events == ["a", "b", "c"], (ends, events)


@scenario
async def a_message_can_join_the_running_turn(place):
    gate = os.path.join(place.cwd, "gate")
    os.mkfifo(gate)
    model = place.model(call("bash", {"command": "read -r line < gate"}), "both")
    options = place.options(model, permission_mode="bypassPermissions")

    async def more():
        yield {
            "type": "user",
            "message": {"role": "user", "content": "and this"},
            "parent_tool_use_id": None,
            "priority": "next",
        }

    async with ClaudeSDKClient(options) as client:
        await client.query("first")
        async for message in client.receive_messages():
            if isinstance(message, AssistantMessage):
                break
        await client.query(more())
        await client.get_context_usage()
        await asyncio.to_thread(place.write, "gate", "on\n")
        messages = [m async for m in client.receive_response()]
        assert result(messages).result == "both", messages


@scenario
async def an_interrupt_reaches_a_tool_of_the_programs_process(place):
    begun, given_up, late = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @sdk.tool("wait", "Waits.", {})
    async def wait(args):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            given_up.set()
            raise
        late.set()
        return {"content": [{"type": "text", "text": "never"}]}

    @sdk.tool("now", "Answers.", {})
    async def now(args):
        return {"content": [{"type": "text", "text": "in time"}]}

    own = sdk.create_sdk_mcp_server(name="own", version="1.0.0", tools=[wait, now])
    model = place.model(
        call("mcp__own__wait", {}),
        call("mcp__own__now", {}),
        {"expect": {"contains": ["in time"]}, "text": "went on"},
    )
    options = place.options(model, mcp_servers={"own": own}, permission_mode="bypassPermissions")
    async with ClaudeSDKClient(options) as client:
        await client.query("go")
        await begun.wait()
        await client.interrupt()
        assert result([m async for m in client.receive_response()]).subtype == "error_during_execution"
        await given_up.wait()
        await client.query("again")
        assert result([m async for m in client.receive_response()]).result == "went on"
    assert not late.is_set()


@scenario
async def costs_are_those_of_the_list_prices(place):
    base = os.environ.get("ANTHROPIC_BASE_URL")
    if not base:
        return
    env = {"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "sk-test"}
    end = result(await collect("say hello", place.options("claude-sonnet-4-5", env=env)))
    # 100 tokens of input at $3 and 10 of output at $15 for a million.
    assert abs(end.total_cost_usd - 0.00045) < 1e-9, end
    ((name, usage),) = end.model_usage.items()
    assert "claude-sonnet-4-5" in name and abs(usage["costUSD"] - 0.00045) < 1e-9, end.model_usage
    assert (usage["inputTokens"], usage["outputTokens"]) == (100, 10), usage


@scenario
async def sessions_are_resumed_continued_and_forked(place):
    first = result(await collect("one", place.options(place.model("first"))))
    resumed = result(await collect("two", place.options(place.model("second"), resume=first.session_id)))
    assert (resumed.session_id, resumed.result) == (first.session_id, "second"), resumed
    options = place.options(place.model("third"), continue_conversation=True)
    assert result(await collect("three", options)).session_id == first.session_id
    options = place.options(place.model("fourth"), resume=first.session_id, fork_session=True)
    forked = result(await collect("four", options))
    assert forked.session_id != first.session_id and forked.result == "fourth", forked
    named = "01890a5d-ac96-774b-bcce-b302099a8057"
    assert result(await collect("five", place.options(place.model("fifth"), session_id=named))).session_id == named


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@scenario
async def an_answer_fits_its_schema(place):
    model = place.model(
        call("StructuredOutput", {"n": "many"}),
        {"expect": {"contains": ["does not fit"], "tools": ["StructuredOutput"]}, **call("StructuredOutput", {"n": 3})},
        "Three.",
    )
    options = place.options(model, output_format={"type": "json_schema", "schema": SCHEMA})
    end = result(await collect("count", options))
    assert (end.subtype, end.structured_output) == ("success", {"n": 3}), end


@scenario
async def an_answer_that_never_fits_is_an_error(place):
    options = place.options(
        place.model({"text": "many", "repeat": 9}), output_format={"type": "json_schema", "schema": SCHEMA}
    )
    messages = []
    try:
        async for message in query(prompt="count", options=options):
            messages.append(message)
    except Exception as error:
        assert getattr(error, "exit_code", None) == 6, error
    end = result(messages)
    assert end.subtype == "error_max_structured_output_retries" and end.is_error, end


@scenario
async def partial_messages_stream(place):
    options = place.options(place.model("hello there"), include_partial_messages=True)
    messages = await collect("go", options)
    events = [m.event for m in messages if isinstance(m, StreamEvent)]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds
    text = "".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta")
    assert text == "hello there", events


@scenario
async def images_go_in_and_out(place):
    image = os.path.join(place.cwd, "a.png")
    with open(image, "wb") as file:
        file.write(base64.b64decode(PNG))
    content = [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    ]
    model = place.model(call("read", {"path": "a.png"}), "black")
    options = place.options(model, extra_args={"replay-user-messages": None})
    messages = await collect(one(content), options)
    assert result(messages).result == "black", messages
    text = json.dumps([getattr(m, "content", None) for m in messages], default=lambda o: o.__dict__)
    assert '"blob"' not in text and '"media_type": "image/png"' in text, text


@scenario
async def subagents_are_described_and_reported(place):
    agents = {"checker": AgentDefinition(description="checks", prompt="You check.", tools=["Read"])}
    model = place.model(
        {"when": {"anywhere": ["You check."]}, "text": "checked"},
        call("task", {"description": "check it", "prompt": "check", "agent": "checker"}, id="t1"),
        {"expect": {"contains": ["checked"]}, "text": "done"},
    )
    messages = await collect("go", place.options(model, agents=agents))
    assert result(messages).result == "done", messages
    assert "checker" in inits(messages)[0].data["agents"]
    task = calls(messages)[0]
    assert task.name == "Task" and task.input["subagent_type"] == "checker", task
    started = [m for m in messages if isinstance(m, SystemMessage) and m.subtype == "task_started"]
    ended = [m for m in messages if isinstance(m, SystemMessage) and m.subtype == "task_notification"]
    assert started[0].data["task_id"] == ended[0].data["task_id"], (started, ended)
    assert ended[0].data["status"] == "completed" and os.path.exists(ended[0].data["output_file"]), ended[0].data


@scenario
async def system_prompts_come_in_every_form(place):
    for given, wanted in [
        ("Speak in rhymes.", "Speak in rhymes."),
        ({"type": "preset", "preset": "claude_code", "append": "And be brief."}, "And be brief."),
    ]:
        model = place.model({"expect": {"anywhere": [wanted]}, "text": "ok"})
        assert result(await collect("go", place.options(model, system_prompt=given))).result == "ok"
    model = place.model({"expect": {"absent": ["You are becket"]}, "text": "bare"})
    assert result(await collect("go", place.options(model))).result == "bare"


@scenario
async def setting_sources_are_chosen(place):
    place.write(".claude/settings.json", json.dumps({"permissions": {"deny": ["Write"]}}))
    place.write(".becket/config.toml", '[permissions]\ndeny = ["Write"]\n')
    for sources, there in [(["project"], False), ([], True)]:
        messages = await collect("go", place.options(place.model("ok"), setting_sources=sources))
        assert ("Write" in inits(messages)[0].data["tools"]) == there, (sources, inits(messages)[0].data["tools"])


@scenario
async def tools_are_chosen(place):
    messages = await collect("go", place.options(place.model("ok"), tools=["Read", "Bash", "NoSuchTool"]))
    assert sorted(inits(messages)[0].data["tools"]) == ["Bash", "Read"], inits(messages)[0].data["tools"]
    options = place.options(place.model("ok"), disallowed_tools=["Bash", "TodoWrite"])
    tools = inits(await collect("go", options))[0].data["tools"]
    assert "Bash" not in tools and "TodoWrite" not in tools and "Read" in tools, tools


@scenario
async def limits_and_failures_are_errors(place):
    looping = place.model({**call("read", {"path": "a.txt", "offset": 1}), "repeat": 20})
    messages, raised = [], None
    try:
        async for message in query(prompt="go", options=place.options(looping, max_turns=2)):
            messages.append(message)
    except Exception as error:
        raised = error
    end = result(messages)
    assert end.subtype == "error_max_turns" and end.is_error and raised is not None, (end, raised)
    assert getattr(raised, "exit_code", None) == 3, raised
    failing = place.model({"error": {"kind": "invalid_request", "message": "no such thing", "status": 400}})
    messages, raised = [], None
    try:
        async for message in query(prompt="go", options=place.options(failing)):
            messages.append(message)
    except Exception as error:
        raised = error
    assert result(messages).is_error and raised is not None, messages


@scenario
async def unknown_flags_are_warnings(place):
    options = place.options(place.model("ok"), extra_args={"brand-new-flag": None, "another": "value"})
    assert result(await collect("go", options)).result == "ok"
    assert any("brand-new-flag" in line for line in place.stderr), place.stderr


@scenario
async def requests_about_the_session_are_answered(place):
    options = place.options(place.model("one", "two"), permission_mode="default")
    async with ClaudeSDKClient(options) as client:
        await client.query("go")
        assert result([m async for m in client.receive_response()]).result == "one"
        usage = await client.get_context_usage()
        assert usage["totalTokens"] > 0 and usage["categories"], usage
        assert usage["isAutoCompactEnabled"] is True, usage
        assert sdk.ContextUsageResponse.__required_keys__ <= usage.keys(), usage.keys()
        assert "mcpServers" in await client.get_mcp_status()
        await client.set_permission_mode("acceptEdits")
        for wrong in [client.stop_task("nope"), client.rewind_files("nope")]:
            try:
                await wrong
                raise AssertionError("an error was expected")
            except AssertionError:
                raise
            except Exception:
                pass
        await client.query("again")
        messages = [m async for m in client.receive_response()]
        assert inits(messages)[0].data["permissionMode"] == "acceptEdits", inits(messages)[0].data


@scenario
async def tools_of_the_programs_process_are_called(place):
    seen = []

    @sdk.tool("add", "Adds two numbers.", {"a": float, "b": float})
    async def add(args):
        seen.append(args)
        return {"content": [{"type": "text", "text": f"sum: {args['a'] + args['b']}"}]}

    @sdk.tool("fail", "Fails.", {})
    async def fail(args):
        raise ValueError("no such number")

    calc = sdk.create_sdk_mcp_server(name="calc", version="1.0.0", tools=[add, fail])
    model = place.model(
        call("mcp__calc__add", {"a": 2, "b": 40}, id="c1"),
        call("mcp__calc__fail", {}, id="c2"),
        call("mcp__calc__add", {"a": 1, "b": 1}, id="c3"),
        "done",
        "again",
    )
    options = place.options(model, mcp_servers={"calc": calc}, allowed_tools=["mcp__calc__add", "mcp__calc__fail"])
    async with ClaudeSDKClient(options) as client:
        await client.query("add")
        messages = [m async for m in client.receive_response()]
        assert result(messages).result == "done", (messages, place.stderr)
        assert seen == [{"a": 2, "b": 40}, {"a": 1, "b": 1}], seen
        init = inits(messages)[0].data
        assert {"mcp__calc__add", "mcp__calc__fail"} <= set(init["tools"]), init["tools"]
        assert [(s["name"], s["status"]) for s in init["mcp_servers"]] == [("calc", "connected")], init
        texts = [b.content for m in messages if isinstance(m, sdk.UserMessage) for b in m.content]
        assert "sum: 42" in str(texts[0]) and "no such number" in str(texts[1]), texts
        status = await client.get_mcp_status()
        assert [s["status"] for s in status["mcpServers"]] == ["connected"], status
        await client.toggle_mcp_server("calc", enabled=False)
        status = await client.get_mcp_status()
        assert [s["status"] for s in status["mcpServers"]] == ["disabled"], status
        await client.query("without it")
        init = inits([m async for m in client.receive_response()])[0].data
        assert "mcp__calc__add" not in init["tools"], init["tools"]
        await client.toggle_mcp_server("calc", enabled=True)
        status = await client.get_mcp_status()
        assert [s["status"] for s in status["mcpServers"]] == ["connected"], status
    # A tool that nobody allowed is not called, and a program that sends one message and leaves gets its answer.
    seen.clear()
    options = place.options(place.model(call("mcp__calc__add", {"a": 2, "b": 3}), "over"), mcp_servers={"calc": calc})
    assert result(await collect("add", options)).result == "over"
    assert seen == [], seen


@scenario
async def files_are_rewound(place):
    path = place.write("a.txt", "before\n")
    model = place.model(
        call("read", {"path": "a.txt"}), call("write", {"path": "a.txt", "content": "after\n"}), "done"
    )
    options = place.options(
        model,
        permission_mode="acceptEdits",
        enable_file_checkpointing=True,
        extra_args={"replay-user-messages": None},
    )
    async with ClaudeSDKClient(options) as client:
        await client.query("go")
        messages = [m async for m in client.receive_response()]
        assert open(path).read() == "after\n"
        user = next(m for m in messages if type(m).__name__ == "UserMessage" and m.uuid and not m.tool_use_result)
        await client.rewind_files(user.uuid)
        assert open(path).read() == "before\n"


@scenario
async def a_hook_at_the_end_of_the_session_is_called(place):
    seen = []

    async def bye(given, id, context):
        await asyncio.sleep(0)
        seen.append((given["hook_event_name"], given["reason"]))
        return {}

    hooks = {"SessionEnd": [HookMatcher(hooks=[bye])]}
    messages = await collect("go", place.options(place.model("done"), hooks=hooks))
    assert result(messages).result == "done"
    assert seen == [("SessionEnd", "other")], seen


@scenario
async def hooks_of_the_program_are_asked(place):
    seen = []

    async def before(given, id, context):
        seen.append((given["hook_event_name"], given["tool_name"], given["tool_input"]))
        if given["tool_input"].get("command", "").startswith("rm"):
            return {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "the hook says no",
                }
            }
        return {}

    async def after(given, id, context):
        seen.append((given["hook_event_name"], given["tool_name"]))
        return {}

    model = place.model(
        call("bash", {"command": "rm -rf keep"}),
        {"expect": {"contains": ["the hook says no"]}, **call("bash", {"command": "echo hi"})},
        "done",
    )
    os.makedirs(os.path.join(place.cwd, "keep"))
    hooks = {
        "PreToolUse": [HookMatcher(matcher="Bash", hooks=[before])],
        "PostToolUse": [HookMatcher(hooks=[after])],
    }
    options = place.options(model, hooks=hooks, permission_mode="bypassPermissions")
    messages = await collect(one("go"), options)
    assert result(messages).result == "done", messages
    assert ("PreToolUse", "Bash", {"command": "rm -rf keep"}) in seen, seen
    assert ("PostToolUse", "Bash") in seen, seen
    assert os.path.exists(os.path.join(place.cwd, "keep"))


@scenario
async def a_killed_program_leaves_nothing_behind(place):
    script = (
        "import asyncio, sys\n"
        "from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient\n"
        "async def main():\n"
        "    o = ClaudeAgentOptions(cli_path=sys.argv[1], cwd=sys.argv[2], model=sys.argv[3], session_id=sys.argv[5],\n"
        "        permission_mode='bypassPermissions', env={'HOME': sys.argv[4]})\n"
        "    async with ClaudeSDKClient(o) as client:\n"
        "        await client.query('go')\n"
        "        async for m in client.receive_messages():\n"
        "            print(type(m).__name__, flush=True)\n"
        "asyncio.run(main())\n"
    )
    for n in range(int(os.environ.get("SDK_KILLS", "5"))):
        mark = f"30.{os.getpid()}{n}"
        model = place.model(call("bash", {"command": f"sleep {mark}"}), "never")
        session = str(uuid.uuid4())
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, BECKET, place.cwd, model, place.home, session,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )
        lines = 0
        while lines < 1 + n % 2 and (await program.stdout.readline()):
            lines += 1
        await asyncio.sleep(random.random() * 0.3)
        program.kill()
        await program.wait()
        for _ in range(200):
            left = [p for p in processes() if model in p or mark in p]
            if not left:
                break
            await asyncio.sleep(0.1)
        assert not left, left
        end = result(await collect("again", place.options(place.model("still here"), resume=session)))
        assert end.result == "still here", end


def processes():
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    found.append(file.read().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                pass
    return found


@scenario
async def a_store_of_the_program_keeps_the_session(place):
    """The messages go to a store; another machine, which has the store alone, continues the session."""
    store = sdk.InMemorySessionStore()
    config = os.path.join(place.home, ".claude")
    os.makedirs(config)
    place.write("a.txt", "a line of the file\n")
    model = place.model(call("read", {"path": "a.txt"}), "the zebra is noted")
    options = place.options(model, session_store=store, env={"CLAUDE_CONFIG_DIR": config})
    session = result(await collect("remember the zebra", options)).session_id
    kept = await sdk.get_session_messages_from_store(store, session, directory=place.cwd)
    assert [message.type for message in kept] == ["user", "assistant", "user", "assistant"], kept
    entries = await store.load({"project_key": sdk.project_key_for_directory(place.cwd), "session_id": session})
    chain = [(entry["parentUuid"], entry["uuid"]) for entry in entries]
    assert chain[0][0] is None and all(a[1] == b[0] for a, b in zip(chain, chain[1:])), chain

    shutil.rmtree(place.home)
    os.makedirs(place.home)
    options = place.options(place.model("still the zebra"), session_store=store, resume=session)
    again = result(await collect("which animal?", options))
    assert (again.session_id, again.result) == (session, "still the zebra"), again
    env = {**os.environ, "HOME": place.home}
    shown = subprocess.run(
        [BECKET, "export", session, "--format", "md"], cwd=place.cwd, env=env, capture_output=True, text=True, check=True
    ).stdout
    for words in ["remember the zebra", "a line of the file", "the zebra is noted", "which animal?", "still the zebra"]:
        assert words in shown, (words, shown)
    # The new messages follow the old ones in the store, as one branch.
    kept = await sdk.get_session_messages_from_store(store, session, directory=place.cwd)
    assert len(kept) == 6, kept
    assert "which animal?" in json.dumps(kept[4].message), kept[4]


@scenario
async def a_store_keeps_the_messages_of_subagents(place):
    """Each subagent has a stream of its own in the store, beside that of the session."""
    store = sdk.InMemorySessionStore()
    config = os.path.join(place.home, ".claude")
    os.makedirs(config)
    place.write("a.txt", "a line of the file\n")
    agents = {"checker": AgentDefinition(description="checks", prompt="You check.", tools=["Read"])}
    model = place.model(
        {"when": {"anywhere": ["You check."]}, **call("read", {"path": "a.txt"}, text="I look.")},
        {"when": {"anywhere": ["You check."]}, "text": "it is fine"},
        call("task", {"description": "check it", "prompt": "check the zebra", "agent": "checker"}, id="t1"),
        {"expect": {"contains": ["it is fine"]}, "text": "done"},
    )
    options = place.options(model, agents=agents, session_store=store, env={"CLAUDE_CONFIG_DIR": config})
    messages = await collect("go", options)
    session = result(messages).session_id
    # The messages of the session are what they are without subagents.
    kept = await sdk.get_session_messages_from_store(store, session, directory=place.cwd)
    assert [message.type for message in kept] == ["user", "assistant", "user", "assistant"], kept
    agents = await sdk.list_subagents_from_store(store, session, directory=place.cwd)
    started = [m for m in messages if isinstance(m, SystemMessage) and m.subtype == "task_started"]
    assert agents == [started[0].data["task_id"]], agents
    said = await sdk.get_subagent_messages_from_store(store, session, agents[0], directory=place.cwd)
    assert [message.type for message in said] == ["user", "assistant", "user", "assistant"], said
    text = json.dumps([message.message for message in said])
    for words in ["check the zebra", "I look.", "a line of the file", "it is fine"]:
        assert words in text, (words, text)
    assert {message.parent_tool_use_id for message in said} == {"t1"}, said


@scenario
async def a_command_in_the_background_is_a_task(place):
    command = "until [ -e go ]; do sleep 0.02; done; echo all of it"
    given = {"command": command, "background": "now", "description": "wait for go"}
    model = place.model(call("bash", given, id="b1"), "it runs", "and now")
    options = place.options(model, permission_mode="bypassPermissions")
    async with ClaudeSDKClient(options) as client:
        await client.query("go")
        started = [m async for m in client.receive_response() if isinstance(m, sdk.TaskStartedMessage)]
        assert [(m.task_id, m.tool_use_id, m.description) for m in started] == [("1", "b1", "wait for go")], started
        open(os.path.join(place.cwd, "go"), "w").close()
        async for message in client.receive_messages():
            if isinstance(message, sdk.TaskUpdatedMessage):
                assert (message.task_id, message.status) == ("1", "completed"), message
            if isinstance(message, sdk.TaskNotificationMessage):
                break
        assert (message.task_id, message.status) == ("1", "completed"), message
        with open(message.output_file) as file:
            assert file.read() == "all of it\n"


SERVER = """
import json, os, sys
results = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "c", "version": "1"}},
    "tools/list": {"tools": [{"name": "now", "description": "The time.", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "noon at " + os.environ.get("CLAUDE_PLUGIN_ROOT", "?")}]},
}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": results.get(request["method"], {})}), flush=True)
"""


@scenario
async def a_plugin_brings_its_parts(place):
    root = os.path.realpath(os.path.join(place.dir.name, "my kit"))
    files = {
        ".claude-plugin/plugin.json": json.dumps({"name": "kit", "version": "1.2.0"}),
        "commands/greet.md": "Greet $ARGUMENTS from ${CLAUDE_PLUGIN_ROOT}.",
        "agents/critic.md": "---\nname: critic\ndescription: judges\n---\nBe strict.\n",
        "skills/tidy/SKILL.md": "---\nname: tidy\ndescription: tidies\n---\nTidy with ${CLAUDE_PLUGIN_ROOT}/tidy.sh.\n",
        "hooks/hooks.json": json.dumps(
            {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": '"${CLAUDE_PLUGIN_ROOT}/no.sh"'}]}]}}
        ),
        "no.sh": '#!/bin/sh\necho "not with $CLAUDE_PLUGIN_ROOT" >&2; exit 2\n',
        ".mcp.json": json.dumps({"mcpServers": {"clock": {"command": sys.executable, "args": ["${CLAUDE_PLUGIN_ROOT}/server.py"]}}}),
        "server.py": SERVER,
    }
    for name, text in files.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
    os.chmod(os.path.join(root, "no.sh"), 0o755)
    model = place.model(
        {**call("bash", {"command": "echo hi"}), "expect": {"contains": [f"Greet Ada from {root}."]}},
        {**call("mcp__plugin_kit_clock__now", {}), "expect": {"contains": [f"not with {root}"]}},
        {**call("skill", {"name": "kit:tidy"}), "expect": {"contains": [f"noon at {root}"]}},
        {"expect": {"contains": [f"Tidy with {root}/tidy.sh"]}, "text": "hello Ada"},
    )
    missing = os.path.join(place.dir.name, "missing")
    plugins = [{"type": "local", "path": root}, {"type": "local", "path": missing}]
    options = place.options(model, plugins=plugins, permission_mode="bypassPermissions")
    async with ClaudeSDKClient(options) as client:
        server = (await client.get_mcp_status())["mcpServers"][0]
        assert server["name"] == "plugin:kit:clock", server
        await client.query("/kit:greet Ada")
        messages = [message async for message in client.receive_response()]
    done = result(messages)
    assert done.result == "hello Ada", done
    init = inits(messages)[0].data
    assert init["plugins"] == [{"name": "kit", "path": root, "version": "1.2.0"}], init["plugins"]
    assert [(e["type"], e["path"]) for e in init["plugin_errors"]] == [("path-not-found", missing)], init["plugin_errors"]
    assert {"kit:greet", "kit:tidy"} <= set(init["slash_commands"]), init["slash_commands"]
    assert "kit:critic" in init["agents"] and "kit:tidy" in init["skills"], init


@scenario
async def a_composed_prompt_is_sent_as_it_is(place):
    place.write(".claude/commands/greet.md", "expanded")
    for prompt in ["/cost", "/greet", "/compact"]:
        model = place.model({"expect": {"contains": [prompt]}, "text": "as written"})
        done = result(await collect(prompt, place.options(model, verbatim_prompts=True)))
        assert done.result == "as written", (prompt, done)


@scenario
async def every_option_is_taken(place):
    more = os.path.join(place.dir.name, "more")
    os.makedirs(more)
    model = place.model(call("write", {"path": os.path.join(more, "a.txt"), "content": "a"}), "done")
    options = place.options(
        model,
        fallback_model=place.model("fallback"),
        betas=["context-1m-2025-08-07"],
        settings='{"permissions": {"deny": ["Read(.env)"]}}',
        sandbox={"enabled": True, "autoAllowBashIfSandboxed": True, "network": {"allowLocalBinding": True}},
        add_dirs=[more],
        permission_mode="acceptEdits",
        include_hook_events=True,
        include_partial_messages=True,
        forward_subagent_text=True,
        strict_mcp_config=True,
        skills=["review"],
        thinking={"type": "adaptive"},
        effort="high",
        max_budget_usd=5.0,
        max_turns=9,
        task_budget={"total": 50000},
        client_app="tests/1.0",
        load_timeout_ms=30000,
        max_buffer_size=4 * 1024 * 1024,
    )
    messages = await collect("go", options)
    done = result(messages)
    assert done.subtype == "success" and done.result == "done", done
    assert os.path.exists(os.path.join(more, "a.txt"))
    assert inits(messages)[0].data["skills"] == ["review"], inits(messages)[0].data
    told = [line for line in place.stderr if line.strip()]
    known = ["task-budget", "--betas", "no list price"]
    assert all(any(part in line for part in known) for line in told), told
    warnings = inits(messages)[0].data["warnings"]
    assert [warning.split()[2] for warning in warnings] == ["--task-budget", "--betas"], warnings


@scenario
async def a_hundred_sessions_at_once(place):
    count = int(os.environ.get("SDK_SESSIONS", "100"))
    model = place.model("hello")

    async def run(n):
        return result(await collect(f"number {n}", place.options(model))).result

    answers = await asyncio.gather(*[run(n) for n in range(count)])
    assert answers == ["hello"] * count


async def main():
    wanted = sys.argv[2:]
    failed = 0
    for function in SCENARIOS:
        if wanted and function.__name__ not in wanted:
            continue
        place = Place()
        try:
            await asyncio.wait_for(function(place), float(os.environ.get("SDK_DEADLINE", "120")))
            print("ok", function.__name__, flush=True)
        except BaseException:
            failed += 1
            traceback.print_exc()
            print("failed", function.__name__, "".join(place.stderr)[-2000:], flush=True)
        finally:
            place.dir.cleanup()
    return 1 if failed else 0


if __name__ == "__main__":
    signal.alarm(int(os.environ.get("SDK_ALARM", "900")))
    sys.exit(asyncio.run(main()))
