"""Texts of many kinds for sessions: prose in eight languages, code in many, and the output of machines. Everything follows from the seed."""
import base64, glob, gzip, hashlib, io, itertools, json, os, random, re

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ENOUGH = 400_000


def gather(paths, rng, clean=lambda text: text, least=400):
    paths, out = sorted(paths), io.StringIO()
    rng.shuffle(paths)
    for path in paths:
        try:
            data = gzip.open(path).read() if path.endswith(".gz") else open(path, "rb").read()
            text = clean(data.decode())
        except (OSError, UnicodeDecodeError):
            continue
        if len(text) >= least:
            out.write(text[:60_000] + "\n")
        if out.tell() > ENOUGH:
            break
    return out.getvalue()


def manual(text):
    """A manual page without its typesetting."""
    out = []
    for line in text.splitlines():
        if line.startswith((".\\\"", "'\\\"", ".TH", ".if", ".de", ".ie", ".el", ".ds", ".so")):
            continue
        line = re.sub(r"\\f\[?[A-Z]{1,3}\]?|\\f[BIRP]", "", re.sub(r"^\.[A-Za-z]{1,2}\b ?", "", line))
        for mark, plain in (("\\-", "-"), ("\\(aq", "'"), ("\\&", ""), ("\\ ", " "), ("\\(bu", "*"), ("\\e", "\\")):
            line = line.replace(mark, plain)
        out.append(line)
    return "\n".join(out)


def find(*patterns):
    """Half of the files. The estimate's costs were fitted to the other half."""
    found = [p for pattern in patterns for p in itertools.islice(glob.iglob(os.path.expanduser(pattern), recursive=True), 4_000)]
    return [p for p in found if hashlib.sha256(p.encode()).digest()[0] % 2 == 0]


def machine(rng):
    """Outputs of machines that are made here."""
    number, hexes = (lambda n: rng.randrange(n)), (lambda n: rng.randbytes(n).hex())
    log = (f"2026-{1 + number(12):02}-{1 + number(28):02}T{number(24):02}:{number(60):02}:{number(60):02}.{number(1000):03}Z {rng.choice(['INFO', 'WARN', 'DEBUG', 'ERROR'])} "
           f"[{rng.choice(['http', 'db.pool', 'worker-3', 'auth'])}] request_id={hexes(8)} status={rng.choice([200, 404, 500])} took {number(9000)}ms {rng.choice(['connection reset', 'cache miss', 'retrying', 'done'])}"
           for _ in itertools.count())
    yield "logs", log
    yield "digits", (",".join(f"{rng.uniform(-1000, 1000):.{rng.choice([2, 6])}f}" for _ in range(8)) for _ in itertools.count())
    yield "hex", (f"{i * 16:08x}  " + " ".join(f"{b:02x}" for b in rng.randbytes(16)) for i in itertools.count())
    yield "hashes", (f"{hashlib.sha256(str(i).encode()).hexdigest()}  target/release/deps/lib{hexes(3)}-{hexes(8)}.rlib" for i in itertools.count())
    yield "base64", (base64.b64encode(rng.randbytes(57)).decode() for _ in itertools.count())
    yield "json", (json.dumps({"id": number(10**6), "name": rng.choice(["alpha", "beta", "gamma"]), "created_at": f"2026-0{1 + number(9)}-1{number(9)}T10:00:00Z",
                               "tags": rng.sample(["ui", "core", "bug", "p1", "docs"], 2), "score": round(rng.random(), 4), "owner": {"login": f"user{number(500)}", "url": f"https://api.example.com/users/{number(500)}"}}, indent=2) + "," for _ in itertools.count())
    yield "minified JSON", ("[" + ",".join(json.dumps({"id": number(10**6), "uid": hexes(8), "name": rng.choice(["alpha", "beta", "gamma"]), "ts": 1700000000 + number(10**7), "ok": bool(number(2)),
                                                      "tags": rng.sample(["ui", "core", "bug", "p1"], 2), "score": round(rng.random(), 4), "owner": {"login": f"user{number(500)}"}}, separators=(",", ":")) for _ in range(200)) + "]" for _ in itertools.count())
    yield "base64 in one line", (base64.b64encode(rng.randbytes(30_000)).decode() for _ in itertools.count())
    yield "hex in one line", (hexes(20_000) for _ in itertools.count())
    yield "ids", (f"{hexes(4)}-{hexes(2)}-{hexes(2)}-{hexes(2)}-{hexes(6)}" for _ in itertools.count())
    yield "csv", (f"{number(9999)},{rng.choice(['Berlin', 'Paris', 'Tokyo'])},{rng.random() * 100:.2f},{rng.choice(['true', 'false'])},2026-0{1 + number(9)}-0{1 + number(9)}" for _ in itertools.count())
    word = lambda: rng.choice(["timeout", "cache", "max", "pool", "retry", "user", "path", "level", "http", "db", "size", "limit", "host", "queue"])
    value = lambda: rng.choice([str(number(10**6)), rng.choice(["true", "false", "null", "info", "eu-west-1"]), hexes(6), f"{rng.random() * 100:.3f}", f"/var/lib/{word()}/{word()}.db", f"{number(255)}.{number(255)}.{number(255)}.{number(255)}:{number(65536)}"])
    yield "key=value", (f"ts=2026-11-{1 + number(28):02}T{number(24):02}:{number(60):02}:{number(60):02}Z level={rng.choice(['info', 'warn', 'error'])} "
                        + " ".join(f"{word()}_{word()}={value()}" for _ in range(2 + number(6))) for _ in itertools.count())
    yield "properties", (f"{word()}.{word()}.{word()}={value()}" if number(2) else f"{word().upper()}_{word().upper()}_{number(99)}={value()}" for _ in itertools.count())
    yield "listing", (f"-rw-r--r-- 1 root root {number(10**6):>8} Nov {1 + number(28):2} {number(24):02}:{number(60):02} {rng.choice(['src', 'lib', 'tests'])}/{rng.choice(['parser', 'lexer', 'ast', 'emit'])}_{number(99)}.{rng.choice(['rs', 'py', 'ts'])}" for _ in itertools.count())
    yield "test output", (f"test {rng.choice(['driver', 'machine', 'view'])}::{rng.choice(['tests', 'props'])}::{rng.choice(['a_call_runs_once', 'resumes_after_a_crash', 'keeps_the_prefix'])}_{number(99)} ... ok" for _ in itertools.count())
    yield "grep", (f"crates/{rng.choice(['agent', 'model', 'tui'])}/src/{rng.choice(['driver', 'stream', 'view'])}/{rng.choice(['mod', 'request', 'reply'])}.rs:{number(600)}:    pub(super) fn {rng.choice(['take', 'send', 'read'])}_{rng.choice(['entry', 'piece', 'delta'])}(&mut self) -> Option<{rng.choice(['Entry', 'Piece'])}> {{" for _ in itertools.count())


