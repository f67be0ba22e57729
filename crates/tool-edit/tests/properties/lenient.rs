//! Lenient edits against an oracle of their own: no byte changes outside of what `old` covers, and the lines are those that
//! the same replacement gives on the exact text. `PROPTEST_CASES` sets the number of cases, `PROPTEST_RNG_SEED` other ones.
//!
//! Each case goes to one of the tools (`edit`, `multi_edit`, `apply_patch`), and what the model sends may have what a corrected
//! reading takes away: line numbers, escaped quotes, or a line in the middle that is not as it is in the file. Cases are made
//! from numbers without proptest, whose trees of choices took most of the time.
//!
//! The oracle shares no code with the tool. It looks for `old` in the file by the characters that are not white space, with
//! Unicode look-alikes as one. Each place that it finds, with the lines that must come out, is one allowed result.

use becket_tool_edit::fuzzing;
use std::collections::BTreeMap;
use std::ops::Range;

/// Choices, one after another; 0 when none is left, so that shrinking makes cases plainer.
struct Dice<'a>(std::slice::Iter<'a, u16>);

impl Dice<'_> {
    fn below(&mut self, n: usize) -> usize {
        usize::from(*self.0.next().unwrap_or(&0)) % n
    }
    fn one<'b>(&mut self, of: &[&'b str]) -> &'b str {
        of[self.below(of.len())]
    }
}

const WORDS: [&str; 22] = [
    "a", "foo", "bar", "x1", "é", "(", ")", ",", ";", "\"", "'", "-", "--", "...", "{", "}", " ", " ", " = ",
    "  ", "[", "]",
];

fn line(dice: &mut Dice<'_>) -> String {
    let indent = dice.one(&["", "", "  ", "    ", "\t"]).to_owned();
    (0..dice.below(6)).fold(indent, |line, _| line + dice.one(&WORDS))
}

fn lines(dice: &mut Dice<'_>, most: usize) -> Vec<String> {
    (0..dice.below(most + 1)).map(|_| line(dice)).collect()
}

/// A line as the file may have it where the model writes `line`.
fn disguised(line: &str, dice: &mut Dice<'_>, deeper: &str) -> String {
    let mut out = deeper.to_owned();
    for c in line.chars() {
        match (c, dice.below(6)) {
            (' ', 0) => out.push_str("  "),
            (' ', 1) => out.push('\t'),
            (' ', 2) => out.push('\u{a0}'),
            ('"', 0) => out.push('“'),
            ('"', 1) => out.push('”'),
            ('\'', 0) => out.push('’'),
            ('-', 0) => out.push('—'),
            ('-', 1) => out.push('–'),
            _ => out.push(c),
        }
    }
    if dice.below(4) == 0 {
        out = out.replace("...", "…");
    }
    out + dice.one(&["", "", "", " ", "\t", "  "])
}

struct Case {
    file: String,
    old: String,
    new: String,
}

