//! A bounded run of the fuzz target `shell_syntax` without a fuzzer: texts from fragments of scripts, mutated at random.
//!
//! `BECKET_FUZZ` sets how many texts are made (6,000), `BECKET_SEED` which.

use becket_shell_syntax::fuzzing::check;

/// Scripts with every construct of the grammar, from which texts are cut and put together.
const SEEDS: &[&str] = &[
    "ls -la \"$HOME\"/x && cat <a.txt >b.txt 2>&1 | sort -u > \"c d\"",
    "for f in *.rs; do echo \"$f\"; done; while read -r x; do :; done < file",
    "if [[ -f a && b =~ c ]]; then (cd d; make); elif test -v 'a[$(x)]'; then { x; }; else y; fi",
    "case $x in a|b) ls;; *.c) pwd;& [!z]) id;;& esac",
    "cat <<E\n$(ls) ${x:-$(pwd)}\nE\ncat <<-'E'\n\tx\n\tE\ncat <<< \"$y\"",
    "f() { local a=1; return $((a + 1)); }; function g { f; }; select x in a; do break; done",
    "a=(1 2 $(ls)); a[$i]=x; echo ${a[@]:1:2} ${#a} ${!a} ${a//b/c} ${a^^}",
    "env -i A=1 timeout 5 nice -n 3 bash -c 'ls; pwd' | xargs -0 -I{} sh -c 'echo {}'",
    "{fd}>x; exec 3<>y; diff <(ls a) >(cat) ; coproc n { ls; }; time ! ls &",
    "printf -v a[1] x; let 'b=c[1]'; (( i++ , j-- )); echo $'a\\x41\\u00e9' $\"t\" `ls \\`pwd\\``",
    "trap 'rm x' EXIT; eval \"$y\"; . ./z; source z; alias l=ls; unset 'a[0]'; declare -A m=([k]=v)",
    "# comment\nls \\\n  -a # more\nét\u{301} \u{200b} 'ü' \u{202e}x \t\r\n",
];
/// Fragments that begin or end something.
const MARKS: &[&str] = &[
    "'",
    "\"",
    "`",
    "$(",
    ")",
    "${",
    "}",
    "((",
    "))",
    "[[",
    "]]",
    "<<E\n",
    "\nE\n",
    ";;",
    "\\",
    "\n",
    "&&",
    "|&",
    ">|",
    "$'",
    "$\"",
    "<(",
    "{",
    "esac",
    "done",
    "fi",
    "in ",
    "\0",
    "\u{feff}",
    "\u{1b}",
    "\u{e0041}",
];

/// A small generator of numbers, so that a seed gives the same texts everywhere (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % most.max(1)
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    /// A part of a text, cut at characters.
    fn part(&mut self, text: &str) -> String {
        let count = text.chars().count();
        let from = self.below(count);
        let length = self.below(40) + 1;
        text.chars().skip(from).take(length).collect()
    }

    fn text(&mut self) -> String {
        let mut text = match self.below(3) {
            0 => self.pick(SEEDS).to_owned(),
            1 => {
                let seed = self.pick(SEEDS);
                self.part(seed)
            }
            _ => String::new(),
        };
        for _ in 0..self.below(8) {
            let at = self.below(text.chars().count() + 1);
            let byte = text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
            match self.below(6) {
                0 => text.insert_str(byte, self.pick(MARKS)),
                1 => {
                    let seed = self.pick(SEEDS);
                    text.insert_str(byte, &self.part(seed));
                }
                2 => _ = (byte < text.len()).then(|| text.remove(byte)),
                3 => text.truncate(byte),
                4 => text.insert_str(byte, &self.pick(MARKS).repeat(12)),
                _ => {
                    let c = char::from_u32(self.below(0x3000) as u32).unwrap_or('x');
                    text.insert(byte, c);
                }
            }
        }
        text
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn laws_hold_for_random_texts() {
    let mut numbers = Numbers(number("BECKET_SEED", 20_261_126).max(1));
    for _ in 0..number("BECKET_FUZZ", 6_000) {
        let text = numbers.text();
        assert_eq!(check(&text), Ok(()), "{text:?}");
    }
}

#[test]
fn laws_hold_at_the_limits_of_length_and_depth() {
    for piece in SEEDS.iter().chain(MARKS) {
        for count in [2, 60, 300] {
            let text = piece.repeat(count);
            assert_eq!(check(&text), Ok(()), "{piece:?} {count} times");
            let apart = format!("{piece} ").repeat(count);
            assert_eq!(check(&apart), Ok(()), "{piece:?} {count} times, apart");
        }
    }
    assert_eq!(check(&"a".repeat(300_000)), Ok(()));
}
