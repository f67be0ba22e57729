//! Hostile commands by class: each table multiplies forms by what hides in them. None may run without a question.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use becket_guard::{Guard, GuardSettings, Rules, Verdict};
use becket_types::{Access, PermissionMode};
use serde_json::Value;
use std::path::PathBuf;

fn guard(allow: &[&str], mode: PermissionMode) -> Guard {
    Guard::new(GuardSettings {
        rules: Rules::parse(allow, &[], &[]).unwrap(),
        mode,
        roots: vec![PathBuf::from("/repo")],
        home: PathBuf::from("/home/u"),
        own: vec![PathBuf::from("/home/u/.config/becket")],
    })
}

fn allowed(guard: &Guard, command: &str) -> bool {
    matches!(guard.check("bash", &Access::execute(command), &Value::Null), Verdict::Allow { .. })
}

/// None of `commands` runs under `rules` in any mode that asks.
fn held(rules: &[&str], commands: &[String], least: usize) {
    assert!(commands.len() >= least, "{}", commands.len());
    let mut through = Vec::new();
    for mode in [PermissionMode::Default, PermissionMode::Plan, PermissionMode::DontAsk] {
        let guard = guard(rules, mode);
        through.extend(commands.iter().filter(|c| allowed(&guard, c)).map(|c| format!("{mode}: {c}")));
    }
    assert!(through.is_empty(), "{} ran:\n{}", through.len(), through.join("\n"));
}

/// Every form with every filling in place of `@`.
fn product(forms: &[&str], fillings: &[&str]) -> Vec<String> {
    forms.iter().flat_map(|form| fillings.iter().map(|filling| form.replace('@', filling))).collect()
}

const SUBSCRIPTS: &[&str] = &[
    "a[$(pwn)]",
    "a[`pwn`]",
    "a['$(pwn)']",
    "x[0$(pwn)]",
    "a[b[$(pwn)]]",
    "a[\"$(pwn)\"]",
    "a[${c[$(pwn)]}]",
];

#[test]
fn subscripts_are_evaluated_nowhere() {
    let forms = [
        ": {@}>/dev/null",
        "echo x {@}>/dev/null",
        "ls {@}</dev/null",
        "{ ls; } {@}>/dev/null",
        "cat {@}<<EOF\nx\nEOF",
        "ls {@}\\\n>/dev/null",
        "test -v '@'",
        "[ -v '@' ]",
        "[ ! -v '@' ]",
        "[ -R '@' ]",
        "[[ -v @ ]]",
        "[[ '@' -eq 1 ]]",
        "[[ 1 -lt '@' ]]",
        "[[ ( -n x ) && '@' -gt 1 ]]",
        "printf -v '@' x",
        "printf '%n' '@'",
        "printf 'x%5n' '@'",
        "printf 'x%.3ln' '@'",
        "printf '%s%*n' a 3 '@'",
        "printf -- '%hhn' '@'",
        "read '@' <a.txt",
        "read -r x '@' <a.txt",
        "mapfile -C '@' x <a.txt",
        "let '@'",
        "let 'x=@'",
        "declare '@=1'",
        "declare -i x='@'",
        "export '@=1'",
        "typeset '@'",
        "readonly '@=1'",
        "unset '@'",
        "unset -v '@'",
        "wait -p '@'",
        "getopts x '@'",
        "(( @ ))",
        "(( x = @ ))",
        "echo $(( @ ))",
        "echo $[ @ ]",
        "echo ${@}",
        "echo ${#@}",
        "echo \"${@}\"",
        "echo ${x:@}",
        "echo ${x:0:@}",
        "for (( i=@; i<1; i++ )); do ls; done",
        "@=1; ls",
        "@+=1 ls",
    ];
    let mut commands = product(&forms, SUBSCRIPTS);
    let operators =
        ["x=-v; test $x '@'", "x=-v; test \"$x\" '@'", "x=-v; [ $x '@' ]", "set -- -v; test $1 '@'"];
    commands.extend(product(&operators, SUBSCRIPTS));
    commands
        .extend(product(&["test $(echo -v) '@'", "[ \"$(echo -v)\" '@' ]", "test -{v,v} '@'"], SUBSCRIPTS));
    commands
        .extend(product(&["test \"$@\" '@'", "[ ! $x '@' ]", "[ x = x -a $o '@' ]", "[ * ]"], SUBSCRIPTS));
    held(&[], &commands, 300);
    held(&["Bash(test *)", "Bash(echo *)"], &product(&operators, SUBSCRIPTS), 20);
}

