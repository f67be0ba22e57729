//! `becket screenshot`: draws the terminal's content after a file of events, as SVG, PNG or text.

use crate::args::ScreenshotArgs;
use crate::failure::Failure;
use becket_tui::picture::{self, Frame, Palette, Pixels};
use becket_tui::theme::Theme;
use becket_types::Event;
use image::ImageEncoder as _;
use std::io::Write;

const MAX_EVENT_BYTES: u64 = 256 << 20;

pub(crate) fn run(args: &ScreenshotArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let theme = Theme::by_name(&args.theme).ok_or_else(|| {
        Failure::usage(format!("there is no theme {:?}", args.theme))
            .hint(format!("themes: {}", Theme::NAMES.join(", ")))
    })?;
    let extension = args.output.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if !["svg", "png", "txt"].contains(&extension) {
        return Err(Failure::usage(format!("{} is neither .svg, .png nor .txt", args.output.display()))
            .hint("the file name decides the format: -o out.svg, out.png or out.txt"));
    }
    let name = args.events.display();
    let text = becket_files::read_text(&args.events, MAX_EVENT_BYTES)
        .map_err(|e| Failure::usage(format!("cannot read {name}: {e}")))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let events = lines.map(|(i, line)| {
        serde_json::from_str::<Event>(line).map_err(|e| {
            Failure::usage(format!("{name}, line {}: not an event: {e}", i + 1))
                .hint("each line is one event as JSON")
        })
    });
    let events = events.collect::<Result<Vec<_>, _>>()?;
    let failed = |what: &str, e: std::io::Error| Failure::error(format!("cannot {what}: {e}"));
    let palette = Palette::of(&theme);
    let (columns, rows) = args.size;
    let frame = picture::frame(events, (columns, rows).into(), theme).map_err(|e| failed("draw", e))?;
    let picture = match extension {
        "txt" => picture::text(&frame).into_bytes(),
        "png" => png(&frame, palette).map_err(|e| Failure::error(format!("cannot draw: {e}")))?,
        _ => picture::svg(&frame, palette).into_bytes(),
    };
    std::fs::write(&args.output, picture)
        .map_err(|e| failed(&format!("write {}", args.output.display()), e))?;
    let said = if args.json {
        serde_json::json!({ "file": args.output.to_string_lossy(), "columns": columns, "rows": rows })
            .to_string()
    } else {
        args.output.display().to_string()
    };
    writeln!(out, "{said}").map_err(|e| failed("write to stdout", e))
}

fn png(frame: &Frame, palette: Palette) -> Result<Vec<u8>, String> {
    let Pixels { width, height, rgb } = picture::pixels(frame, palette);
    let mut out = Vec::new();
    let size = |n: usize| u32::try_from(n).map_err(|e| e.to_string());
    image::codecs::png::PngEncoder::new(&mut out)
        .write_image(&rgb, size(width)?, size(height)?, image::ExtendedColorType::Rgb8)
        .map_err(|e| e.to_string())?;
    Ok(out)
}
