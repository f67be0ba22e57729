//! Images in terminals that draw them: requested once when they come into view, drawn as cells, and forgotten with
//! their screen.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_tui::Preferences;
use becket_tui::app::App;
use becket_tui::graphics::sixel::Indexed;
use becket_tui::graphics::{Data, Graphics, Protocol, Scaled};
use becket_tui::input::{Effect, Input, Page, Reply, Request};
use becket_tui::picture;
use becket_tui::terminal::surface::Surface;
use becket_tui::theme::Theme;
use becket_tui::transcript::image::transfer;
use becket_types::{BlobId, CallId, Event, ImageSource, Message, Millis, Part};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use ratatui::style::Color;

const FIRST: u32 = 0x01_02_03;
const SIZE: Size = Size { width: 40, height: 16 };

const KITTY: Option<Graphics> = Some(Graphics { first: FIRST, protocol: Some(Protocol::Kitty) });

fn app(images: Option<Graphics>) -> App {
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
    Scaled { columns: 3, rows: 2, data: Data::Png(b"bytes".to_vec()) }
}

/// Returns a frame as text, and the images that it requests.
fn frame(app: &mut App) -> (String, Vec<(u32, String)>) {
    let mut surface = Surface::new(SIZE).unwrap();
    let mut effects = Vec::new();
    let (cells, _) = surface.cells(SIZE, |frame| effects = app.draw(frame)).unwrap();
    let asked = effects.into_iter().filter_map(|effect| match effect {
        Effect::Ask(Request::Picture { number, blob, .. }) => Some((number, blob.0)),
        _ => None,
    });
    (picture::text(cells), asked.collect())
}

#[test]
fn an_image_is_asked_for_in_view_and_drawn_in_its_place() {
    let mut app = app(KITTY);
    app.update(user("look at this", &["a", "b"]));
    let (shown, asked) = frame(&mut app);
    assert!(shown.contains("› look at this\n\n  [image a.png]\n\n  [image b.png]\n"), "{shown}");
    assert_eq!(asked, [(FIRST, "a".to_owned()), (FIRST + 1, "b".to_owned())]);
    assert_eq!(frame(&mut app).1, [], "once");

    let effects = app.update(Input::Reply(Reply::Picture { number: FIRST, scaled: Some(scaled()) }));
    assert_eq!(effects, [Effect::Image(transfer(FIRST, (3, 2), b"bytes"))]);
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
    app.update(Input::Agent(Event::ToolFinished {
        message,
        changes: Vec::new(),
        duration: Millis(1),
        original: None,
    }));
    let (shown, asked) = frame(&mut app);
    assert!(shown.contains("› look at this\n  [image a.png]\n"), "{shown}");
    assert!(!shown.contains("b.png") && asked.is_empty(), "{shown} {asked:?}");
}

#[test]
fn an_image_that_a_tool_read_stands_below_it_and_another_screen_is_given_it_anew() {
    let mut app = app(KITTY);
    let mut message = Message::tool_result(CallId("c".into()), "read", "an image", false);
    message.parts.push(image("b"));
    app.update(Input::Agent(Event::ToolFinished {
        message,
        changes: Vec::new(),
        duration: Millis(1),
        original: None,
    }));
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
    let mut app = app(KITTY);
    app.update(user("look at this", &["a"]));
    app.update(user("and then", &[]));
    let printed = |app: &mut App| -> Vec<String> {
        app.inline(SIZE.width, SIZE.height);
        app.print_finished().iter().map(|line| line.to_string().trim_end().to_owned()).collect()
    };
    assert_eq!(printed(&mut app), ["› look at this", ""]);
    assert_eq!(frame(&mut app).1, [(FIRST, "a".to_owned())]);
    assert_eq!(printed(&mut app), Vec::<String>::new(), "it is on its way");
    app.update(Input::Reply(Reply::Picture { number: FIRST, scaled: Some(scaled()) }));
    let lines = printed(&mut app);
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert_eq!(lines[1].matches('\u{10eeee}').count(), 3, "{lines:?}");
    assert_eq!(lines[4], "› and then");
}

const SIXEL: Protocol = Protocol::Sixel { cell: (2, 6), colours: 255 };

/// Returns an image of three columns and two rows, with cells of two by six pixels.
fn sixels() -> Scaled {
    let image = Indexed { width: 6, height: 12, palette: vec![[9, 9, 9]], pixels: vec![0; 72] };
    Scaled { columns: 3, rows: 2, data: Data::Pixels { image, cell: (2, 6) } }
}

/// Draws until no image waits. Returns how many were drawn, and the requests.
fn painted(app: &mut App, surface: &mut Surface) -> (usize, Vec<Effect>) {
    let (mut bytes, mut effects) = (Vec::new(), Vec::new());
    loop {
        bytes.extend(surface.draw(SIZE, |frame| effects.extend(app.draw(frame))).unwrap());
        if surface.due().is_none() {
            break;
        }
    }
    assert!(!String::from_utf8_lossy(&bytes).contains('\u{10eeee}'), "placeholders are no text there");
    effects.extend(surface.missing_images().into_iter().filter_map(|number| app.missing_image(number)));
    (bytes.windows(3).filter(|bytes| bytes == b"\x1bP0").count(), effects)
}