#[test]
fn rules_do_not_stretch_over_words_that_are_not_known() {
    let dynamic =
        ["$x", "\"$x\"", "${x}", "$(echo -y)", "`echo -y`", "{-y,z}", "*", "-[a-z]*", "?y", "\"$@\"", "$@"];
    let forms = [
        "find . -name a.txt @",
        "find @ -name a.txt",
        "find . @ touch b ';'",
        "x=-delete; find . @",
        "rg @ hello",
        "rg -n @ hello src",
        "fd @ x",
        "sort @ a.txt",
        "sort a.txt @",
        "tar -cf a.tar @ b",
        "rsync -a @ b c:",
        "git log @",
        "git diff @ HEAD",
        "git rebase @ main",
        "git grep @ x",
        "git clone @ https://a.example/b",
        "git @ status",
        "git config @ x",
        "git config --get @",
        "npm run build @",
        "npm test @",
        "npx tsc @",
        "pnpm run b @",
        "cargo @ test",
        "cargo test @",
        "cargo build --release @",
        "make @",
        "make test @",
        "go test @ ./...",
        "gcc @ a.c",
        "nm @",
        "sed @ a.txt",
        "sed -n @ a.txt",
        "sed -e @ a.txt",
        "awk @ a.txt",
        "curl @ https://a.example",
        "ls | xargs find @",
        "ls | xargs -I{} find {} @",
        "timeout 5 find . @",
    ];
    held(RULES, &product(&forms, &dynamic), 400);
    let piped = [
        "xargs find",
        "xargs rg",
        "xargs sort",
        "xargs npm run b",
        "xargs make",
        "xargs sed",
        "xargs -n1 cargo test",
    ];
    held(RULES, &product(&["ls | @", "@ <a.txt", "ls | timeout 5 @", "cat a.txt | env @"], &piped), 28);
}

const RULES: &[&str] = &[
    "Bash(find *)",
    "Bash(rg *)",
    "Bash(fd *)",
    "Bash(sort *)",
    "Bash(tar *)",
    "Bash(rsync *)",
    "Bash(git *)",
    "Bash(npm *)",
    "Bash(npm run *)",
    "Bash(npx *)",
    "Bash(pnpm *)",
    "Bash(cargo *)",
    "Bash(make *)",
    "Bash(go *)",
    "Bash(gcc *)",
    "Bash(nm *)",
    "Bash(sed *)",
    "Bash(awk *)",
    "Bash(curl *)",
    "Bash(test *)",
    "Bash(printf *)",
    "Bash(gradle *)",
];

