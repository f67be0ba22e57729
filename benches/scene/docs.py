#!/usr/bin/env python3
"""Draws the pictures of docs/pictures again: the scene of `scene.py` played to becket, and the turn of `becket screenshot`.

usage: benches/scene/docs.py [BECKET] [FOLDER]

BECKET: a release build (default: target/release/becket). FOLDER: where the pictures go (default: docs/pictures). Each picture is
checked for words that must be on it before any file of FOLDER is changed, so a scene that went wrong replaces nothing. Needs tmux and
Pillow; takes some minutes.
"""
import os, shutil, signal, subprocess, sys, tempfile
import scene

ROOT = os.path.abspath(os.path.join(scene.HERE, "../.."))
EVENTS = os.path.join(ROOT, "crates/tui/tests/screens/scene.jsonl")
SCENES = [("80x24", "dark"), ("80x24", "light"), ("80x24", "16"), ("80x24", "nocolor"), ("120x40", "dark")]
QUESTION = (9, ["❯ 1 ", "2 ", "span.py"])
END = (4, ["done in", "edited src/span.py"])
# The name of a picture: its scene, the number of its moment, and words that are on it.
PICTURES = {
    **{f"question-{name}": (scene_, *QUESTION) for name, scene_ in zip(["dark", "light", "16", "nocolor", "120x40"], SCENES)},
    **{f"end-{name}": (scene_, *END) for name, scene_ in zip(["dark", "light", "16", "nocolor", "120x40"], SCENES)},
    "subagent-dark": (SCENES[0], 10, ["Esc interrupts"]),
    "retry-dark": (SCENES[0], 12, ["retry"]),
    "compaction-dark": (SCENES[0], 14, ["compacted"]),
}


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if len(sys.argv) > 3 or any(argument.startswith("-") for argument in sys.argv[1:]):
        sys.exit(__doc__)
    given = dict(enumerate(sys.argv))
    binary = os.path.abspath(given.get(1, os.path.join(ROOT, "target/release/becket")))
    out = given.get(2, os.path.join(ROOT, "docs/pictures"))
    if not os.access(binary, os.X_OK):
        sys.exit(f"{binary} is no program: build it with `cargo build --release`, or name another one")
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        for size, look in SCENES:
            print(f"{size} {look}", file=sys.stderr)
            scene.play("becket", folder, binary, tuple(map(int, size.split("x"))), look, "png")
        drawn, faults = {}, []
        for name, ((size, look), moment, words) in PICTURES.items():
            stem = os.path.join(folder, f"becket-{size}-{look}-{moment}")
            drawn[f"{name}.png"] = f"{stem}.png"
            try:
                with open(f"{stem}.txt") as file:
                    text = file.read()
            except OSError as error:
                faults.append(f"{name}: {error}")
                continue
            faults += [f"{name}: {word!r} is not on the picture:\n{text}" for word in words if word not in text]
        for theme in ["dark", "light"]:
            path = os.path.join(folder, f"task-{theme}.svg")
            subprocess.run([binary, "screenshot", EVENTS, "-o", path, "--theme", theme, "--size", "80x62"], check=True, stdout=subprocess.DEVNULL)
            drawn[f"task-{theme}.svg"] = path
        if faults:
            sys.exit("\n".join(["No picture was replaced.", *faults]))
        os.makedirs(out, exist_ok=True)
        for name, path in drawn.items():
            shutil.copyfile(path, os.path.join(out, name))
        print(f"{len(drawn)} pictures in {out}")


if __name__ == "__main__":
    main()