def load(tools, seed):
    """Returns (kind, text) for each kind that this machine has."""
    rng = random.Random(seed)
    pages = os.path.join(tools, "texts/pages/usr/share/man")
    registry, modules = "~/.cargo/registry/src/*/*", os.path.join(tools, "node_modules/**")
    kinds = {"English": gather(find(f"{ROOT}/docs/**/*.md", f"{registry}/README.md"), rng)}
    for name, folder in (("German", "de"), ("Spanish", "es"), ("French", "fr"), ("Japanese", "ja"), ("Chinese", "zh_CN"), ("Chinese (Taiwan)", "zh_TW")):
        kinds[name] = gather(find(f"{pages}/{folder}/man[1578]/*.gz"), rng, manual, 3_000)
    for name, patterns in (
        ("Rust", [f"{ROOT}/crates/**/*.rs", f"{registry}/src/**/*.rs"]), ("Python", [f"{ROOT}/benches/**/*.py", "/usr/lib/python3*/**/*.py"]),
        ("C", ["/usr/include/*.h", f"{registry}/**/*.c"]), ("JavaScript", [f"{modules}/*.mjs", "/usr/lib/node_modules/npm/**/*.js", "/usr/share/nodejs/**/*.js"]),
        ("TypeScript", [f"{modules}/*.ts", "/usr/lib/node_modules/**/*.d.ts"]), ("Go", [f"{registry}/**/*.go"]), ("shell", [f"{registry}/**/*.sh", "/usr/share/**/*.sh", "/etc/init.d/*"]),
        ("Perl", ["/usr/share/perl/**/*.pm"]), ("C++", [f"{registry}/**/*.cc", f"{registry}/**/*.cpp", "/usr/include/c++/**/*.h"]), ("TOML", [f"{registry}/Cargo.toml"]), ("Markdown", [f"{registry}/CHANGELOG.md"]),
        ("YAML", [f"{registry}/.github/**/*.yml", f"{registry}/**/*.yml"]), ("assembly", [f"{registry}/**/*.S"]),
    ):
        kinds[name] = gather(find(*patterns), rng)
    for name, lines in machine(rng):
        out = io.StringIO()
        while out.tell() < ENOUGH // 2:
            out.write(next(lines) + "\n")
        kinds[name] = out.getvalue()
    return {name: text for name, text in kinds.items() if len(text) > 30_000}


PROSE = ["English", "German", "Spanish", "French", "Japanese", "Chinese", "Chinese (Taiwan)"]


def piece(text, size, rng):
    """About `size` characters from anywhere in the text, whole lines where it has lines."""
    at = rng.randrange(max(1, len(text) - size))
    at = text.rfind("\n", 0, at) + 1
    return text[at:at + size]