#[test]
fn rules_do_not_stretch_over_what_runs_something_else() {
    let commands = [
        "find . -exec touch x ';'",
        "find . -delete",
        "find . </dev/null -delete",
        "find . 2>/dev/null -exec touch x ';'",
        "rg x <a --pre=./e",
        "git log <a --output=x",
        "find . -name a -fprintf b x",
        "rg --pre=./e x",
        "rg --pre ./e x",
        "rg --hostname-bin=./e x",
        "rg -nz x",
        "fd -Hx pwn",
        "fd -uX pwn",
        "fd --exec-batch pwn",
        "sort -uo b a",
        "sort --compress=./e a",
        "git config core.fsmonitor 'touch x' --list",
        "git config core.fsmonitor 'touch x' --get",
        "git config --list core.pager x",
        "git config core.pager x -l",
        "git config --get-regexp a b c",
        "git config --global --add core.pager pwn --list",
        "git config --get x --replace-all core.pager pwn",
        "git config set core.pager pwn",
        "git config --edit --list",
        "npm run b --script-shell=./e.sh",
        "npm run b --script-shell ./e.sh",
        "npm run b --script-sh=./e.sh",
        "npm run b -script-shell=./e.sh",
        "npm run b --script_shell=./e.sh",
        "npm run b --SCRIPT-SHELL=./e.sh",
        "npm --userconfig=./rc run b",
        "npm run b --node-options=--require=./e",
        "npm --prefix /tmp/e run b",
        "npm exec -c pwn",
        "npx -c pwn",
        "npx --call=pwn",
        "pnpm -C /tmp/e run b",
        "pnpm run b --shell-emulator",
        "cargo --config build.rustc-wrapper='\"./e\"' build",
        "cargo build --config e.toml",
        "cargo build --config=e.toml",
        "cargo test --manifest-path /tmp/e/Cargo.toml",
        "cargo -Zscript e.rs",
        "cargo -C /tmp/e build",
        "cargo +/tmp/e build",
        "make SHELL=./e",
        "make CC=./e test",
        "make test CC=pwn",
        "make -f /tmp/e",
        "make -kf e",
        "make --eval='x:;pwn'",
        "make --ev='x:;pwn'",
        "make -E 'x:;pwn'",
        "make -C /tmp/e",
        "make --direc=/tmp/e",
        "make V='1 $(shell pwn)'",
        "go test -exec pwn ./...",
        "go build -toolexec=pwn",
        "go vet -vettool=./e",
        "go build --overlay=e.json",
        "go test -C /tmp/e",
        "gcc -wrapper pwn a.c",
        "gcc -fplugin=./e.so a.c",
        "gcc -B./e a.c",
        "gcc -specs=e a.c",
        "gcc @e",
        "nm @e",
        "nm --plugin ./e.so a",
        "nm --plug=./e.so a",
        "sed 'w b' a",
        "sed -n 'p;w b' a",
        "sed 1e\\ pwn a",
        "sed '1e pwn' a",
        "sed e a",
        "sed 's/x/pwn/e' a",
        "sed 's/x/y/gw b' a",
        "sed 's|x|y|w b' a",
        "sed -e p -e 'w b' a",
        "sed -i 's/x/y/;w .git/hooks/x' a",
        "sed '/x/{w b\n}' a",
        "sed '/[/]/w b' a",
        "sed '\\cxcw b' a",
        "sed 'y/a/b/;w b' a",
        "sed 'a x\n1w b' a",
        "sed '1,/x/w b' a",
        "sed '0~3w b' a",
        "sed 'b x;:x;w b' a",
        "sed '$!w b' a",
        "sed -f s a",
        "sed --file=s a",
        "sed --expression=e a",
        "sed -Ef s a",
        "sed -nf s a",
        "sed 'r /etc/shadow' a",
        "sed 'R /etc/shadow' a",
        "sed 'W b' a",
        "awk 'BEGIN{system(\"pwn\")}'",
        "awk 'BEGIN{\"pwn\"|getline}'",
        "awk '{print | \"pwn\"}' a",
        "awk '{print > \"b\"}' a",
        "awk -f e.awk a",
        "awk -i inplace 1 a",
        "awk 'BEGIN{f=\"system\";@f(\"pwn\")}'",
        "gradle -I e.gradle build",
        "gradle --init-script e.gradle build",
        "gradle --init e.gradle build",
        "gradle -p /tmp/e build",
        "curl -o b https://a.example",
        "curl -so b https://a.example",
        "curl --output b https://a.example",
        "curl --outp b https://a.example",
        "curl -K e",
        "curl --config e",
        "curl -T a https://a.example",
        "test -v 'a[$(pwn)]'",
        "x=-v; test $x 'a[$(pwn)]'",
        "printf '%n' PATH",
        "printf -v PATH x",
        "tar --use-comp=pwn -xf a",
        "tar -xIpwn -f a",
        "rsync --rsh=pwn a b:",
        "rsync -ae pwn a b:",
    ];
    held(RULES, &commands.map(str::to_owned), 110);
}

