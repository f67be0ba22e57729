//! Cut outputs: the beginning and the end of a tool output, with a stub between them that names the id for
//! `recall`.
//!
//! Results that the model has not answered yet are never dropped. If they do not fit, the largest are cut:
//! small ones stay whole, and large ones share the rest equally ([`share`]). If equal shares would be too small
//! to show anything, the first ones get a useful share and the others become stubs. The decision is an entry
//! ([`CutOutput`]), so the view depends only on the ledger. The ledger keeps every output whole.
//!
//! Invariants: a cut is at a character border. Text of tools is escaped on both sides of the stub. A cut
//! output costs at most the space it was given, plus the stub.

use super::budget::{estimate_part, estimate_text};
use super::{escape, prune};
use becket_types::{CallId, CutOutput, Part};

/// Minimum size of a piece in tokens. A smaller piece is useless, so only the stub is shown.
const MIN_PIECE: u64 = 24;
/// Size in tokens of a piece that is worth showing when not every output can have one.
const USEFUL_PIECE: u64 = 96;
/// Tokens of a stub with its notice, which names the omitted bytes.
const STUB: u64 = 72;
/// Maximum tokens of a stub without notice and without text around it, for a call id and a tool name of usual length.
const BARE_STUB: u64 = 40;
/// Maximum distance in bytes by which a cut is moved to a line break.
const LINE: usize = 200;

/// An output that may be cut.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    pub call_id: &'a CallId,
    /// The whole output, as the ledger has it.
    pub text: &'a str,
    /// Base tokens of the output as it is shown now.
    pub tokens: u64,
    /// True if the end is as important as the beginning, as in the output of a command.
    pub end_matters: bool,
}

impl<'a> Output<'a> {
    /// Returns the output of a tool result, `None` for any other part. `now` is the cut that is in force.
    pub fn from_part(part: &'a Part, now: Option<&CutOutput>) -> Option<Self> {
        let Part::ToolResult { call_id, output, extra, name, .. } = part else { return None };
        let tokens = tokens(part, now).saturating_sub(FRAME);
        let end_matters = extra.contains_key("excerpt_lines") || matches!(name.as_str(), "bash" | "shell");
        Some(Self { call_id, text: output, tokens, end_matters })
    }
}

/// Tokens around an output that a cut does not change.
const FRAME: u64 = 4;

/// Returns the base tokens of a result with a cut.
pub fn tokens(part: &Part, cut: Option<&CutOutput>) -> u64 {
    match cut.and_then(|cut| render(part, cut)) {
        Some(text) => FRAME + estimate_text(&text).0,
        None => estimate_part(part).0,
    }
}