fn case(entropy: &[u16]) -> Case {
    let mut dice = Dice(entropy.iter());
    let dice = &mut dice;
    let mut model = vec![line(dice)];
    model.extend(lines(dice, 3));
    let deeper = dice.one(&["", "", "  ", "\t"]);
    let style = dice.below(3);
    let mut file = if dice.below(8) == 0 { "\u{feff}".to_owned() } else { String::new() };
    let own: Vec<String> = model.iter().map(|line| disguised(line, dice, deeper)).collect();
    let (before, after) = (lines(dice, 2), lines(dice, 2));
    let count = before.len() + own.len() + after.len();
    for (i, line) in before.iter().chain(&own).chain(&after).enumerate() {
        file.push_str(line);
        let last = i + 1 == count && dice.below(3) == 0;
        let crlf = style == 1 || style == 2 && dice.below(2) == 0;
        file.push_str(if last {
            ""
        } else if crlf {
            "\r\n"
        } else {
            "\n"
        });
    }
    // The model sends these lines, often without a part of the first and the last one.
    let text = model.join("\n");
    let chars: Vec<char> = text.chars().collect();
    let from = if dice.below(3) == 0 { dice.below(chars.len() + 1) } else { 0 };
    let to = if dice.below(3) == 0 { dice.below(chars.len() + 1) } else { chars.len() };
    let core: String = chars[from.min(to)..to.max(from)].iter().collect();
    let lead = dice.one(&["", "", "", " ", "\n", "  "]);
    let trail = dice.one(&["", "", "\n", "\n", " ", "\n\n"]);
    let mut changed: Vec<String> = core.split('\n').map(str::to_owned).collect();
    let at = dice.below(changed.len());
    match dice.below(6) {
        0 => changed[at] = line(dice),
        1 => changed[at].push_str("foo"),
        2 => changed.insert(at, line(dice)),
        3 => {
            changed.remove(at);
        }
        4 => changed[at] = changed[at].replacen('-', "--", 1).replacen('a', "b c", 1),
        _ => changed = lines(dice, 2),
    }
    let (of_lead, of_trail) = (dice.below(5), dice.below(5));
    let new = format!(
        "{}{}{}",
        if of_lead == 0 { "" } else { lead },
        changed.join("\n"),
        if of_trail == 0 { "" } else { trail }
    );
    Case { file, old: format!("{lead}{core}{trail}"), new }
}

/// The characters that are not white space, each with its place.
fn solid(text: &str) -> Vec<(char, Range<usize>)> {
    let mut out = Vec::new();
    for (at, c) in text.char_indices() {
        let place = at..at + c.len_utf8();
        match c {
            c if c.is_whitespace() || c == '\u{feff}' => {}
            '“' | '”' => out.push(('"', place)),
            '’' => out.push(('\'', place)),
            '—' | '–' => out.push(('-', place)),
            '…' => out.extend([('.', place.clone()), ('.', place.clone()), ('.', place)]),
            c => out.push((c, place)),
        }
    }
    out
}

/// The lines that are not blank, with each group of look-alike characters replaced by one of them, and white space only between words.
fn said(text: &str) -> Vec<String> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let line = |line: &str| {
        let mut out = String::new();
        let mut end = 0;
        for (c, place) in solid(line) {
            if place.start > end && word(c) && out.ends_with(word) {
                out.push(' ');
            }
            end = place.end;
            out.push(c);
        }
        out
    };
    text.split('\n').map(line).filter(|line| !line.is_empty()).collect()
}

/// True if only whole lines of `old` that are really in the file became whole lines of `new`, and all other lines kept their
/// bytes. So `old` may be wrong only in lines that `new` keeps.
fn by_lines(case: &Case, now: &str) -> bool {
    // A mark is no part of the first line.
    let (file, now) = (case.file.trim_start_matches('\u{feff}'), now.trim_start_matches('\u{feff}'));
    // A last line may be without its end, in the file or afterwards, so it is compared with either end.
    let ended =
        |text: &str, end: &str| if text.ends_with('\n') { text.to_owned() } else { format!("{text}{end}") };
    let bare = |text: &str| format!("{}\n", text.trim_end_matches(['\r', '\n']));
    let ends = [("\n", "\n"), ("\n", "\r\n"), ("\r\n", "\n"), ("\r\n", "\r\n")];
    are_lines_of(case, &bare(file), &bare(now))
        || ends.iter().any(|(of_file, of_now)| are_lines_of(case, &ended(file, of_file), &ended(now, of_now)))
}