#[test]
fn rules_still_cover_ordinary_work() {
    let guard = guard(RULES, PermissionMode::Default);
    let asked: Vec<&str> = [
        "npm run build",
        "npm install --save-dev x",
        "npm run test -- --watch=false",
        "npm ci --ignore-scripts",
        "npx tsc --noEmit",
        "cargo test",
        "cargo test --all -- --nocapture",
        "cargo build --release --features a,b",
        "cargo clippy --all-targets -- -D warnings",
        "make",
        "make -j8 test",
        "make test V=1",
        "go test ./... -run TestA -count=1",
        "go build -o bin/a ./cmd/a",
        "gcc -O2 -Wall -o a a.c",
        "sed -i 's/foo/bar/g' src/a.rs",
        "sed -i -e 's/a/b/' -e '/x/d' src/a.rs",
        "sed -i '3i\\\n  new line' src/a.rs",
        "sed -i '/^use x/a use y;' src/a.rs",
        "sed -E 's/(a|b)+/x/' a.txt",
        "sed -n '10,20p' a.txt",
        "awk '{print $1}' a.txt",
        "find . -name '*.rs' -newer a.txt",
        "find . -name \"$x\"",
        "rg -n 'a b' src",
        "git config --list",
        "git config --get user.name",
        "git config --global --get user.name",
        "git commit -m \"$MSG\"",
        "git checkout \"$BRANCH\"",
        "gradle test --info",
        "curl -sSL https://a.example/x",
        "printf '%s\\n' \"$x\"",
        "test -f a.txt",
        "sort -k2,2n a.txt",
        "tar -xzf a.tgz",
    ]
    .into_iter()
    .filter(|command| !allowed(&guard, command))
    .collect();
    assert!(asked.is_empty(), "{asked:?}");
}

const OBEYED: &[&str] = &[
    "PATH",
    "IFS",
    "BASH_ENV",
    "ENV",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "GIT_DIR",
    "GIT_PAGER",
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH_COMMAND",
    "GIT_CONFIG_COUNT",
    "GIT_OPTIONAL_LOCKS",
    "PAGER",
    "LESSOPEN",
    "CDPATH",
    "HOME",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "PROMPT_COMMAND",
    "RIPGREP_CONFIG_PATH",
    "GREP_OPTIONS",
    "npm_config_script_shell",
];

#[test]
fn no_variable_that_others_obey_is_set() {
    let forms = [
        "@=x; ls",
        "@=x ls",
        "export @=x; ls",
        "declare -x @=x; ls",
        "readonly @=x; ls",
        "printf 'abc%n' @; ls",
        "printf 'abc%1n' @; ls",
        "printf -v @ x; ls",
        ": {@}>/dev/null; ls",
        ": {@}</dev/null; ls",
        "echo {@}&>/dev/null; ls",
        ": ${@:=x}; ls",
        ": ${@=x}; ls",
        "for @ in a b; do ls; done",
        "select @ in a b; do ls; done",
        "read @ <a.txt; ls",
        "mapfile @ <a.txt; ls",
        "getopts a @; ls",
        "let @=1; ls",
        "(( @ = 1 )); ls",
        "echo $(( @ = 1 )); ls",
        "unset @; ls",
        "local @=x; ls",
        "env @=x ls",
        "declare -n x=@; x=y; ls",
    ];
    held(&[], &product(&forms, OBEYED), 500);
    let shadows = [
        "@() { :; }; @ x",
        "function @ { :; }; @ x",
        "alias @=pwn; @ x",
        "hash -p ./pwn @; @ x",
        "enable -n @; @ x",
    ];
    held(&[], &product(&shadows, &["ls", "git", "cat", "cd", "test", "echo", "printf"]), 30);
    held(
        &[],
        &["LANGUAGE=../../repo/x ls", "TZ=:/etc/shadow date", "LC_ALL=/repo/x ls", "TERM=../x ls"]
            .map(str::to_owned),
        4,
    );
}

