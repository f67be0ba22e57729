//! The page before a session, by keystrokes: which keys count, what is never shown, and its layout at four sizes.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_tui::picture;
use becket_tui::terminal::surface::Surface;
use becket_tui::theme::Theme;
use becket_tui::welcome::{Answer, Entry, Welcome};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use ratatui::layout::Size;

fn first_run() -> Welcome {
    let entries = vec![
        Entry::new("model a/b", "anthropic/claude", "key in ANTHROPIC_API_KEY"),
        Entry::new("paste", "paste a key", "Anthropic or OpenAI").secret(),
        Entry::new("demo", "the demo", "no key, no network"),
    ];
    let text = vec!["Which model should becket use?".to_owned()];
    Welcome::new("Welcome to becket", text, entries).noting("looking for servers …").judged(|key| {
        if key.starts_with("sk-") { Ok("a key for openai".into()) } else { Err("keys begin with sk-".into()) }
    })
}

/// Opens the input line for an API key.
fn pasting() -> Welcome {
    let mut page = first_run();
    page.arm();
    key(&mut page, KeyCode::Down);
    key(&mut page, KeyCode::Enter);
    page
}

fn trust() -> Welcome {
    let text = [
        "/home/u/project",
        "",
        "It brings:",
        "  settings  .becket/config.toml",
        "",
        "If trusted, its settings are used.",
    ];
    let entries = vec![
        Entry::new("no", "no: work here without these", "asked again next time"),
        Entry::new("yes", "yes: I trust this directory", "remembered for it"),
    ];
    Welcome::new("Do you trust what is in this directory?", text.map(str::to_owned).into(), entries)
}

fn screen(page: &mut Welcome, (columns, rows): (u16, u16)) -> String {
    let size = Size::new(columns, rows);
    let mut surface = Surface::new(size).unwrap();
    let theme = Theme::plain();
    let (cells, _) = surface.cells(size, |frame| page.draw(frame, &theme)).unwrap();
    picture::text(cells)
}

