//! The effort in the words that a model takes, by the model's family.
//!
//! Owns one question: which levels does the model of this name have? Gateways, clouds and vendors write the same
//! model differently (`anthropic/claude-sonnet-4.5`, `eu.anthropic.claude-sonnet-4-5-20250929-v1:0`,
//! `claude-4-5-sonnet`), so families are found by the words of the name. A level that the model lacks becomes the next
//! lower one that it has, or its lowest, because servers refuse unknown words.
//!
//! The facts are from the vendors' pages, autumn 2026. The wire formats decide where a request contains the level.

use crate::catalog::normal;

/// All levels, the lowest first. `none` means: answer without thinking.
const ALL: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A model family whose requests depend on its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Version, such as 4.5.
    Claude(u32, u32),
    /// Version. `flash`: the model is one of the fast and small ones.
    Gemini {
        major: u32,
        minor: u32,
        flash: bool,
    },
    Gpt(u32, u32),
    /// OpenAI's models with the name `o1`, `o3`, `o4`.
    O,
    GptOss,
    Grok(u32, u32),
    DeepSeek,
    Nova(u32),
    Unknown,
}

/// Returns the family of a model, however its name is spelled. A Claude without a number counts as the newest.
pub(crate) fn family(name: &str) -> Family {
    let name = normal(name);
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    let at = |family: &str| words.iter().position(|word| *word == family);
    let newest = (u32::MAX, 0);
    if let Some(at) = at("claude") {
        let (major, minor) = version(&words[at..]).unwrap_or(newest);
        return Family::Claude(major, minor);
    }
    if let Some(at) = at("gemini") {
        let (major, minor) = version(&words[at..]).unwrap_or(newest);
        return Family::Gemini { major, minor, flash: words.contains(&"flash") };
    }
    if let Some(at) = at("gpt") {
        if words.get(at + 1) == Some(&"oss") {
            return Family::GptOss;
        }
        let next = words.get(at + 1).copied().unwrap_or_default();
        let major = next.find(|c: char| !c.is_ascii_digit()).map(|end| next[..end].parse());
        return match major {
            // `gpt-4o`: a date may follow, but no version.
            Some(major) => major.map_or(Family::Unknown, |major| Family::Gpt(major, 0)),
            None => version(&words[at..]).map_or(Family::Unknown, |(major, minor)| Family::Gpt(major, minor)),
        };
    }
    if let Some(at) = at("grok") {
        let (major, minor) = version(&words[at..]).unwrap_or(newest);
        return Family::Grok(major, minor);
    }
    if let Some(at) = at("nova") {
        return Family::Nova(version(&words[at..]).map_or(1, |(major, _)| major));
    }
    if words.iter().any(|word| word.starts_with("deepseek")) {
        return Family::DeepSeek;
    }
    let is_o = |word: &&str| matches!(*word, "o1" | "o3" | "o4");
    if words.iter().any(is_o) { Family::O } else { Family::Unknown }
}

/// Returns the first number of a name and the one after it. Dates and sizes are no versions.
fn version(words: &[&str]) -> Option<(u32, u32)> {
    let number = |word: &&str| word.parse::<u32>().ok().filter(|_| word.len() <= 2);
    let at = words.iter().position(|word| number(word).is_some())?;
    let minor = words.get(at + 1).and_then(number).unwrap_or(0);
    Some((number(&words[at])?, minor))
}

