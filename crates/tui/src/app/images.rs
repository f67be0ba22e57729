//! Images of the transcript. They are requested when they come into view, and sent to the terminal when the host
//! returns them.

use super::App;
use crate::graphics::{Data, Protocol, Scaled};
use crate::input::{Effect, Request};
use crate::transcript::image::{self, MOST};
use std::sync::Arc;

impl App {
    /// Sets the protocol by which the terminal draws images.
    pub(super) fn draws(&mut self, protocol: Protocol) {
        self.protocol = Some(protocol);
    }

    /// Requests the images that came into view. They wait until the terminal has reported if it draws images.
    pub(super) fn wanted_images(&mut self) -> Vec<Effect> {
        let Some(protocol) = self.protocol else { return Vec::new() };
        let columns = self.image_columns();
        let ask = |(number, blob)| Effect::Ask(Request::Picture { number, blob, protocol, columns });
        self.transcript.images().into_iter().map(ask).collect()
    }

    /// Requests an image again that the terminal should draw and no longer holds.
    pub fn missing_image(&mut self, number: u32) -> Option<Effect> {
        let (protocol, columns) = (self.protocol?, self.image_columns());
        let blob = self.transcript.image(number)?;
        Some(Effect::Ask(Request::Picture { number, blob, protocol, columns }))
    }

    /// Forgets which images the terminal holds, after the terminal discarded them.
    pub fn forget_images(&mut self) {
        self.transcript.forget_images();
    }

    /// Returns the width for images. A protocol that cannot draw parts of a row needs images that fit the transcript's
    /// width.
    fn image_columns(&self) -> u16 {
        match self.protocol {
            Some(Protocol::Iterm | Protocol::Sixel { .. }) => self.columns.saturating_sub(2).clamp(1, MOST.0),
            _ => MOST.0,
        }
    }

    pub(super) fn resized(&mut self, columns: u16) {
        let before = self.image_columns();
        self.columns = columns;
        if self.image_columns() != before {
            self.transcript.forget_images();
        }
    }

    /// Handles the bytes of an image; `None`: it cannot be shown.
    pub(super) fn picture(&mut self, number: u32, scaled: Option<Scaled>) -> Vec<Effect> {
        let Some(scaled) = scaled else {
            self.transcript.image_is(number, None);
            return Vec::new();
        };
        let size = (scaled.columns, scaled.rows);
        if scaled.columns > self.image_columns() {
            // The image was made for a wider window. It is requested again when it comes into view.
            self.transcript.forget_image(number);
            return Vec::new();
        }
        self.transcript.image_is(number, Some(size));
        vec![match &scaled.data {
            Data::Png(png) => Effect::Image(image::transfer(number, size, png)),
            Data::Strips(_) | Data::Pixels { .. } => Effect::Picture(number, Arc::new(scaled)),
        }]
    }
}