/// Sends an effect's image to the terminal.
fn given(effects: Vec<Effect>, surface: &mut Surface) {
    for effect in effects {
        if let Effect::Picture(number, image) = effect {
            surface.give_image(number, image);
        }
    }
}

fn asks(effects: &[Effect]) -> Vec<(u32, Protocol, u16)> {
    let asked = effects.iter().filter_map(|effect| match effect {
        Effect::Ask(Request::Picture { number, protocol, columns, .. }) => {
            Some((*number, *protocol, *columns))
        }
        _ => None,
    });
    asked.collect()
}

#[test]
fn sixels_wait_for_the_terminal_s_answer_and_are_sent_again_only_when_they_move() {
    let mut app = app(Some(Graphics { first: FIRST, protocol: None }));
    let mut surface = Surface::new(SIZE).unwrap();
    app.update(user("look at this", &["a"]));
    let (drawn, effects) = painted(&mut app, &mut surface);
    assert_eq!((drawn, asks(&effects)), (0, vec![]), "nobody knows yet");
    app.update(Input::Draws(SIXEL));
    let (drawn, effects) = painted(&mut app, &mut surface);
    assert_eq!((drawn, asks(&effects)), (0, vec![(FIRST, SIXEL, 38)]));
    let reply = Reply::Picture { number: FIRST, scaled: Some(sixels()) };
    given(app.update(Input::Reply(reply.clone())), &mut surface);
    assert_eq!(painted(&mut app, &mut surface).0, 1);
    assert_eq!(painted(&mut app, &mut surface), (0, vec![]));
    app.update(Input::Paste("typed".into()));
    assert_eq!(painted(&mut app, &mut surface).0, 0, "nothing of it moved");
    app.update(user("and that\n2\n3\n4\n5\n6\n7\n8\n9", &[]));
    let moved = painted(&mut app, &mut surface).0;
    let screen = surface.cells(SIZE, |frame| drop(app.draw(frame))).map(|(c, _)| picture::text(c)).unwrap();
    assert!(screen.contains("and that") && screen.contains("[image a.png]"), "{screen}");
    assert_eq!(moved, 1, "{screen}");
    // A page covers the image and closes again.
    let page = Page { title: "page".into(), markdown: "of text".into(), ..Page::default() };
    app.update(Input::Reply(Reply::Page(Ok(page))));
    assert_eq!(painted(&mut app, &mut surface).0, 0);
    app.update(Input::Key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)));
    assert_eq!(painted(&mut app, &mut surface).0, 1);
    // Another font changes the cell size, so the image has the wrong size.
    surface.drop_images();
    let other = Protocol::Sixel { cell: (3, 9), colours: 255 };
    app.update(Input::Draws(other));
    let (drawn, effects) = painted(&mut app, &mut surface);
    assert_eq!((drawn, asks(&effects)), (0, vec![(FIRST, other, 38)]));
    given(app.update(Input::Reply(reply)), &mut surface);
    assert_eq!(painted(&mut app, &mut surface).0, 1);
}

#[test]
fn a_list_over_an_image_has_its_own_colours() {
    let mut app = app(KITTY);
    app.update(user("look at this\n2\n3\n4", &["a"]));
    frame(&mut app);
    let tall = Scaled { columns: 30, rows: 8, data: Data::Png(Vec::new()) };
    app.update(Input::Reply(Reply::Picture { number: FIRST, scaled: Some(tall) }));
    app.update(Input::Key(KeyEvent::new(KeyCode::Char('p'), KeyModifiers::CONTROL)));
    let mut surface = Surface::new(SIZE).unwrap();
    let (cells, _) = surface.cells(SIZE, |frame| drop(app.draw(frame))).unwrap();
    let of_image = |cell: &&ratatui::buffer::Cell| cell.fg == Color::Rgb(1, 2, 3);
    assert!(cells.content.iter().any(|cell| cell.symbol() == "❯"), "{}", picture::text(cells));
    assert!(cells.content.iter().filter(of_image).all(|cell| cell.symbol().starts_with('\u{10eeee}')));
}

#[test]
fn an_image_that_a_narrower_window_has_no_room_for_is_made_anew() {
    let mut app = app(Some(Graphics { first: FIRST, protocol: Some(SIXEL) }));
    let mut surface = Surface::new(SIZE).unwrap();
    app.update(user("look at this", &["a"]));
    painted(&mut app, &mut surface);
    app.update(Input::Resize { columns: 20, rows: 16 });
    let wide = Scaled { columns: 38, ..sixels() };
    assert_eq!(app.update(Input::Reply(Reply::Picture { number: FIRST, scaled: Some(wide) })), []);
    let mut effects = Vec::new();
    let narrow = Size { width: 20, ..SIZE };
    surface.draw(narrow, |frame| effects.extend(app.draw(frame))).unwrap();
    assert_eq!(asks(&effects), [(FIRST, SIXEL, 18)]);
    given(app.update(Input::Reply(Reply::Picture { number: FIRST, scaled: Some(sixels()) })), &mut surface);
    let bytes = surface.draw(narrow, |frame| drop(app.draw(frame))).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("\x1bP0;1;0q"));
}
