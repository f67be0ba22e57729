//! Options that many subcommands have, and the parsers of values. Each error says what is expected.

use clap::Args;
use std::path::PathBuf;

/// The directory in which a command works.
#[derive(Debug, Default, Args)]
pub(crate) struct WorkDir {
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

/// Refuses `-` for a file that becket writes beside its output.
pub(super) fn named_file(text: &str) -> Result<PathBuf, String> {
    if text == "-" {
        return Err("name a file; standard output has the output of the command".to_owned());
    }
    Ok(PathBuf::from(text))
}

pub(super) fn parse_positive_integer(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("expected a whole number above 0, such as 20".to_owned()),
    }
}

pub(super) fn parse_positive_count(text: &str) -> Result<usize, String> {
    parse_positive_integer(text).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// Rejects a limit of 0, which would allow nothing. The configuration takes the same forms and reports other mistakes.
pub(super) fn reject_zero(text: &str) -> Result<String, String> {
    match text.trim().parse::<f64>() {
        Ok(n) if n <= 0.0 => Err("expected more than 0".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

pub(super) fn title(text: &str) -> Result<String, String> {
    if becket_types::is_blank(text) { Err("a title needs a letter".to_owned()) } else { Ok(text.to_owned()) }
}

pub(super) fn parse_positive_amount(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && n > 0.0 => Ok(n),
        _ => Err("expected an amount above 0, such as 0.50".to_owned()),
    }
}
