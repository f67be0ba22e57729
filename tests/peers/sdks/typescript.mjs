// Drives becket through the official TypeScript SDK, @anthropic-ai/claude-agent-sdk, unchanged, with
// `pathToClaudeCodeExecutable`.
//
// usage: node typescript.mjs BECKET [SCENARIO...]; prints `ok NAME` for each scenario; exit code 1 after a failure.

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

const packages = process.env.BECKET_PEERS ?? process.cwd();
const require = createRequire(path.join(packages, "package.json"));
const { query, tool, createSdkMcpServer } = await import(pathToFileURL(require.resolve("@anthropic-ai/claude-agent-sdk")));
// The schemas of tools are written with the package that the SDK itself uses.
const { z } = await import(pathToFileURL(require.resolve("zod")));
const becket = process.argv[2];

class Place {
  constructor() {
    this.dir = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "sdk-")));
    this.cwd = path.join(this.dir, "work");
    this.home = path.join(this.dir, "home");
    fs.mkdirSync(this.cwd);
    fs.mkdirSync(this.home);
    this.count = 0;
    this.stderr = "";
  }
  model(...steps) {
    const file = path.join(this.dir, `model${this.count++}.json`);
    steps = steps.map((step) => (typeof step === "string" ? { text: step } : step));
    fs.writeFileSync(file, JSON.stringify({ name: "scripted", window: 200000, steps }));
    return `script:${file}`;
  }
  options(model, more = {}) {
    return {
      pathToClaudeCodeExecutable: becket,
      cwd: this.cwd,
      model,
      env: { ...process.env, HOME: this.home },
      stderr: (text) => (this.stderr += text),
      ...more,
    };
  }
}

const call = (name, input, id) => ({ text: "", calls: [{ name, input, ...(id ? { id } : {}) }] });

async function collect(prompt, options, each = async () => {}) {
  const messages = [];
  const running = query({ prompt, options });
  for await (const message of running) {
    messages.push(message);
    await each(message, running);
  }
  return messages;
}
const result = (messages) => messages.find((message) => message.type === "result");
const inits = (messages) => messages.filter((message) => message.subtype === "init");
/// The system prompt of the first request in a recording.
const systems = (recording) => {
  const requests = recording.split("\n").filter((line) => line.startsWith('{"request"'));
  const { messages } = JSON.parse(JSON.parse(requests[0]).request.add);
  return messages.filter((message) => message.role === "system").map((message) => JSON.stringify(message.content)).join("\n");
};
async function* input(...texts) {
  for (const content of texts) yield { type: "user", message: { role: "user", content }, parent_tool_use_id: null };
}