fn are_lines_of(case: &Case, file: &str, now: &str) -> bool {
    let (file, now): (Vec<&str>, Vec<&str>) =
        (file.split_inclusive('\n').collect(), now.split_inclusive('\n').collect());
    let (mut gone, mut come) = (String::new(), String::new());
    // If `old` covers the end of a kept line, that line gets the end of the last line that `old` covers.
    let mut may_change_end = case.old.contains('\n');
    let bare = |line: &str| line.trim_end_matches(['\r', '\n']).to_owned();
    for op in similar::capture_diff_slices(similar::Algorithm::Myers, &file, &now) {
        let (tag, of_file, of_now) = op.as_tag_tuple();
        if tag != similar::DiffTag::Equal {
            let (mut of_file, mut of_now) = (file[of_file].to_vec(), now[of_now].to_vec());
            let pairs =
                |of_now: &[&str], line: &str| of_now.iter().position(|other| bare(other) == bare(line));
            let kept = of_file.iter().enumerate().find_map(|(at, line)| Some((at, pairs(&of_now, line)?)));
            if let Some((at, same)) = kept.filter(|_| std::mem::take(&mut may_change_end)) {
                of_file.remove(at);
                of_now.remove(same);
            }
            gone.push_str(&of_file.concat());
            come.push_str(&of_now.concat());
        }
    }
    let in_order = |lines: Vec<String>, all: Vec<String>| {
        let mut all = all.into_iter();
        lines.iter().all(|line| all.any(|other| other == *line))
    };
    in_order(said(&gone), said(&case.old)) && in_order(said(&come), said(&case.new))
}

/// `text` without `white` at its end (or beginning), in whichever form of spaces; without all white space on that line if it
/// is not there.
fn without(text: &str, white: &str, at_end: bool) -> String {
    let plain = text.replace('\u{a0}', " ");
    let all = |c: char| c != '\n' && c.is_whitespace();
    if at_end {
        plain.strip_suffix(white).unwrap_or(plain.trim_end_matches(all)).to_owned()
    } else {
        plain.strip_prefix(white).unwrap_or(plain.trim_start_matches(all)).to_owned()
    }
}

fn white_before(text: &str, at: usize) -> usize {
    text[..at].trim_end_matches(|c: char| c.is_whitespace() || c == '\u{feff}').len()
}

fn white_after(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start().len()
}

/// True if `now` is an allowed result at the place `x..y` of the file.
fn allowed(case: &Case, x: usize, y: usize, now: &str) -> bool {
    let Case { file, old, new } = case;
    let lead = &old[..old.len() - old.trim_start().len()];
    let trail = &old[old.trim_end().len()..];
    let (before, after) = (&file[white_before(file, x)..x], &file[y..white_after(file, y)]);
    let (begins, ends) = (white_before(file, x) == 0, white_after(file, y) == file.len());
    // White space at the ends of `old` must match white space of the file, and a newline must match a newline.
    let newlines = |text: &str| text.matches('\n').count();
    let fits = |wanted: &str, there: &str, border: bool| {
        wanted.is_empty()
            || border
            || if newlines(wanted) > 0 { newlines(there) > 0 } else { !there.is_empty() }
    };
    if !fits(lead, before, begins) || !fits(trail, after, ends) {
        return false;
    }
    // Computes the file as if `old` had matched exactly and `new` were in its place.
    let mut rest_before = &file[..x];
    for _ in 0..newlines(lead) {
        rest_before = rest_before.trim_end_matches(|c: char| c != '\n' && c.is_whitespace());
        rest_before = rest_before.strip_suffix('\n').unwrap_or(rest_before);
        rest_before = rest_before.strip_suffix('\r').unwrap_or(rest_before);
    }
    let mut rest_after = &file[y..];
    for _ in 0..newlines(trail) {
        rest_after = rest_after.trim_start_matches(|c: char| c != '\n' && c.is_whitespace());
        rest_after = rest_after.strip_prefix('\n').unwrap_or(rest_after);
    }
    // White space of `old` before its first newline, or after its last one.
    let far_lead = lead.split('\n').next().unwrap_or_default();
    let far_trail = trail.rsplit('\n').next().unwrap_or_default();
    let (rest_before, rest_after) =
        (without(rest_before, far_lead, true), without(rest_after, far_trail, false));
    let exact = format!("{rest_before}{new}{rest_after}");
    // Bytes may change between these two offsets: the lines that `old` covers.
    let line_start = file[..x].rfind('\n').map_or(0, |i| i + 1);
    let line_end = file[y..].find('\n').map_or(file.len(), |i| y + i);
    let low = match lead {
        lead if newlines(lead) > 0 => white_before(file, x),
        _ if white_before(file, x) <= line_start => line_start,
        "" => x,
        _ => white_before(file, x),
    };
    let high = match trail {
        trail if newlines(trail) > 0 => white_after(file, y),
        _ if white_after(file, y) >= line_end => line_end,
        "" => y,
        _ => white_after(file, y),
    };
    now.len() >= low + file.len() - high
        && now.starts_with(&file[..low])
        && now.ends_with(&file[high..])
        && said(now) == said(&exact)
}

