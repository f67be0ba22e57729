//! The terminal's window: its size, focus and title, and the images that it draws.
//!
//! Images of the transcript are requested when they come into view, and sent to the terminal when the host returns
//! them. The transcript owns them; this file knows what the terminal can draw and how wide.

use crate::graphics::{Data, Protocol, Scaled};
use crate::input::{Effect, Request};
use crate::transcript::Transcript;
use crate::transcript::image::{self, MOST};
use std::sync::Arc;

/// Facts about the terminal's window.
pub(super) struct Window {
    pub columns: u16,
    /// `None`: the terminal draws no images, or has not answered yet.
    protocol: Option<Protocol>,
    /// Rows of the terminal in inline mode; `None` on a full screen.
    pub screen: Option<u16>,
    /// Rows of the transcript that an inline frame shows.
    pub live: u16,
    /// The header was printed into the terminal's scrollback.
    pub headed: bool,
    /// The terminal distinguishes Shift-Enter from Enter.
    pub reports_shift: bool,
    /// Another window has the keyboard.
    pub unfocused: bool,
    /// The title that was sent last; empty before the first.
    title: String,
}

impl Window {
    pub(super) fn new(protocol: Option<Protocol>) -> Self {
        Self {
            columns: 80,
            protocol,
            screen: None,
            live: 0,
            headed: false,
            reports_shift: false,
            unfocused: false,
            title: String::new(),
        }
    }

    /// Sets the title.
    pub(super) fn retitle(&mut self, title: String) -> Effect {
        self.title.clone_from(&title);
        Effect::Title(title)
    }

    /// Sets the title again if it has changed since it was sent.
    pub(super) fn keep_title(&mut self, title: String) -> Option<Effect> {
        (!self.title.is_empty() && title != self.title).then(|| self.retitle(title))
    }

    /// Sets the protocol by which the terminal draws images.
    pub(super) fn draws(&mut self, protocol: Protocol) {
        self.protocol = Some(protocol);
    }

    /// Requests the images that came into view. They wait until the terminal has reported if it draws images.
    pub(super) fn wanted_images(&self, transcript: &mut Transcript) -> Vec<Effect> {
        let Some(protocol) = self.protocol else { return Vec::new() };
        let columns = self.image_columns();
        let ask = |(number, blob)| Effect::Ask(Request::Picture { number, blob, protocol, columns });
        transcript.images().into_iter().map(ask).collect()
    }

    /// Requests an image again that the terminal should draw and no longer holds.
    pub(super) fn missing_image(&self, number: u32, transcript: &Transcript) -> Option<Effect> {
        let (protocol, columns) = (self.protocol?, self.image_columns());
        let blob = transcript.image(number)?;
        Some(Effect::Ask(Request::Picture { number, blob, protocol, columns }))
    }

    /// Returns the width for images. A protocol that cannot draw parts of a row needs images that fit the transcript's
    /// width.
    fn image_columns(&self) -> u16 {
        match self.protocol {
            Some(Protocol::Iterm | Protocol::Sixel { .. }) => self.columns.saturating_sub(2).clamp(1, MOST.0),
            _ => MOST.0,
        }
    }

    pub(super) fn resized(&mut self, columns: u16, transcript: &mut Transcript) {
        let before = self.image_columns();
        self.columns = columns;
        if self.image_columns() != before {
            transcript.forget_images();
        }
    }

    /// Handles the bytes of an image; `None`: it cannot be shown.
    pub(super) fn picture(
        &self,
        number: u32,
        scaled: Option<Scaled>,
        transcript: &mut Transcript,
    ) -> Vec<Effect> {
        let Some(scaled) = scaled else {
            transcript.image_is(number, None);
            return Vec::new();
        };
        let size = (scaled.columns, scaled.rows);
        if scaled.columns > self.image_columns() {
            // The image was made for a wider window. It is requested again when it comes into view.
            transcript.forget_image(number);
            return Vec::new();
        }
        transcript.image_is(number, Some(size));
        vec![match &scaled.data {
            Data::Png(png) => Effect::Image(image::transfer(number, size, png)),
            Data::Strips(_) | Data::Pixels { .. } => Effect::Picture(number, Arc::new(scaled)),
        }]
    }
}