const scenarios = {
  async a_query_gives_its_answer(place) {
    const messages = await collect("hello", place.options(place.model("hello there")));
    assert.equal(result(messages).result, "hello there");
    assert.equal(inits(messages).length, 1);
    assert.ok(inits(messages)[0].tools.includes("Read"));
    assert.ok(inits(messages)[0].slash_commands.includes("compact"));
  },
  async a_hook_at_the_end_of_the_session_is_called(place) {
    const seen = [];
    const bye = async (given) => {
      await Promise.resolve();
      seen.push([given.hook_event_name, given.reason]);
      return {};
    };
    const options = place.options(place.model("done"), { hooks: { SessionEnd: [{ hooks: [bye] }] } });
    const messages = await collect("go", options);
    assert.equal(result(messages).result, "done");
    assert.deepEqual(seen, [["SessionEnd", "other"]]);
  },
  // As the guide of the SDK shows it: an empty prompt opens the session, and the first message is the moment for the request.
  async files_are_rewound_after_an_empty_prompt(place) {
    const file = path.join(place.cwd, "a.txt");
    fs.writeFileSync(file, "v0\n");
    const changes = place.model(call("read", { path: "a.txt" }), call("edit", { path: "a.txt", old: "v0", new: "v1" }), "done");
    const more = { enableFileCheckpointing: true, permissionMode: "acceptEdits", extraArgs: { "replay-user-messages": null } };
    const messages = await collect("change it", place.options(changes, more));
    const point = messages.find((message) => message.type === "user" && !message.tool_use_result).uuid;
    const resume = result(messages).session_id;
    assert.equal(fs.readFileSync(file, "utf8"), "v1\n");
    const running = query({ prompt: "", options: place.options(place.model("never"), { ...more, resume }) });
    for await (const _ of running) {
      assert.equal((await running.rewindFiles(point)).canRewind, true);
      break;
    }
    assert.equal(fs.readFileSync(file, "utf8"), "v0\n");
  },
  async a_program_decides_about_calls(place) {
    const asked = [];
    const canUseTool = async (tool, given) => {
      asked.push(tool);
      return tool === "Write"
        ? { behavior: "allow", updatedInput: { ...given, content: "by the host\n" } }
        : { behavior: "deny", message: "never" };
    };
    const model = place.model(
      call("write", { path: "a.txt", content: "by the model" }),
      call("bash", { command: "touch b.txt" }),
      { expect: { contains: ["never"] }, text: "done" },
    );
    const messages = await collect(input("go"), place.options(model, { canUseTool, permissionMode: "default" }));
    assert.equal(result(messages).result, "done");
    assert.deepEqual(asked, ["Write", "Bash"]);
    assert.equal(fs.readFileSync(path.join(place.cwd, "a.txt"), "utf8"), "by the host\n");
    assert.ok(!fs.existsSync(path.join(place.cwd, "b.txt")));
  },
  async questions_and_plans_reach_the_program(place) {
    const questions = [
      {
        question: "Which parts?",
        header: "Parts",
        options: [{ label: "docs", description: "" }, { label: "tests", description: "all of them" }],
        multiSelect: true,
      },
    ];
    const asked = [];
    const canUseTool = async (tool, given, { suggestions }) => {
      asked.push([tool, given]);
      if (tool === "AskUserQuestion") {
        return { behavior: "allow", updatedInput: { ...given, answers: { "Which parts?": "docs, tests" } } };
      }
      const updatedPermissions = [{ type: "setMode", mode: "acceptEdits", destination: "session" }];
      return { behavior: "allow", updatedInput: given, updatedPermissions };
    };
    const model = place.model(
      call("AskUserQuestion", { questions }),
      {
        expect: { contains: ['User has answered your questions: "Which parts?"="docs, tests"'] },
        ...call("ExitPlanMode", { plan: "1. docs\n2. tests" }),
      },
      { expect: { contains: ["User has approved your plan"] }, ...call("write", { path: "a.txt", content: "a" }) },
      "done",
    );
    const messages = await collect(input("go"), place.options(model, { canUseTool, permissionMode: "plan" }));
    assert.equal(result(messages).result, "done");
    // Files are edited without a question now.
    assert.deepEqual(asked, [
      ["AskUserQuestion", { questions }],
      ["ExitPlanMode", { plan: "1. docs\n2. tests" }],
    ]);
    assert.equal(fs.readFileSync(path.join(place.cwd, "a.txt"), "utf8"), "a");
  },
  async prompts_agents_and_schemas_come_with_initialize(place) {
    const model = place.model(
      { expect: { anywhere: ["Speak in rhymes."], tools: ["StructuredOutput"] }, ...call("StructuredOutput", { n: 3 }) },
      "three",
    );
    const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    const messages = await collect(
      "go",
      place.options(model, {
        systemPrompt: "Speak in rhymes.",
        agents: { checker: { description: "checks", prompt: "You check." } },
        outputFormat: { type: "json_schema", schema },
      }),
    );
    assert.deepEqual(result(messages).structured_output, { n: 3 });
    assert.ok(inits(messages)[0].agents.includes("checker"));
  },
  async settings_and_rules_come_by_either_way(place) {
    for (const way of ["argv", "initialize"]) {
      const model = place.model(
        call("write", { path: "a.txt", content: "a" }),
        { expect: { contains: ["Edit(a.txt)"] }, ...call("write", { path: "b.txt", content: "b" }) },
        call("bash", { command: "touch c.txt" }),
        "done",
      );
      const options = place.options(model, {
        settings: { permissions: { deny: ["Edit(a.txt)"], defaultMode: "acceptEdits" }, env: { STAGE: "test" } },
        settingsDelivery: way,
        disallowedTools: ["Bash", "WebFetch"],
        disallowedToolsDelivery: way,
        managedSettings: { permissions: { deny: ["Grep"] } },
        managedSettingsDelivery: way,
      });
      const messages = await collect("go", options, async (message, running) => {
        if (message.subtype !== "init") return;
        const tools = message.tools;
        assert.ok(!["Bash", "WebFetch", "Grep"].some((name) => tools.includes(name)), `${way}: ${tools}`);
        assert.equal(message.permissionMode, "acceptEdits", way);
        if (way === "argv") return;
        const started = await running.initializationResult();
        const applied = ["settings", "disallowed_tools", "managed_settings"].map((name) => started[`${name}_applied`]);
        assert.deepEqual(applied, [true, true, true]);
      });
      assert.equal(result(messages).result, "done", way);
      assert.deepEqual(["a.txt", "b.txt", "c.txt"].map((name) => fs.existsSync(path.join(place.cwd, name))), [false, true, false]);
      fs.rmSync(path.join(place.cwd, "b.txt"));
      assert.ok(!place.stderr.includes("has no effect"), place.stderr);
    }
  },
  async a_prompt_without_the_folder_and_a_plan_of_the_program(place) {
    const folder = `Working directory: ${place.cwd}`;
    // The environment is in a message: `anywhere` looks at the system prompt too, `contains` at the last message alone.
    const model = place.model(
      { expect: { contains: [folder, "Survey the docs first."], absent: ["Work out a plan"] }, text: "planned" },
    );
    const options = place.options(model, {
      systemPrompt: { type: "preset", preset: "claude_code", excludeDynamicSections: true, snapshot: true },
      planModeInstructions: "Survey the docs first.",
      permissionMode: "plan",
    });
    const messages = await collect("go", options);
    assert.equal(result(messages).result, "planned", JSON.stringify(result(messages)));
    assert.equal(place.stderr, "");
    // Another session of the same kind, elsewhere, has the same system prompt.
    const prompts = [];
    for (const name of ["here", "there"]) {
      const cwd = path.join(place.cwd, name);
      fs.mkdirSync(cwd);
      const log = path.join(place.dir, `${name}.jsonl`);
      const more = { cwd, systemPrompt: options.systemPrompt, extraArgs: { record: log } };
      await collect("go", place.options(place.model("ok"), more));
      const text = fs.readFileSync(log, "utf8");
      assert.ok(text.includes(`Working directory: ${cwd}`));
      prompts.push(systems(text));
    }
    assert.ok(prompts[0].length > 1000 && !prompts[0].includes(place.cwd), prompts[0]);
    assert.equal(prompts[0], prompts[1]);
  },
  async a_tool_is_called_by_another_name(place) {
    const run = tool("run", "Runs.", { command: z.string() }, async ({ command }) => ({
      content: [{ type: "text", text: `elsewhere: ${command}` }],
    }));
    const there = createSdkMcpServer({ name: "there", version: "1.0.0", tools: [run] });
    const model = place.model(
      call("Bash", { command: "touch a.txt" }),
      { expect: { contains: ["elsewhere: touch a.txt"] }, ...call("Bash", { command: "touch b.txt" }) },
      { expect: { contains: ["elsewhere: touch b.txt"] }, text: "done" },
    );
    const options = place.options(model, {
      mcpServers: { there },
      toolAliases: { Bash: "mcp__there__run", mcp__there__run: "Bash" },
      allowedTools: ["mcp__there__run"],
    });
    assert.equal(result(await collect(input("go"), options)).result, "done");
    // Permissions are those of the tool that is meant.
    const asked = [];
    const canUseTool = async (name) => {
      asked.push(name);
      return { behavior: "deny", message: "no" };
    };
    const again = place.model(call("Bash", { command: "touch a.txt" }), "over");
    const more = { mcpServers: { there }, toolAliases: { Bash: "mcp__there__run" }, canUseTool, allowedTools: ["Bash"] };
    await collect(input("go"), place.options(again, more));
    assert.deepEqual(asked, ["mcp__there__run"]);
    assert.ok(!fs.existsSync(path.join(place.cwd, "a.txt")));
  },
  async an_interrupt_reaches_a_tool_of_the_programs_process(place) {
    let begin;
    const begun = new Promise((done) => (begin = done));
    let giveUp;
    const givenUp = new Promise((done) => (giveUp = done));
    const wait = tool("wait", "Waits.", {}, async (_, { signal }) => {
      begin();
      await new Promise((done) => signal.addEventListener("abort", done));
      giveUp();
      return { content: [{ type: "text", text: "too late" }] };
    });
    const now = tool("now", "Answers.", {}, async () => ({ content: [{ type: "text", text: "in time" }] }));
    const own = createSdkMcpServer({ name: "own", version: "1.0.0", tools: [wait, now] });
    const model = place.model(call("mcp__own__wait", {}), call("mcp__own__now", {}), {
      expect: { contains: ["in time"] },
      text: "went on",
    });
    let release;
    const second = new Promise((done) => (release = done));
    async function* prompts() {
      yield* input("go");
      await second;
      yield* input("again");
    }
    const running = query({ prompt: prompts(), options: place.options(model, { mcpServers: { own }, permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true }) });
    const ends = [];
    begun.then(() => running.interrupt());
    for await (const message of running) {
      if (message.type !== "result") continue;
      ends.push(message);
      await givenUp;
      release();
    }
    assert.deepEqual(ends.map((end) => (end.is_error ? end.subtype : end.result)), ["error_during_execution", "went on"]);
  },
  async an_answer_without_a_value_fits_its_schema(place) {
    const nullable = { anyOf: [{ type: "number" }, { type: "null" }] };
    const properties = { mail: { type: "string", format: "email" }, age: nullable };
    const schema = { type: "object", properties, required: ["mail", "age"], additionalProperties: false };
    const given = { mail: "ada@example.com", age: null };
    const options = place.options(place.model(call("StructuredOutput", given), "done"), { outputFormat: { type: "json_schema", schema } });
    const messages = await collect("who?", options);
    assert.deepEqual(result(messages).structured_output, given);
    const used = messages.flatMap((message) => (message.type === "assistant" ? message.message.content : []));
    assert.deepEqual(used.find((block) => block.name === "StructuredOutput").input, given);
  },
  async an_interrupt_has_a_receipt(place) {
    const model = place.model(call("bash", { command: "sleep 60" }), "after");
    let release;
    const second = new Promise((done) => (release = done));
    async function* prompts() {
      yield* input("go");
      await second;
      yield* input("again");
    }
    const results = [];
    const options = place.options(model, { permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true });
    await collect(prompts(), options, async (message, running) => {
      if (message.type === "assistant" && results.length === 0) {
        const receipt = await running.interrupt();
        if (receipt) assert.deepEqual(receipt.still_queued, []);
      }
      if (message.type === "result") {
        results.push(message);
        release();
      }
    });
    assert.deepEqual(results.map((one) => one.subtype), ["error_during_execution", "success"]);
    assert.equal(results[1].result, "after");
  },
  async every_message_has_a_result_with_its_answer(place) {
    // Messages that come at once, as those that come while an answer is written: none is answered in the place of another.
    async function* prompts() {
      for (const text of ["one", "two", "three"]) yield* input(text);
    }
    const messages = await collect(prompts(), place.options(place.model("first", "second", "third")));
    const results = messages.filter((message) => message.type === "result");
    assert.deepEqual(results.map((end) => end.result), ["first", "second", "third"]);
  },
  async a_session_is_resumed(place) {
    const first = result(await collect("one", place.options(place.model("first"))));
    const again = result(await collect("two", place.options(place.model("second"), { resume: first.session_id })));
    assert.deepEqual([again.session_id, again.result], [first.session_id, "second"]);
  },
  async commands_that_come_later_are_told(place) {
    const text = "---\ndescription: Says it\nargument-hint: WORD\n---\nSay $1.\n";
    const write = call("write", { path: ".claude/commands/say.md", content: text });
    const model = place.model(write, "one", "two");
    let next;
    async function* prompts() {
      yield* input("go");
      await new Promise((done) => (next = done));
      yield* input("again");
    }
    const told = [];
    const options = place.options(model, { permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true });
    const messages = await collect(prompts(), options, async (message, running) => {
      if (message.subtype === "commands_changed") told.push(message);
      if (message.type === "result") {
        next?.();
        const names = (await running.supportedCommands()).map((command) => command.name);
        assert.ok(names.includes("say"), names);
      }
    });
    const say = told[0].commands.find((command) => command.name === "say");
    assert.deepEqual([say.description, say.argumentHint], ["Says it", "WORD"]);
    assert.ok(told[0].commands.some((command) => command.name === "compact"), "all commands are named");
    assert.equal(told.length, 1);
    const known = inits(messages).map((init) => init.slash_commands.includes("say"));
    assert.deepEqual(known, [false, true]);
  },
  async tools_of_the_programs_process_are_called(place) {
    const seen = [];
    const add = tool("add", "Adds two numbers.", { a: z.number(), b: z.number() }, async ({ a, b }) => {
      seen.push([a, b]);
      return { content: [{ type: "text", text: `sum: ${a + b}` }] };
    });
    const calc = createSdkMcpServer({ name: "calc", version: "1.0.0", tools: [add] });
    const model = place.model(call("mcp__calc__add", { a: 2, b: 40 }), "done");
    const options = place.options(model, { mcpServers: { calc }, allowedTools: ["mcp__calc__add"] });
    const messages = await collect(input("add"), options);
    assert.equal(result(messages).result, "done");
    assert.deepEqual(seen, [[2, 40]]);
    const init = inits(messages)[0];
    assert.ok(init.tools.includes("mcp__calc__add"), init.tools);
    assert.deepEqual(init.mcp_servers.map((one) => [one.name, one.status]), [["calc", "connected"]]);
    assert.ok(JSON.stringify(messages).includes("sum: 42"));
  },
  async questions_of_a_server_reach_the_program(place) {
    const fixture = fileURLToPath(new URL("../../fixtures/mcp_server.py", import.meta.url));
    const asked = [];
    const options = place.options(place.model(call("mcp__fix__ask", {}), "done"), {
      mcpServers: { fix: { command: "python3", args: [fixture, "plain"] } },
      allowedTools: ["mcp__fix__ask"],
      onElicitation: async (question) => {
        asked.push([question.serverName, question.message, question.mode, Object.keys(question.requestedSchema.properties)]);
        return { action: "accept", content: { name: "Grace" } };
      },
    });
    const messages = await collect(input("ask me"), options);
    assert.deepEqual(asked, [["fix", "Your name?", "form", ["name"]]]);
    assert.ok(JSON.stringify(messages).includes("Grace"), JSON.stringify(messages));
  },
  async servers_are_replaced_while_the_session_runs(place) {
    const fixture = fileURLToPath(new URL("../../fixtures/mcp_server.py", import.meta.url));
    const process = (mode) => ({ command: "python3", args: [fixture, mode] });
    const add = tool("add", "Adds.", { a: z.number() }, async ({ a }) => ({ content: [{ type: "text", text: `plus ${a}` }] }));
    const calc = createSdkMcpServer({ name: "calc", version: "1.0.0", tools: [add] });
    const model = place.model("one", call("mcp__calc__add", { a: 7 }), "two", call("mcp__late__echo", { text: "hi" }), "three");
    let next;
    async function* prompts() {
      for (let turn = 0; turn < 3; turn++) {
        yield* input("go");
        await new Promise((done) => (next = done));
      }
    }
    const options = place.options(model, {
      mcpServers: { first: process("plain") },
      mcpServersDelivery: "initialize",
      allowedTools: ["mcp__calc", "mcp__late"],
    });
    let turn = 0;
    const messages = await collect(prompts(), options, async (message, running) => {
      if (message.type !== "result") return;
      turn += 1;
      const states = async () =>
        Object.fromEntries((await running.mcpServerStatus()).map((server) => [server.name, server.status]));
      if (turn === 1) {
        assert.equal((await running.initializationResult()).mcp_servers_applied, true);
        const set = await running.setMcpServers({ calc, dead: process("dead") });
        assert.deepEqual([set.added.sort(), set.removed, Object.keys(set.errors)], [["calc", "dead"], [], ["dead"]]);
        await running.toggleMcpServer("first", false);
        assert.deepEqual(await states(), { calc: "connected", dead: "failed", first: "disabled" });
      } else if (turn === 2) {
        const set = await running.setMcpServers({ late: process("prompts") });
        assert.deepEqual([set.added, set.removed.sort(), set.errors], [["late"], ["calc", "dead"], {}]);
      }
      next();
    });
    const text = JSON.stringify(messages);
    assert.ok(text.includes("plus 7") && text.includes("Echo: hi"), text);
    const last = inits(messages).at(-1);
    assert.ok(last.tools.includes("mcp__late__echo") && !last.tools.some((name) => name.startsWith("mcp__calc")), last.tools);
    assert.ok(last.slash_commands.includes("mcp__late__greet"), last.slash_commands);
  },
  async requests_about_the_session_are_answered(place) {
    let release;
    const over = new Promise((done) => (release = done));
    async function* prompts() {
      yield* input("go");
      await over;
    }
    await collect(prompts(), place.options(place.model("one")), async (message, running) => {
      if (message.type !== "result") return;
      const commands = await running.supportedCommands();
      assert.ok(commands.some((command) => command.name === "compact"));
      assert.deepEqual(await running.mcpServerStatus(), []);
      assert.ok((await running.supportedModels()).length > 0);
      await running.setPermissionMode("plan");
      await running.setModel(undefined);
      await running.setMaxThinkingTokens(2000);
      release();
    });
  },
  async settings_files_and_questions_of_a_running_session(place) {
    fs.writeFileSync(path.join(place.cwd, "a.txt"), "one\n");
    const model = place.model(
      "one",
      { when: { anywhere: ["question beside"] }, text: "in a.txt" },
      call("edit", { path: "a.txt", old: "one", new: "two" }),
      "two",
    );
    let next, release;
    const over = new Promise((done) => (release = done));
    async function* prompts() {
      yield* input("go");
      await new Promise((done) => (next = done));
      yield* input("again");
      await over;
    }
    let results = 0;
    await collect(prompts(), place.options(model), async (message, running) => {
      if (message.type !== "result") return;
      results += 1;
      if (results === 2) return release();
      await running.applyFlagSettings({ permissions: { defaultMode: "acceptEdits", deny: ["Bash(rm:*)"] } });
      const settings = await running.getSettings();
      assert.equal(settings.effective.permissions.defaultMode, "acceptEdits");
      assert.deepEqual(settings.effective.permissions.deny, ["Bash(rm:*)"]);
      assert.equal((await running.readFile("a.txt")).contents, "one\n");
      assert.equal(await running.readFile("/etc/hostname"), null);
      await running.seedReadState(path.join(place.cwd, "a.txt"), fs.statSync(path.join(place.cwd, "a.txt")).mtimeMs);
      assert.ok((await running.getHooksListing()).eventCatalog.length > 30);
      assert.equal((await running.askSideQuestion("where?")).response, "in a.txt");
      await assert.rejects(running.getTaskOutput("7"));
      next();
    });
    assert.equal(fs.readFileSync(path.join(place.cwd, "a.txt"), "utf8"), "two\n");
  },
  async a_plugin_comes_by_either_way(place) {
    const kit = path.join(place.dir, "kit");
    fs.mkdirSync(path.join(kit, "commands"), { recursive: true });
    fs.writeFileSync(path.join(kit, "commands/greet.md"), "Greet $ARGUMENTS.");
    for (const pluginDelivery of ["argv", "initialize"]) {
      const model = place.model({ expect: { contains: ["Greet Ada."] }, text: "hello Ada" });
      const plugins = [{ type: "local", path: kit }];
      const messages = await collect("/kit:greet Ada", place.options(model, { plugins, pluginDelivery }), async (message, running) => {
        if (message.subtype !== "init") return;
        const started = await running.initializationResult();
        if (pluginDelivery === "initialize") assert.equal(started.plugins_applied, true);
        const again = await running.reloadPlugins();
        assert.deepEqual(again.plugins.map((plugin) => plugin.name), ["kit"]);
        await assert.rejects(running.reloadPlugins({ addPlugins: plugins }));
      });
      assert.equal(result(messages).result, "hello Ada");
      assert.deepEqual(inits(messages)[0].plugins, [{ name: "kit", path: kit }]);
    }
  },
  async every_option_is_taken(place) {
    const more = path.join(place.dir, "more");
    fs.mkdirSync(more);
    const file = path.join(more, "a.txt");
    const model = place.model(call("write", { path: file, content: "a" }), { expect: { contains: ["Created"] }, text: "done" });
    const messages = await collect(
      "/cost",
      place.options(model, {
        additionalDirectories: [more],
        abortController: new AbortController(),
        agentProgressSummaries: false,
        allowedTools: ["Write"],
        betas: ["context-1m-2025-08-07"],
        debug: true,
        debugFile: path.join(place.dir, "debug.log"),
        effort: "high",
        enableFileCheckpointing: true,
        executableArgs: [],
        fallbackModel: place.model("fallback"),
        forwardSubagentText: true,
        includeHookEvents: true,
        includePartialMessages: true,
        maxTurns: 9,
        permissionMode: "acceptEdits",
        permissionPrompts: "none",
        persistSession: true,
        sandbox: { enabled: true, autoAllowBashIfSandboxed: true },
        settings: { permissions: { deny: ["Read(.env)"] } },
        settingSources: ["user", "project"],
        skills: ["review"],
        strictMcpConfig: true,
        systemPrompt: { type: "preset", preset: "claude_code", append: "Be brief." },
        thinking: { type: "adaptive" },
        title: "Every option",
        tools: { type: "preset", preset: "claude_code" },
        verbatimPrompts: true,
      }),
    );
    const done = result(messages);
    assert.equal(done.subtype, "success", JSON.stringify(done));
    assert.equal(done.result, "done");
    assert.equal(fs.readFileSync(file, "utf8"), "a");
    assert.deepEqual(inits(messages)[0].skills, ["review"]);
    assert.match(place.stderr, /^becket: the option --betas has no effect: [^\n]*\n$/);
    assert.equal(inits(messages)[0].warnings.length, 1);
  },
};

let failed = 0;
for (const [name, scenario] of Object.entries(scenarios)) {
  if (process.argv.length > 3 && !process.argv.slice(3).includes(name)) continue;
  const place = new Place();
  const late = new Promise((_, no) => setTimeout(() => no(new Error("too late")), 120000).unref());
  try {
    await Promise.race([scenario(place), late]);
    console.log("ok", name);
  } catch (error) {
    failed += 1;
    console.log("failed", name, error, place.stderr);
  }
  fs.rmSync(place.dir, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
