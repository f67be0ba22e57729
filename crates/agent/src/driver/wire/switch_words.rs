//! The line for the user about a switch to another model: it says which parts of the session change with it.

use becket_model::ModelInfo;
use becket_session::context::budget::Budget;
use becket_types::Tokens;
use std::fmt::Write as _;

/// Returns the line. `is_fixed`: the user has set a window, which holds for every model. `used`: the size of the context; `None` if
/// nothing was sent yet.
pub(in super::super) fn words(
    from: &ModelInfo,
    to: &ModelInfo,
    is_fixed: bool,
    used: Option<Tokens>,
) -> String {
    let id = &to.id;
    if from.id == *id {
        return format!("The next request goes to {id}, as before.");
    }
    let mut text = format!("The next request goes to {id}.");
    if to.window < from.window && !is_fixed {
        let (now, before) = (to.window / 1_000, from.window / 1_000);
        let _ = write!(text, " Its window is smaller: {now}k instead of {before}k tokens.");
        let usable = Budget::new(to.window, to.input_limit, to.max_output).usable();
        if used.is_some_and(|used| used.0 > usable) {
            text.push_str(" The context does not fit into it, so becket compacts it first.");
        }
    }
    if used.is_some() {
        text.push_str(
            " Nothing of this session is in its cache yet, so that request is slower and costs more.",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_model::catalog;

    fn model(name: &str, window: u64) -> ModelInfo {
        ModelInfo {
            id: format!("p/{name}"),
            window,
            input_limit: window,
            max_output: 8_000,
            ..catalog::lookup("unknown", "unknown")
        }
    }

    #[test]
    fn a_line_says_what_changes_and_nothing_else() {
        const CACHE: &str =
            " Nothing of this session is in its cache yet, so that request is slower and costs more.";
        const SMALLER: &str = " Its window is smaller: 32k instead of 200k tokens.";
        const FIRST: &str = " The context does not fit into it, so becket compacts it first.";
        let (one, large, small) = (model("one", 200_000), model("two", 200_000), model("two", 32_000));
        for (to, is_fixed, used, want) in [
            (&large, false, None, String::new()),
            (&large, false, Some(90_000), CACHE.to_owned()),
            (&small, false, None, SMALLER.to_owned()),
            (&small, false, Some(5_000), format!("{SMALLER}{CACHE}")),
            (&small, false, Some(90_000), format!("{SMALLER}{FIRST}{CACHE}")),
            (&small, true, Some(90_000), CACHE.to_owned()),
        ] {
            let text = words(&one, to, is_fixed, used.map(Tokens));
            assert_eq!(text, format!("The next request goes to p/two.{want}"), "{is_fixed} {used:?}");
        }
        assert_eq!(words(&one, &one, false, Some(Tokens(9))), "The next request goes to p/one, as before.");
    }
}
