#!/usr/bin/env python3
"""`grep` and `glob` against ripgrep on a repository of 100,000 files. See README.md in this folder.

usage: benches/search.py [--rg PATH]... [--tree DIRECTORY] [--files 100000] [--runs 15]

Makes the tree once (it is kept when --tree names it), then runs each query as two processes in turn: ripgrep, and becket's
own tools through `target/release/examples/search` (cargo build --release -p becket-tool-search --example search). Both
print to a pipe that is read to its end. Prints medians of wall time and CPU, and of each pair's ratio of both.
"""
import argparse, json, os, random, resource, statistics, subprocess, sys, tempfile, time

WORDS = """account adapter alias amount append apply array async await batch binary branch buffer build cache call cancel chain
channel check child client clone close code column commit compare compute config connect context copy count create current
cursor data date decode default define delete depth detail digest direct document drop edge element encode entry error event
execute expect export extend factory fetch field file filter find first flag flush folder format frame function get global
group handle hash header height hidden host ignore import index inner input insert instance item iter join key kind label
last layer left length level limit line list load local lock loop main manager map mark match merge message method mode
model module mutex name next node none number object offset open option order output owner page pair panic parent parse part
path pattern peek pipe place point pool pop port prefix print process push query queue random range read record ref register
remove render replace request reset resolve result retry return right root route row rule run sample scan scope search select
send server session set shape shared sign size skip slice slot sort source span spawn split stack start state status step
stop store stream string struct style sum switch symbol sync table tag target task test text thread time token trace tree
trim tuple type union unit update upper user value vector version view visit wait walk width window word worker wrap write""".split()
KINDS = [("rs", 22), ("ts", 22), ("py", 14), ("js", 8), ("go", 8), ("md", 7), ("json", 6), ("c", 4), ("h", 4), ("yaml", 3), ("png", 2)]


