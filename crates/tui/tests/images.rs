//! Images where the terminal draws them: asked for once when they come into view, drawn as cells, gone with their screen.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_tui::Preferences;
use becket_tui::app::App;
use becket_tui::input::{Effect, Input, Reply, Request};
use becket_tui::picture;
use becket_tui::terminal::surface::Surface;
use becket_tui::theme::Theme;
use becket_tui::transcript::image::{Scaled, transfer};
use becket_types::{BlobId, CallId, Event, ImageSource, Message, Millis, Part};
use ratatui::layout::Size;
use ratatui::style::Color;

const FIRST: u32 = 0x01_02_03;
const SIZE: Size = Size { width: 40, height: 16 };

fn app(images: Option<u32>) -> App {
    App::with(Preferences { images, ..Preferences::plain(Theme::dark()) })
}

fn image(blob: &str) -> Part {
    Part::Image {
        media_type: "image/png".into(),
        source: ImageSource::Blob(BlobId(blob.into())),
        name: Some(format!("{blob}.png")),
        width: None,
        height: None,
        extra: serde_json::Map::new(),
    }
}

fn user(text: &str, images: &[&str]) -> Input {
    let mut message = Message::user(text);
    message.parts.extend(images.iter().map(|blob| image(blob)));
    Input::Agent(Event::UserMessage { message, client_id: None, steered: false })
}

fn scaled() -> Scaled {
    Scaled { png: b"bytes".to_vec(), columns: 3, rows: 2 }
}

/// A frame as text, and the images that it asks for.
fn frame(app: &mut App) -> (String, Vec<(u32, String)>) {
    let mut surface = Surface::new(SIZE).unwrap();
    let mut effects = Vec::new();
    let (cells, _) = surface.cells(SIZE, |frame| effects = app.draw(frame)).unwrap();
    let asked = effects.into_iter().filter_map(|effect| match effect {
        Effect::Ask(Request::Picture { number, blob }) => Some((number, blob.0)),
        _ => None,
    });
    (picture::text(cells), asked.collect())
}

#[test]
fn an_image_is_asked_for_in_view_and_drawn_in_its_place() {
    let mut app = app(Some(FIRST));
    app.update(user("look at this", &["a", "b"]));
    let (shown, asked) = frame(&mut app);
    assert!(shown.contains("> look at this\n\n  [image a.png]\n\n  [image b.png]\n"), "{shown}");
    assert_eq!(asked, [(FIRST, "a".to_owned()), (FIRST + 1, "b".to_owned())]);
    assert_eq!(frame(&mut app).1, [], "once");

    let effects = app.update(Input::Reply(Reply::Picture { number: FIRST, scaled: Some(scaled()) }));
    assert_eq!(effects, [Effect::Image(transfer(FIRST, &scaled()))]);
    assert_eq!(app.update(Input::Reply(Reply::Picture { number: FIRST + 1, scaled: None })), []);
    let mut surface = Surface::new(SIZE).unwrap();
    let (cells, _) = surface.cells(SIZE, |frame| drop(app.draw(frame))).unwrap();
    let pieces: Vec<(u16, u16, &str)> = cells
        .content
        .iter()
        .enumerate()
        .filter(|(_, cell)| cell.fg == Color::Rgb(1, 2, 3))
        .map(|(at, cell)| (at as u16 % SIZE.width, at as u16 / SIZE.width, cell.symbol()))
        .collect();
    let top = pieces[0].1;
    let marks = ["\u{305}", "\u{30d}", "\u{30e}"];
    let want: Vec<(u16, u16, String)> = (0..2u16)
        .flat_map(|y| (0..3u16).map(move |x| (2 + x, top + y, y, x)))
        .map(|(x, y, row, column)| {
            (x, y, format!("\u{10eeee}{}{}", marks[usize::from(row)], marks[usize::from(column)]))
        })
        .collect();
    let pieces: Vec<(u16, u16, String)> = pieces.into_iter().map(|(x, y, s)| (x, y, s.to_owned())).collect();
    assert_eq!(pieces, want);
}

#[test]
fn a_terminal_that_draws_none_is_asked_nothing_and_says_their_names() {
    let mut app = app(None);
    app.update(user("look at this", &["a"]));
    let mut message = Message::tool_result(CallId("c".into()), "read", "an image", false);
    message.parts.push(image("b"));
    app.update(Input::Agent(Event::ToolFinished { message, changes: Vec::new(), duration: Millis(1) }));
    let (shown, asked) = frame(&mut app);
    assert!(shown.contains("> look at this\n  [image a.png]\n"), "{shown}");
    assert!(!shown.contains("b.png") && asked.is_empty(), "{shown} {asked:?}");
}

#[test]
fn an_image_that_a_tool_read_stands_below_it_and_another_screen_is_given_it_anew() {
    let mut app = app(Some(FIRST));
    let mut message = Message::tool_result(CallId("c".into()), "read", "an image", false);
    message.parts.push(image("b"));
    app.update(Input::Agent(Event::ToolFinished { message, changes: Vec::new(), duration: Millis(1) }));
    let (shown, asked) = frame(&mut app);
    assert!(shown.find("read").unwrap() < shown.find("[image b.png]").unwrap(), "{shown}");
    assert_eq!(asked, [(FIRST, "b".to_owned())]);
    app.update(Input::Reply(Reply::Picture { number: FIRST, scaled: Some(scaled()) }));
    app.forget_images();
    let (shown, asked) = frame(&mut app);
    assert!(!shown.contains('\u{10eeee}'), "{shown}");
    assert_eq!(asked, [(FIRST, "b".to_owned())]);
    let printed: Vec<String> = app.print().iter().map(ToString::to_string).collect();
    assert_eq!(printed.iter().filter(|line| line.contains("[image b.png]")).count(), 1, "{printed:?}");
}

#[test]
fn in_the_scrollback_it_is_printed_when_it_is_whole() {
    let mut app = app(Some(FIRST));
    app.update(user("look at this", &["a"]));
    app.update(user("and then", &[]));
    let printed = |app: &mut App| -> Vec<String> {
        app.inline(SIZE.width, SIZE.height);
        app.print_finished().iter().map(|line| line.to_string().trim_end().to_owned()).collect()
    };
    assert_eq!(printed(&mut app), ["> look at this", ""]);
    assert_eq!(frame(&mut app).1, [(FIRST, "a".to_owned())]);
    assert_eq!(printed(&mut app), Vec::<String>::new(), "it is on its way");
    app.update(Input::Reply(Reply::Picture { number: FIRST, scaled: Some(scaled()) }));
    let lines = printed(&mut app);
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert_eq!(lines[1].matches('\u{10eeee}').count(), 3, "{lines:?}");
    assert_eq!(lines[4], "> and then");
}
