#!/usr/bin/env python3
"""Runs becket against a running llama.cpp server with a real model, in the three formats that it speaks, from the first to the last step.

usage: local_model.py --binary PATH --server http://127.0.0.1:8080 [--only CASE] [--keep DIR]

A small model is too weak to be judged by its work, so the cases look at the protocol: calls run, usage is read, streams end, an interrupt works, limits are
learned from the server's own errors, and the session goes on. Start the server with `--jinja`, one slot and a window of 16,384 tokens, which the cases
about the window assume as the most. One line for each case; exit 0 if all are as expected. Takes some minutes with a model of 1.5 billion parameters on two cores.
"""
import argparse, glob, json, os, pathlib, shutil, signal, subprocess, sys, tempfile, time, urllib.request

KINDS = {"chat": ("openai-chat", "/v1"), "responses": ("openai-responses", "/v1"), "messages": ("anthropic", "")}
# Exit codes that the work of a weak model may bring: success, calls written as text, no answer, no room, the limit on turns, a denied call.
ENDS = {0, 12, 11, 10, 3, 5}


class Failed(Exception):
    pass


def check(what, ok, more=""):
    if not ok:
        raise Failed(f"{what} {more}"[:1500])


class Project:
    """A folder, a home and a session with one format."""

    def __init__(self, root, server, model, binary, kind, extra=""):
        self.root, self.binary, self.model = root, binary, f"local/{model}"
        shutil.rmtree(root, ignore_errors=True)
        for sub in ("home/config/becket", "home/data", "project"):
            (root / sub).mkdir(parents=True)
        (root / "project/notes.txt").write_text("the first word is swordfish\n")
        name, path = KINDS[kind]
        (root / "home/config/becket/config.toml").write_text(f'[providers.local]\nkind = "{name}"\nbase_url = "{server}{path}"\napi_key_env = "LOCAL_KEY"\n{extra}')

    def start(self, *args):
        home = str(self.root / "home")
        env = {"PATH": os.environ["PATH"], "HOME": home, "XDG_CONFIG_HOME": home + "/config", "XDG_DATA_HOME": home + "/data", "LANG": "C.UTF-8", "LOCAL_KEY": "none"}
        command = [self.binary, "-p", "--output-format", "stream-json", "--verbose", "--model", self.model, "--max-turns", "4", *args]
        return subprocess.Popen(command, cwd=self.root / "project", env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *args):
        process = self.start(*args)
        try:
            out, err = process.communicate(timeout=560)
        except subprocess.TimeoutExpired:
            # The run is killed, because otherwise it would keep asking the model.
            process.kill()
            process.communicate()
            raise
        lines = [json.loads(line) for line in out.splitlines()]
        result = next((line for line in reversed(lines) if line.get("type") == "result"), {})
        return process.returncode, result, f"exit {process.returncode}: {result.get('result')!r} {result.get('errors')} {err[-400:]}"

    def entries(self):
        for path in glob.glob(str(self.root / "home/data/**/ledger.jsonl"), recursive=True):
            for line in open(path):
                yield from json.loads(line).get("entries", [])


def turns(project):
    """A turn with tools, and a second one in the same session."""
    code, result, said = project.run("Read the file notes.txt with the tool read. Then say its last word.")
    check("the turn ends", code in ENDS, said)
    check("usage is read", result.get("usage", {}).get("input_tokens", 0) + result.get("usage", {}).get("cache_read_input_tokens", 0) > 500, said)
    code, result, said = project.run("-c", "Thank you. Answer with the word done and nothing else.")
    check("the second turn ends", code in ENDS, said)
    kinds = [entry["kind"] for entry in project.entries()]
    check("each request has an answer", kinds.count("request") <= kinds.count("usage") + 1, f"{kinds}")
    calls = {e["call_id"]: e["state"] for e in project.entries() if e["kind"] == "tool_journal"}
    check("no call is left half done", all(state == "finished" or state == "denied" for state in calls.values()), f"{calls}")
    estimates, pending = [], None
    for entry in project.entries():
        if entry["kind"] == "request" and entry["purpose"] == "turn":
            pending = entry
        elif entry["kind"] == "usage" and entry["purpose"] == "turn" and pending and "estimate" in pending:
            usage = entry["usage"]
            estimates.append((pending["estimate"], usage.get("input", 0) + usage.get("cache_read", 0) + usage.get("cache_write", 0)))
            pending = None
    later = [abs(mine / true - 1) for mine, true in estimates[1:]]
    check("estimates from the second request on are within 8 %", all(error <= 0.08 for error in later), f"{estimates}")
    return f"{len(calls)} calls, estimated/reported {', '.join(f'{m}/{t}' for m, t in estimates)}"