/// Returns the output with its beginning, stub and end; `None` if the cut omits nothing.
pub(super) fn render(part: &Part, cut: &CutOutput) -> Option<String> {
    let Part::ToolResult { call_id, name, output, spill, .. } = part else { return None };
    let from = output.floor_char_boundary(usize::try_from(cut.head).unwrap_or(usize::MAX));
    let kept = usize::try_from(cut.tail).unwrap_or(usize::MAX).min(output.len());
    let to = output.ceil_char_boundary(output.len() - kept);
    if from >= to {
        return None;
    }
    let stub = prune::stub(call_id, name, cut.bytes, cut.lines, "");
    if from == 0 && to == output.len() {
        return Some(stub);
    }
    let id = escape::attribute(call_id.as_str());
    // `recall` reads the stored output. If the tool stored a longer text than it returned, byte positions in the two differ, so none is
    // named.
    let (range, what) = match spill {
        Some(_) => (String::new(), format!("{} bytes", to - from)),
        None => (format!(r#","bytes":"{from}-{to}""#), format!("bytes {from}-{to} of {}", output.len())),
    };
    let notice = format!(
        r#"{stub}[{what} left out: the results of this step were too large together; recall {{"id":"{id}"{range}}} shows them]"#
    );
    let (head, tail) = (escape::escape(&output[..from]), escape::escape(&output[to..]));
    let line = |text: &str| if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let end = if tail.is_empty() { "" } else { "\n" };
    Some(format!("{head}{}{notice}{end}{tail}", line(&head)))
}

/// Returns the cuts that make all outputs together fit into `room` base tokens. Outputs smaller than an equal share stay whole; larger ones
/// are cut to that share. Empty if all of them fit.
pub fn share(outputs: &[Output<'_>], room: u64) -> Vec<CutOutput> {
    if outputs.iter().map(|o| o.tokens).sum::<u64>() <= room {
        return Vec::new();
    }
    let level = level(outputs.iter().map(|o| o.tokens).collect(), room);
    if level < STUB + MIN_PIECE {
        return share_among_few(outputs, room);
    }
    outputs.iter().filter(|o| o.tokens > level).filter_map(|o| shorten(o, level)).collect()
}

/// Like [`share`], if an equal share would hold only a stub. Every large output gets a stub. The rest of the space goes to the outputs that
/// the model asked for first, in pieces that are large enough to be useful.
fn share_among_few(outputs: &[Output<'_>], room: u64) -> Vec<CutOutput> {
    let stubs: u64 = outputs.iter().map(|o| o.tokens.min(BARE_STUB)).sum();
    let mut left = room.saturating_sub(stubs);
    let mut large: u64 = outputs.iter().filter(|o| o.tokens > STUB).count() as u64;
    let mut cuts = Vec::new();
    for output in outputs.iter().filter(|o| o.tokens > STUB) {
        // The sum above includes the bare stub of this output, but not the notice that text around it needs.
        let notice = STUB - BARE_STUB;
        let fair = left / large.max(1);
        let piece = fair.max(notice + USEFUL_PIECE).min(left);
        large -= 1;
        if BARE_STUB + piece >= output.tokens {
            left -= output.tokens - BARE_STUB;
            continue;
        }
        let has_piece = piece >= notice + MIN_PIECE;
        left -= if has_piece { piece } else { 0 };
        cuts.extend(shorten(output, if has_piece { BARE_STUB + piece } else { 0 }));
    }
    cuts
}

/// Returns the size up to which outputs stay whole when `room` is shared equally.
pub(super) fn level(mut sizes: Vec<u64>, mut room: u64) -> u64 {
    sizes.sort_unstable();
    let mut left = sizes.len() as u64;
    for size in sizes {
        let level = room / left.max(1);
        if size > level {
            return level;
        }
        room -= size;
        left -= 1;
    }
    u64::MAX
}

/// Computes the lengths of beginning and end of one output that fit into `tokens`; `None` if the stub would cost more than it saves.
fn shorten(output: &Output<'_>, tokens: u64) -> Option<CutOutput> {
    if output.tokens <= STUB {
        return None;
    }
    let text = output.text;
    let room = tokens.saturating_sub(STUB);
    let cost = |(head, tail): (usize, usize)| {
        estimate_text(&text[..head]).0 + estimate_text(&text[text.len() - tail..]).0
    };
    let (mut low, mut high) = (0, text.len());
    if room >= MIN_PIECE {
        // Binary search for the largest number of bytes that fits.
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if cost(pieces(text, middle, output.end_matters)) <= room {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
    }
    let (head, tail) = pieces(text, low, output.end_matters);
    Some(CutOutput {
        call_id: output.call_id.clone(),
        bytes: text.len() as u64,
        lines: text.lines().count() as u64,
        head: head as u64,
        tail: tail as u64,
    })
}

/// Returns the lengths of head and tail that keep about `bytes` of a text. They end at a line break if there is one within [`LINE`] bytes.
fn pieces(text: &str, bytes: usize, end_matters: bool) -> (usize, usize) {
    let tail = if end_matters { bytes / 2 } else { bytes / 4 };
    let head = text.floor_char_boundary(bytes - tail);
    let from = text.ceil_char_boundary(text.len() - tail.min(text.len() - head));
    let near = text.floor_char_boundary(head.saturating_sub(LINE.min(head / 4)));
    let head = text[near..head].rfind('\n').map_or(head, |at| near + at + 1);
    let near = text.floor_char_boundary(from + LINE.min((text.len() - from) / 4));
    let from = text[from..near].find('\n').map_or(from, |at| from + at + 1);
    (head, text.len() - from)
}
