// Drives becket through the official SDK of codex, @openai/codex-sdk, unchanged, with `codexPathOverride`.
//
// usage: node codex.mjs BECKET [SCENARIO...]; prints `ok NAME` for each scenario; exit code 1 after a failure.

import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

const packages = process.env.BECKET_PEERS ?? process.cwd();
// The package has no entry for `require`, so its file is named.
const entry = path.join(packages, "node_modules/@openai/codex-sdk/dist/index.js");
const { Codex } = await import(pathToFileURL(entry));
const becket = process.argv[2];

class Place {
  constructor() {
    this.dir = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "codex-")));
    this.cwd = path.join(this.dir, "work");
    fs.mkdirSync(this.cwd);
    fs.mkdirSync(path.join(this.dir, "home"));
    this.count = 0;
    this.env = { PATH: process.env.PATH, HOME: path.join(this.dir, "home") };
    this.codex = this.configured();
  }
  configured(more = {}) {
    return new Codex({ codexPathOverride: becket, env: this.env, ...more });
  }
  model(...steps) {
    const file = path.join(this.dir, `model${this.count++}.json`);
    steps = steps.map((step) => (typeof step === "string" ? { text: step } : step));
    fs.writeFileSync(file, JSON.stringify({ name: "scripted", window: 200000, steps }));
    return `script:${file}`;
  }
  options(model, more = {}) {
    return { model, workingDirectory: this.cwd, skipGitRepoCheck: true, ...more };
  }
}

const call = (name, input) => ({ text: "", calls: [{ name, input }] });