#[test]
fn options_are_read_as_the_program_reads_them() {
    let commands = [
        "xxd -ps a.txt k.txt",
        "xxd -ps a.txt .git/hooks/pre-commit",
        "xxd -p a.txt k.txt",
        "xxd a.txt k.txt",
        "xxd -postscript a.txt k.txt",
        "xxd -c 16 a.txt k.txt",
        "xxd -plain a.txt k.txt",
        "xxd -r a.txt",
        "xxd -revert a.txt k.txt",
        "xxd a.txt -r",
        "xxd -s 4 a.txt k.txt",
        "xxd -g1 a.txt k.txt",
        "xxd -- a.txt k.txt",
        "nm ./a.txt @o",
        "nm @o",
        "nm --plugin=./e.so a.txt",
        "size @o",
        "readelf @o",
        "objdump @o",
        "strings @o",
        "strings a.txt @o",
        "uniq a.txt b.txt",
        "uniq a.txt -c",
        "uniq -c a.txt b.txt",
        "uniq a.txt -- -c",
        "sort -o b.txt a.txt",
        "sort a.txt -o b.txt",
        "sort -uo b.txt a.txt",
        "sort --outp=b.txt a.txt",
        "sort --compress-prog=./e a.txt",
        "sort -T . a.txt",
        "sort --files0-from=a.txt",
        "sort -k 1 -o b.txt a.txt",
        "sort -k -o a.txt",
        "column -d /etc/shadow",
        "column -e /etc/shadow",
        "od -w /etc/shadow",
        "ls -T /etc",
        "grep -A /etc/shadow x a.txt",
        "grep -f a.txt b.txt",
        "grep --file=a.txt b.txt",
        "grep --fil a.txt b.txt",
        "grep -Rn x .",
        "grep -rf /etc/shadow .",
        "rg --pre ./e x",
        "rg --pre=./e x",
        "rg -z x",
        "rg --search-zip x",
        "rg -L x",
        "rg --hostname-bin=./e x",
        "rg --ignore-file /etc/shadow x",
        "rg -f /etc/shadow .",
        "fd -x pwn",
        "fd -Hx pwn",
        "fd -HX pwn",
        "fd --exec pwn",
        "fd --exec-b pwn",
        "fd -l x",
        "fd --base-directory=/etc x",
        "find . -exec pwn ;",
        "find . -delete",
        "find . -fls f",
        "find . -fprintf f x",
        "find -L . -name x",
        "find -files0-from a.txt",
        "tree -o f",
        "tree -ao f",
        "tree -l",
        "tree --output=f",
        "tree -R -L 1",
        "file -C -m a.txt",
        "file -m a.txt b",
        "file -f a.txt",
        "file -z a.zip",
        "diff -r a b",
        "diff --recursive a b",
        "diff --recurs a b",
        "diff -l a.txt b.txt",
        "diff --paginate a.txt b.txt",
        "diff --to-file=/etc/shadow a.txt",
        "du -L .",
        "du --files0-from=a.txt",
        "wc --files0-from=a.txt",
        "who /etc/shadow",
        "who -a /etc/shadow",
        "lscpu -s /etc",
        "hostname evil",
        "hostname -F a.txt",
        "hostname -f",
        "date -s now",
        "date -us now",
        "date 01010000",
        "date -f /etc/shadow",
        "date --set now",
        "jq -f a.jq b.json",
        "jq -L . . b.json",
        "jq --from-file a.jq b",
        "jq --slurpfile x /etc/shadow . b.json",
        "awk -f a.awk b",
        "awk -fa.awk b",
        "awk -W exec=a b",
        "gawk -i inplace 1 b",
        "gawk -l ./e 1 b",
        "gawk --load ./e 1",
        "sed -i p a",
        "sed -ni p a",
        "sed -n -i p a",
        "sed --in-place p a",
        "sed --in p a",
        "sed -f a b",
        "sed -sn w\\ b a",
        "sed -n 'w b' a",
        "sed '1e pwn' a",
        "sed 1e a",
        "sed e a",
        "sed 's/x/pwn/e' a",
        "sed 's/x/y/w b' a",
        "sed 's/x/y/gw b' a",
        "sed -n '$w b' a",
        "sed -n '/x/w b' a",
        "sed -n '1!e' a",
        "sed -e p -e 'w b' a",
        "sed 'r /etc/shadow' a",
        "sed '{w b\n}' a",
        "sed 'p;w b' a",
        "git symbolic-ref {HEAD,refs/heads/evil}",
        "git symbolic-ref HEAD refs/heads/evil",
        "git symbolic-ref $x",
        "git symbolic-ref --delete HEAD",
        "git remote $x",
        "git remote {add,x,y}",
        "git stash $x",
        "git worktree {add,x}",
        "git config --get {core.pager,x}",
        "git branch {--list,-D,x}",
        "git log $x",
        "git log {--output=f,-p}",
        "git diff \"$x\"",
        "git status $(echo -x)",
    ];
    held(&[], &commands.map(str::to_owned), 120);
}

