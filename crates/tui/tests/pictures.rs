//! Every main screen at four sizes, as text. `screens/NAME.jsonl` contains events, and `screens/NAME.COLUMNSxROWS.txt`
//! the screen that is expected after them. `BECKET_UPDATE_SCREENS=1` writes the texts; read the difference before you
//! keep it.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "support/expected.rs"]
mod expected;

use becket_tui::picture::{self, Palette};
use becket_tui::theme::Theme;
use becket_types::Event;
use expected::Expected;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 60), (40, 10)];
const SCREENS: [&str; 10] = [
    "asking",
    "compaction",
    "empty",
    "preview",
    "scene",
    "scene-asking",
    "subagent",
    "trouble",
    "turn",
    "working",
];

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens")
}

fn events(name: &str) -> Vec<Event> {
    let text = std::fs::read_to_string(dir().join(format!("{name}.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn screens_are_what_they_were() {
    let mut expected = Expected::of_folder("screens");
    for name in SCREENS {
        for (columns, rows) in SIZES {
            let frame = picture::frame(events(name), (columns, rows).into(), Theme::dark()).unwrap();
            expected.check(&format!("{name}.{columns}x{rows}"), &picture::text(&frame));
        }
    }
    expected.end();
}

#[test]
fn every_file_of_events_is_a_screen() {
    let files: BTreeSet<String> = std::fs::read_dir(dir())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    assert_eq!(files, SCREENS.map(str::to_owned).into());
}

/// All themes draw the same text, and only the plain theme has no colour at all.
#[test]
fn themes_differ_in_colour_alone() {
    let size = (80, 40).into();
    let shown = |theme: Theme| picture::frame(events("turn"), size, theme).unwrap();
    let plain = shown(Theme::plain());
    for name in Theme::NAMES {
        let theme = Theme::by_name(name).unwrap();
        let frame = shown(theme.clone());
        assert_eq!(picture::text(&frame), picture::text(&plain), "{name}");
        let svg = picture::svg(&frame, Palette::of(&theme));
        let colours: BTreeSet<&str> =
            svg.split("fill=\"").skip(1).map(|s| s.split('"').next().unwrap()).collect();
        assert_eq!(colours.len() > 3, name != "plain", "{name} {colours:?}");
    }
}