def interrupt(project):
    """An interrupt in the middle of an answer, and the session after it."""
    process = project.start("Write a very long story about a fish, at least two thousand words. Use no tool.")
    for line in process.stdout:
        if '"assistant"' in line or '"stream_event"' in line or '"init"' in line:
            break
    time.sleep(3)
    began = time.time()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    took = time.time() - began
    check("an interrupt ends the run within 5 s", took < 5, f"{took:.1f} s, exit {process.returncode}")
    code, _, said = project.run("-c", "Answer with the word done and nothing else.")
    check("the session goes on", code in ENDS, said)
    return f"ended after {took:.1f} s with exit {process.returncode}"


def cut(project):
    """An answer that the output limit cuts: the server refuses half a call if it were sent back."""
    code, _, said = project.run("Use the tool write to make the file story.txt with a story of a thousand words about a fish.")
    check("the turn ends", code in ENDS | {7}, said)
    check("no file from half a call", not (project.root / "project/story.txt").exists(), said)
    code, _, said = project.run("-c", "Answer with the word done and nothing else.")
    check("the session goes on", code in ENDS, said)
    return said[:60]


def overflow(project):
    """A prompt above the server's window, which the configuration gives too high."""
    words = "one two three four five six seven eight nine ten eleven twelve. " * 1_600
    (project.root / "project/long.txt").write_text(words)
    code, result, said = project.run("Say what this is: " + words)
    check("the turn ends with a message about the window", code == 9 and "window" in said.lower() or code in ENDS, said)
    learned = [entry for entry in project.entries() if entry["kind"] == "state" and entry["key"].startswith("limits:")]
    check("the server's window is learned", learned and learned[-1]["value"].get("named"), f"{learned} {said}")
    return f"exit {code}, learned {learned[-1]['value']}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", required=True)
    p.add_argument("--server", required=True)
    p.add_argument("--only", default="")
    p.add_argument("--keep")
    args = p.parse_args()
    with urllib.request.urlopen(args.server + "/v1/models", timeout=30) as answer:
        model = json.load(answer)["data"][0]["id"]
    binary, bad = os.path.abspath(args.binary), 0
    many = f'[[providers.local.models]]\nname = "{model}"\nwindow = 400000\nmax_output = 2000\n'
    short = f'[[providers.local.models]]\nname = "{model}"\nwindow = 12000\nmax_output = 60\n'
    # A short window has a short prompt, which a slow machine reads in a minute.
    small = f'[[providers.local.models]]\nname = "{model}"\nwindow = 12000\nmax_output = 300\n'
    cases = [(f"{kind}/{case.__name__}", kind, case, extra) for case, extra in ((turns, small), (interrupt, small), (cut, short), (overflow, many)) for kind in KINDS]
    cases.append(("chat/asked-window", "chat", turns, ""))
    with tempfile.TemporaryDirectory() as scratch:
        for name, kind, case, extra in cases:
            if args.only not in name:
                continue
            began = time.time()
            project = Project(pathlib.Path(args.keep or scratch) / name.replace("/", "-"), args.server, model, binary, kind, extra)
            try:
                print(f"ok   {name}: {case(project)} ({time.time() - began:.0f} s)", flush=True)
            except (Failed, subprocess.TimeoutExpired) as why:
                bad += 1
                print(f"FAIL {name}: {why} ({time.time() - began:.0f} s)", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