#[test]
fn what_the_tables_know_still_runs() {
    let guard = guard(&[], PermissionMode::Default);
    let asked: Vec<&str> = [
        "xxd a.bin",
        "xxd -p a.bin",
        "xxd -ps a.bin",
        "xxd -l 64 a.bin",
        "xxd -l64 -c 8 a.bin",
        "printf '%s\\n' \"$x\"",
        "printf '%5.2f%%\\n' 1",
        "test -f a.txt",
        "[ -z \"$x\" ] && echo none",
        "[ \"$x\" = y ]",
        "[ \"$(git rev-parse HEAD)\" != abc ]",
        "[ $? -eq 0 ] && echo fine",
        "[ ! -d src ]",
        "[ -f a -a -f b ]",
        "uniq -c a.txt",
        "sort -k2,2 -t, a.txt",
        "git symbolic-ref --short HEAD",
        "grep @x a.txt",
        "LC_ALL=en_US.UTF-8 ls",
        "TZ=Europe/Berlin date",
        "cut -d / -f 1 a.txt",
    ]
    .into_iter()
    .filter(|command| !allowed(&guard, command))
    .collect();
    assert!(asked.is_empty(), "{asked:?}");
}

#[test]
fn what_stands_together_is_one_word() {
    // Behind a closing quote an escaped letter continues the word, and the next quote is another piece of it.
    let forms = [
        r"bash -c 'ls '\n@",
        r#"bash -c "ls "\n@"#,
        r"sh -c 'cat '\n@",
        r"eval 'ls '\n@",
        "bash -c 'ls '\\\n@",
        r"bash -c $'ls '\n@",
        r"timeout 5 bash -c 'ls '\x\y@",
        r"x='a'\n@; ls",
        r"for f in 'a'\n@; do ls; done",
        r"ls 'a'\n@ | bash",
        r">'a'\n@ ls",
    ];
    let fillings = ["'; pwn'", "' $(pwn)'", "' <(pwn)'", "\"; pwn\"", "'`pwn`'", "' | pwn'", "'\npwn'"];
    held(&[], &product(&forms, &fillings), 70);
}