/// Returns the levels that a model of OpenAI's formats takes; empty if it takes none.
fn levels(name: &str) -> &'static [&'static str] {
    let normal = normal(name);
    let codex = normal.contains("codex");
    match family(name) {
        Family::Gpt(..=4, _) => &[],
        Family::Gpt(5, 0) if codex => &["low", "medium", "high"],
        Family::Gpt(5, 0) => &["minimal", "low", "medium", "high"],
        Family::Gpt(5, 1) if normal.contains("codex-max") => &["low", "medium", "high", "xhigh"],
        Family::Gpt(5, 1) if codex => &["low", "medium", "high"],
        Family::Gpt(5, 1) => &["none", "low", "medium", "high"],
        Family::Gpt(..) if codex => &["low", "medium", "high", "xhigh"],
        Family::Gpt(..) => &["none", "low", "medium", "high", "xhigh"],
        Family::Gemini { major: 2, .. } => &["none", "low", "medium", "high"],
        Family::Gemini { .. } => &["low", "medium", "high"],
        // These models always think, and refuse the field for the effort.
        Family::Grok(4, 0 | 1) => &[],
        Family::Grok(..) if normal.contains("code") => &[],
        Family::O
        | Family::GptOss
        | Family::Grok(..)
        | Family::DeepSeek
        | Family::Claude(..)
        | Family::Nova(_)
        | Family::Unknown => &["low", "medium", "high"],
    }
}

/// Returns the highest of these levels that is not above the wanted one; the lowest if all are above it.
fn step(wanted: &str, levels: &[&'static str]) -> Option<&'static str> {
    let rank = |level: &str| ALL.iter().position(|one| *one == level);
    let wanted = match wanted {
        "off" => "none",
        "ultracode" => "max",
        known if rank(known).is_some() => known,
        _ => "high",
    };
    levels.iter().rev().find(|level| rank(level) <= rank(wanted)).or(levels.first()).copied()
}

/// Returns the level for a request in OpenAI's formats; `None` if the field is left out.
pub(crate) fn word(wanted: &str, name: &str) -> Option<&'static str> {
    let off = matches!(wanted, "off" | "none");
    // An unknown model may have no thinking that could be turned off.
    if off && family(name) == Family::Unknown {
        return None;
    }
    step(wanted, levels(name))
}

/// Returns the level in the words of a gateway that converts it for each model itself.
pub(crate) fn gateway_word(wanted: &str) -> Option<&'static str> {
    step(wanted, &["none", "minimal", "low", "medium", "high", "xhigh"])
}

