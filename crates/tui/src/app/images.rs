//! Images of the transcript: asked for when they come into view, given to the terminal when they are there.

use super::App;
use crate::graphics::{Data, Protocol, Scaled};
use crate::input::{Effect, Request};
use crate::transcript::image::{self, MOST};
use std::sync::Arc;

impl App {
    /// What the terminal draws images by.
    pub(super) fn draws(&mut self, protocol: Protocol) {
        self.protocol = Some(protocol);
    }

    /// Images that came into view. They wait where the terminal has not said yet whether it draws any.
    pub(super) fn wanted_images(&mut self) -> Vec<Effect> {
        let Some(protocol) = self.protocol else { return Vec::new() };
        let columns = self.image_columns();
        let ask = |(number, blob)| Effect::Ask(Request::Picture { number, blob, protocol, columns });
        self.transcript.images().into_iter().map(ask).collect()
    }

    /// The terminal was to draw an image and has it no more.
    pub fn missing_image(&mut self, number: u32) -> Option<Effect> {
        let (protocol, columns) = (self.protocol?, self.image_columns());
        let blob = self.transcript.image(number)?;
        Some(Effect::Ask(Request::Picture { number, blob, protocol, columns }))
    }

    /// The terminal has forgotten the images that it was given.
    pub fn forget_images(&mut self) {
        self.transcript.forget_images();
    }

    /// As wide as the transcript has room for, where a row that is cut is not drawn at all.
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

    /// An image is there; `None`: it cannot be shown.
    pub(super) fn picture(&mut self, number: u32, scaled: Option<Scaled>) -> Vec<Effect> {
        let Some(scaled) = scaled else {
            self.transcript.image_is(number, None);
            return Vec::new();
        };
        let size = (scaled.columns, scaled.rows);
        if scaled.columns > self.image_columns() {
            // Made for a wider window: it is asked for again when it is in view.
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