def make_tree(root, files):
    """Sizes: log-normal, median 2.5 KB, mean about 5 KB, as in large monorepos. The same tree every time."""
    rng = random.Random(7)
    word = lambda: rng.choice(WORDS)
    name = lambda: "_".join(word() for _ in range(rng.randint(1, 3)))
    lines = []
    for _ in range(20_000):
        indent = " " * (4 * rng.choice([0, 1, 1, 2, 2, 3]))
        lines.append(indent + rng.choice([
            lambda: f"fn {name()}({word()}: &str) -> Result<{word().title()}, Error> {{",
            lambda: f"let {name()} = {name()}({word()}, {rng.randint(0, 999)});",
            lambda: f"if {name()}.{word()}() == {word()} {{",
            lambda: f"// {' '.join(word() for _ in range(rng.randint(4, 12)))}",
            lambda: f"return {word()}.{name()}({word()});",
            lambda: f'"{name()}": "{name()}",',
            lambda: f"import {{ {name()} }} from './{word()}/{name()}';",
            lambda: "}",
            lambda: "",
        ])() + "\n")
    kinds = [k for k, weight in KINDS for _ in range(weight)]
    # A file is a part of one of these blocks of lines.
    blocks = ["".join(rng.choices(lines, k=8_000)) for _ in range(24)]
    os.makedirs(os.path.join(root, ".git"))
    with open(os.path.join(root, ".gitignore"), "w") as f:
        f.write("target/\nnode_modules/\n*.log\n/dist\n!keep.log\n**/.cache\n")
    folders = [""]
    while len(folders) < max(files // 12, 2):
        parent = rng.choice(folders[-400:]) if rng.random() < 0.8 else rng.choice(folders)
        if parent.count("/") < 9:
            folders.append(os.path.join(parent, f"{word()}{len(folders)}"))
    for folder in folders:
        os.makedirs(os.path.join(root, folder), exist_ok=True)
        if rng.random() < 0.01:
            with open(os.path.join(root, folder, ".gitignore"), "w") as f:
                f.write("*.tmp\nbuild/\n")
    for n in range(files):
        kind = rng.choice(kinds)
        size = min(int(rng.lognormvariate(7.82, 1.2)), 400_000)
        block = rng.choice(blocks)
        start = rng.randrange(0, max(len(block) - size, 1))
        text = block[start:start + size]
        if n % 9_973 == 5:
            text += "\n// quixotic_zephyr_marker is here\n"
        data = b"\x89PNG\r\n\x1a\n\0\0\0" + text.encode() if kind == "png" else text.encode()
        with open(os.path.join(root, rng.choice(folders), f"{word()}_{n}.{kind}"), "wb") as f:
            f.write(data)
    ignored = os.path.join(root, "node_modules", "dep")
    os.makedirs(ignored)
    for n in range(2_000):
        with open(os.path.join(ignored, f"m{n}.js"), "w") as f:
            f.write(blocks[0][:2_000])


# Name, what ripgrep is given, tool and input. ripgrep prints line numbers; it is not asked to sort.
QUERIES = [
    ("rare literal", ["-n", "quixotic_zephyr_marker"], "grep", {"pattern": "quixotic_zephyr_marker"}),
    ("no match", ["-n", "nowhere_to_be_found_xyz"], "grep", {"pattern": "nowhere_to_be_found_xyz"}),
    ("any case", ["-n", "-i", "QUIXOTIC_zephyr"], "grep", {"pattern": "QUIXOTIC_zephyr", "-i": True}),
    ("regex, some", ["-n", r"fn \w+_cursor\w*\(mutex"], "grep", {"pattern": r"fn \w+_cursor\w*\(mutex"}),
    ("regex without literal", ["-n", r"\b\w{24,}\d\d_\w+"], "grep", {"pattern": r"\b\w{24,}\d\d_\w+"}),
    ("common regex", ["-n", r"fn \w+\("], "grep", {"pattern": r"fn \w+\("}),
    ("every line", ["-n", "."], "grep", {"pattern": "."}),
    ("files only", ["-l", "fn mutex"], "grep", {"pattern": "fn mutex", "mode": "files"}),
    ("counts", ["-c", "mutex_cursor"], "grep", {"pattern": "mutex_cursor", "mode": "count"}),
    ("type rust", ["-n", "-t", "rust", "mutex_cursor_"], "grep", {"pattern": "mutex_cursor_", "type": "rust"}),
    ("glob *.ts", ["-n", "-g", "*.ts", "mutex_cursor_"], "grep", {"pattern": "mutex_cursor_", "glob": "*.ts"}),
    ("across lines", ["-n", "-U", r"mutex_cursor\(.*\n.*return mutex"], "grep",
     {"pattern": r"mutex_cursor\(.*\n.*return mutex"}),
    ("names: **/*.rs", ["--files", "-g", "**/*.rs"], "glob", {"pattern": "**/*.rs"}),
    ("names: one", ["--files", "-g", "*_4711.*"], "glob", {"pattern": "*_4711.*"}),
    ("names: all", ["--files"], "glob", {"pattern": "**/*"}),
]


def run(command, cwd):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        sys.exit(f"{command}: {done.stderr.decode()}")
    return wall * 1000, (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rg", action="append")
    parser.add_argument("--tree")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--ours", default="target/release/examples/search")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    ours = os.path.abspath(args.ours)
    tree = args.tree or os.path.join(tempfile.mkdtemp(prefix="search-bench-"), "tree")
    if not os.path.isdir(tree):
        make_tree(tree, args.files)
    for rg in args.rg or ["rg"]:
        version = subprocess.run([rg, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
        print(f"\n{version}; {args.runs} pairs; medians in ms: wall (CPU)\n")
        print(f"{'query':24}{'ripgrep':>16}{'becket':>16}{'wall':>8}{'CPU':>8}")
        for name, rg_args, tool, asked in QUERIES:
            if args.only not in name:
                continue
            # ripgrep searches "./" when it is told so; without it, it would read a pipe as its input.
            pair = ([rg, "--no-config", *rg_args, "./"], [ours, tool, json.dumps(asked)])
            for command in pair:
                run(command, tree)
            taken = ([], [])
            for n in range(args.runs):
                for side in (0, 1) if n % 2 == 0 else (1, 0):
                    taken[side].append(run(pair[side], tree))
            wall = [statistics.median(t[0] for t in side) for side in taken]
            cpu = [statistics.median(t[1] for t in side) for side in taken]
            cells = [f"{w:.0f} ({c:.0f})" for w, c in zip(wall, cpu)]
            ratios = [statistics.median(b[k] / a[k] for a, b in zip(*taken)) for k in (0, 1)]
            print(f"{name:24}{cells[0]:>16}{cells[1]:>16}{ratios[0]:>8.2f}{ratios[1]:>8.2f}", flush=True)


main()
