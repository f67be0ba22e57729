//! Bytes written to the terminal: no more than the change needs.

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_types::{Event, MessageId};
use support::{Stage, started};

/// Returns the size and the bytes of the frames for these tokens, each drawn alone.
fn cost(stage: &mut Stage, tokens: &[&str]) -> Vec<(usize, Vec<u8>)> {
    let id = MessageId::new();
    tokens
        .iter()
        .map(|token| {
            stage.event(Event::TextDelta { message: id, index: 0, text: (*token).to_owned() });
            (token.len(), stage.bytes())
        })
        .collect()
}

/// Bytes of a frame besides its text. As long as the text does not fill the screen, the activity line moves down with each row of it.
const FRAME: usize = 100;
const MOVED: usize = 120;
/// Rows of the screen, so the most frames in which that line can move.
const ROWS: usize = 40;

/// Checks that each frame costs what it says, except for the few that also move the activity line.
fn check(frames: &[(usize, Vec<u8>)]) {
    let mut moves = 0;
    for (size, bytes) in frames {
        let plain = 3 * size + FRAME;
        moves += usize::from(bytes.len() > plain);
        assert!(bytes.len() <= plain + MOVED, "{size} {:?}", String::from_utf8_lossy(bytes));
    }
    assert!(moves <= ROWS, "{moves} frames cost more than their text");
}

#[test]
fn a_streamed_token_costs_what_it_says() {
    let mut stage = Stage::new(120, 40);
    stage.event(started());
    stage.event(Event::StepStarted { step: 1 });
    stage.bytes();
    let tokens: Vec<&str> = "the parser reads what it is given and says so; ".split_inclusive(' ').collect();
    let frames = cost(&mut stage, &tokens.repeat(40));
    // The first frame changes the activity line. From here on the text fits on the screen.
    check(&frames[1..]);
}

/// Scrolling costs no more: the terminal itself moves rows that are on the screen already.
#[test]
fn a_line_more_costs_a_line() {
    let mut stage = Stage::new(120, 40);
    stage.event(started());
    stage.event(Event::StepStarted { step: 1 });
    stage.bytes();
    let tokens: Vec<String> = (0..1_500)
        .map(|i| format!("{} ", ["the", "parser", "reads", "what\n\n", "it", "says"][i % 6]))
        .collect();
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let frames = cost(&mut stage, &tokens);
    check(&frames[1..]);
    assert!(stage.screen().contains("parser"));
}

#[test]
fn the_screen_is_never_cleared_while_text_comes_in() {
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    stage.bytes();
    let tokens: Vec<String> = (0..400).map(|i| format!("- item {i} of *many*\n")).collect();
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    for (_, bytes) in cost(&mut stage, &tokens) {
        assert!(!bytes.is_empty());
        for clear in [&b"\x1b[2J"[..], b"\x1b[3J", b"\x1b[J", b"\x1bc"] {
            assert!(!bytes.windows(clear.len()).any(|w| w == clear));
        }
    }
}
