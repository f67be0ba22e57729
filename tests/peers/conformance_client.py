"""Drives becket as the client of a conformance scenario: conformance_client.py BECKET … URL.

Does what a person would: looks at the server, gives an authorization where one is wanted, and has the (scripted) model call
every tool. The scenario judges what it saw on the wire.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

becket, url = sys.argv[1], sys.argv[-1]
scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
home = tempfile.mkdtemp(prefix="becket-conformance-")
env = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8"}
work = os.path.join(home, "work")
os.makedirs(os.path.join(home, ".config/becket"))
os.makedirs(work)

oauth = {}
if context.get("client_id"):
    oauth["clientId"] = context["client_id"]
if context.get("client_secret"):
    oauth["clientSecret"] = context["client_secret"]
if scenario.startswith("auth/client-credentials-"):
    oauth["grantType"] = "client_credentials"
if context.get("private_key_pem"):
    oauth["privateKeyFile"] = os.path.join(home, "key.pem")
    with open(oauth["privateKeyFile"], "w") as file:
        file.write(context["private_key_pem"])
if context.get("valid_jwt"):
    oauth.update({"grantType": "jwt_bearer", "assertion": context["valid_jwt"]})
if context.get("idp_id_token"):
    provider = {"tokenEndpoint": context["idp_token_endpoint"], "clientId": context["idp_client_id"], "idToken": context["idp_id_token"]}
    oauth.update({"grantType": "jwt_bearer", "identityProvider": provider})
# A client of a document has no need to register, so it is not used where registration is what the scenario looks at.
if not oauth and scenario.startswith("auth/") and scenario != "auth/authorization-server-migration":
    oauth["clientId"] = "https://conformance-test.local/client-metadata.json"
server = {"url": url, "oauth": oauth}
with open(os.path.join(home, ".config/becket/mcp.json"), "w") as file:
    json.dump({"mcpServers": {"t": server}}, file)


def run(*words):
    done = subprocess.run([becket, *words], env=env, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    print("$", *words, "->", done.returncode, "\n", done.stdout[-3000:], done.stderr[-3000:], file=sys.stderr)
    return done


def login():
    process = subprocess.Popen([becket, "mcp", "login", "t"], env=env, cwd=work, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = None
    for line in process.stdout:
        found = re.search(r"https?://\S+", line)
        if found and not address:
            address = found.group(0)
            try:
                urllib.request.urlopen(address, timeout=10).read()
            except urllib.error.URLError as error:
                print("browser:", error, file=sys.stderr)
    code = process.wait(timeout=30)
    print("login ->", code, process.stderr.read(), file=sys.stderr)
    return code == 0


def look():
    return json.loads(run("mcp", "get", "t", "--json").stdout or "{}")


state = look()
for _ in range(3):
    # A server may change its authorization server, and then wants another authorization.
    if state.get("status") == "needs-auth" and login():
        state = look()
arguments = {"add_numbers": {"a": 5, "b": 3}}
schemas = {tool["name"].split("__", 2)[2]: tool["inputSchema"] for tool in state.get("definitions", [])}
if "json_schema_echo" in schemas:
    arguments["json_schema_echo"] = {"schema": schemas.get("json_schema_2020_12_tool")}
for call in context.get("toolCalls", []):
    arguments[call["name"]] = call.get("arguments", {})
names = state.get("tools", [])
for _ in range(3):
    steps = [{"call": {"name": name, "input": arguments.get(name.split("__", 2)[2], {})}} for name in names]
    with open(os.path.join(work, "script.json"), "w") as file:
        json.dump({"steps": [{"calls": [step["call"]]} for step in steps] + [{"text": "done"}]}, file)
    done = run("-p", "--model", "script:script.json", "--permission-mode", "bypassPermissions", "--mcp-elicitation", "defaults", "--output-format", "stream-json", "--verbose", "--", "go")
    if "needs an authorization" not in done.stdout or not login():
        break
sys.exit(0 if state.get("status") == "connected" else 1)