fn key(page: &mut Welcome, code: KeyCode) -> Option<Answer> {
    page.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn type_text(page: &mut Welcome, text: &str) {
    for c in text.chars() {
        assert_eq!(key(page, KeyCode::Char(c)), None);
    }
}

#[test]
fn nothing_is_chosen_before_it_was_seen() {
    let mut page = trust();
    for code in [KeyCode::Char('y'), KeyCode::Down, KeyCode::Enter, KeyCode::Esc] {
        assert_eq!(key(&mut page, code), None);
    }
    page.paste("y\n");
    page.arm();
    assert_eq!(key(&mut page, KeyCode::Enter), Some(Answer::Chosen("no".into())), "no comes first");
    for c in ['y', '2', '1'] {
        assert_eq!(key(&mut trust_seen(), KeyCode::Char(c)), None, "{c}: typing chooses nothing");
    }
    assert_eq!(key(&mut trust_seen(), KeyCode::Esc), Some(Answer::None));
    let mut page = trust_seen();
    key(&mut page, KeyCode::Down);
    assert_eq!(key(&mut page, KeyCode::Enter), Some(Answer::Chosen("yes".into())));
    let mut page = trust_seen();
    key(&mut page, KeyCode::Down);
    assert_eq!(key(&mut page, KeyCode::Char('2')), Some(Answer::Chosen("yes".into())));
    // Typing a sentence after that returns the cursor to the first entry.
    let mut page = trust_seen();
    key(&mut page, KeyCode::Down);
    type_text(&mut page, "fix 2 tests");
    assert_eq!(key(&mut page, KeyCode::Enter), None);
    page.arm();
    assert_eq!(key(&mut page, KeyCode::Enter), Some(Answer::Chosen("no".into())));
    // Ctrl-C leaves at any time.
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(trust().key(ctrl_c), Some(Answer::None));
}

fn trust_seen() -> Welcome {
    let mut page = trust();
    page.arm();
    page
}

/// An address that was entered, or left with Esc, is there again when its entry is chosen again. A secret is not.
#[test]
fn an_address_is_proposed_again() {
    let entries = vec![
        Entry::new("address", "enter an address", "of a server").address(),
        Entry::new("paste", "paste a key", "").secret(),
    ];
    let mut page = Welcome::new("Welcome", Vec::new(), entries).proposing_address("10.0.0.7:8080");
    page.arm();
    key(&mut page, KeyCode::Enter);
    assert!(screen(&mut page, (80, 24)).contains("the address: 10.0.0.7:8080\n"));
    key(&mut page, KeyCode::Backspace);
    type_text(&mut page, "1");
    key(&mut page, KeyCode::Esc);
    key(&mut page, KeyCode::Enter);
    assert!(screen(&mut page, (80, 24)).contains("the address: 10.0.0.7:8081\n"));
    // The end of a long address stays in view.
    page.paste(&"/path".repeat(20));
    type_text(&mut page, "end");
    let narrow = screen(&mut page, (40, 12));
    assert!(
        narrow.lines().any(|line| line.starts_with("the address: …") && line.ends_with("/pathend")),
        "{narrow}"
    );
    assert_eq!(
        key(&mut page, KeyCode::Enter),
        Some(Answer::Written("address".into(), format!("10.0.0.7:8081{}end", "/path".repeat(20))))
    );
    let mut page = pasting();
    page.paste("sk-SECRET");
    key(&mut page, KeyCode::Esc);
    key(&mut page, KeyCode::Enter);
    assert!(screen(&mut page, (80, 24)).contains("the key:\n"));
}

#[test]
fn a_key_is_pasted_and_never_shown() {
    let mut page = pasting();
    page.paste(" nosk-SECRET\n");
    assert_eq!(key(&mut page, KeyCode::Enter), None);
    let shown = screen(&mut page, (80, 24));
    assert!(shown.contains("the key:\nkeys begin with sk-\n"), "{shown}");
    page.paste("not a line");
    page.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
    page.paste("sk-SECRE");
    type_text(&mut page, "TX");
    key(&mut page, KeyCode::Backspace);
    let shown = screen(&mut page, (80, 24));
    assert!(shown.contains("the key: •••••••••\na key for openai\n"), "{shown}");
    let answer = key(&mut page, KeyCode::Enter).unwrap();
    assert!(!format!("{answer:?}").contains("SECRE"));
    assert_eq!(answer, Answer::Written("paste".into(), "sk-SECRET".into()));
    // Esc returns to the list and forgets the written text.
    let mut page = pasting();
    type_text(&mut page, "sk-SECRET");
    assert_eq!(key(&mut page, KeyCode::Esc), None);
    key(&mut page, KeyCode::Enter);
    assert!(!screen(&mut page, (80, 24)).contains('•'));
}

#[test]
fn what_is_found_later_moves_no_choice() {
    let mut page = first_run();
    page.arm();
    key(&mut page, KeyCode::Down);
    page.more(vec![Entry::new("server x", "openai/qwen", "llama.cpp at x")], 2, "");
    let shown = screen(&mut page, (80, 24));
    assert!(shown.contains("❯ 3 paste a key"), "{shown}");
    assert!(shown.find("anthropic/claude") < shown.find("openai/qwen"), "{shown}");
    assert!(!shown.contains("looking for servers"), "{shown}");
    key(&mut page, KeyCode::Up);
    assert_eq!(key(&mut page, KeyCode::Enter), Some(Answer::Chosen("server x".into())));
}

#[test]
fn a_server_that_is_found_has_the_cursor_unless_the_person_moved_it() {
    let entries = || {
        vec![
            Entry::new("paste", "paste a key", "Anthropic or OpenAI").secret(),
            Entry::new("demo", "the demo", ""),
        ]
    };
    let mut page = Welcome::new("Welcome", Vec::new(), entries());
    page.arm();
    page.more(vec![Entry::new("server x", "openai/qwen", "llama.cpp at x")], 2, "");
    assert_eq!(key(&mut page, KeyCode::Enter), Some(Answer::Chosen("server x".into())));
}

#[test]
fn a_line_that_is_no_key_is_forgotten() {
    let mut page = pasting();
    type_text(&mut page, "hello there");
    assert_eq!(key(&mut page, KeyCode::Enter), None);
    assert!(!screen(&mut page, (80, 24)).contains('•'));
    type_text(&mut page, "sk-SECRET");
    let answer = key(&mut page, KeyCode::Enter);
    assert_eq!(answer, Some(Answer::Written("paste".into(), "sk-SECRET".into())));
}

#[test]
fn it_looks_like_this() {
    assert_eq!(
        screen(&mut first_run(), (60, 12)),
        "Welcome to becket\n\nWhich model should becket use?\n\n\
         ❯ 1 anthropic/claude  key in ANTHROPIC_API_KEY\n  2 paste a key       Anthropic or OpenAI\n  3 the demo          no key, no network\n\n\
         looking for servers …\n↑ ↓, then Enter or a number · Esc leaves\n\n\n"
    );
    for size in [(80, 24), (120, 40), (200, 60), (40, 10)] {
        let shown = screen(&mut trust(), size);
        for part in
            ["Do you trust what is in this directory", "❯ 1 no: work here", "  2 yes: I trust", "Esc leaves"]
        {
            assert!(shown.contains(part), "{size:?} {part}: {shown}");
        }
    }
    // If there is too little room, the text scrolls and the choices stay.
    let mut page = trust_seen();
    assert!(!screen(&mut page, (40, 7)).contains("It brings:"));
    key(&mut page, KeyCode::PageDown);
    key(&mut page, KeyCode::PageDown);
    let shown = screen(&mut page, (40, 7));
    assert!(shown.contains("If trusted, its settings") && shown.contains("❯ 1 no"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// For any keys and pastes at any size: no panic, and no secret or control character on a frame.
    #[test]
    fn any_keys_in_any_size(
        steps in proptest::collection::vec((0u8..8, "[a-z\u{1b}\u{7}日]{0,8}"), 0..20),
        size in (1u16..90, 1u16..30),
    ) {
        let mut page = pasting();
        page.paste("SECRET");
        for (kind, text) in steps {
            match kind {
                0 => page.paste(&format!("SECRET{text}")),
                1 => drop(key(&mut page, KeyCode::Down)),
                2 => drop(key(&mut page, KeyCode::Enter)),
                3 => drop(key(&mut page, KeyCode::Esc)),
                4 => page.scroll(-3),
                5 => page.more(vec![Entry::new("x", &text, &text)], 2, &text),
                6 => drop(key(&mut page, KeyCode::PageDown)),
                _ => text.chars().for_each(|c| drop(key(&mut page, KeyCode::Char(c)))),
            }
            let shown = screen(&mut page, size);
            prop_assert!(!shown.contains("SECRET"), "{}", shown);
            prop_assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", shown);
        }
    }
}

#[test]
fn long_texts_wrap_and_the_cursor_is_at_the_row_that_is_written() {
    let entries = vec![
        Entry::new("address", "enter an address", "of an OpenAI-compatible server").address(),
        Entry::new("paste", "paste a key", "Anthropic or OpenAI").secret(),
        Entry::new(
            "demo",
            "the demo",
            "a scripted model on a scratch repository, to look at becket without a key and without any network",
        ),
    ];
    let note = "no model server answers on this machine yet; one that you start now appears here, and stays";
    let mut page = Welcome::new("Welcome to becket", vec!["Which model?".to_owned()], entries).noting(note);
    page.arm();
    let shown = screen(&mut page, (80, 24));
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("without any network") && words.contains("appears here, and stays"), "{shown}");
    assert!(!shown.contains('…'), "{shown}");
    // A number opens the line of another entry than the one with the cursor.
    key(&mut page, KeyCode::Down);
    key(&mut page, KeyCode::Char('1'));
    let shown = screen(&mut page, (80, 24));
    assert!(shown.contains("❯ 1 enter an address") && shown.contains("the address:"), "{shown}");
    page.more(vec![Entry::new("server x", "openai/qwen", "llama.cpp at x")], 3, "");
    let shown = screen(&mut page, (80, 24));
    assert!(shown.contains("❯ 2 enter an address"), "{shown}");
}