/// The tool that a case goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tool {
    Edit,
    MultiEdit,
    ApplyPatch,
}

/// Something in the model's text that the file does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Extra {
    Nothing,
    Numbers,
    Escapes,
    /// A wrong line in the middle of the text, in `old` and `new` alike.
    Anchors,
}

/// A line that nothing else resembles, and what the second edit of a call makes of it.
const MARK: (&str, &str) = ("omega", "OMEGA");

/// Returns the lines of a text with the numbers of a listing. Blank lines have none.
fn numbered(text: &str, first: usize) -> String {
    let mut number = first;
    let line = |line: &str| {
        if line.trim().is_empty() {
            return line.to_owned();
        }
        number += 1;
        format!("{:>6}\t{line}", number - 1)
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Returns a patch with `old` as removed and `new` as added lines.
fn patch(case: &Case) -> String {
    let lines = |sign: &str, text: &str| {
        text.trim_end_matches('\n')
            .split('\n')
            .map(|line| format!("{sign}{line}\n"))
            .collect::<Vec<_>>()
            .concat()
    };
    let added = if case.new.is_empty() { String::new() } else { lines("+", &case.new) };
    format!("*** Begin Patch\n*** Update File: f\n@@\n{}{added}*** End Patch\n", lines("-", &case.old))
}

/// A case as it is judged, and as the model sends it.
struct Sent {
    tool: Tool,
    extra: Extra,
    case: Case,
    old: String,
    new: String,
}

fn sent(entropy: &[u16]) -> Sent {
    let (choices, rest) = entropy.split_at(4);
    let mut dice = Dice(choices.iter());
    let tool = [Tool::Edit, Tool::MultiEdit, Tool::ApplyPatch][dice.below(3)];
    let extra =
        [Extra::Nothing, Extra::Nothing, Extra::Numbers, Extra::Escapes, Extra::Anchors][dice.below(5)];
    let mut case = case(rest);
    if tool == Tool::MultiEdit {
        if !case.file.ends_with('\n') {
            case.file.push('\n');
        }
        case.file = format!("{}{}\n", case.file, MARK.0);
    }
    if tool == Tool::ApplyPatch {
        // A hunk consists of whole lines.
        case.old = format!("{}\n", case.old.trim_end_matches('\n'));
        case.new =
            if case.new.is_empty() { case.new } else { format!("{}\n", case.new.trim_end_matches('\n')) };
    }
    if extra == Extra::Anchors {
        // A kept line between two others, with a word that the file does not have.
        let kept =
            case.old.split('\n').skip(1).find(|line| line.trim().len() > 1 && case.new.contains(*line));
        if let Some(kept) = kept.map(str::to_owned) {
            let odd = format!("{kept}zz");
            case.old = case.old.replacen(&kept, &odd, 1);
            case.new = case.new.replacen(&kept, &odd, 1);
        }
    }
    let first = 1 + dice.below(40);
    let (old, new) = match extra {
        Extra::Numbers => (numbered(&case.old, first), numbered(&case.new, first)),
        // The model escapes quotes in `old` and `new` alike; `new` loses only those escapes that `old` has, too.
        Extra::Escapes if case.old.contains('"') => {
            (case.old.replace('"', "\\\""), case.new.replace('"', "\\\""))
        }
        _ => (case.old.clone(), case.new.clone()),
    };
    Sent { tool, extra, case, old, new }
}

/// Returns what becomes of the file; `None` if the edit is refused.
fn outcome(sent: &Sent) -> Option<String> {
    let bytes = sent.case.file.as_bytes();
    let one = (sent.old.as_str(), sent.new.as_str());
    let now = match sent.tool {
        Tool::Edit => fuzzing::edit(bytes, &[one]).ok()?.0,
        Tool::MultiEdit => fuzzing::edit(bytes, &[one, MARK]).ok()?.0,
        Tool::ApplyPatch => {
            let case = Case { file: String::new(), old: sent.old.clone(), new: sent.new.clone() };
            fuzzing::apply_patch(bytes, &patch(&case)).ok()?
        }
    };
    Some(String::from_utf8(now).unwrap())
}

/// Returns what is wrong with the outcome of a case.
fn fault(sent: &Sent, now: &str) -> Option<String> {
    let case = &sent.case;
    let mut judged = now.to_owned();
    if sent.tool == Tool::MultiEdit {
        // The second edit changed only its own part. That part is put back, and the first edit is judged alone.
        if now.matches(MARK.1).count() != 1 || now.contains(MARK.0) {
            return Some(format!("the second edit is not done: {now:?}"));
        }
        judged = now.replace(MARK.1, MARK.0);
    }
    let (hay, needle) = (solid(&case.file), solid(&case.old));
    let is_at = |window: &[(char, Range<usize>)]| window.iter().zip(&needle).all(|((a, _), (b, _))| a == b);
    let mut places = hay.windows(needle.len().max(1)).filter(|window| is_at(window));
    let fine = needle.is_empty()
        || by_lines(case, &judged)
        || places.any(|window| {
            let (first, last) = (&window[0].1, &window[window.len() - 1].1);
            allowed(case, first.start, last.end, &judged)
        });
    let Sent { tool, extra, old, new, .. } = sent;
    (!fine).then(|| {
        format!("{tool:?} {extra:?}\nfile {:?}\nold  {old:?}\nnew  {new:?}\nnow  {now:?}", case.file)
    })
}

/// Numbers that depend on the seed and the case alone.
fn entropy(seed: u64, case: u64) -> Vec<u16> {
    let mut state = seed ^ case.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut word = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    (0..31)
        .flat_map(|_| word().to_le_bytes())
        .collect::<Vec<_>>()
        .chunks(2)
        .map(|two| u16::from_le_bytes([two[0], two[1]]))
        .collect()
}

#[test]
fn a_lenient_edit_changes_nothing_outside_of_what_it_covers() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (cases, seed) = (number("PROPTEST_CASES").unwrap_or(6_000), number("PROPTEST_RNG_SEED").unwrap_or(1));
    // Number of cases that were exact, lenient and refused, by tool and kind of extra.
    let mut counts: BTreeMap<(Tool, Extra), [u64; 3]> = BTreeMap::new();
    for case in 0..cases {
        let mut choices = entropy(seed, case);
        let sent_now = sent(&choices);
        let kind = match outcome(&sent_now) {
            None => 2,
            Some(now) => {
                if fault(&sent_now, &now).is_some() {
                    // Makes the failing case smaller: each choice that does not matter becomes 0, which is the plainest one.
                    let still = |choices: &[u16]| {
                        let sent = sent(choices);
                        outcome(&sent).and_then(|now| fault(&sent, &now))
                    };
                    for at in (0..choices.len()).rev() {
                        let before = std::mem::take(&mut choices[at]);
                        if still(&choices).is_none() {
                            choices[at] = before;
                        }
                    }
                    panic!("case {case} of the seed {seed}:\n{}", still(&choices).unwrap_or_default());
                }
                usize::from(!sent_now.case.file.replace("\r\n", "\n").contains(&sent_now.old))
            }
        };
        counts.entry((sent_now.tool, sent_now.extra)).or_default()[kind] += 1;
    }
    for ((tool, extra), [exact, lenient, refused]) in &counts {
        let all = exact + lenient + refused;
        assert!(
            lenient * 20 > all,
            "{tool:?} {extra:?}: {exact} exact, {lenient} lenient, {refused} refused"
        );
        if number("PROPTEST_CASES").is_some() {
            println!("{tool:?} {extra:?}: {exact} exact, {lenient} lenient, {refused} refused");
        }
    }
    assert_eq!(counts.len(), 12, "{counts:?}");
}
