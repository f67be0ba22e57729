//! Limiting rules files to a share of the context window.
//!
//! Rules are never summarised. If they filled the window, there would be no room for a conversation, and no
//! compaction could help. A file that was cut says so and names the file to read for the rest; the user gets
//! a notice as well.
//!
//! Files in the system prompt share their limit evenly: small files stay whole, the largest are cut first.
//! Files below the working directory are added one after the other, and each gets the space that the earlier
//! ones left. The result depends only on the files, their order and the window, so that a resumed session
//! produces the same texts.

use becket_session::context::budget::estimate_text;
use becket_types::{SystemItem, cut_end};

/// Share of the usable window for all rules files together.
const SHARE: f64 = 0.35;
/// Minimum share for files below the working directory.
const NESTED_SHARE: f64 = 0.08;
/// A file with less space than this, in tokens, is only mentioned.
const MIN_ROOM: u64 = 200;

/// Cuts the rules of the system prompt. Returns notices for people.
pub fn system(items: &mut [SystemItem], usable: u64) -> Vec<String> {
    let limit = share(usable, SHARE);
    let sizes: Vec<u64> = items.iter().map(|item| estimate_text(&item.text).0).collect();
    let level = level(&sizes, limit);
    items
        .iter_mut()
        .zip(&sizes)
        .filter(|(_, size)| **size > level)
        .map(|(item, _)| cut(item, level))
        .collect()
}

/// Cuts rules from below the working directory. `taken`: tokens of the rules in the system prompt, and of the
/// nested rules that come before these. Returns notices for people.
pub fn nested(items: &mut [SystemItem], taken: (u64, u64), usable: u64) -> Vec<String> {
    let limit = share(usable, SHARE).saturating_sub(taken.0).max(share(usable, NESTED_SHARE));
    let mut left = limit.saturating_sub(taken.1);
    let mut notices = Vec::new();
    for item in items {
        if estimate_text(&item.text).0 > left {
            notices.push(cut(item, left));
        }
        left = left.saturating_sub(estimate_text(&item.text).0);
    }
    notices
}

/// Returns the estimated size of some rules in tokens.
pub fn size(items: &[SystemItem]) -> u64 {
    items.iter().map(|item| estimate_text(&item.text).0).sum()
}

fn share(usable: u64, share: f64) -> u64 {
    (usable as f64 * share) as u64
}

/// Returns the largest size per item with which the items, each cut to it, fit into `limit` together; `u64::MAX` if
/// nothing need be cut.
fn level(sizes: &[u64], limit: u64) -> u64 {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let mut left = limit;
    for (at, size) in sorted.iter().enumerate() {
        let each = left / (sorted.len() - at) as u64;
        if *size > each {
            return each;
        }
        left -= size;
    }
    u64::MAX
}

/// Cuts one file to about `room` tokens, at the end of a line if possible. Returns a notice for people.
fn cut(item: &mut SystemItem, room: u64) -> String {
    let path = item.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let (whole, tokens) = (item.text.len(), estimate_text(&item.text).0);
    let heading = item.text.find("\n\n").map_or(0, |at| at + 2);
    let mut bytes = if room < MIN_ROOM { heading } else { whole };
    while bytes > heading && estimate_text(cut_end(&item.text, bytes)).0 + 60 > room {
        bytes = (bytes * 9 / 10).max(heading);
    }
    let kept = cut_end(&item.text, bytes);
    let kept = match kept.rfind('\n').filter(|at| *at > heading) {
        Some(line) => &kept[..line],
        None => kept,
    };
    let stays = kept.len();
    let notice = format!(
        "[cut: the first {stays} of {whole} bytes are here, because rules files fill their share of the context window. \
         Read {path} for the rest before you work in its folder.]"
    );
    let line = if stays > heading { "\n" } else { "" };
    item.text = format!("{kept}{line}{notice}");
    format!(
        "{path} is about {tokens} tokens with its imports; only the first {stays} of {whole} bytes are sent, because rules \
         files may fill at most {} % of the context window. Shorten it, or use a model with a larger window",
        (SHARE * 100.0) as u64
    )
}