/// Returns the level for a Claude that takes a word; `None` if thinking is off. `xhigh` came with 4.7, `max` with 4.6.
pub(crate) fn claude_word(wanted: &str, (major, minor): (u32, u32)) -> Option<&'static str> {
    if matches!(wanted, "off" | "none") {
        return None;
    }
    let all = ["low", "medium", "high", "xhigh", "max"];
    let old = ["low", "medium", "high", "max"];
    step(wanted, if (major, minor) < (4, 7) { &old } else { &all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_in_all_spellings() {
        let flash = |major, minor| Family::Gemini { major, minor, flash: true };
        let pro = |major, minor| Family::Gemini { major, minor, flash: false };
        for (name, want) in [
            ("claude-sonnet-4-5-20250929", Family::Claude(4, 5)),
            ("claude-sonnet-4-20250514", Family::Claude(4, 0)),
            ("claude-sonnet-4", Family::Claude(4, 0)),
            ("claude-opus-4-0", Family::Claude(4, 0)),
            ("claude-opus-4-1@20250805", Family::Claude(4, 1)),
            ("claude-sonnet-4@20250514", Family::Claude(4, 0)),
            ("anthropic/claude-sonnet-4.5", Family::Claude(4, 5)),
            ("anthropic/claude-opus-4.6:thinking", Family::Claude(4, 6)),
            ("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", Family::Claude(4, 5)),
            ("global.anthropic.claude-haiku-4-5-20251001-v1:0", Family::Claude(4, 5)),
            ("anthropic.claude-3-7-sonnet-20250219-v1:0", Family::Claude(3, 7)),
            ("us.anthropic.claude-opus-4-6-v1", Family::Claude(4, 6)),
            (
                "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-sonnet-4-20250514-v1:0",
                Family::Claude(4, 0),
            ),
            ("bedrock/us.anthropic.claude-sonnet-4-6", Family::Claude(4, 6)),
            ("vertex_ai/claude-sonnet-4-5@20250929", Family::Claude(4, 5)),
            ("claude-3-5-haiku-latest", Family::Claude(3, 5)),
            ("claude-4-5-sonnet", Family::Claude(4, 5)),
            ("claude-4-sonnet-20250514", Family::Claude(4, 0)),
            ("anthropic--claude-4.5-sonnet", Family::Claude(4, 5)),
            ("databricks-claude-sonnet-4-5", Family::Claude(4, 5)),
            ("Claude Sonnet 4.5", Family::Claude(4, 5)),
            ("claude-sonnet-5-5", Family::Claude(5, 5)),
            ("claude-fable-5", Family::Claude(5, 0)),
            ("claude-latest", Family::Claude(u32::MAX, 0)),
            ("gemini-2.5-pro", pro(2, 5)),
            ("google/gemini-2.5-flash", flash(2, 5)),
            ("models/gemini-3.1-pro-preview", pro(3, 1)),
            ("publishers/google/models/gemini-3-flash-preview", flash(3, 0)),
            ("gemini-2.0-flash-001", flash(2, 0)),
            ("gpt-5", Family::Gpt(5, 0)),
            ("gpt-5-2025-08-07", Family::Gpt(5, 0)),
            ("openai/gpt-5.1-codex-max", Family::Gpt(5, 1)),
            ("openai.gpt-oss-120b-1:0", Family::GptOss),
            ("gpt-oss:20b", Family::GptOss),
            ("gpt-4o-2024-05-13", Family::Gpt(4, 0)),
            ("gpt-image", Family::Unknown),
            ("gpt-4.1-mini", Family::Gpt(4, 1)),
            ("o3", Family::O),
            ("openai/o4-mini-2025-04-16", Family::O),
            ("x-ai/grok-4.3", Family::Grok(4, 3)),
            ("grok-code-fast-1", Family::Grok(1, 0)),
            ("deepseek/deepseek-v4-pro", Family::DeepSeek),
            ("us.amazon.nova-2-lite-v1:0", Family::Nova(2)),
            ("amazon.nova-pro-v1:0", Family::Nova(1)),
            ("qwen3-32b", Family::Unknown),
            ("my-deployment", Family::Unknown),
            ("", Family::Unknown),
        ] {
            assert_eq!(family(name), want, "{name}");
        }
    }

    #[test]
    fn a_level_that_the_model_lacks_becomes_a_lower_one() {
        for (name, wanted, want) in [
            ("gpt-5", "max", Some("high")),
            ("gpt-5", "xhigh", Some("high")),
            ("gpt-5", "minimal", Some("minimal")),
            ("gpt-5", "off", Some("minimal")),
            ("gpt-5.1", "off", Some("none")),
            ("openai/gpt-5.1-codex", "minimal", Some("low")),
            ("gpt-5.6", "max", Some("xhigh")),
            ("o3", "xhigh", Some("high")),
            ("o3", "minimal", Some("low")),
            ("deepseek-v4-pro", "max", Some("high")),
            ("grok-4", "high", None),
            ("grok-4.3", "max", Some("high")),
            ("gpt-oss-120b", "off", Some("low")),
            ("my-model", "xhigh", Some("high")),
            ("my-model", "off", None),
            ("my-model", "someday", Some("high")),
            ("gpt-4.1", "high", None),
        ] {
            assert_eq!(word(wanted, name), want, "{name} {wanted}");
        }
        for (version, wanted, want) in [
            ((4, 6), "xhigh", Some("high")),
            ((4, 6), "max", Some("max")),
            ((4, 7), "xhigh", Some("xhigh")),
            ((5, 5), "ultracode", Some("max")),
            ((5, 5), "minimal", Some("low")),
            ((5, 5), "off", None),
        ] {
            assert_eq!(claude_word(wanted, version), want, "{version:?} {wanted}");
        }
    }
}
