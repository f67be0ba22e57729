//! Text and paths cut to a number of columns.

use crate::text;
use std::borrow::Cow;
use unicode_segmentation::UnicodeSegmentation as _;

/// Shortens `path` to `columns` from the left, after an ellipsis and if possible at a folder, because the end names the
/// file.
pub fn path(path: &str, columns: usize) -> Cow<'_, str> {
    if text::width(path) <= columns {
        return Cow::Borrowed(path);
    }
    let Some(room) = columns.checked_sub(1) else { return Cow::Borrowed("") };
    let folders = path.match_indices('/').map(|(at, _)| &path[at..]);
    let end = folders.into_iter().find(|end| text::width(end) <= room && end.len() > 1);
    let end = end.unwrap_or_else(|| {
        let mut used = 0;
        let mut from = path.len();
        for (at, grapheme) in path.grapheme_indices(true).rev() {
            used += text::width(grapheme);
            if used > room {
                break;
            }
            from = at;
        }
        &path[from..]
    });
    Cow::Owned(format!("…{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_keeps_its_end() {
        for (text, columns, want) in [
            ("src/main.rs", 11, "src/main.rs"),
            ("crates/tui/src/page/mod.rs", 16, "…/page/mod.rs"),
            ("crates/tui/src/page/mod.rs", 8, "…/mod.rs"),
            ("crates/tui/src/page/mod.rs", 5, "…d.rs"),
            ("a/日本語.rs", 7, "…語.rs"),
            ("src/main.rs", 1, "…"),
            ("src/main.rs", 0, ""),
        ] {
            assert_eq!(path(text, columns), want, "{text} {columns}");
        }
    }

    proptest! {
        #[test]
        fn it_never_takes_more_than_its_room(text in "[a-z/日👍é\u{301}]{0,40}", columns in 0usize..40) {
            let shown = path(&text, columns);
            prop_assert!(text::width(&shown) <= columns);
            prop_assert!(text.ends_with(shown.trim_start_matches('…')));
        }
    }
}