const scenarios = {
  async a_run_gives_its_answer(place) {
    const thread = place.codex.startThread(place.options(place.model("hello there")));
    const turn = await thread.run("say hello");
    assert.equal(turn.finalResponse, "hello there");
    assert.ok(turn.usage.input_tokens > 0 && turn.usage.output_tokens > 0);
    assert.ok(thread.id);
  },
  async a_streamed_run_has_items(place) {
    const model = place.model(
      call("todo", { items: [{ content: "write", status: "in_progress" }] }),
      call("write", { path: "a.txt", content: "a\n" }),
      call("bash", { command: "echo hi" }),
      "done",
    );
    const thread = place.codex.startThread(place.options(model, { sandboxMode: "danger-full-access" }));
    const { events } = await thread.runStreamed("go");
    const seen = [];
    for await (const event of events) seen.push(event);
    const done = seen.filter((event) => event.type === "item.completed").map((event) => event.item);
    const of = (type) => done.find((item) => item.type === type);
    assert.equal(seen[0].type, "thread.started");
    assert.equal(seen.at(-1).type, "turn.completed");
    assert.deepEqual(of("file_change").changes.map((change) => change.kind), ["add"]);
    assert.equal(of("command_execution").exit_code, 0);
    assert.match(of("command_execution").aggregated_output, /hi/);
    assert.equal(of("todo_list").items[0].text, "write");
    assert.equal(of("agent_message").text, "done");
  },
  async a_thread_is_resumed(place) {
    const first = place.codex.startThread(place.options(place.model("one")));
    await first.run("one");
    const again = place.codex.resumeThread(first.id, place.options(place.model("two")));
    assert.equal((await again.run("two")).finalResponse, "two");
    assert.equal(again.id, first.id);
  },
  async an_answer_fits_its_schema(place) {
    const outputSchema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    const thread = place.codex.startThread(place.options(place.model(call("StructuredOutput", { n: 3 }), "three")));
    const turn = await thread.run("count", { outputSchema });
    assert.deepEqual(JSON.parse(turn.finalResponse), { n: 3 });
  },
  async images_come_along(place) {
    const file = path.join(place.dir, "a.png");
    const png =
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    fs.writeFileSync(file, Buffer.from(png, "base64"));
    const thread = place.codex.startThread(place.options(place.model("black")));
    const turn = await thread.run([
      { type: "text", text: "look" },
      { type: "local_image", path: file },
    ]);
    assert.equal(turn.finalResponse, "black");
  },
  async a_read_only_run_changes_nothing(place) {
    const model = place.model(call("write", { path: "a.txt", content: "a" }), "could not");
    const thread = place.codex.startThread(place.options(model, { sandboxMode: "read-only" }));
    assert.equal((await thread.run("go")).finalResponse, "could not");
    assert.ok(!fs.existsSync(path.join(place.cwd, "a.txt")));
  },
  async every_option_of_a_thread_is_taken(place) {
    const more = path.join(place.dir, "more");
    fs.mkdirSync(more);
    const model = place.model(
      call("write", { path: path.join(more, "a.txt"), content: "a" }),
      call("bash", { command: "echo $TEAM" }),
      "done",
    );
    const codex = place.configured({
      config: { shell_environment_policy: { set: { TEAM: "blue" } }, hide_agent_reasoning: true },
      configOverrides: ["developer_instructions=\"be brief\""],
    });
    const thread = codex.startThread(
      place.options(model, {
        sandboxMode: "workspace-write",
        modelReasoningEffort: "high",
        networkAccessEnabled: true,
        webSearchMode: "disabled",
        approvalPolicy: "never",
        additionalDirectories: [more],
        threadSource: "tests",
      }),
    );
    const turn = await thread.run("go");
    assert.equal(turn.finalResponse, "done");
    assert.equal(fs.readFileSync(path.join(more, "a.txt"), "utf8"), "a");
    const ran = turn.items.find((item) => item.type === "command_execution");
    assert.match(ran.aggregated_output, /blue/);
  },
  async a_server_of_the_configuration_is_called(place) {
    const server = path.join(place.dir, "server.mjs");
    fs.writeFileSync(
      server,
      `import readline from "node:readline";
const results = {
  initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "c", version: "1" } },
  "tools/list": { tools: [{ name: "now", description: "The time.", inputSchema: { type: "object" } }] },
  "tools/call": { content: [{ type: "text", text: "noon in " + process.env.PLACE }] },
};
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { id, method } = JSON.parse(line);
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: results[method] ?? {} }));
}
`,
    );
    const clock = { command: process.execPath, args: [server], env: { PLACE: "Rome" }, default_tools_approval_mode: "approve" };
    const codex = place.configured({ config: { mcp_servers: { clock } } });
    const thread = codex.startThread(place.options(place.model(call("mcp__clock__now", {}), "noon")));
    const turn = await thread.run("what time is it?");
    const called = turn.items.find((item) => item.type === "mcp_tool_call");
    assert.deepEqual([called.server, called.tool, called.status], ["clock", "now", "completed"]);
    assert.match(JSON.stringify(called.result), /noon in Rome/);
  },
  async a_turn_is_stopped_by_its_signal(place) {
    const thread = place.codex.startThread(
      place.options(place.model(call("bash", { command: "sleep 600" }), "never"), { sandboxMode: "danger-full-access" }),
    );
    const stop = new AbortController();
    const { events } = await thread.runStreamed("go", { signal: stop.signal });
    await assert.rejects(async () => {
      for await (const event of events) {
        if (event.type === "item.started" && event.item.type === "command_execution") stop.abort();
      }
    });
  },
  async the_address_of_the_program_gets_openais_requests(place) {
    const seen = [];
    const answer = { type: "message", id: "m1", role: "assistant", status: "completed", content: [{ type: "output_text", text: "from there" }] };
    const server = http.createServer(async (request, response) => {
      let body = "";
      for await (const piece of request) body += piece;
      if (!request.url.endsWith("/responses")) return response.writeHead(404).end("{}");
      seen.push({ url: request.url, key: request.headers.authorization, body: JSON.parse(body) });
      const usage = { input_tokens: 10, output_tokens: 3, total_tokens: 13, input_tokens_details: { cached_tokens: 4 }, output_tokens_details: { reasoning_tokens: 1 } };
      const done = { id: "r1", status: "completed", output: [answer], usage };
      const events = [
        { type: "response.created", response: { id: "r1", status: "in_progress", output: [] } },
        { type: "response.output_item.added", output_index: 0, item: { ...answer, status: "in_progress", content: [] } },
        { type: "response.output_text.delta", item_id: "m1", output_index: 0, content_index: 0, delta: "from there" },
        { type: "response.output_item.done", output_index: 0, item: answer },
        { type: "response.completed", response: done },
      ];
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
    });
    await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
    const baseUrl = `http://127.0.0.1:${server.address().port}/v1`;
    const codex = place.configured({ baseUrl, apiKey: "sk-of-the-program" });
    // Without a model of its own, a thread uses that of becket for OpenAI.
    for (const model of ["gpt-5-codex", undefined]) {
      const thread = codex.startThread(place.options(model, { modelReasoningEffort: "high" }));
      const turn = await thread.run("hello");
      assert.equal(turn.finalResponse, "from there");
      assert.deepEqual([turn.usage.input_tokens, turn.usage.cached_input_tokens, turn.usage.output_tokens], [10, 4, 3]);
      assert.equal((await thread.run("again")).finalResponse, "from there");
    }
    server.close();
    assert.deepEqual(seen.map(({ url, key }) => [url, key]), Array(4).fill(["/v1/responses", "Bearer sk-of-the-program"]));
    assert.deepEqual([seen[0].body.model, seen[1].body.model, seen[0].body.reasoning.effort], ["gpt-5-codex", "gpt-5-codex", "high"]);
    assert.match(seen[2].body.model, /^gpt-/);
    assert.ok(JSON.stringify(seen[1].body.input).includes("hello"), "the thread continues");
  },
  async a_failure_is_an_error(place) {
    const model = place.model({ error: { kind: "invalid_request", message: "no such thing", status: 400 } });
    const thread = place.codex.startThread(place.options(model));
    await assert.rejects(thread.run("go"), /no such thing/);
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
    console.log("failed", name, error);
  }
  fs.rmSync(place.dir, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
